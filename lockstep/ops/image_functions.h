// tf.image: functions of images, (height, width, channels) or a batch of them. Names, order of arguments and defaults
// are TensorFlow's; throw InvalidArgument for shapes that do not fit.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::image {

// tf.image.ResizeMethod: names of methods.
struct ResizeMethod {
  static constexpr std::string_view BILINEAR = "bilinear", NEAREST_NEIGHBOR = "nearest", BICUBIC = "bicubic",
                                    AREA = "area", LANCZOS3 = "lanczos3", LANCZOS5 = "lanczos5", GAUSSIAN = "gaussian",
                                    MITCHELLCUBIC = "mitchellcubic";
};
struct ResizeKeywords {
  FieldNamesOnly names_only = {};
  std::string_view method = "bilinear";  // "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", …
  bool preserve_aspect_ratio = false;
  bool antialias = false;
};
struct ResizeToKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg size = {};
  std::string_view method = "bilinear";
  bool preserve_aspect_ratio = false;
  bool antialias = false;
};
// float32, except for "nearest", which keeps the dtype. `size`: height and width.
Tensor resize(const Tensor& images, const ResizeToKeywords& keywords);
template <int = 0>
Tensor resize(const Tensor& images, const ShapeArg& size, const ResizeKeywords& o = {}) {
  return resize(images, ResizeToKeywords{{}, size, o.method, o.preserve_aspect_ratio, o.antialias});
}

// Integers have the range of their dtype, floating numbers 0 … 1. With `saturate` numbers beyond the range of an
// integer dtype become its limits.
Tensor convert_image_dtype(const Tensor& image, DTypeLike dtype, bool saturate = false);
Tensor rgb_to_grayscale(const Tensor& images);
Tensor grayscale_to_rgb(const Tensor& images);
Tensor rgb_to_hsv(const Tensor& images);
Tensor hsv_to_rgb(const Tensor& images);
Tensor rgb_to_yuv(const Tensor& images);
Tensor yuv_to_rgb(const Tensor& images);
Tensor rgb_to_yiq(const Tensor& images);
Tensor yiq_to_rgb(const Tensor& images);
Tensor flip_left_right(const Tensor& images);
Tensor flip_up_down(const Tensor& images);
Tensor transpose(const Tensor& images);
Tensor rot90(const Tensor& images, int k = 1);  // counter-clockwise
Tensor central_crop(const Tensor& images, double central_fraction);
// Numbers, or tensors of one integer whose value is known.
Tensor crop_to_bounding_box(const Tensor& images, const Extent& offset_height, const Extent& offset_width,
                            const Extent& target_height, const Extent& target_width);
Tensor pad_to_bounding_box(const Tensor& images, const Extent& offset_height, const Extent& offset_width,
                           const Extent& target_height, const Extent& target_width);
