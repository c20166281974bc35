// tf.image: random changes of images, (height, width, channels) or a batch of them. The numbers are TensorFlow's: those
// of random_… follow set_seed, those of stateless_random_… a seed of two integers. Throw InvalidArgument for limits
// that are out of range.
//
// Where a tensor or a shape is given by position the function is a template, because GCC would take {.seed = s} for
// one.
#pragma once

#include <concepts>
#include <optional>

#include "lockstep/ops/image_functions.h"
#include "lockstep/random/generator.h"

namespace lockstep::image {

using ops::random::SeedOptions;

struct SeedKeywords {
  FieldNamesOnly names_only = {};
  Tensor seed = {};
};
// Each image of a batch by itself.
Tensor random_flip_left_right(const Tensor& images, const SeedOptions& options = {});
Tensor random_flip_up_down(const Tensor& images, const SeedOptions& options = {});
Tensor stateless_random_flip_left_right(const Tensor& images, const SeedKeywords& keywords);
Tensor stateless_random_flip_up_down(const Tensor& images, const SeedKeywords& keywords);
template <std::convertible_to<Tensor> T = Tensor>
Tensor stateless_random_flip_left_right(const Tensor& images, const T& seed) {
  return stateless_random_flip_left_right(images, SeedKeywords{{}, seed});
}
template <std::convertible_to<Tensor> T = Tensor>
Tensor stateless_random_flip_up_down(const Tensor& images, const T& seed) {
  return stateless_random_flip_up_down(images, SeedKeywords{{}, seed});
}

// One change for all images of a batch.
Tensor random_brightness(const Tensor& images, double max_delta, const SeedOptions& options = {});
Tensor random_contrast(const Tensor& images, double lower, double upper, const SeedOptions& options = {});
Tensor random_saturation(const Tensor& images, double lower, double upper, const SeedOptions& options = {});
Tensor random_hue(const Tensor& images, double max_delta, const SeedOptions& options = {});
Tensor stateless_random_brightness(const Tensor& images, double max_delta, const Tensor& seed);
Tensor stateless_random_contrast(const Tensor& images, double lower, double upper, const Tensor& seed);
Tensor stateless_random_saturation(const Tensor& images, double lower, double upper, const Tensor& seed);
Tensor stateless_random_hue(const Tensor& images, double max_delta, const Tensor& seed);
struct MaxDeltaKeywords {
  FieldNamesOnly names_only = {};
  double max_delta = 0;
  Tensor seed = {};
};
struct LimitsKeywords {
  FieldNamesOnly names_only = {};
  double lower = 0;
  double upper = 0;
  Tensor seed = {};
};
inline Tensor stateless_random_brightness(const Tensor& images, const MaxDeltaKeywords& o) {
  return stateless_random_brightness(images, o.max_delta, o.seed);
}
inline Tensor stateless_random_hue(const Tensor& images, const MaxDeltaKeywords& o) {
  return stateless_random_hue(images, o.max_delta, o.seed);
}
inline Tensor stateless_random_contrast(const Tensor& images, const LimitsKeywords& o) {
  return stateless_random_contrast(images, o.lower, o.upper, o.seed);
}
inline Tensor stateless_random_saturation(const Tensor& images, const LimitsKeywords& o) {
  return stateless_random_saturation(images, o.lower, o.upper, o.seed);
}
struct RandomDeltaKeywords {
  FieldNamesOnly names_only = {};
  double max_delta = 0;
  std::optional<std::int64_t> seed = std::nullopt;
};
struct RandomLimitsKeywords {
  FieldNamesOnly names_only = {};
  double lower = 0;
  double upper = 0;
  std::optional<std::int64_t> seed = std::nullopt;
};
inline Tensor random_brightness(const Tensor& images, const RandomDeltaKeywords& o) {
  return random_brightness(images, o.max_delta, SeedOptions{{}, o.seed});
}
inline Tensor random_hue(const Tensor& images, const RandomDeltaKeywords& o) {
  return random_hue(images, o.max_delta, SeedOptions{{}, o.seed});
}
inline Tensor random_contrast(const Tensor& images, const RandomLimitsKeywords& o) {
  return random_contrast(images, o.lower, o.upper, SeedOptions{{}, o.seed});
}
inline Tensor random_saturation(const Tensor& images, const RandomLimitsKeywords& o) {
  return random_saturation(images, o.lower, o.upper, SeedOptions{{}, o.seed});
}

// A part of this shape, of all axes.
struct RandomCropKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg size = {};
  std::optional<std::int64_t> seed = std::nullopt;
};
Tensor random_crop(const Tensor& value, const RandomCropKeywords& keywords);
template <std::convertible_to<ShapeArg> S = ShapeArg>
Tensor random_crop(const Tensor& value, const S& size, const SeedOptions& options = {}) {
  return random_crop(value, RandomCropKeywords{{}, size, options.seed});
}
Tensor stateless_random_crop(const Tensor& value, const ShapeArg& size, const Tensor& seed);
struct CropKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg size = {};
  Tensor seed = {};
};
inline Tensor stateless_random_crop(const Tensor& value, const CropKeywords& o) {
  return stateless_random_crop(value, o.size, o.seed);
}

}  // namespace lockstep::image
