#include "lockstep/random/random_images.h"

#include <functional>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/operators.h"
#include "lockstep/ops/tensor_functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::image {
namespace {

// Draws uniform numbers of this shape between two limits.
using Draw = std::function<Tensor(const Shape& shape, double low, double high)>;

Draw following(const SeedOptions& options) {
  return [seed = options.seed](const Shape& shape, double low, double high) {
    return ops::random::uniform(shape, {.minval = low, .maxval = high, .seed = seed});
  };
}
Draw stateless(const Tensor& seed) {
  return [seed](const Shape& shape, double low, double high) {
    return random::stateless_uniform(shape, seed, {.minval = low, .maxval = high});
  };
}

// Along an axis of one image.
Tensor flip(const Tensor& images, int axis, const Draw& draw) {
  if (images.rank() == 3) return draw({}, 0, 1).item<float>() < 0.5F ? ops::reverse(images, {axis}) : images;
  if (images.rank() != 4) {
    throw_invalid_argument(
        fmt::format("random_flip: found shape {}, expected three or four axes", images.shape().to_string()));
  }
  const std::int64_t rows = images.dim(0);
  const Tensor flips = ops::cast(ops::round(ops::reshape(draw({rows}, 0, 1), {rows, 1, 1, 1})), images.dtype());
  return flips * ops::reverse(images, {axis + 1}) + (1 - flips) * images;
}

double delta_of(const char* function, double max_delta, double limit, const Draw& draw) {
  if (max_delta < 0 || max_delta > limit) {
    throw_invalid_argument(fmt::format("{}: invalid max_delta: found {}, expected 0 {}", function, max_delta,
                                       limit < 1 ? fmt::format("to {}", limit) : "or more"));
  }
  return draw({}, -max_delta, max_delta).item<float>();
}
double factor_of(const char* function, double lower, double upper, const Draw& draw) {
  if (upper <= lower || lower < 0) {
    throw_invalid_argument(
        fmt::format("{}: invalid limits: found {} and {}, expected 0 <= lower < upper", function, lower, upper));
  }
  return draw({}, lower, upper).item<float>();
}

// `draw` gives integers of this dtype, from 0 to the largest one.
Tensor crop(const Tensor& value, const ShapeArg& size, const std::function<Tensor(const Shape& shape)>& draw) {
  const Shape& wanted = size.shape();
  const Shape& shape = value.shape();
  bool fits = size.is_known() && wanted.fully_known() && wanted.rank() == shape.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis) fits = wanted[axis] <= shape[axis];
  if (!fits) {
    throw_invalid_argument(fmt::format("random_crop: invalid size: found {}, expected extents within {}",
                                       wanted.to_string(), shape.to_string()));
  }
  ops::Ints places = ops::cast(draw({shape.rank()}), DType::kInt64).to_vector<std::int64_t>();
  for (int axis = 0; axis < shape.rank(); ++axis)
    places[static_cast<std::size_t>(axis)] %= shape[axis] - wanted[axis] + 1;
  return ops::slice(value, places, wanted.dims());
}

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace

Tensor random_flip_left_right(const Tensor& images, const SeedOptions& options) {
  return flip(images, 1, following(options));
}
Tensor random_flip_up_down(const Tensor& images, const SeedOptions& options) {
  return flip(images, 0, following(options));
}
Tensor stateless_random_flip_left_right(const Tensor& images, const SeedKeywords& keywords) {
  return flip(images, 1, stateless(keywords.seed));
}
Tensor stateless_random_flip_up_down(const Tensor& images, const SeedKeywords& keywords) {
  return flip(images, 0, stateless(keywords.seed));
}

Tensor random_brightness(const Tensor& images, double max_delta, const SeedOptions& options) {
  return adjust_brightness(images, delta_of("random_brightness", max_delta, kUnlimited, following(options)));
}
Tensor random_contrast(const Tensor& images, double lower, double upper, const SeedOptions& options) {
  return adjust_contrast(images, factor_of("random_contrast", lower, upper, following(options)));
}
Tensor random_saturation(const Tensor& images, double lower, double upper, const SeedOptions& options) {
  return adjust_saturation(images, factor_of("random_saturation", lower, upper, following(options)));
}
Tensor random_hue(const Tensor& images, double max_delta, const SeedOptions& options) {
  return adjust_hue(images, delta_of("random_hue", max_delta, 0.5, following(options)));
}
Tensor stateless_random_brightness(const Tensor& images, double max_delta, const SeedKeywords& keywords) {
  return adjust_brightness(images,
                           delta_of("stateless_random_brightness", max_delta, kUnlimited, stateless(keywords.seed)));
}
Tensor stateless_random_contrast(const Tensor& images, double lower, double upper, const SeedKeywords& keywords) {
  return adjust_contrast(images, factor_of("stateless_random_contrast", lower, upper, stateless(keywords.seed)));
}
Tensor stateless_random_saturation(const Tensor& images, double lower, double upper, const SeedKeywords& keywords) {
  return adjust_saturation(images, factor_of("stateless_random_saturation", lower, upper, stateless(keywords.seed)));
}
Tensor stateless_random_hue(const Tensor& images, double max_delta, const SeedKeywords& keywords) {
  return adjust_hue(images, delta_of("stateless_random_hue", max_delta, 0.5, stateless(keywords.seed)));
}