Tensor adjust_brightness(const Tensor& images, double delta);
Tensor adjust_contrast(const Tensor& images, double contrast_factor);
Tensor adjust_saturation(const Tensor& images, double saturation_factor);
Tensor adjust_hue(const Tensor& images, double delta);
// By name: central_crop(x, {.central_fraction = 0.5}), adjust_hue(x, {.delta = 0.1}).
struct CentralCropKeywords {
  FieldNamesOnly names_only = {};
  double central_fraction = 1;
};
struct DeltaKeywords {
  FieldNamesOnly names_only = {};
  double delta = 0;
};
struct ContrastKeywords {
  FieldNamesOnly names_only = {};
  double contrast_factor = 1;
};
struct SaturationKeywords {
  FieldNamesOnly names_only = {};
  double saturation_factor = 1;
};
inline Tensor central_crop(const Tensor& images, const CentralCropKeywords& o) {
  return central_crop(images, o.central_fraction);
}
inline Tensor adjust_brightness(const Tensor& images, const DeltaKeywords& o) {
  return adjust_brightness(images, o.delta);
}
inline Tensor adjust_hue(const Tensor& images, const DeltaKeywords& o) { return adjust_hue(images, o.delta); }
inline Tensor adjust_contrast(const Tensor& images, const ContrastKeywords& o) {
  return adjust_contrast(images, o.contrast_factor);
}
inline Tensor adjust_saturation(const Tensor& images, const SaturationKeywords& o) {
  return adjust_saturation(images, o.saturation_factor);
}
// Patches of a batch of images, (batch, rows, columns, height · width · channels). Each argument has four numbers, the
// first and the last of which are 1.
struct PatchesKeywords {
  FieldNamesOnly names_only = {};
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};
  std::vector<std::int64_t> rates = {1, 1, 1, 1};
  std::string padding = "VALID";  // or "SAME"
};
Tensor extract_patches(const Tensor& images, const PatchesKeywords& o);
// All by name: extract_patches({.images = x, .sizes = {1, 3, 3, 1}, …}).
struct ImagePatchesKeywords {
  FieldNamesOnly names_only = {};
  Tensor images = {};
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};
  std::vector<std::int64_t> rates = {1, 1, 1, 1};
  std::string padding = "VALID";
};
inline Tensor extract_patches(const ImagePatchesKeywords& o) {
  return extract_patches(o.images, PatchesKeywords{{}, o.sizes, o.strides, o.rates, o.padding});
}
Tensor adjust_gamma(const Tensor& images, double gamma = 1, double gain = 1);
Tensor per_image_standardization(const Tensor& images);
Tensor total_variation(const Tensor& images);  // of each image
Tensor psnr(const Tensor& a, const Tensor& b, double max_val);
// Of each pair of images, whose sides are at least filter_size.
struct SsimKeywords {
  FieldNamesOnly names_only = {};
  double max_val = 1;
  std::int64_t filter_size = 11;
  double filter_sigma = 1.5;
  double k1 = 0.01;
  double k2 = 0.03;
};
Tensor ssim(const Tensor& a, const Tensor& b, const SsimKeywords& keywords);
inline Tensor ssim(const Tensor& a, const Tensor& b, double max_val) { return ssim(a, b, SsimKeywords{{}, max_val}); }
struct MaxValKeywords {
  FieldNamesOnly names_only = {};
  double max_val = 1;
};
inline Tensor psnr(const Tensor& a, const Tensor& b, const MaxValKeywords& keywords) {
  return psnr(a, b, keywords.max_val);
}
struct SsimOptions {
  FieldNamesOnly names_only = {};
  std::int64_t filter_size = 11;
  double filter_sigma = 1.5;
  double k1 = 0.01;
  double k2 = 0.03;
};
inline Tensor ssim(const Tensor& a, const Tensor& b, double max_val, const SsimOptions& o) {
  return ssim(a, b, SsimKeywords{{}, max_val, o.filter_size, o.filter_sigma, o.k1, o.k2});
}
// The weighted geometric mean of the contrasts at several scales, each half of the one before, and of the index itself
// at the last one.
struct MultiscaleKeywords {
  FieldNamesOnly names_only = {};
  double max_val = 1;
  std::vector<double> power_factors = {0.0448, 0.2856, 0.3001, 0.2363, 0.1333};
  std::int64_t filter_size = 11;
  double filter_sigma = 1.5;
  double k1 = 0.01;
  double k2 = 0.03;
};
Tensor ssim_multiscale(const Tensor& img1, const Tensor& img2, const MultiscaleKeywords& o);
template <typename Number>
requires std::is_arithmetic_v<Number> Tensor ssim_multiscale(const Tensor& img1, const Tensor& img2, Number max_val,
                                                             MultiscaleKeywords o = {}) {
  o.max_val = static_cast<double>(max_val);
  return ssim_multiscale(img1, img2, o);
}
// Windows of the images around offsets (batch, 2), from -1 to 1 around the middle; or, not normalized, in pixels.
// Pixels outside of an image are random: "uniform" or "gaussian", or "zero".
struct GlimpseKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg size = {};
  Tensor offsets = {};
  bool centered = true;
  bool normalized = true;
  std::string noise = "uniform";
};
Tensor extract_glimpse(const Tensor& input, const GlimpseKeywords& o);
struct GlimpseOptions {
  FieldNamesOnly names_only = {};
  bool centered = true;
  bool normalized = true;
  std::string noise = "uniform";
};
template <int = 0>
Tensor extract_glimpse(const Tensor& input, const ShapeArg& size, const Tensor& offsets, const GlimpseOptions& o = {}) {
  return extract_glimpse(input, GlimpseKeywords{{}, size, offsets, o.centered, o.normalized, o.noise});
}
// (batch, height, width, channels, 2): the vertical and the horizontal derivative. Of a batch of images.
Tensor sobel_edges(const Tensor& images);
struct ImageGradients {
  Tensor dy, dx;
};
ImageGradients image_gradients(const Tensor& images);
// The middle of larger images; zeros around smaller ones.
Tensor resize_with_crop_or_pad(const Tensor& images, const Extent& target_height, const Extent& target_width);
// Resized with their proportions, with zeros around them.
Tensor resize_with_pad(const Tensor& images, const Extent& target_height, const Extent& target_width,
                       const ResizeKeywords& keywords = {});
