// keras.random: the numbers Keras draws on TensorFlow's CPU backend, bit for bit.
//
// Arguments are given by position, or by name as in normal({2, 3}, {.stddev = 0.5, .seed = 1}).
//
// draw_seed() describes the seeds of all functions. Inside a BatchSlice, draws whose leading dimension
// is the local batch are slices of the global draw. Floating dtypes: float16, bfloat16, float32, float64.
//
// Shapes may have extents of tensors, normal({ops::shape(x)[0], 2}), which need not be known while a functional model
// or a graph is built. A graph has its own generator.
#pragma once

#include "lockstep/base/field_names_only.h"
#include "lockstep/random/batch_slice.h"
#include "lockstep/random/seed_generator.h"
#include "lockstep/random/seeds.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::random {

// Arguments by name: uniform({.shape = {2, 3}, .seed = 1}), uniform({2, 3}, {.maxval = 2}).
struct UniformOptions {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};  // where it is not given by position
  double minval = 0.0;
  double maxval = 1.0;
  DTypeLike dtype = DType::kFloat32;
  Seed seed = {};
};
struct NormalOptions {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};  // where it is not given by position
  double mean = 0.0;
  double stddev = 1.0;
  DTypeLike dtype = DType::kFloat32;
  Seed seed = {};
};
// The rest, where the other numbers are given by position: uniform({2, 3}, 0, 1, {.seed = 1}).
struct DrawOptions {
  DTypeLike dtype = DType::kFloat32;
  Seed seed = {};
};
// Functions with a shape and options are templates, because GCC would take {.shape = {2, 3}} for a shape.
Tensor uniform(const ShapeArg& shape, double minval, double maxval, DTypeLike dtype = DType::kFloat32,
               const Seed& seed = {});
template <int = 0>
Tensor uniform(const ShapeArg& shape, const UniformOptions& o = {}) {
  return uniform(shape, o.minval, o.maxval, o.dtype, o.seed);
}
template <int = 0>
Tensor uniform(const ShapeArg& shape, double minval, double maxval, const DrawOptions& o) {
  return uniform(shape, minval, maxval, o.dtype, o.seed);
}
inline Tensor uniform(const UniformOptions& o) { return uniform(o.shape, o); }
Tensor normal(const ShapeArg& shape, double mean, double stddev, DTypeLike dtype = DType::kFloat32,
              const Seed& seed = {});
template <int = 0>
Tensor normal(const ShapeArg& shape, const NormalOptions& o = {}) {
  return normal(shape, o.mean, o.stddev, o.dtype, o.seed);
}
template <int = 0>
Tensor normal(const ShapeArg& shape, double mean, double stddev, const DrawOptions& o) {
  return normal(shape, mean, stddev, o.dtype, o.seed);
}
inline Tensor normal(const NormalOptions& o) { return normal(o.shape, o); }
// Redrawn outside of two standard deviations.
Tensor truncated_normal(const ShapeArg& shape, double mean, double stddev, DTypeLike dtype = DType::kFloat32,
                        const Seed& seed = {});
template <int = 0>
Tensor truncated_normal(const ShapeArg& shape, const NormalOptions& o = {}) {
  return truncated_normal(shape, o.mean, o.stddev, o.dtype, o.seed);
}
template <int = 0>
Tensor truncated_normal(const ShapeArg& shape, double mean, double stddev, const DrawOptions& o) {
  return truncated_normal(shape, mean, stddev, o.dtype, o.seed);
}
inline Tensor truncated_normal(const NormalOptions& o) { return truncated_normal(o.shape, o); }
struct IntegerOptions {
  DTypeLike dtype = DType::kInt32;
  Seed seed = {};
};
// Integers in [minval, maxval); dtypes other than int32 are drawn as int64 and cast.
Tensor randint(const ShapeArg& shape, std::int64_t minval, std::int64_t maxval, DTypeLike dtype, const Seed& seed = {});
inline Tensor randint(const ShapeArg& shape, std::int64_t minval, std::int64_t maxval, const IntegerOptions& o = {}) {
  return randint(shape, minval, maxval, o.dtype, o.seed);
}
struct IntegerKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};  // where it is not given by position
  std::int64_t minval = 0;
  std::int64_t maxval = 0;
  DTypeLike dtype = DType::kInt32;
  Seed seed = {};
};
inline Tensor randint(const ShapeArg& shape, const IntegerKeywords& o) {
  return randint(shape, o.minval, o.maxval, o.dtype, o.seed);
}
inline Tensor randint(const IntegerKeywords& o) { return randint(o.shape, o); }
// num_samples class numbers for each row of logits (batch, classes).
Tensor categorical(const Tensor& logits, std::int64_t num_samples, DTypeLike dtype, const Seed& seed = {});
inline Tensor categorical(const Tensor& logits, std::int64_t num_samples, const IntegerOptions& o = {}) {
  return categorical(logits, num_samples, o.dtype, o.seed);
}
struct CategoricalKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num_samples = 1;
  DTypeLike dtype = DType::kInt32;
  Seed seed = {};
};
inline Tensor categorical(const Tensor& logits, const CategoricalKeywords& o) {
  return categorical(logits, o.num_samples, o.dtype, o.seed);
}
struct DropoutOptions {
  std::optional<Shape> noise_shape = std::nullopt;
  Seed seed = {};
};
// Zero with probability `rate`, else scaled by 1 / (1 - rate). noise_shape as of Dropout: entries of
// kUnknownDim take the input's; empty: the input's shape.
Tensor dropout(const Tensor& inputs, double rate, const std::optional<Shape>& noise_shape, const Seed& seed = {});
inline Tensor dropout(const Tensor& inputs, double rate, const DropoutOptions& o = {}) {
  return dropout(inputs, rate, o.noise_shape, o.seed);
}
struct DropoutKeywords {
  FieldNamesOnly names_only = {};
  std::optional<double> rate = std::nullopt;
  std::optional<Shape> noise_shape = std::nullopt;
  Seed seed = {};
};
// Throws InvalidArgument without a rate.
Tensor dropout(const Tensor& inputs, const DropoutKeywords& keywords);
struct ShuffleOptions {
  int axis = 0;
  Seed seed = {};
};
// Permutes the slices along `axis`: the stable ascending order of uniform draws.
Tensor shuffle(const Tensor& x, int axis, const Seed& seed = {});
inline Tensor shuffle(const Tensor& x, const ShuffleOptions& o = {}) { return shuffle(x, o.axis, o.seed); }

// The factor dropout multiplies by: 0 or 1 / (1 - rate) at each element of `shape`.
Tensor dropout_mask(const Shape& shape, double rate, DType dtype, const Seed& seed);

// Values in host memory, rounded to nearest even, as a tensor of a floating dtype.
Tensor from_floats(const std::vector<float>& values, const Shape& shape, DType dtype);

}  // namespace lockstep::random
