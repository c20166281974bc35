#include "lockstep/ops/image_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/keywords.h"

namespace lockstep::image {
namespace {

// fn of a batch of images, also for one image.
template <typename Fn>
Tensor of_batch(const char* function, const Tensor& images, Fn fn) {
  if (images.rank() == 4) return fn(images);
  if (images.rank() == 3) return ops::squeeze(fn(ops::expand_dims(images, 0)), {0});
  throw_invalid_argument(
      fmt::format("image::{}: found shape {}, expected three or four axes", function, images.shape().to_string()));
}

// Computed as floating numbers of range 0 … 1, and converted back.
template <typename Fn>
Tensor as_floating(const Tensor& images, Fn fn) {
  if (is_floating(images.dtype())) return fn(images);
  return convert_image_dtype(fn(convert_image_dtype(images, DType::kFloat32)), images.dtype(), true);
}

std::int64_t largest(DType dtype) {
  switch (dtype) {
    case DType::kUInt8: return std::numeric_limits<std::uint8_t>::max();
    case DType::kInt8: return std::numeric_limits<std::int8_t>::max();
    case DType::kUInt16: return std::numeric_limits<std::uint16_t>::max();
    case DType::kInt16: return std::numeric_limits<std::int16_t>::max();
    case DType::kInt32: return std::numeric_limits<std::int32_t>::max();
    default: throw_invalid_argument(fmt::format("convert_image_dtype: {} is not supported", dtype_name(dtype)));
  }
}

Tensor scaled(const Tensor& x, const ops::Ints& size, std::string_view method, bool antialias) {
  const Tensor sizes = ops::constant_ints(size);
  const auto factor = [&](int axis) {
    return static_cast<float>(static_cast<double>(size[static_cast<std::size_t>(axis) - 1]) /
                              static_cast<double>(x.dim(axis)));
  };
  const Tensor scale = Tensor::from_vector(std::vector<float>{factor(1), factor(2)});
  const std::string kernel = method == "bilinear"  ? "triangle"
                             : method == "bicubic" ? "keyscubic"
                                                   : std::string(method);
  return ops::call1("ScaleAndTranslate", {x, sizes, scale, Tensor::zeros({2})},
                    {{"kernel_type", kernel}, {"antialias", antialias}});
}

}  // namespace

Tensor resize(const Tensor& images, const ResizeToKeywords& keywords) {
  const Shape target = keywords.size.shape();
  if (!keywords.size.is_known() || !target.fully_known() || target.rank() != 2 || target[0] <= 0 || target[1] <= 0) {
    throw_invalid_argument(
        fmt::format("image::resize: invalid size: found {}, expected two positive numbers", target.to_string()));
  }
  return of_batch("resize", images, [&](const Tensor& x) {
    ops::Ints wanted = target.dims();
    if (keywords.preserve_aspect_ratio) {
      const auto real = [](std::int64_t n) { return static_cast<float>(n); };
      const float factor = std::min(real(wanted[0]) / real(x.dim(1)), real(wanted[1]) / real(x.dim(2)));
      for (std::size_t i : {0u, 1u})
        wanted[i] = static_cast<std::int64_t>(std::nearbyint(factor * real(x.dim(static_cast<int>(i) + 1))));
    }
    const bool same = x.dim(1) == wanted[0] && x.dim(2) == wanted[1];
    if (keywords.method == "nearest") {
      return same
                 ? x
                 : ops::call1("ResizeNearestNeighbor", {x, ops::constant_ints(wanted)}, {{"half_pixel_centers", true}});
    }
    const Tensor real = ops::cast(x, DType::kFloat32);
    if (same) return real;
    if (keywords.method == "area") return ops::call1("ResizeArea", {x, ops::constant_ints(wanted)});
    const bool plain = keywords.method == "bilinear" || keywords.method == "bicubic";
    if (keywords.antialias || !plain) return scaled(real, wanted, keywords.method, keywords.antialias);
    return ops::call1(keywords.method == "bilinear" ? "ResizeBilinear" : "ResizeBicubic",
                      {x, ops::constant_ints(wanted)}, {{"half_pixel_centers", true}});
  });
}

Tensor convert_image_dtype(const Tensor& image, DTypeLike dtype, bool saturate) {
  const DType from = image.dtype();
  if (from == dtype) return image;
  if (is_floating(from) && is_floating(dtype)) return ops::cast(image, dtype);
  if (is_floating(dtype)) return ops::cast(image, dtype) * Number(1.0 / static_cast<double>(largest(from)));
  if (is_floating(from)) {
    const Tensor scaled = image * Number(static_cast<double>(largest(dtype)) + 0.5);
    return saturate ? ops::saturate_cast(scaled, dtype) : ops::cast(scaled, dtype);
  }
  const std::int64_t in = largest(from), out = largest(dtype);
  if (in > out) return ops::cast(ops::floor_div(image, Number((in + 1) / (out + 1))), dtype);
  return ops::cast(image, dtype) * Number((out + 1) / (in + 1));
}

Tensor rgb_to_grayscale(const Tensor& images) {
  const auto gray = [](const Tensor& x) {
    return ops::expand_dims(ops::tensordot(x, Tensor({0.2989, 0.5870, 0.1140}, x.dtype()), {{-1}, {-1}}), -1);
  };
  return as_floating(images, gray);
}
Tensor grayscale_to_rgb(const Tensor& images) {
  ops::Ints multiples(static_cast<std::size_t>(images.rank()), 1);
  multiples.back() = 3;
  return ops::tile(images, multiples);
}
namespace {
// The channels times a matrix.
Tensor mixed(const Tensor& images, std::initializer_list<Values> matrix) {
  return ops::tensordot(images, Tensor(matrix, images.dtype()), {{-1}, {0}});
}
}  // namespace
Tensor rgb_to_hsv(const Tensor& images) { return ops::call1("RGBToHSV", {images}); }
Tensor hsv_to_rgb(const Tensor& images) { return ops::call1("HSVToRGB", {images}); }
// The matrices are TensorFlow's (python/ops/image_ops_impl.py).
Tensor rgb_to_yuv(const Tensor& images) {
  return mixed(images,
               {{0.299, -0.14714119, 0.61497538}, {0.587, -0.28886916, -0.51496512}, {0.114, 0.43601035, -0.10001026}});
}
Tensor yuv_to_rgb(const Tensor& images) {
  return mixed(images, {{1.0, 1.0, 1.0}, {0.0, -0.394642334, 2.03206185}, {1.13988303, -0.58062185, 0.0}});
}
Tensor rgb_to_yiq(const Tensor& images) {
  return mixed(images,
               {{0.299, 0.59590059, 0.2115}, {0.587, -0.27455667, -0.52273617}, {0.114, -0.32134392, 0.31119955}});
}
Tensor yiq_to_rgb(const Tensor& images) {
  return mixed(images, {{1.0, 1.0, 1.0}, {0.95598634, -0.27201283, -1.10674021}, {0.6208248, -0.64720424, 1.70423049}});
}
Tensor flip_left_right(const Tensor& images) {
  return of_batch("flip_left_right", images, [](const Tensor& x) { return ops::reverse(x, {2}); });
}
Tensor flip_up_down(const Tensor& images) {
  return of_batch("flip_up_down", images, [](const Tensor& x) { return ops::reverse(x, {1}); });
}
Tensor transpose(const Tensor& images) {
  return of_batch("transpose", images, [](const Tensor& x) { return ops::transpose(x, {0, 2, 1, 3}); });
}
Tensor rot90(const Tensor& images, int k) {
  return of_batch("rot90", images, [k](const Tensor& x) {
    switch (((k % 4) + 4) % 4) {
      case 1: return ops::transpose(ops::reverse(x, {2}), {0, 2, 1, 3});
      case 2: return ops::reverse(x, {1, 2});
      case 3: return ops::reverse(ops::transpose(x, {0, 2, 1, 3}), {2});
      default: return x;
    }
  });
}
Tensor extract_patches(const Tensor& images, const PatchesKeywords& o) {
  return ops::call1("ExtractImagePatches", {images},
                    {{"ksizes", o.sizes}, {"strides", o.strides}, {"rates", o.rates}, {"padding", o.padding}});
}
Tensor central_crop(const Tensor& images, double central_fraction) {
  if (!(central_fraction > 0 && central_fraction <= 1)) {
    throw_invalid_argument(
        fmt::format("central_crop: invalid central_fraction: found {}, expected a number in (0, 1]", central_fraction));
  }
  return of_batch("central_crop", images, [&](const Tensor& x) {
    const auto start = [&](std::int64_t n) {
      return static_cast<std::int64_t>((static_cast<double>(n) - static_cast<double>(n) * central_fraction) / 2);
    };
    const std::int64_t top = start(x.dim(1)), left = start(x.dim(2));
    return ops::slice(x, {0, top, left, 0}, {-1, x.dim(1) - 2 * top, x.dim(2) - 2 * left, -1});
  });
}
namespace {
std::int64_t number(const Extent& extent) {
  return extent.tensor().defined() ? extent.tensor().item<std::int64_t>() : extent.known();
}
}  // namespace
Tensor crop_to_bounding_box(const Tensor& images, const Extent& offset_height, const Extent& offset_width,
                            const Extent& target_height, const Extent& target_width) {
  const std::int64_t top = number(offset_height), left = number(offset_width), height = number(target_height),
                     width = number(target_width);
  return of_batch("crop_to_bounding_box", images, [&](const Tensor& x) {
    return ops::slice(x, {0, top, left, 0}, {-1, height, width, -1});
  });
}
Tensor pad_to_bounding_box(const Tensor& images, const Extent& offset_height, const Extent& offset_width,
                           const Extent& target_height, const Extent& target_width) {
  const std::int64_t top = number(offset_height), left = number(offset_width), height = number(target_height),
                     width = number(target_width);
  return of_batch("pad_to_bounding_box", images, [&](const Tensor& x) {
    return ops::pad(x, {{0, 0}, {top, height - top - x.dim(1)}, {left, width - left - x.dim(2)}, {0, 0}});
  });
}

Tensor adjust_brightness(const Tensor& images, double delta) {
  return as_floating(images, [&](const Tensor& x) { return x + delta; });
}
Tensor adjust_contrast(const Tensor& images, double contrast_factor) {
  return as_floating(images, [&](const Tensor& x) {
    return ops::call1("AdjustContrastv2", {x, Tensor::scalar(static_cast<float>(contrast_factor))});
  });
}
Tensor adjust_saturation(const Tensor& images, double saturation_factor) {
  return as_floating(images, [&](const Tensor& x) {
    return ops::call1("AdjustSaturation", {x, Tensor::scalar(static_cast<float>(saturation_factor))});
  });
}
Tensor adjust_hue(const Tensor& images, double delta) {
  return as_floating(images, [&](const Tensor& x) {
    return ops::call1("AdjustHue", {x, Tensor::scalar(static_cast<float>(delta))});
  });
}
Tensor adjust_gamma(const Tensor& images, double gamma, double gain) {
  if (gamma < 0)
    throw_invalid_argument(fmt::format("adjust_gamma: invalid gamma: found {}, expected 0 or more", gamma));
  return as_floating(images, [&](const Tensor& x) { return ops::pow(x, gamma) * gain; });
}
Tensor per_image_standardization(const Tensor& images) {
  const Tensor x = ops::cast(images, is_floating(images.dtype()) ? images.dtype() : DType::kFloat32);
  const ops::Ints axes = {-1, -2, -3};
  const std::int64_t pixels = x.dim(-1) * x.dim(-2) * x.dim(-3);
  const Tensor deviation = ops::maximum(ops::reduce_std(x, axes, true), 1 / std::sqrt(static_cast<double>(pixels)));
  return (x - ops::reduce_mean(x, axes, true)) / deviation;
}
Tensor total_variation(const Tensor& images) {
  const auto sum = [](const Tensor& x) {
    const auto rest = [&](int axis) {
      return ops::slice_axis(x, axis, 1, std::nullopt) - ops::slice_axis(x, axis, 0, -1);
    };
    return ops::reduce_sum(ops::abs(rest(1)), {1, 2, 3}) + ops::reduce_sum(ops::abs(rest(2)), {1, 2, 3});
  };
  return of_batch("total_variation", images, sum);
}
Tensor psnr(const Tensor& a, const Tensor& b, double max_val) {
  const double highest =
      is_floating(a.dtype()) ? max_val : static_cast<float>(max_val) * (1.0 / static_cast<double>(largest(a.dtype())));
  const Tensor error = ops::reduce_mean(
      ops::squared_difference(convert_image_dtype(a, DType::kFloat32), convert_image_dtype(b, DType::kFloat32)),
      {-3, -2, -1});
  return 20 * std::log(highest) / std::log(10.0) - (10 / std::log(10.0)) * ops::log(error);
}

namespace {

// The structural similarity of images of float32 and its part of contrasts, of each channel.
struct Similarity {
  Tensor index, contrast;
};
Similarity similarity(const Tensor& x, const Tensor& y, double highest, const SsimKeywords& keywords) {
  const std::int64_t size = keywords.filter_size;
  for (const Tensor* images : {&x, &y}) {
    const Shape& shape = images->shape();
    if (shape.rank() >= 3 && shape[-3] >= size && shape[-2] >= size) continue;
    throw_invalid_argument(fmt::format("ssim: invalid images: found shape {}, expected at least {} rows and columns",
                                       shape.to_string(), size));
  }
  // Means weighted by a Gaussian bell.
  const Tensor places = ops::cast(ops::range(size), DType::kFloat32) - static_cast<double>(size - 1) / 2;
  const Tensor bell = ops::square(places) * (-0.5 / (keywords.filter_sigma * keywords.filter_sigma));
  const Tensor both = ops::reshape(bell, {1, -1}) + ops::reshape(bell, {-1, 1});
  const Tensor kernel =
      ops::tile(ops::reshape(ops::softmax(ops::reshape(both, {1, -1})), {size, size, 1, 1}), {1, 1, x.dim(-1), 1});
  const auto mean = [&](const Tensor& values) {
    ops::Ints front = values.shape().dims();
    const ops::Ints image(front.end() - 3, front.end());
    front.resize(front.size() - 3);
    const Tensor means = ops::depthwise_conv2d(ops::reshape(values, {-1, image[0], image[1], image[2]}), kernel);
    for (const int axis : {1, 2, 3}) front.push_back(means.dim(axis));
    return ops::reshape(means, front);
  };
  const double c1 = std::pow(keywords.k1 * highest, 2), c2 = std::pow(keywords.k2 * highest, 2);
  const Tensor mean_x = mean(x), mean_y = mean(y);
  const Tensor product = mean_x * mean_y * 2.0, squares = ops::square(mean_x) + ops::square(mean_y);
  const Tensor luminance = (product + c1) / (squares + c1);
  const Tensor contrast = (mean(x * y) * 2.0 - product + c2) / (mean(ops::square(x) + ops::square(y)) - squares + c2);
  return {ops::reduce_mean(luminance * contrast, {-3, -2}), ops::reduce_mean(contrast, {-3, -2})};
}
// The largest value of images as float32.
double highest_of(const Tensor& images, double max_val) {
  if (is_floating(images.dtype())) return max_val;
  return static_cast<float>(max_val) * (1.0 / static_cast<double>(largest(images.dtype())));
}
// Means of 2 x 2 pixels, those of the last row and column twice where their number is odd.
Tensor half_of(const Tensor& images) {
  ops::Ints front = images.shape().dims();
  const ops::Ints image(front.end() - 3, front.end());
  front.resize(front.size() - 3);
  Tensor x = ops::reshape(images, {-1, image[0], image[1], image[2]});
  if (image[0] % 2 != 0 || image[1] % 2 != 0)
    x = ops::pad(x, ops::Paddings{{0, 0}, {0, image[0] % 2}, {0, image[1] % 2}, {0, 0}}, "SYMMETRIC");
  x = ops::avg_pool(x);
  for (const int axis : {1, 2, 3}) front.push_back(x.dim(axis));
  return ops::reshape(x, front);
}

}  // namespace

Tensor ssim(const Tensor& a, const Tensor& b, const SsimKeywords& keywords) {
  const Tensor x = convert_image_dtype(a, DType::kFloat32), y = convert_image_dtype(b, DType::kFloat32);
  return ops::reduce_mean(similarity(x, y, highest_of(a, keywords.max_val), keywords).index, -1);
}
Tensor ssim_multiscale(const Tensor& img1, const Tensor& img2, const MultiscaleKeywords& o) {
  if (o.power_factors.empty()) throw_invalid_argument("ssim_multiscale: power_factors has no numbers");
  Tensor x = convert_image_dtype(img1, DType::kFloat32), y = convert_image_dtype(img2, DType::kFloat32);
  const SsimKeywords keywords{{}, o.max_val, o.filter_size, o.filter_sigma, o.k1, o.k2};
  const double highest = highest_of(img1, o.max_val);
  Tensor product;
  for (std::size_t scale = 0; scale < o.power_factors.size(); ++scale) {
    if (scale > 0) x = half_of(x), y = half_of(y);
    const Similarity at_scale = similarity(x, y, highest, keywords);
    const bool last = scale + 1 == o.power_factors.size();
    const Tensor factor = ops::pow(ops::relu(last ? at_scale.index : at_scale.contrast), o.power_factors[scale]);
    product = product.defined() ? product * factor : factor;
  }
  return ops::reduce_mean(product, -1);
}
Tensor extract_glimpse(const Tensor& input, const GlimpseKeywords& o) {
  return ops::call1(
      "ExtractGlimpseV2", {input, ops::cast(ops::shape_tensor(o.size), DType::kInt32), o.offsets},
      {{"centered", o.centered}, {"normalized", o.normalized}, {"noise", o.noise}, {"uniform_noise", false}});
}

Tensor sobel_edges(const Tensor& images) {
  if (images.rank() != 4) {
    throw_invalid_argument(
        fmt::format("sobel_edges: found shape {}, expected a batch of images", images.shape().to_string()));
  }
  const Tensor down = {{-1, -2, -1}, {0, 0, 0}, {1, 2, 1}};
  const Tensor filters = ops::expand_dims(ops::stack({down, ops::transpose(down)}, -1), 2);
  const Tensor kernel = ops::tile(ops::cast(filters, images.dtype()), {1, 1, images.dim(-1), 1});
  const Tensor edges =
      ops::depthwise_conv2d(ops::mirror_pad(images, {{0, 0}, {1, 1}, {1, 1}, {0, 0}}, "REFLECT"), kernel);
  return ops::reshape(edges, {images.dim(0), images.dim(1), images.dim(2), images.dim(3), 2});
}

ImageGradients image_gradients(const Tensor& images) {
  if (images.rank() != 4) {
    throw_invalid_argument(
        fmt::format("image_gradients: found shape {}, expected a batch of images", images.shape().to_string()));
  }
  const auto along = [&](int axis) {
    const Tensor steps = ops::slice_axis(images, axis, 1, std::nullopt) - ops::slice_axis(images, axis, 0, -1);
    std::vector<std::pair<std::int64_t, std::int64_t>> end(4);
    end[static_cast<std::size_t>(axis)].second = 1;
    return ops::pad(steps, end);
  };
  return {along(1), along(2)};
}

Tensor resize_with_crop_or_pad(const Tensor& images, const Extent& given_height, const Extent& given_width) {
  const std::int64_t target_height = number(given_height), target_width = number(given_width);
  return of_batch("resize_with_crop_or_pad", images, [&](const Tensor& x) {
    const std::int64_t height = x.dim(1), width = x.dim(2);
    const auto half = [](std::int64_t difference) { return difference > 0 ? difference / 2 : 0; };
    const Tensor cropped = crop_to_bounding_box(x, half(height - target_height), half(width - target_width),
                                                std::min(target_height, height), std::min(target_width, width));
    return pad_to_bounding_box(cropped, half(target_height - height), half(target_width - width), target_height,
                               target_width);
  });
}

Tensor resize_with_pad(const Tensor& images, const Extent& given_height, const Extent& given_width,
                       const ResizeKeywords& keywords) {
  const std::int64_t target_height = number(given_height), target_width = number(given_width);
  return of_batch("resize_with_pad", images, [&](const Tensor& x) {
    const auto height = static_cast<float>(x.dim(1)), width = static_cast<float>(x.dim(2));
    const auto wanted_height = static_cast<float>(target_height), wanted_width = static_cast<float>(target_width);
    const float ratio = std::max(width / wanted_width, height / wanted_height);
    const auto whole = [](float number) { return static_cast<std::int64_t>(std::floor(number)); };
    const Tensor resized = resize(x, {whole(height / ratio), whole(width / ratio)}, keywords);
    return pad_to_bounding_box(resized, std::max<std::int64_t>(0, whole((wanted_height - height / ratio) / 2)),
                               std::max<std::int64_t>(0, whole((wanted_width - width / ratio) / 2)), target_height,
                               target_width);
  });
}

}  // namespace lockstep::image

