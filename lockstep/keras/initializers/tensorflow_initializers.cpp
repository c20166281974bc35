#include "lockstep/keras/initializers/tensorflow_initializers.h"

#include <memory>

#include "lockstep/keras/initializers/tensorflow_initializers_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/generator.h"
#include "lockstep/random/stateless.h"

namespace lockstep {
namespace {

using initializers::InitializerPtr;

// With a seed, each call gives the same numbers.
Tensor seed_of(std::int64_t seed) { return Tensor::from_vector(std::vector<std::int64_t>{seed, 0}); }

class RandomNormalOfTensorFlow : public initializers::TensorFlowInitializer {
 public:
  explicit RandomNormalOfTensorFlow(const RandomNormalInitializerKeywords& o) : options_(o) {}
  std::string class_name() const override { return "RandomNormal"; }
  Tensor operator()(const Shape& shape, DType dtype) const override {
    if (options_.seed) {
      return random::stateless_normal(
          shape, {.seed = seed_of(*options_.seed), .mean = options_.mean, .stddev = options_.stddev, .dtype = dtype});
    }
    return ops::random::normal(shape, options_.mean, options_.stddev, dtype);
  }
  Json get_config() const override {
    return {{"mean", options_.mean},
            {"stddev", options_.stddev},
            {"seed", options_.seed ? Json(*options_.seed) : Json(nullptr)}};
  }

 private:
  RandomNormalInitializerKeywords options_;
};

class RandomUniformOfTensorFlow : public initializers::TensorFlowInitializer {
 public:
  explicit RandomUniformOfTensorFlow(const RandomUniformInitializerKeywords& o) : options_(o) {}
  std::string class_name() const override { return "RandomUniform"; }
  Tensor operator()(const Shape& shape, DType dtype) const override {
    if (options_.seed) {
      return random::stateless_uniform(
          shape,
          {.seed = seed_of(*options_.seed), .minval = options_.minval, .maxval = options_.maxval, .dtype = dtype});
    }
    return ops::random::uniform(shape, options_.minval, options_.maxval, dtype);
  }
  Json get_config() const override {
    return {{"minval", options_.minval},
            {"maxval", options_.maxval},
            {"seed", options_.seed ? Json(*options_.seed) : Json(nullptr)}};
  }

 private:
  RandomUniformInitializerKeywords options_;
};

class ConstantOfTensorFlow : public initializers::TensorFlowInitializer {
 public:
  explicit ConstantOfTensorFlow(Tensor value) : value_(std::move(value)) {}
  std::string class_name() const override { return "Constant"; }
  Tensor operator()(const Shape& shape, DType dtype) const override {
    const Tensor value = ops::cast(value_, dtype);
    return value.rank() == 0 ? ops::broadcast_to(value, shape) : ops::reshape(value, shape);
  }
  Json get_config() const override {
    if (value_.rank() == 0) return {{"value", value_.item<double>()}};
    return {{"value", initializers::Constant(value_).get_config().at("value")}};
  }

 private:
  Tensor value_;
};

}  // namespace

InitializerPtr random_normal_initializer(const RandomNormalInitializerKeywords& o) {
  return std::make_shared<RandomNormalOfTensorFlow>(o);
}
InitializerPtr random_uniform_initializer(const RandomUniformInitializerKeywords& o) {
  return std::make_shared<RandomUniformOfTensorFlow>(o);
}
InitializerPtr constant_initializer(const Tensor& value) { return std::make_shared<ConstantOfTensorFlow>(value); }

}  // namespace lockstep
