// keras.initializers: how variables get their first values.
//
// Each function makes an initializer; options carry Keras's keyword names and defaults. A random one
// without a seed draws its seed from Python's generator when it is made (random/seeds.h), so a model
// built after set_random_seed(s) starts from the very weights Keras would give it.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/handle.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/random/seed_generator.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::initializers {

class InitializerPtr;

class Initializer {
 public:
  using KerasFamily = Initializer;
  // A tensor of this shape and dtype.
  using KerasFunction = Tensor(const Shape&, DType);
  static InitializerPtr of_function(std::function<KerasFunction> function);
  virtual ~Initializer() = default;
  // By default the name of the C++ class.
  virtual std::string class_name() const { return keras::unqualified_name(typeid(*this)); }
  // Same initializer and shape, same values, unless its seed is a SeedGenerator. dtype: floating for the
  // random ones. Throws InvalidArgument for a shape or dtype it does not do.
  virtual Tensor operator()(const Shape& shape, DType dtype = DType::kFloat32) const = 0;
  // The constructor's arguments.
  virtual Json get_config() const { return Json::object(); }
};

// Arguments by name: initializer({.shape = {2, 3}, .dtype = "float64"}).
struct InitializerCall {
  FieldNamesOnly names_only = {};
  Shape shape;
  DTypeLike dtype = DType::kFloat32;
};

// A handle of an initializer, which functions return and take.
class InitializerPtr : public keras::Handle<Initializer> {
 public:
  using Handle::Handle;
  // A template, because GCC would take {.shape = ...} for a list.
  template <std::convertible_to<Shape> S = Shape>
  Tensor operator()(const S& shape, DTypeLike dtype = DType::kFloat32) const {
    return object()(shape, dtype);
  }
  Tensor operator()(const InitializerCall& o) const { return object()(o.shape, o.dtype); }
  Json get_config() const { return object().get_config(); }
};
using InitializerArg = keras::ObjectArg<Initializer>;

// From "glorot_uniform", "GlorotUniform", a config of Keras 3 or 2, or an object; null for none.
// Throws InvalidArgument for an unknown name, with the nearest known one.
InitializerPtr get(const InitializerArg& identifier);
// {"module": "keras.initializers", …}; null for a null pointer.
Json serialize(const InitializerPtr& initializer);

// (fan_in, fan_out) of a kernel: the last two axes times the product of the others.
std::pair<double, double> compute_fans(const Shape& shape);

using Axes = std::vector<std::int64_t>;
struct VarianceScalingOptions {
  double scale = 1.0;
  std::string mode = "fan_in";                    // fan_in, fan_out, fan_avg
  std::string distribution = "truncated_normal";  // or "normal", untruncated_normal, uniform
  random::Seed seed = {};
  std::optional<Axes> input_axes = std::nullopt;  // with output_axes: the fans are the products of these axes
  std::optional<Axes> output_axes = std::nullopt;
};
// Of GlorotUniform, GlorotNormal, HeUniform, HeNormal, LecunUniform and LecunNormal.
struct FanOptions {
  random::Seed seed = {};
  std::optional<Axes> input_axes = std::nullopt;
  std::optional<Axes> output_axes = std::nullopt;
};
struct RandomNormalOptions {
  double mean = 0.0;
  double stddev = 0.05;
  random::Seed seed = {};
};
struct RandomUniformOptions {
  double minval = -0.05;
  double maxval = 0.05;
  random::Seed seed = {};
};
struct OrthogonalOptions {
  double gain = 1.0;
  random::Seed seed = {};
};
struct StftOptions {
  std::string side = "real";                       // or "imag"
  Json window = "hann";                            // "hamming", "blackman", "boxcar", a list of numbers, or null
  std::optional<std::string> scaling = "density";  // "spectrum", or null
  bool periodic = false;
};

