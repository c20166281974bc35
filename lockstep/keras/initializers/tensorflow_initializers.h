// tf.random_normal_initializer and its like: initializers that draw TensorFlow's numbers (tf.random.set_seed), as the
// kernel_initializer of layers and by themselves: random_normal_initializer(0., 0.02)({2, 3}).
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/initializers/initializers.h"

namespace lockstep {

struct RandomNormalInitializerKeywords {
  FieldNamesOnly names_only = {};
  double mean = 0.0;
  double stddev = 0.05;
  std::optional<std::int64_t> seed = std::nullopt;
};
struct RandomUniformInitializerKeywords {
  FieldNamesOnly names_only = {};
  double minval = -0.05;
  double maxval = 0.05;
  std::optional<std::int64_t> seed = std::nullopt;
};
initializers::InitializerPtr random_normal_initializer(const RandomNormalInitializerKeywords& o = {});
initializers::InitializerPtr random_uniform_initializer(const RandomUniformInitializerKeywords& o = {});
template <typename A>
requires std::is_arithmetic_v<A> initializers::InitializerPtr random_normal_initializer(
    A mean, double stddev = 0.05, std::optional<std::int64_t> seed = std::nullopt) {
  return random_normal_initializer(RandomNormalInitializerKeywords{{}, static_cast<double>(mean), stddev, seed});
}
template <typename A>
requires std::is_arithmetic_v<A> initializers::InitializerPtr random_uniform_initializer(
    A minval, double maxval = 0.05, std::optional<std::int64_t> seed = std::nullopt) {
  return random_uniform_initializer(RandomUniformInitializerKeywords{{}, static_cast<double>(minval), maxval, seed});
}
// By position and by name: random_normal_initializer(0., 0.02, {.seed = 1}).
struct InitializerSeed {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> seed = std::nullopt;
};
template <typename A>
requires std::is_arithmetic_v<A> initializers::InitializerPtr random_normal_initializer(A mean, double stddev,
                                                                                        const InitializerSeed& o) {
  return random_normal_initializer(mean, stddev, o.seed);
}
template <typename A>
requires std::is_arithmetic_v<A> initializers::InitializerPtr random_uniform_initializer(A minval, double maxval,
                                                                                         const InitializerSeed& o) {
  return random_uniform_initializer(minval, maxval, o.seed);
}
inline initializers::InitializerPtr zeros_initializer() { return initializers::Zeros(); }
inline initializers::InitializerPtr ones_initializer() { return initializers::Ones(); }
// A number, or a tensor of as many elements as the shape.
initializers::InitializerPtr constant_initializer(const Tensor& value);

}  // namespace lockstep
