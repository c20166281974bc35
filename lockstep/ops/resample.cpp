// Resizing by weights of several pixels, and images seen through a projective transform.
#include <cmath>
#include <limits>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/image_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

float resize_scale(std::int64_t from, std::int64_t to, bool align_corners) {
  return align_corners && to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                                 : static_cast<float>(from) / static_cast<float>(to);
}

std::int64_t bound(std::int64_t index, std::int64_t size) { return std::clamp<std::int64_t>(index, 0, size - 1); }

// Row i of the result: the weight of each source pixel in the i-th pixel.
using Weights = at::Tensor;

// Two arms of the cubic kernel: at x in [0, 1] and at x + 1. TensorFlow looks them up at multiples of 1/1024.
struct CubicArms {
  float near, far;
};
CubicArms cubic_arms(std::int64_t step, double a) {
  const double x = static_cast<double>(step) / 1024, y = x + 1;
  return {static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1),
          static_cast<float>(((a * y - 5 * a) * y + 8 * a) * y - 4 * a)};
}

Weights cubic_weights(std::int64_t from, std::int64_t to, bool align_corners, bool half_pixel) {
  const float scale = resize_scale(from, to, align_corners);
  Weights weights = at::zeros({to, from});
  for (std::int64_t i = 0; i < to; ++i) {
    const float at = half_pixel ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
    const auto floor = static_cast<std::int64_t>(std::floor(at));
    const std::int64_t step = std::lrint((at - static_cast<float>(floor)) * 1024);
    const double a = half_pixel ? -0.5 : -0.75;
    const CubicArms left = cubic_arms(step, a), right = cubic_arms(1024 - step, a);
    const float arms[4] = {left.far, left.near, right.near, right.far};
    float* row = weights.mutable_data_ptr<float>() + i * from;
    float sum = 0;
    for (std::int64_t arm = 0; arm < 4; ++arm) {
      const std::int64_t index = floor - 1 + arm;
      // Beyond the edge the old mapping repeats the last pixel, the new one leaves it out.
      if (half_pixel && index != bound(index, from)) continue;
      row[bound(index, from)] += arms[arm];
      sum += arms[arm];
    }
    for (std::int64_t k = 0; half_pixel && k < from; ++k) row[k] /= sum;
  }
  return weights;
}

Weights area_weights(std::int64_t from, std::int64_t to, bool align_corners) {
  const float scale = resize_scale(from, to, align_corners);
  Weights weights = at::zeros({to, from});
  for (std::int64_t i = 0; i < to; ++i) {
    const float begin = static_cast<float>(i) * scale, end = static_cast<float>(i + 1) * scale;
    float* row = weights.mutable_data_ptr<float>() + i * from;
    if (scale == 0) row[0] = 1;  // one pixel, whose corners are the image's
    for (auto k = static_cast<std::int64_t>(std::floor(begin)); k < static_cast<std::int64_t>(std::ceil(end)); ++k) {
      const float covered = std::min(static_cast<float>(k + 1), end) - std::max(static_cast<float>(k), begin);
      row[bound(k, from)] += covered / scale;
    }
  }
  return weights;
}

// A kernel of ScaleAndTranslate: 0 beyond its radius.
struct Filter {
  float radius;
  float (*at)(float distance);
};

float lanczos(float x, float radius) {
  if (x > radius) return 0.0f;
  if (x <= 1e-3f) return 1.0f;
  const float pi = std::acos(-1.0f);
  return radius * std::sin(pi * x) * std::sin(pi * x / radius) / (pi * pi * x * x);
}