namespace lockstep::io {

Tensor read_file(std::string_view filename) {
  const auto file = posix_file_system().map(std::string(filename));
  const auto bytes = file->bytes();
  return Tensor::strings({std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())}, Shape{});
}
Tensor read_file(const Tensor& filename) { return read_file(filename.item<std::string>()); }
void write_file(std::string_view filename, const Tensor& contents) {
  write_atomically(std::string(filename), contents.item<std::string>());
}

Tensor decode_image(const Tensor& contents, const DecodeKeywords& keywords) {
  return ops::call1(
      "DecodeImage", {contents},
      {{"channels", keywords.channels}, {"dtype", keywords.dtype}, {"expand_animations", keywords.expand_animations}});
}
namespace {

ops::Attrs attributes(const JpegKeywords& o) {
  return {{"channels", o.channels},
          {"ratio", o.ratio},
          {"fancy_upscaling", o.fancy_upscaling},
          {"try_recover_truncated", o.try_recover_truncated},
          {"acceptable_fraction", static_cast<float>(o.acceptable_fraction)},
          {"dct_method", o.dct_method}};
}

}  // namespace
Tensor decode_jpeg(const Tensor& contents, const JpegKeywords& o) {
  return ops::call1("DecodeJpeg", {contents}, attributes(o));
}
Tensor decode_and_crop_jpeg(const Tensor& contents, const Tensor& crop_window, const JpegKeywords& o) {
  return ops::call1("DecodeAndCropJpeg", {contents, ops::cast(crop_window, DType::kInt32)}, attributes(o));
}
Tensor decode_bmp(const Tensor& contents, const ChannelsKeywords& o) {
  return ops::call1("DecodeBmp", {contents}, {{"channels", o.channels}});
}
Tensor decode_gif(const Tensor& contents) { return ops::call1("DecodeGif", {contents}); }
Tensor extract_jpeg_shape(const Tensor& contents, const ShapeTypeKeywords& o) {
  return ops::call1("ExtractJpegShape", {contents}, {{"output_type", DType(o.output_type)}});
}
Tensor is_jpeg(const Tensor& contents) {
  const std::string bytes = contents.item<std::string>();
  return Tensor::scalar(bytes.starts_with("\xff\xd8\xff"));
}
Tensor decode_png(const Tensor& contents, std::int64_t channels, DTypeLike dtype) {
  return ops::call1("DecodePng", {contents}, {{"channels", channels}, {"dtype", dtype}});
}
Tensor encode_jpeg(const Tensor& image, const EncodeJpegKeywords& o) {
  return ops::call1("EncodeJpeg", {image},
                    {{"format", o.format},
                     {"quality", o.quality},
                     {"progressive", o.progressive},
                     {"optimize_size", o.optimize_size},
                     {"chroma_downsampling", o.chroma_downsampling},
                     {"density_unit", o.density_unit},
                     {"x_density", o.x_density},
                     {"y_density", o.y_density},
                     {"xmp_metadata", o.xmp_metadata}});
}
Tensor encode_png(const Tensor& image, const EncodePngKeywords& o) {
  return ops::call1("EncodePng", {image}, {{"compression", o.compression}});
}
Tensor decode_raw(const Tensor& input_bytes, DTypeLike out_type) {
  return ops::call1("DecodeRaw", {input_bytes}, {{"out_type", out_type}});
}

}  // namespace lockstep::io