struct CropOrPadKeywords {
  FieldNamesOnly names_only = {};
  Extent target_height = 0;
  Extent target_width = 0;
};
inline Tensor resize_with_crop_or_pad(const Tensor& images, const CropOrPadKeywords& o) {
  return resize_with_crop_or_pad(images, o.target_height, o.target_width);
}
struct ResizeWithPadKeywords {
  FieldNamesOnly names_only = {};
  Extent target_height = 0;
  Extent target_width = 0;
  std::string_view method = "bilinear";
  bool antialias = false;
};
inline Tensor resize_with_pad(const Tensor& images, const ResizeWithPadKeywords& o) {
  return resize_with_pad(images, o.target_height, o.target_width, ResizeKeywords{{}, o.method, false, o.antialias});
}

}  // namespace lockstep::image

// tf.io: files and formats of images and tables.
namespace lockstep::io {

Tensor read_file(const Tensor& filename);  // a string
Tensor read_file(std::string_view filename);
void write_file(std::string_view filename, const Tensor& contents);
template <std::convertible_to<std::string> Text>
void write_file(std::string_view filename, const Text& contents) {
  write_file(filename, Tensor::strings({std::string(contents)}, {}));
}

struct DecodeKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t channels = 0;  // 0: those of the file
  DTypeLike dtype = DType::kUInt8;
  bool expand_animations = true;
};
// Of JPEG, PNG, BMP and GIF. Throw InvalidArgument for damaged files.
Tensor decode_image(const Tensor& contents, const DecodeKeywords& keywords = {});
struct JpegKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t channels = 0;
  std::int64_t ratio = 1;  // 2, 4 or 8: the image is that much smaller
  bool fancy_upscaling = true;
  bool try_recover_truncated = false;
  double acceptable_fraction = 1;
  std::string dct_method = {};
};
Tensor decode_jpeg(const Tensor& contents, const JpegKeywords& keywords = {});
Tensor decode_png(const Tensor& contents, std::int64_t channels = 0, DTypeLike dtype = DType::kUInt8);
template <std::integral I>
Tensor decode_jpeg(const Tensor& contents, I channels, JpegKeywords keywords = {}) {
  keywords.channels = channels;
  return decode_jpeg(contents, keywords);
}
inline Tensor decode_png(const Tensor& contents, const DecodeKeywords& keywords) {
  return decode_png(contents, keywords.channels, keywords.dtype);
}
// The window (y, x, height, width) of the image of a JPEG file.
Tensor decode_and_crop_jpeg(const Tensor& contents, const Tensor& crop_window, const JpegKeywords& keywords = {});
struct ChannelsKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t channels = 0;
};
Tensor decode_bmp(const Tensor& contents, const ChannelsKeywords& keywords = {});
inline Tensor decode_bmp(const Tensor& contents, std::int64_t channels) {
  return decode_bmp(contents, ChannelsKeywords{{}, channels});
}
Tensor decode_gif(const Tensor& contents);  // (frames, height, width, 3)
// (height, width, channels), int32, of the header of a JPEG file.
struct ShapeTypeKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike output_type = DType::kInt32;
};
Tensor extract_jpeg_shape(const Tensor& contents, const ShapeTypeKeywords& keywords = {});
Tensor is_jpeg(const Tensor& contents);  // whether the bytes begin like a JPEG file
struct EncodeJpegKeywords {
  FieldNamesOnly names_only = {};
  std::string format = {};  // "grayscale" or "rgb"; default: by the number of channels
  std::int64_t quality = 95;
  bool progressive = false;
  bool optimize_size = false;
  bool chroma_downsampling = true;
  std::string density_unit = "in";
  std::int64_t x_density = 300;
  std::int64_t y_density = 300;
  std::string xmp_metadata = {};
};
Tensor encode_jpeg(const Tensor& image, const EncodeJpegKeywords& keywords = {});
inline Tensor encode_jpeg(const Tensor& image, std::int64_t quality) {
  return encode_jpeg(image, EncodeJpegKeywords{{}, {}, quality});
}
struct EncodePngKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t compression = -1;
};
Tensor encode_png(const Tensor& image, const EncodePngKeywords& keywords = {});
// Numbers from the bytes of strings.
Tensor decode_raw(const Tensor& input_bytes, DTypeLike out_type);

}  // namespace lockstep::io