Filter kernel_of(const std::string& name) {
  if (name == "lanczos1") return {1, [](float x) { return lanczos(x, 1); }};
  if (name == "lanczos3") return {3, [](float x) { return lanczos(x, 3); }};
  if (name == "lanczos5") return {5, [](float x) { return lanczos(x, 5); }};
  if (name == "gaussian")
    return {1.5f, [](float x) { return x >= 1.5f ? 0.0f : std::exp(-x * x / (2.0f * 0.5f * 0.5f)); }};
  if (name == "box") return {1, [](float x) { return x < 0.5f ? 1.0f : x == 0.5f ? 0.5f : 0.0f; }};
  if (name == "triangle") return {1, [](float x) { return x < 1 ? 1 - x : 0.0f; }};
  if (name == "keyscubic") {
    return {2, [](float x) {
              if (x >= 2) return 0.0f;
              return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4.0f) * x + 2.0f : (1.5f * x - 2.5f) * x * x + 1.0f;
            }};
  }
  if (name == "mitchellcubic") {
    return {2, [](float x) {
              if (x >= 2) return 0.0f;
              return x >= 1 ? ((-7.0f / 18 * x + 2.0f) * x - 10.0f / 3) * x + 16.0f / 9
                            : (7.0f / 6 * x - 2.0f) * x * x + 8.0f / 9;
            }};
  }
  throw_invalid_argument(fmt::format(
      "kernel_type '{}', expected lanczos1, lanczos3, lanczos5, gaussian, box, triangle, keyscubic or mitchellcubic",
      name));
}

Weights kernel_weights(std::int64_t from, std::int64_t to, const Filter& kernel, float scale, float translation,
                       bool antialias) {
  if (!(scale > 0) || !std::isfinite(scale))
    throw_invalid_argument(fmt::format("scale {}, expected a number greater than zero", scale));
  const float step = 1.0f / scale, start = -step * translation;
  const float width = antialias ? std::max(step, 1.0f) : 1.0f, reach = kernel.radius * width;
  Weights weights = at::zeros({to, from});
  for (std::int64_t i = 0; i < to; ++i) {
    const float at = (static_cast<float>(i) + 0.5f) * step + start;
    if (!(at >= 0 && at <= static_cast<float>(from))) continue;  // beyond the image all is black
    const std::int64_t begin = bound(static_cast<std::int64_t>(std::ceil(at - reach - 0.5f)), from);
    const std::int64_t end = bound(static_cast<std::int64_t>(std::floor(at + reach - 0.5f)), from);
    float* row = weights.mutable_data_ptr<float>() + i * from;
    float sum = 0;
    for (std::int64_t k = begin; k <= end; ++k)
      sum += row[k] = kernel.at(std::abs((static_cast<float>(k) + 0.5f - at) / width));
    if (std::abs(sum) < 1000 * std::numeric_limits<float>::min()) continue;
    for (std::int64_t k = begin; k <= end; ++k) row[k] /= sum;
  }
  return weights;
}

// make(axis, extent before, extent after) gives the weights of an axis: 0 of the rows, 1 of the columns.
template <typename MakeWeights>
Tensors resample(const Call& call, const MakeWeights& make) {
  const Ints size = ints_in(call, 1);
  const at::Tensor x = in(call, 0).to(at::kFloat);
  if (x.dim() != 4 || size.size() != 2 || size[0] <= 0 || size[1] <= 0) {
    throw_invalid_argument(
        fmt::format("images must have rank 4 and size be positive, found shape {}", call.input(0).shape().to_string()));
  }
  if (x.size(1) == 0 || x.size(2) == 0 || x.size(3) == 0)
    throw_invalid_argument("input image must be of non-zero size");
  const at::Tensor rows = make(0, x.size(1), size[0]), columns = make(1, x.size(2), size[1]);
  return one(at::einsum("ih,bhwc,jw->bijc", {rows, x, columns}).contiguous());
}

Tensors resize_bicubic(const Call& call) {
  const bool corners = call.attr<bool>("align_corners"), half = call.attr<bool>("half_pixel_centers");
  if (corners && half) throw_invalid_argument("If half_pixel_centers is True, align_corners must be False.");
  return resample(call,
                  [&](int, std::int64_t from, std::int64_t to) { return cubic_weights(from, to, corners, half); });
}

