// keras.layers: random changes of images, for training.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

// All of them take images (batch, height, width, channels), or one image without the batch, or the same with
// "channels_first", and give the compute dtype. They change images in training and in calls without a training
// argument; in inference images pass unchanged, but for AutoContrast, which always works. The random numbers are
// Keras's on TensorFlow: the same seed gives the same images. Values are in value_range, and stay there.
//
// A factor is a number f or a list of two numbers, between which one is drawn for each image; f stands for -f to f, or
// 0 to f where the class takes no negative ones.

struct RandomFlipOptions {
  std::string mode = "horizontal_and_vertical";  // "horizontal", "vertical"
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomFlip(RandomFlipOptions options = {});
// `mode` by position. A template, because GCC would take the options in braces for the arguments of a string.
template <std::convertible_to<std::string> Mode>
LayerHandle RandomFlip(const Mode& mode, RandomFlipOptions options = {}) {
  options.mode = mode;
  return RandomFlip(std::move(options));
}

// Pixels outside the image: fill_mode "reflect" (d c b a | a b c d), "wrap", "nearest", or "constant", fill_value.
struct RandomRotationOptions {
  FieldNamesOnly names_only = {};
  Json factor = 0.0;  // of a whole turn, -1 to 1
  std::string fill_mode = "reflect";
  std::string interpolation = "bilinear";  // or "nearest"
  std::optional<std::int64_t> seed = {};
  double fill_value = 0.0;
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomRotation(RandomRotationOptions options);
LOCKSTEP_BY_POSITION(RandomRotation, RandomRotationOptions, Json, factor)

struct RandomZoomOptions {
  FieldNamesOnly names_only = {};
  Json height_factor = 0.0;     // above 0: the image gets smaller
  Json width_factor = nullptr;  // null: the height's, so that proportions stay
  std::string fill_mode = "reflect";
  std::string interpolation = "bilinear";
  std::optional<std::int64_t> seed = {};
  double fill_value = 0.0;
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomZoom(RandomZoomOptions options);
LOCKSTEP_BY_POSITION(RandomZoom, RandomZoomOptions, Json, height_factor)
template <std::convertible_to<Json> Factor>
requires std::is_arithmetic_v<Factor> LayerHandle RandomZoom(Json height_factor, Factor width_factor,
                                                             RandomZoomOptions options = {}) {
  options.height_factor = std::move(height_factor);
  options.width_factor = width_factor;
  return RandomZoom(std::move(options));
}
inline LayerHandle RandomZoom(Json height_factor, std::initializer_list<double> width_factor,
                              RandomZoomOptions options = {}) {
  options.height_factor = std::move(height_factor);
  options.width_factor = std::vector<double>(width_factor);
  return RandomZoom(std::move(options));
}

struct RandomTranslationOptions {
  FieldNamesOnly names_only = {};
  Json height_factor = 0.0;  // of the height, -1 to 1
  Json width_factor = 0.0;
  std::string fill_mode = "reflect";
  std::string interpolation = "bilinear";
  std::optional<std::int64_t> seed = {};
  double fill_value = 0.0;
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomTranslation(RandomTranslationOptions options);
template <typename = void>
LayerHandle RandomTranslation(Json height_factor, Json width_factor, RandomTranslationOptions options = {}) {
  options.height_factor = std::move(height_factor);
  options.width_factor = std::move(width_factor);
  return RandomTranslation(std::move(options));
}

struct RandomShearOptions {
  Json x_factor = 0.0;  // 0 to 1
  Json y_factor = 0.0;
  std::string interpolation = "bilinear";
  std::string fill_mode = "reflect";
  double fill_value = 0.0;
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::optional<std::int64_t> seed = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomShear(RandomShearOptions options = {});

struct RandomCropOptions {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// In training (batch, height, width, channels) of each image's own part, resized where the image is smaller.
LayerHandle RandomCrop(std::int64_t height, std::int64_t width, RandomCropOptions options = {});

struct RandomContrastOptions {
  FieldNamesOnly names_only = {};
  Json factor = 0.0;  // 0 to 1
  std::vector<double> value_range = {0, 255};
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomContrast(RandomContrastOptions options);
LOCKSTEP_BY_POSITION(RandomContrast, RandomContrastOptions, Json, factor)

// The added value, as a part of the range: -1 to 1.
using RandomBrightnessOptions = RandomContrastOptions;
LayerHandle RandomBrightness(RandomBrightnessOptions options);
LOCKSTEP_BY_POSITION(RandomBrightness, RandomBrightnessOptions, Json, factor)

struct RandomHueOptions {
  FieldNamesOnly names_only = {};
  Json factor = 0.0;  // 0 to 1
  std::vector<double> value_range = {0, 255};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::optional<std::int64_t> seed = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomHue(RandomHueOptions options);
LOCKSTEP_BY_POSITION(RandomHue, RandomHueOptions, Json, factor)
// 0.5 leaves the saturation, 0 gives gray images.
using RandomSaturationOptions = RandomHueOptions;
LayerHandle RandomSaturation(RandomSaturationOptions options);
LOCKSTEP_BY_POSITION(RandomSaturation, RandomSaturationOptions, Json, factor)
// 0.5 leaves the image, less blurs it.
using RandomSharpnessOptions = RandomHueOptions;
LayerHandle RandomSharpness(RandomSharpnessOptions options);
LOCKSTEP_BY_POSITION(RandomSharpness, RandomSharpnessOptions, Json, factor)
// 1 gives gray images.
using RandomColorDegenerationOptions = RandomHueOptions;
LayerHandle RandomColorDegeneration(RandomColorDegenerationOptions options);
LOCKSTEP_BY_POSITION(RandomColorDegeneration, RandomColorDegenerationOptions, Json, factor)
// How many of 8 bits stay: 1 to 8.
using RandomPosterizationOptions = RandomHueOptions;
LayerHandle RandomPosterization(RandomPosterizationOptions options);
LOCKSTEP_BY_POSITION(RandomPosterization, RandomPosterizationOptions, Json, factor)

struct RandomGrayscaleOptions {
  double factor = 0.5;  // the probability
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::optional<std::int64_t> seed = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomGrayscale(RandomGrayscaleOptions options = {});

struct RandomColorJitterOptions {
  std::vector<double> value_range = {0, 255};
  Json brightness_factor = nullptr;  // null: not changed
  Json contrast_factor = nullptr;
  Json saturation_factor = nullptr;
  Json hue_factor = nullptr;
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomColorJitter(RandomColorJitterOptions options = {});

struct RandomInvertOptions {
  Json factor = 1.0;  // the probability
  std::vector<double> value_range = {0, 255};
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomInvert(RandomInvertOptions options = {});

struct RandomErasingOptions {
  Json factor = 1.0;                             // the probability
  Json scale = std::vector<double>{0.02, 0.33};  // of the area
  Json fill_value = nullptr;                     // a number, one for each of three channels, or null: noise
  std::vector<double> value_range = {0, 255};
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomErasing(RandomErasingOptions options = {});

struct RandomGaussianBlurOptions {
  Json factor = 1.0;     // the probability
  Json kernel_size = 3;  // odd
  Json sigma = 1.0;      // 0 to 1
  std::vector<double> value_range = {0, 255};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::optional<std::int64_t> seed = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomGaussianBlur(RandomGaussianBlurOptions options = {});

struct SolarizationOptions {
  Json addition_factor = 0.0;   // 0 to 1, of 255
  Json threshold_factor = 0.0;  // values from this one on are inverted
  std::vector<double> value_range = {0, 255};
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Solarization(SolarizationOptions options = {});

struct AutoContrastOptions {
  std::vector<double> value_range = {0, 255};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Each channel of each image stretched to the whole range.
LayerHandle AutoContrast(AutoContrastOptions options = {});

struct EqualizationOptions {
  std::vector<double> value_range = {0, 255};
  std::int64_t bins = 256;
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// In training, spreads the values of each channel over the range by the histogram of the whole batch.
LayerHandle Equalization(EqualizationOptions options = {});

struct ContrastLimitedAdaptiveHistogramEqualizationOptions {
  std::vector<double> value_range = {0, 255};
  keras::Number clip_limit = 4.0;                     // of a bin, in multiples of the mean; 0: none
  std::vector<std::int64_t> tile_grid_size = {8, 8};  // rows and columns of tiles
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Equalizes tiles of each image (CLAHE) and interpolates between them, in training and in inference.
LayerHandle ContrastLimitedAdaptiveHistogramEqualization(
    ContrastLimitedAdaptiveHistogramEqualizationOptions options = {});

struct RandomPerspectiveOptions {
  Json factor = 1.0;          // the probability
  keras::Number scale = 1.0;  // how far corners move, 0 to 1
  std::string interpolation = "bilinear";
  double fill_value = 0.0;
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomPerspective(RandomPerspectiveOptions options = {});

struct RandAugmentOptions {
  std::vector<double> value_range = {0, 255};
  std::int64_t num_ops = 2;  // how many changes of eleven are made, one after the other
  Json factor = 0.5;         // their strength, 0 to 1
  std::string interpolation = "bilinear";
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandAugment(RandAugmentOptions options = {});

struct AugMixOptions {
  std::vector<double> value_range = {0, 255};
  std::int64_t num_chains = 3;
  std::int64_t chain_depth = 3;  // at most so many changes in a chain
  Json factor = 0.3;             // their strength, 0 to 1
  keras::Number alpha = 1.0;     // of the distributions of the chains' weights
  bool all_ops = true;           // also changes of brightness, contrast, color and sharpness
  std::string interpolation = "bilinear";
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// A weighted mean of the images and of chains of changes. The changes are chosen by Python's generator
// (random/seeds.h): at each call, or once for all calls in a function, such as the steps of fit(), as in Keras. Several
// replicas are rejected.
LayerHandle AugMix(AugMixOptions options = {});

struct MixUpOptions {
  keras::Number alpha = 0.2;  // of the beta distribution of the weights
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::optional<std::int64_t> seed = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Weighted means of images and others of the batch.
LayerHandle MixUp(MixUpOptions options = {});

struct CutMixOptions {
  Json factor = 1.0;  // of the beta distribution of the area, 0 to 1
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// A rectangle of each image is taken from another image of the batch.
LayerHandle CutMix(CutMixOptions options = {});

struct RandomElasticTransformOptions {
  Json factor = 1.0;  // the probability
  Json scale = 1.0;   // of the distortion, 0 to 1
  std::string interpolation = "bilinear";
  std::string fill_mode = "reflect";  // "wrap", "nearest", "constant"
  double fill_value = 0.0;
  std::vector<double> value_range = {0, 255};
  std::optional<std::int64_t> seed = {};
  std::string data_format = {};
  std::optional<std::string> bounding_box_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RandomElasticTransform(RandomElasticTransformOptions options = {});

struct MaxNumBoundingBoxesOptions {
  std::int64_t max_number = 0;
  std::int64_t fill_value = -1;
  std::optional<std::string> bounding_box_format = {};  // "xyxy" and the like; required where there are boxes
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Images as they are, or {"images": …, "bounding_boxes": {"boxes": (batch, n, 4), "labels": (batch, n)}} with the first
// max_number boxes and labels of each image, filled up with fill_value.
LayerHandle MaxNumBoundingBoxes(std::int64_t max_number, MaxNumBoundingBoxesOptions options = {});

}  // namespace lockstep::layers