InitializerPtr VarianceScaling(VarianceScalingOptions options = {});
InitializerPtr GlorotUniform(FanOptions options = {});
InitializerPtr GlorotNormal(FanOptions options = {});
InitializerPtr HeUniform(FanOptions options = {});
InitializerPtr HeNormal(FanOptions options = {});
InitializerPtr LecunUniform(FanOptions options = {});
InitializerPtr LecunNormal(FanOptions options = {});
InitializerPtr RandomNormal(RandomNormalOptions options = {});
InitializerPtr TruncatedNormal(RandomNormalOptions options = {});
InitializerPtr RandomUniform(RandomUniformOptions options = {});
// Mean and standard deviation, or limits, by position: RandomNormal(0.0, 0.02), RandomUniform(-1, 1, {.seed = 1}).
template <typename A, typename B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B> InitializerPtr RandomNormal(A mean, B stddev,
                                                                                        RandomNormalOptions o = {}) {
  o.mean = mean, o.stddev = stddev;
  return RandomNormal(std::move(o));
}
template <typename A, typename B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B> InitializerPtr TruncatedNormal(A mean, B stddev,
                                                                                           RandomNormalOptions o = {}) {
  o.mean = mean, o.stddev = stddev;
  return TruncatedNormal(std::move(o));
}
template <typename A, typename B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B> InitializerPtr RandomUniform(A minval, B maxval,
                                                                                         RandomUniformOptions o = {}) {
  o.minval = minval, o.maxval = maxval;
  return RandomUniform(std::move(o));
}
// Columns (or rows, if there are fewer) of unit length at right angles, times gain. Equal to Keras's up to
// the rounding of its QR decomposition (3e-7).
InitializerPtr Orthogonal(OrthogonalOptions options = {});
InitializerPtr Identity(double gain = 1.0);  // rank 2 only
InitializerPtr Zeros();
InitializerPtr Ones();
InitializerPtr Constant(double value = 0.0);
InitializerPtr Constant(Tensor value);  // broadcast to the shape
// The kernel of a convolution that computes one side of a short-time Fourier transform: (frame length, 1, frequencies).
InitializerPtr STFT(StftOptions options = {});

// Keras has these names as well.
inline InitializerPtr variance_scaling(VarianceScalingOptions o = {}) { return VarianceScaling(std::move(o)); }
inline InitializerPtr glorot_uniform(FanOptions o = {}) { return GlorotUniform(std::move(o)); }
inline InitializerPtr glorot_normal(FanOptions o = {}) { return GlorotNormal(std::move(o)); }
inline InitializerPtr he_uniform(FanOptions o = {}) { return HeUniform(std::move(o)); }
inline InitializerPtr he_normal(FanOptions o = {}) { return HeNormal(std::move(o)); }
inline InitializerPtr lecun_uniform(FanOptions o = {}) { return LecunUniform(std::move(o)); }
inline InitializerPtr lecun_normal(FanOptions o = {}) { return LecunNormal(std::move(o)); }
inline InitializerPtr random_normal(RandomNormalOptions o = {}) { return RandomNormal(std::move(o)); }
inline InitializerPtr truncated_normal(RandomNormalOptions o = {}) { return TruncatedNormal(std::move(o)); }
inline InitializerPtr random_uniform(RandomUniformOptions o = {}) { return RandomUniform(std::move(o)); }
inline InitializerPtr orthogonal(OrthogonalOptions o = {}) { return Orthogonal(std::move(o)); }
inline InitializerPtr identity(double gain = 1.0) { return Identity(gain); }
inline InitializerPtr zeros() { return Zeros(); }
inline InitializerPtr ones() { return Ones(); }
inline InitializerPtr constant(double value = 0.0) { return Constant(value); }

// The same initializer with these axes where it scales by fans and has none yet (EinsumDense fills them in
// from its equation); others are returned as they are. No seed is drawn.
InitializerPtr with_axes(const InitializerPtr& initializer, const Axes& input_axes, const Axes& output_axes);

}  // namespace lockstep::initializers