Tensors resize_area(const Call& call) {
  const bool corners = call.attr<bool>("align_corners");
  return resample(call, [&](int, std::int64_t from, std::int64_t to) { return area_weights(from, to, corners); });
}

Tensors scale_and_translate(const Call& call) {
  const Filter kernel = kernel_of(call.attr<std::string>("kernel_type"));
  const bool antialias = call.attr<bool>("antialias");
  const at::Tensor scale = in(call, 2).to(at::kFloat).contiguous(),
                   translation = in(call, 3).to(at::kFloat).contiguous();
  if (scale.numel() != 2 || translation.numel() != 2)
    throw_invalid_argument("scale and translation must have two elements");
  return resample(call, [&](int axis, std::int64_t from, std::int64_t to) {
    return kernel_weights(from, to, kernel, scale.const_data_ptr<float>()[axis],
                          translation.const_data_ptr<float>()[axis], antialias);
  });
}

Shapes resample_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  const auto size = known_ints(call, 1);
  const bool known = x.known_rank() && x.rank() == 4, sized = size && size->size() == 2;
  return {Shape{known ? x[0] : kUnknownDim, sized ? (*size)[0] : kUnknownDim, sized ? (*size)[1] : kUnknownDim,
                known ? x[3] : kUnknownDim}};
}

// ---- projective transforms -------------------------------------------------------------------------------
enum class Beyond { kFill, kReflect, kWrap, kNearest };

Beyond beyond_of(const std::string& mode) {
  if (mode == "CONSTANT") return Beyond::kFill;
  if (mode == "REFLECT") return Beyond::kReflect;
  if (mode == "WRAP") return Beyond::kWrap;
  if (mode == "NEAREST") return Beyond::kNearest;
  throw_invalid_argument(fmt::format("fill_mode '{}', expected CONSTANT, REFLECT, WRAP or NEAREST", mode));
}

// A position of an axis of `size` pixels brought inside.
float brought_inside(float at, std::int64_t size, Beyond mode) {
  const auto n = static_cast<float>(size), last = n - 1;
  if (mode == Beyond::kFill) return at;
  if (size <= 1) return at < 0 || at > last ? 0.0f : at;
  if (mode == Beyond::kReflect) {
    if (at < 0) {
      at = 2 * n * std::trunc(-at / (2 * n)) + at;
      at = at < -n ? at + 2 * n : -at - 1;
    } else if (at > last) {
      at -= 2 * n * std::trunc(at / (2 * n));
      if (at >= n) at = 2 * n - at - 1;
    }
  } else if (mode == Beyond::kWrap) {
    if (at < 0)
      at += n * (std::trunc(-at / last) + 1);
    else if (at > last)
      at -= n * std::trunc(at / last);
  }
  return std::clamp(at, 0.0f, last);
}

struct Picture {
  const float* pixels;
  std::int64_t height, width, depth;
  float fill;

  float at(float y, float x, std::int64_t channel) const {
    const bool inside = y >= 0 && y < static_cast<float>(height) && x >= 0 && x < static_cast<float>(width);
    return inside ? pixels[(static_cast<std::int64_t>(y) * width + static_cast<std::int64_t>(x)) * depth + channel]
                  : fill;
  }
  float between(float y, float x, std::int64_t channel) const {
    const float top = std::floor(y), left = std::floor(x), bottom = top + 1, right = left + 1;
    const float above = (right - x) * at(top, left, channel) + (x - left) * at(top, right, channel);
    const float below = (right - x) * at(bottom, left, channel) + (x - left) * at(bottom, right, channel);
    return (bottom - y) * above + (y - top) * below;
  }
};

