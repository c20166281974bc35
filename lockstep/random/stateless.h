// tf.random.stateless_normal and its like: the same numbers for the same seed, two integers. The numbers are
// TensorFlow's.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::random {

// Keyword arguments of Generator's normal and truncated_normal.
struct NormalNumbers {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};  // where it is not given by position
  double mean = 0.0;
  double stddev = 1.0;
  DTypeLike dtype = DType::kFloat32;
};
// A limit of uniform: a number, or a tensor of one.
class Limit : public std::optional<Number> {
 public:
  Limit(std::nullopt_t = std::nullopt) {}
  Limit(const std::optional<Number>& number) : std::optional<Number>(number) {}
  Limit(Number number) : std::optional<Number>(number) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Limit(T number) : std::optional<Number>(Number(number)) {}
  Limit(const Tensor& scalar);
};
// Keyword arguments of Generator's uniform. Integers need both limits, or neither: then all integers of the dtype are
// drawn.
struct UniformNumbers {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};          // where it is not given by position
  Limit minval = std::nullopt;  // default: 0
  Limit maxval = std::nullopt;  // default: 1
  DTypeLike dtype = DType::kFloat32;
};

// A number or a tensor.
class Parameter : public Tensor {
 public:
  Parameter() = default;
  template <typename T>
  requires std::is_arithmetic_v<T> Parameter(T number) : Tensor(Tensor::scalar(static_cast<float>(number))) {}
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) Parameter(const T& tensor)
      : Tensor(static_cast<Tensor>(tensor)) {}
  Parameter(std::initializer_list<Values> numbers) : Tensor(numbers, DType::kFloat32) {}
};
// Keyword arguments, of a call with a shape in front or of all by name:
//   stateless_normal({2, 3}, {.seed = {1, 2}, .stddev = 0.5}), stateless_normal({.shape = {2, 3}, .seed = {1, 2}}).
struct StatelessNormalKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  Tensor seed = {};
  double mean = 0.0;
  double stddev = 1.0;
  DTypeLike dtype = DType::kFloat32;
};
struct StatelessUniformKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  Tensor seed = {};
  Limit minval = std::nullopt;  // default: 0
  Limit maxval = std::nullopt;  // default: 1
  DTypeLike dtype = DType::kFloat32;
};
struct StatelessGammaKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  Tensor seed = {};
  Parameter alpha = {};
  Parameter beta = 1.0;
  DTypeLike dtype = DType::kFloat32;
};
struct StatelessPoissonKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  Tensor seed = {};
  Parameter lam = {};
  DTypeLike dtype = DType::kInt32;
};
struct StatelessBinomialKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  Tensor seed = {};
  Parameter counts = {};
  Parameter probs = {};
  DTypeLike output_dtype = DType::kInt32;
};
struct SeedKeywords {
  FieldNamesOnly names_only = {};
  Tensor seed = {};
};

// Functions with a seed by position are templates, because GCC would take {.seed = {1, 2}} for a list of numbers.
#define LOCKSTEP_STATELESS(function, Keywords)                       \
  Tensor function(const Keywords& keywords);                         \
  inline Tensor function(const ShapeArg& shape, Keywords keywords) { \
    keywords.shape = shape;                                          \
    return function(keywords);                                       \
  }
LOCKSTEP_STATELESS(stateless_normal, StatelessNormalKeywords)
LOCKSTEP_STATELESS(stateless_truncated_normal, StatelessNormalKeywords)
// Throws InvalidArgument for integers with one limit.
LOCKSTEP_STATELESS(stateless_uniform, StatelessUniformKeywords)
// The shape ends with the shape of the parameters. Throw InvalidArgument without them.
LOCKSTEP_STATELESS(stateless_gamma, StatelessGammaKeywords)
LOCKSTEP_STATELESS(stateless_poisson, StatelessPoissonKeywords)
LOCKSTEP_STATELESS(stateless_binomial, StatelessBinomialKeywords)
#undef LOCKSTEP_STATELESS
template <std::convertible_to<Tensor> Seed = Tensor>
Tensor stateless_normal(const ShapeArg& shape, const Seed& seed, StatelessNormalKeywords keywords = {}) {
  keywords.seed = seed;
  return stateless_normal(shape, std::move(keywords));
}
template <std::convertible_to<Tensor> Seed = Tensor>
Tensor stateless_truncated_normal(const ShapeArg& shape, const Seed& seed, StatelessNormalKeywords keywords = {}) {
  keywords.seed = seed;
  return stateless_truncated_normal(shape, std::move(keywords));
}
template <std::convertible_to<Tensor> Seed = Tensor>
Tensor stateless_uniform(const ShapeArg& shape, const Seed& seed, StatelessUniformKeywords keywords = {}) {
  keywords.seed = seed;
  return stateless_uniform(shape, std::move(keywords));
}
template <std::convertible_to<Tensor> Seed = Tensor>
Tensor stateless_uniform(const ShapeArg& shape, const Seed& seed, Number minval, Number maxval,
                         StatelessUniformKeywords keywords = {}) {
  return stateless_uniform({.shape = shape, .seed = seed, .minval = minval, .maxval = maxval, .dtype = keywords.dtype});
}
template <std::convertible_to<Tensor> Seed = Tensor, std::convertible_to<DTypeLike> Type = DType>
Tensor stateless_uniform(const ShapeArg& shape, const Seed& seed, Number minval, Number maxval, const Type& dtype) {
  return stateless_uniform({.shape = shape, .seed = seed, .minval = minval, .maxval = maxval, .dtype = dtype});
}
// num_samples classes for each row of logits, int64.
Tensor stateless_categorical(const Tensor& logits, std::int64_t num_samples, const SeedKeywords& keywords);
template <std::convertible_to<Tensor> Seed = Tensor>
Tensor stateless_categorical(const Tensor& logits, std::int64_t num_samples, const Seed& seed) {
  return stateless_categorical(logits, num_samples, SeedKeywords{.seed = seed});
}
// New seeds that follow from one, (num, 2); a seed and a number as a seed.
struct SplitSeedKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num = 2;
};
Tensor split(const Tensor& seed, std::int64_t num = 2);
inline Tensor split(const Tensor& seed, const SplitSeedKeywords& keywords) { return split(seed, keywords.num); }
Tensor fold_in(const Tensor& seed, std::int32_t data);

namespace experimental {

inline Tensor stateless_fold_in(const Tensor& seed, std::int32_t data) { return fold_in(seed, data); }
inline Tensor stateless_split(const Tensor& seed, std::int64_t num = 2) { return split(seed, num); }
inline Tensor stateless_split(const Tensor& seed, const SplitSeedKeywords& keywords) { return split(seed, keywords); }
// The rows in another order.
Tensor stateless_shuffle(const Tensor& value, const SeedKeywords& keywords);
template <std::convertible_to<Tensor> Seed = Tensor>
Tensor stateless_shuffle(const Tensor& value, const Seed& seed) {
  return stateless_shuffle(value, SeedKeywords{.seed = seed});
}

}  // namespace experimental
}  // namespace lockstep::random

namespace lockstep::ops::random {

namespace experimental = lockstep::random::experimental;
using lockstep::random::fold_in;
using lockstep::random::Limit;
using lockstep::random::Parameter;
using lockstep::random::split;
using lockstep::random::stateless_binomial;
using lockstep::random::stateless_categorical;
using lockstep::random::stateless_gamma;
using lockstep::random::stateless_normal;
using lockstep::random::stateless_poisson;
using lockstep::random::stateless_truncated_normal;
using lockstep::random::stateless_uniform;

}  // namespace lockstep::ops::random
