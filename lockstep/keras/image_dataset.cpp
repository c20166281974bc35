// keras.utils.image_dataset_from_directory.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/directory_dataset_internal.h"
#include "lockstep/keras/layers/images_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::utils {
namespace {

std::int64_t channels_of(std::string_view color_mode) {
  if (color_mode == "rgb") return 3;
  if (color_mode == "rgba") return 4;
  if (color_mode == "grayscale") return 1;
  throw_invalid_argument(fmt::format(
      "image_dataset_from_directory: unknown color_mode '{}', expected rgb, rgba or grayscale", color_mode));
}

// tf.image.resize_with_pad: as large as fits, with zeros around it.
Tensor resize_with_pad(const Tensor& image, keras::Size given, keras::Size target, const std::string& interpolation) {
  const auto real = [](std::int64_t n) { return static_cast<float>(n); };
  const float ratio = std::max(real(given.width) / real(target.width), real(given.height) / real(target.height));
  const float height = real(given.height) / ratio, width = real(given.width) / ratio;
  const auto whole = [](float n) { return static_cast<std::int64_t>(std::floor(n)); };
  const keras::Size size{whole(height), whole(width)};
  const std::int64_t top = std::max<std::int64_t>(0, whole((real(target.height) - height) / 2));
  const std::int64_t left = std::max<std::int64_t>(0, whole((real(target.width) - width) / 2));
  return ops::pad(keras::resize_images(image, size, interpolation),
                  {{0, 0}, {top, target.height - size.height - top}, {left, target.width - size.width - left}, {0, 0}});
}

Tensor read_image(const std::string& path, std::int64_t channels, const ImageDatasetOptions& o) {
  const auto file = io::posix_file_system().map(path);
  const auto bytes = file->bytes();
  const Tensor contents =
      Tensor::strings({std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())}, Shape{});
  Tensor image;
  try {
    image = ops::call1("DecodeImage", {contents}, {{"channels", channels}, {"expand_animations", false}});
  } catch (const Error& error) {
    throw_error(error.code(), fmt::format("image_dataset_from_directory: '{}': {}", path, error.message()));
  }
  image = ops::expand_dims(image, 0);
  const keras::Size given{image.dim(1), image.dim(2)}, target{o.image_size.first, o.image_size.second};
  if (o.pad_to_aspect_ratio) return ops::squeeze(resize_with_pad(image, given, target, o.interpolation), {0});
  if (o.crop_to_aspect_ratio) image = keras::cut(image, keras::aspect_crop(given, target));
  return ops::squeeze(keras::resize_images(image, target, o.interpolation), {0});
}

}  // namespace

DirectoryDataset image_dataset_from_directory(const std::string& directory, const ImageDatasetOptions& o) {
  static const std::vector<std::string> kInterpolations = {"bilinear", "nearest",  "bicubic",
                                                           "area",     "lanczos3", "lanczos5"};
  const std::int64_t channels = channels_of(o.color_mode);
  if (std::find(kInterpolations.begin(), kInterpolations.end(), o.interpolation) == kInterpolations.end()) {
    throw_invalid_argument(fmt::format("image_dataset_from_directory: unknown interpolation '{}', expected {}",
                                       o.interpolation, fmt::join(kInterpolations, ", ")));
  }
  if (o.crop_to_aspect_ratio && o.pad_to_aspect_ratio)
    throw_invalid_argument("image_dataset_from_directory takes one of crop_to_aspect_ratio and pad_to_aspect_ratio");
  if (o.image_size.first <= 0 || o.image_size.second <= 0) {
    throw_invalid_argument(
        fmt::format("image_dataset_from_directory: invalid image_size: found ({}, {}), expected "
                    "positive numbers",
                    o.image_size.first, o.image_size.second));
  }
  return dataset_from_directory(
      directory, directory_options("image_dataset_from_directory", {".bmp", ".gif", ".jpeg", ".jpg", ".png"}, o),
      [o, channels](const std::string& path) { return read_image(path, channels, o); });
}

}  // namespace lockstep::utils