Tensors projective(const Call& call) {
  const at::Tensor images = in(call, 0).to(at::kFloat).contiguous(),
                   transforms = in(call, 1).to(at::kFloat).contiguous();
  const Ints size = ints_in(call, 2);
  if (images.dim() != 4 || transforms.dim() != 2 || transforms.size(1) != 8 || size.size() != 2 || size[0] < 1 ||
      size[1] < 1 || (transforms.size(0) != 1 && transforms.size(0) != images.size(0))) {
    throw_invalid_argument("images must have rank 4, transforms be [1 or batch, 8] and output_shape height and width");
  }
  const std::string interpolation = call.attr<std::string>("interpolation");
  if (interpolation != "NEAREST" && interpolation != "BILINEAR")
    throw_invalid_argument(fmt::format("interpolation '{}' is not known", interpolation));
  const bool nearest = interpolation == "NEAREST";
  const Beyond mode = beyond_of(call.attr<std::string>("fill_mode"));
  const float fill = call.num_inputs() > 3 ? in(call, 3).item<float>() : 0.0f;
  const std::int64_t depth = images.size(3), pixels = images.size(1) * images.size(2) * depth;
  at::Tensor out = at::empty({images.size(0), size[0], size[1], depth});
  float* to = out.mutable_data_ptr<float>();
  for (std::int64_t image = 0; image < images.size(0); ++image) {
    const Picture picture{images.const_data_ptr<float>() + image * pixels, images.size(1), images.size(2), depth, fill};
    const float* t = transforms.const_data_ptr<float>() + (transforms.size(0) == 1 ? 0 : image * 8);
    for (std::int64_t row = 0; row < size[0]; ++row) {
      for (std::int64_t column = 0; column < size[1]; ++column) {
        const auto y = static_cast<float>(row), x = static_cast<float>(column);
        const float projection = t[6] * x + t[7] * y + 1.0f;
        const float from_x = brought_inside((t[0] * x + t[1] * y + t[2]) / projection, picture.width, mode);
        const float from_y = brought_inside((t[3] * x + t[4] * y + t[5]) / projection, picture.height, mode);
        for (std::int64_t c = 0; c < depth; ++c) {
          *to++ = projection == 0 ? fill
                  : nearest       ? picture.at(std::round(from_y), std::round(from_x), c)
                                  : picture.between(from_y, from_x, c);
        }
      }
    }
  }
  // TensorFlow's gradient: the gradient is transformed back, with the inverse matrices.
  return {with_adjoint(call.input(0), wrap(narrow_to(out, in(call, 0).scalar_type())),
                       [=, mode = call.attr<std::string>("fill_mode")](const Tensor& dy) {
                         const at::Tensor back =
                             at::linalg_inv(
                                 at::cat({transforms, at::ones({transforms.size(0), 1})}, 1).view({-1, 3, 3}))
                                 .reshape({-1, 9});
                         const at::Tensor flat = (back / back.slice(1, 8)).slice(1, 0, 8).contiguous();
                         const Tensor shape = wrap(at::tensor({images.size(1), images.size(2)}, at::kInt));
                         return call1("ImageProjectiveTransformV2", {dy, wrap(flat), shape},
                                      {{"interpolation", interpolation}, {"fill_mode", mode}});
                       })};
}

Shapes projective_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  const auto size = known_ints(call, 2);
  const bool known = x.known_rank() && x.rank() == 4, sized = size && size->size() == 2;
  return {Shape{known ? x[0] : kUnknownDim, sized ? (*size)[0] : kUnknownDim, sized ? (*size)[1] : kUnknownDim,
                known ? x[3] : kUnknownDim}};
}

}  // namespace

void register_resampling(Table& table) {
  table.add("ResizeBicubic", resample_shape, resize_bicubic);
  table.add("ResizeArea", resample_shape, resize_area);
  table.add("ScaleAndTranslate", resample_shape, scale_and_translate);
  for (auto name : {"ImageProjectiveTransformV2", "ImageProjectiveTransformV3"})
    table.add(name, projective_shape, projective);
}

}  // namespace lockstep::ops
