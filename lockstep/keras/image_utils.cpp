// keras.utils: images in files. Sizes are changed as PIL changes them.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/utils.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/image_functions.h"
#include "lockstep/ops/operators.h"

namespace lockstep::utils {
namespace {

using Pixels = std::vector<std::uint8_t>;

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

struct Filter {
  double support;
  double (*weight)(double x);
};

// PIL's filters by Keras's names; nullopt for "nearest", which has none.
std::optional<Filter> filter_of(const std::string& interpolation) {
  if (interpolation == "nearest") return std::nullopt;
  if (interpolation == "box") return Filter{0.5, [](double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }};
  if (interpolation == "bilinear") return Filter{1, [](double x) { return std::max(0.0, 1 - std::abs(x)); }};
  if (interpolation == "hamming") {
    return Filter{
        1, [](double x) { return std::abs(x) >= 1 ? 0.0 : sinc(x) * (0.54 + 0.46 * std::cos(x * std::numbers::pi)); }};
  }
  if (interpolation == "bicubic") {
    return Filter{2, [](double x) {
                    constexpr double a = -0.5;
                    x = std::abs(x);
                    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
                    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
                  }};
  }
  if (interpolation == "lanczos")
    return Filter{3, [](double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0.0; }};
  throw_invalid_argument(
      fmt::format("load_img: unknown interpolation '{}', expected nearest, bilinear, bicubic, hamming, box or lanczos",
                  interpolation));
}

// A part of an axis of `all` entries.
struct Part {
  std::int64_t all, start, size;
};

// The middle axis of (outer, part.all, inner), of which the part is taken, at `to` places: sums of weights in fixed
// point, as PIL computes them. Weights reach beyond the part.
Pixels resample(const Pixels& source, std::int64_t outer, const Part& part, std::int64_t inner, std::int64_t to,
                const std::optional<Filter>& filter) {
  const std::int64_t from = part.all;
  constexpr int kBits = 22;
  Pixels out(static_cast<std::size_t>(outer * to * inner));
  const double scale = static_cast<double>(part.size) / static_cast<double>(to), wide = std::max(scale, 1.0);
  for (std::int64_t at = 0; at < to; ++at) {
    const double center = static_cast<double>(part.start) + (static_cast<double>(at) + 0.5) * scale;
    std::int64_t first = std::min(static_cast<std::int64_t>(center), from - 1);
    std::vector<std::int64_t> weights{std::int64_t{1} << kBits};
    if (filter) {
      const double support = filter->support * wide;
      first = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
      const std::int64_t end = std::min(static_cast<std::int64_t>(center + support + 0.5), from);
      std::vector<double> exact;
      double sum = 0;
      for (std::int64_t i = first; i < end; ++i) {
        exact.push_back(filter->weight((static_cast<double>(i) - center + 0.5) / wide));
        sum += exact.back();
      }
      weights.clear();
      for (const double weight : exact) {
        const double scaled = (sum == 0 ? weight : weight / sum) * (1 << kBits);
        weights.push_back(static_cast<std::int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5)));
      }
    }
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        std::int64_t sum = std::int64_t{1} << (kBits - 1);
        for (std::size_t k = 0; k < weights.size(); ++k) {
          const std::int64_t row = o * from + first + static_cast<std::int64_t>(k);
          sum += weights[k] * source[static_cast<std::size_t>(row * inner + i)];
        }
        out[static_cast<std::size_t>((o * to + at) * inner + i)] =
            static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kBits, 0, 255));
      }
    }
  }
  return out;
}

Tensor resized(const Tensor& image, const Part& rows, const Part& columns, std::int64_t height, std::int64_t width,
               const std::optional<Filter>& filter) {
  const std::int64_t channels = image.dim(2);
  Pixels pixels = image.to_vector<std::uint8_t>();
  if (columns.size != width || columns.all != width)
    pixels = resample(pixels, rows.all, columns, channels, width, filter);
  if (rows.size != height || rows.all != height) pixels = resample(pixels, 1, rows, width * channels, height, filter);
  return Tensor::from_vector(pixels, Shape{height, width, channels});
}

