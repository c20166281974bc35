// Cutting, padding and resizing of images (batch, height, width, channels).
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

struct Size {
  std::int64_t height = 0, width = 0;
};
// The position of a part in a channels-last batch of images.
struct Box {
  std::int64_t top = 0, left = 0;
  Size size;
};

Tensor cut(const Tensor& x, const Box& box);
// The largest centred part with the aspect ratio of `target`.
Box aspect_crop(Size given, Size target);
// x, of the size `given`, with a border of `value` that gives it the aspect ratio of `target`.
Tensor aspect_pad(const Tensor& x, Size given, Size target, double value);
// tf.image.resize. `interpolation` is "bilinear", "nearest", "lanczos3", "lanczos5", "bicubic" or "area".
Tensor resize_images(const Tensor& x, Size target, const std::string& interpolation, bool antialias = false);
// The same for a height and width in a vector of int32.
Tensor resize_images(const Tensor& x, const Tensor& size, const std::string& interpolation, bool antialias = false);
// Resized images in the dtype of the given ones, as keras.ops.image.resize has them: integers are rounded and
// saturated.
Tensor in_dtype_of_images(const Tensor& resized, DType dtype);

}  // namespace lockstep::keras