Tensor random_crop(const Tensor& value, const RandomCropKeywords& keywords) {
  return crop(value, keywords.size, [&](const Shape& shape) {
    return ops::random::uniform(shape, {.minval = 0,
                                        .maxval = std::numeric_limits<std::int32_t>::max(),
                                        .dtype = DType::kInt32,
                                        .seed = keywords.seed});
  });
}
Tensor stateless_random_crop(const Tensor& value, const ShapeArg& size, const SeedKeywords& keywords) {
  return crop(value, size, [&](const Shape& shape) {
    return random::stateless_uniform(
        shape, keywords.seed,
        {.minval = 0, .maxval = std::numeric_limits<std::int32_t>::max(), .dtype = DType::kInt32});
  });
}

namespace {

// A quality from the lowest one to below the highest one.
std::int64_t quality_of(std::int64_t lowest, std::int64_t highest, const std::function<Tensor()>& draw) {
  if (lowest < 0 || highest > 100 || lowest >= highest) {
    throw_invalid_argument(
        fmt::format("random_jpeg_quality: invalid limits: found {} and {}, expected 0 <= lowest < "
                    "highest <= 100",
                    lowest, highest));
  }
  return draw().item<std::int64_t>();
}
template <typename Keywords>
ops::Attrs attributes(const Keywords& o) {
  return {{"aspect_ratio_range", std::vector<float>(o.aspect_ratio_range.begin(), o.aspect_ratio_range.end())},
          {"area_range", std::vector<float>(o.area_range.begin(), o.area_range.end())},
          {"max_attempts", o.max_attempts},
          {"use_image_if_no_bounding_boxes", o.use_image_if_no_bounding_boxes}};
}

}  // namespace

Tensor random_jpeg_quality(const Tensor& image, std::int64_t lowest, std::int64_t highest, const SeedOptions& options) {
  return adjust_jpeg_quality(image, quality_of(lowest, highest, [&] {
                               return ops::random::uniform(
                                   Shape{},
                                   {.minval = lowest, .maxval = highest, .dtype = DType::kInt32, .seed = options.seed});
                             }));
}
Tensor stateless_random_jpeg_quality(const Tensor& image, std::int64_t lowest, std::int64_t highest,
                                     const SeedKeywords& keywords) {
  return adjust_jpeg_quality(image, quality_of(lowest, highest, [&] {
                               return random::stateless_uniform(
                                   Shape{}, keywords.seed,
                                   {.minval = lowest, .maxval = highest, .dtype = DType::kInt32});
                             }));
}

DistortedBox sample_distorted_bounding_box(const Tensor& image_size, const Tensor& bounding_boxes,
                                           const DistortedBoxKeywords& o) {
  ops::Attrs attrs = attributes(o);
  if (o.seed != 0) {
    const auto [seed, seed2] = random::op_seeds(o.seed);
    attrs.set("seed", seed);
    attrs.set("seed2", seed2);
  }
  const Tensors out =
      ops::call("SampleDistortedBoundingBoxV2",
                {image_size, bounding_boxes, Tensor::scalar(static_cast<float>(o.min_object_covered))}, attrs);
  return {out[0], out[1], out[2]};
}
DistortedBox stateless_sample_distorted_bounding_box(const Tensor& image_size, const Tensor& bounding_boxes,
                                                     const StatelessBoxKeywords& o) {
  const Tensors out = ops::call(
      "StatelessSampleDistortedBoundingBox",
      {image_size, bounding_boxes, Tensor::scalar(static_cast<float>(o.min_object_covered)), o.seed}, attributes(o));
  return {out[0], out[1], out[2]};
}

}  // namespace lockstep::image
