// tf.image: random changes of images, (height, width, channels) or a batch of them. The numbers are TensorFlow's: those
// of random_… follow set_seed, those of stateless_random_… a seed of two integers. Throw InvalidArgument for limits
// that are out of range.
//
// Where a tensor or a shape is given by position the function is a template, because GCC would take {.seed = s} for
// one.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

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
Tensor stateless_random_brightness(const Tensor& images, double max_delta, const SeedKeywords& keywords);
template <std::convertible_to<Tensor> T = Tensor>
Tensor stateless_random_brightness(const Tensor& images, double max_delta, const T& seed) {
  return stateless_random_brightness(images, max_delta, SeedKeywords{{}, seed});
}
Tensor stateless_random_contrast(const Tensor& images, double lower, double upper, const SeedKeywords& keywords);
template <std::convertible_to<Tensor> T = Tensor>
Tensor stateless_random_contrast(const Tensor& images, double lower, double upper, const T& seed) {
  return stateless_random_contrast(images, lower, upper, SeedKeywords{{}, seed});
}
Tensor stateless_random_saturation(const Tensor& images, double lower, double upper, const SeedKeywords& keywords);
template <std::convertible_to<Tensor> T = Tensor>
Tensor stateless_random_saturation(const Tensor& images, double lower, double upper, const T& seed) {
  return stateless_random_saturation(images, lower, upper, SeedKeywords{{}, seed});
}
Tensor stateless_random_hue(const Tensor& images, double max_delta, const SeedKeywords& keywords);
template <std::convertible_to<Tensor> T = Tensor>
Tensor stateless_random_hue(const Tensor& images, double max_delta, const T& seed) {
  return stateless_random_hue(images, max_delta, SeedKeywords{{}, seed});
}
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
// With a seed by position.
#define LOCKSTEP_SEEDED(function)                                                         \
  template <std::integral Seed>                                                           \
  Tensor function(const Tensor& images, double max_delta, Seed seed) {                    \
    return function(images, max_delta, SeedOptions{{}, static_cast<std::int64_t>(seed)}); \
  }
LOCKSTEP_SEEDED(random_brightness)
LOCKSTEP_SEEDED(random_hue)
#undef LOCKSTEP_SEEDED
#define LOCKSTEP_SEEDED(function)                                                            \
  template <std::integral Seed>                                                              \
  Tensor function(const Tensor& images, double lower, double upper, Seed seed) {             \
    return function(images, lower, upper, SeedOptions{{}, static_cast<std::int64_t>(seed)}); \
  }
LOCKSTEP_SEEDED(random_contrast)
LOCKSTEP_SEEDED(random_saturation)
#undef LOCKSTEP_SEEDED
#define LOCKSTEP_SEEDED(function)                                              \
  template <std::integral Seed>                                                \
  Tensor function(const Tensor& images, Seed seed) {                           \
    return function(images, SeedOptions{{}, static_cast<std::int64_t>(seed)}); \
  }
LOCKSTEP_SEEDED(random_flip_left_right)
LOCKSTEP_SEEDED(random_flip_up_down)
#undef LOCKSTEP_SEEDED
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
Tensor stateless_random_crop(const Tensor& value, const ShapeArg& size, const SeedKeywords& keywords);
template <std::convertible_to<Tensor> T = Tensor>
Tensor stateless_random_crop(const Tensor& value, const ShapeArg& size, const T& seed) {
  return stateless_random_crop(value, size, SeedKeywords{{}, seed});
}
struct CropKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg size = {};
  Tensor seed = {};
};
inline Tensor stateless_random_crop(const Tensor& value, const CropKeywords& o) {
  return stateless_random_crop(value, o.size, o.seed);
}

// JPEG files of a random quality, read again.
Tensor random_jpeg_quality(const Tensor& image, std::int64_t min_jpeg_quality, std::int64_t max_jpeg_quality,
                           const SeedOptions& options = {});
Tensor stateless_random_jpeg_quality(const Tensor& image, std::int64_t min_jpeg_quality, std::int64_t max_jpeg_quality,
                                     const SeedKeywords& keywords);
template <std::convertible_to<Tensor> T = Tensor>
Tensor stateless_random_jpeg_quality(const Tensor& image, std::int64_t min_jpeg_quality, std::int64_t max_jpeg_quality,
                                     const T& seed) {
  return stateless_random_jpeg_quality(image, min_jpeg_quality, max_jpeg_quality, SeedKeywords{{}, seed});
}

// A random part of an image that contains at least a fraction of one of the boxes, (1, boxes, 4) from 0 to 1: where it
// begins and its size, both for slice(), and it as a box, (1, 1, 4). Without a seed, or of seed 0, results differ in
// each run.
struct DistortedBox {
  Tensor begin, size, bboxes;
};
struct DistortedBoxKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t seed = 0;
  double min_object_covered = 0.1;
  std::vector<double> aspect_ratio_range = {0.75, 1.33};
  std::vector<double> area_range = {0.05, 1};
  std::int64_t max_attempts = 100;
  bool use_image_if_no_bounding_boxes = false;
};
DistortedBox sample_distorted_bounding_box(const Tensor& image_size, const Tensor& bounding_boxes,
                                           const DistortedBoxKeywords& o = {});
struct StatelessBoxKeywords {
  FieldNamesOnly names_only = {};
  Tensor seed = {};
  double min_object_covered = 0.1;
  std::vector<double> aspect_ratio_range = {0.75, 1.33};
  std::vector<double> area_range = {0.05, 1};
  std::int64_t max_attempts = 100;
  bool use_image_if_no_bounding_boxes = false;
};
DistortedBox stateless_sample_distorted_bounding_box(const Tensor& image_size, const Tensor& bounding_boxes,
                                                     const StatelessBoxKeywords& o);
template <std::convertible_to<Tensor> T = Tensor>
DistortedBox stateless_sample_distorted_bounding_box(const Tensor& image_size, const Tensor& bounding_boxes,
                                                     const T& seed, StatelessBoxKeywords o = {}) {
  o.seed = seed;
  return stateless_sample_distorted_bounding_box(image_size, bounding_boxes, o);
}

}  // namespace lockstep::image