// PIL's convert("L").
Tensor gray(const Tensor& image) {
  const Pixels pixels = image.to_vector<std::uint8_t>();
  const auto channels = static_cast<std::size_t>(image.dim(2));
  Pixels out;
  for (std::size_t i = 0; i + 2 < pixels.size(); i += channels) {
    out.push_back(static_cast<std::uint8_t>(
        (pixels[i] * 19595U + pixels[i + 1] * 38470U + pixels[i + 2] * 7471U + 0x8000U) >> 16));
  }
  return Tensor::from_vector(out, Shape{image.dim(0), image.dim(1), 1});
}

}  // namespace

Tensor load_img(const std::string& path, const LoadImageOptions& o) {
  const std::optional<Filter> filter = filter_of(o.interpolation);
  if (o.color_mode != "rgb" && o.color_mode != "rgba" && o.color_mode != "grayscale") {
    throw_invalid_argument(
        fmt::format("load_img: unknown color_mode '{}', expected rgb, rgba or grayscale", o.color_mode));
  }
  Tensor image;
  try {
    image = io::decode_image(io::read_file(path), {.expand_animations = false});
  } catch (const Error& error) {
    throw_error(error.code(), fmt::format("load_img: '{}': {}", path, error.message()));
  }
  const std::int64_t channels = image.dim(2);
  if (o.color_mode == "grayscale") {
    image = channels >= 3 ? gray(image) : image.index({ops::SliceSpec::ellipsis(), ops::SliceSpec::range(0, 1)});
  } else {
    if (channels <= 2) {
      const Tensor level = image.index({ops::SliceSpec::ellipsis(), ops::SliceSpec::range(0, 1)});
      Tensors planes{level, level, level};
      if (channels == 2) planes.push_back(image.index({ops::SliceSpec::ellipsis(), ops::SliceSpec::range(1, 2)}));
      image = ops::concat(planes, 2);
    }
    if (o.color_mode == "rgb" && image.dim(2) == 4)
      image = image.index({ops::SliceSpec::ellipsis(), ops::SliceSpec::range(0, 3)});
    if (o.color_mode == "rgba" && image.dim(2) == 3) {
      const Tensor opaque = ops::fill(Shape{image.dim(0), image.dim(1), 1}, Number(255));
      image = ops::concat({image, ops::cast(opaque, DType::kUInt8)}, 2);
    }
  }
  if (!o.target_size) return image;
  const auto [height, width] = *o.target_size;
  if (height <= 0 || width <= 0) {
    throw_invalid_argument(
        fmt::format("load_img: invalid target_size: found ({}, {}), expected positive numbers", height, width));
  }
  Part rows{image.dim(0), 0, image.dim(0)}, columns{image.dim(1), 0, image.dim(1)};
  if (o.keep_aspect_ratio) {
    rows.size = std::min(rows.all, columns.all * height / width);
    columns.size = std::min(columns.all, rows.all * width / height);
    rows.start = (rows.all - rows.size) / 2;
    columns.start = (columns.all - columns.size) / 2;
  }
  return resized(image, rows, columns, height, width, filter);
}

Tensor array_to_img(const Tensor& x, const ArrayToImageOptions& o) {
  if (x.rank() != 3 || (x.dim(2) != 1 && x.dim(2) != 3 && x.dim(2) != 4)) {
    throw_invalid_argument(fmt::format(
        "array_to_img: invalid image: found shape {}, expected (height, width, channels) with 1, 3 or 4 channels",
        x.shape().to_string()));
  }
  Tensor pixels = ops::cast(x, DType::kFloat32);
  if (o.scale) {
    pixels = pixels - ops::reduce_min(pixels);
    const Tensor largest = ops::reduce_max(pixels);
    if (largest.item<float>() != 0) pixels = pixels / largest;
    pixels = pixels * 255.0;
  }
  return ops::cast(ops::cast(pixels, DType::kInt32), DType::kUInt8);
}

void save_img(const std::string& path, const Tensor& x, const SaveImageOptions& o) {
  Tensor image = array_to_img(x, {.scale = o.scale});
  std::string format = o.file_format.empty() ? path.substr(path.find_last_of('.') + 1) : o.file_format;
  for (char& letter : format) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const bool jpeg = format == "jpg" || format == "jpeg";
  if (!jpeg && format != "png")
    throw_invalid_argument(fmt::format("save_img: unknown file format '{}', expected png or jpeg", format));
  if (jpeg && image.dim(2) == 4) image = image.index({ops::SliceSpec::ellipsis(), ops::SliceSpec::range(0, 3)});
  io::write_file(path, jpeg ? io::encode_jpeg(image, 75) : io::encode_png(image));
}

}  // namespace lockstep::utils
