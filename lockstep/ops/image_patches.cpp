// Colors of images, windows of images and volumes as rows, grey-scale dilation.
#include <algorithm>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

// ---- colors: the last axis is red, green, blue ---------------------------------------------------------------------
void check_colors(const at::Tensor& x) {
  if (x.dim() < 1 || x.size(-1) != 3)
    throw_invalid_argument(
        fmt::format("the last axis must have 3 channels, found shape {}", Shape(x.sizes().vec()).to_string()));
}

// Hue in [0, 1), the smallest and the largest channel.
struct HueRange {
  at::Tensor hue, low, high;
};

// Comparisons with a NaN give the first of two colors: TensorFlow's kernels begin with red, RGBToHSV with blue.
HueRange hue_range(const at::Tensor& x, bool from_blue) {
  const at::Tensor r = x.select(-1, 0), g = x.select(-1, 1), b = x.select(-1, 2);
  const at::Tensor &first = from_blue ? b : r, &last = from_blue ? r : b;
  const auto higher = [](const at::Tensor& y, const at::Tensor& z) { return at::where(y < z, z, y); };
  const auto lower = [](const at::Tensor& y, const at::Tensor& z) { return at::where(z < y, z, y); };
  HueRange out;
  out.high = higher(first, higher(g, last));
  out.low = lower(first, lower(g, last));
  const at::Tensor range = out.high - out.low, flat = at::logical_not(range > 0);
  const auto sixths = [&](int n) { return at::full({}, n / 6.0, x.options()); };  // rounded to the type
  const at::Tensor norm = (1 / at::where(flat, at::ones({}, x.options()), range)) * sixths(1);
  const at::Tensor hue = at::where(r == out.high, norm * (g - b),
                                   at::where(g == out.high, norm * (b - r) + sixths(2), norm * (r - g) + sixths(4)));
  const at::Tensor zero = at::zeros({}, x.options());
  out.hue = at::where(flat, zero, at::where(hue < 0, hue + 1, hue));
  return out;
}

// Channels of a hue with full saturation, each in [0, 1].
at::Tensor pure_color(const at::Tensor& hue) {
  const at::Tensor h = hue * 6;
  return at::stack(
      {at::clamp(at::abs(h - 3) - 1, 0, 1), at::clamp(2 - at::abs(h - 2), 0, 1), at::clamp(2 - at::abs(h - 4), 0, 1)},
      -1);
}

at::Tensor saturation_of(const HueRange& p) {
  const at::Tensor lit = p.high > 0;
  return at::where(lit, (p.high - p.low) / at::where(lit, p.high, at::ones({}, p.high.options())),
                   at::zeros({}, p.high.options()));
}

at::Tensor to_hsv(const at::Tensor& x) {
  const HueRange p = hue_range(x, true);
  return at::stack({p.hue, saturation_of(p), p.high}, -1);
}

at::Tensor color_input(const Call& call) {
  const at::Tensor& x = in(call, 0);
  check_colors(x);
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}
Tensors color_output(const Call& call, const at::Tensor& y) { return one(narrow_to(y, in(call, 0).scalar_type())); }

// The derivatives that TensorFlow has, also where two colors are equal: the highest is the first of red, green and
// blue, the lowest the last. A color that is not positive has fewer of them.
at::Tensor to_hsv_gradient(const at::Tensor& x, const at::Tensor& dy) {
  const auto of_type = [&](const at::Tensor& mask) { return mask.to(x.scalar_type()); };
  const auto inverse = [](const at::Tensor& y) { return at::where(y == 0, at::zeros({}, y.options()), 1 / y); };
  const at::Tensor colors[] = {x.select(-1, 0), x.select(-1, 1), x.select(-1, 2)};
  const at::Tensor &r = colors[0], &g = colors[1], &b = colors[2];
  const at::Tensor highest[] = {of_type((r >= b) & (r >= g)), of_type((g > r) & (g >= b)), of_type((b > r) & (b > g))};
  const at::Tensor lowest[] = {of_type((r < b) & (r < g)), of_type((g <= r) & (g < b)), of_type((b <= r) & (b <= g))};
  const at::Tensor high = x.amax(-1), low = x.amin(-1);
  const at::Tensor over_range = inverse(high - low), over_high = inverse(high);
  const at::Tensor lit = of_type(high > 0) / 6;
  at::Tensor difference = at::zeros_like(high);  // of the two colors that the hue compares
  for (int c = 0; c < 3; ++c) difference = difference + highest[c] * (colors[(c + 1) % 3] - colors[(c + 2) % 3]);
  at::Tensor slopes[3];
  for (int c = 0; c < 3; ++c) {
    const at::Tensor hue = (highest[(c + 2) % 3] - highest[(c + 1) % 3]) * over_range -
                           (highest[c] - lowest[c]) * difference * over_range * over_range;
    const at::Tensor saturation =
        of_type(colors[c] > 0) * (highest[c] * low * over_high * over_high - lowest[c] * over_high);
    slopes[c] = dy.select(-1, 0) * lit * hue + dy.select(-1, 1) * saturation + dy.select(-1, 2) * highest[c];
  }
  return at::stack({slopes[0], slopes[1], slopes[2]}, -1);
}

Tensors rgb_to_hsv(const Call& call) {
  const at::Tensor held = color_input(call).detach(), &x = in(call, 0);
  return {with_adjoint(call.input(0), wrap(to_hsv(x.detach())), [held, type = x.scalar_type()](const Tensor& dy) {
    return wrap(to_hsv_gradient(held, dense(dy).to(held.scalar_type())).to(type));
  })};
}

at::Tensor to_rgb(const at::Tensor& x) {
  const at::Tensor s = x.select(-1, 1).unsqueeze(-1), v = x.select(-1, 2).unsqueeze(-1);
  return ((1 - s) + s * pure_color(x.select(-1, 0))) * v;
}

double factor_in(const Call& call, int i) {
  if (in(call, i).numel() != 1) throw_invalid_argument(fmt::format("input {} must be one number", i));
  return in(call, i).to(at::kDouble).item<double>();
}

Tensors adjust_hue(const Call& call) {
  const HueRange p = hue_range(color_input(call), false);
  const at::Tensor hue = at::remainder(p.hue + factor_in(call, 1), 1);
  const at::Tensor low = p.low.unsqueeze(-1), high = p.high.unsqueeze(-1);
  return color_output(call, low + pure_color(hue) * (high - low));
}

Tensors adjust_saturation(const Call& call) {
  const HueRange p = hue_range(color_input(call), false);
  // NaN as a saturation, or as the color of a hue, counts as 0.
  const at::Tensor s = at::clamp(at::nan_to_num(saturation_of(p) * factor_in(call, 1), 0), 0, 1);
  const at::Tensor color = (s * p.high).unsqueeze(-1), high = p.high.unsqueeze(-1);
  return color_output(call, high - color + color * at::nan_to_num(pure_color(p.hue), 0));
}

// The first version: the result is clipped to a range.
Tensors adjust_contrast_v1(const Call& call) {
  const at::Tensor x = in(call, 0).to(at::kFloat);
  if (x.dim() < 3) throw_invalid_argument("images must have at least three axes");
  const at::Tensor mean = x.mean(Ints{-3, -2}, true);
  return one(at::clamp((x - mean) * factor_in(call, 1) + mean, factor_in(call, 2), factor_in(call, 3)));
}

// ---- windows -----------------------------------------------------------------------------------------------------
struct WindowAxis {
  std::int64_t size = 1, stride = 1, rate = 1, output = 0, before = 0, after = 0;
};

// Along `axes` axes after the first of a tensor with channels last.
std::vector<WindowAxis> window_axes(const Shape& x, const Ints& sizes, const Ints& strides, const Ints& rates,
                                    const std::string& padding) {
  const auto rank = static_cast<std::size_t>(x.rank());
  for (const Ints* each : {&sizes, &strides, &rates}) {
    if (each->size() != rank) throw_invalid_argument(fmt::format("ksizes, strides and rates need {} numbers", rank));
    if (each->front() != 1 || each->back() != 1) throw_unimplemented("windows over the batch or the channels");
  }
  std::vector<WindowAxis> out;
  for (std::size_t i = 1; i + 1 < rank; ++i) {
    WindowAxis axis{sizes[i], strides[i], rates[i], 0, 0, 0};
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (axis.size > kMost || axis.stride > kMost || axis.rate > kMost) throw_invalid_argument("a window is too large");
    const std::int64_t extent = x[static_cast<int>(i)];
    axis.output = window_output(extent, axis.size, axis.stride, axis.rate, padding);
    if (padding == "SAME" && extent != kUnknownDim) {
      const std::int64_t reach = (axis.size - 1) * axis.rate + 1;
      const std::int64_t total = same_padding(extent, reach, axis.stride, axis.output);
      axis.before = total / 2, axis.after = total - axis.before;
    }
    out.push_back(axis);
  }
  return out;
}

// [n, out..., window..., channels] of [n, in..., channels]; `outside` is the value beyond the edges.
at::Tensor windows_of(const at::Tensor& x, const std::vector<WindowAxis>& axes, const at::Tensor& outside) {
  Ints shape = {x.size(0)};
  for (const WindowAxis& axis : axes) shape.push_back(axis.output);
  for (const WindowAxis& axis : axes) shape.push_back(axis.size);
  shape.push_back(x.size(-1));
  element_count(shape, static_cast<std::int64_t>(x.element_size()));
  at::Tensor y = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& axis = axes[i];
    // After the first i axes, each is a pair of output and window.
    const auto at = static_cast<std::int64_t>(1 + 2 * i);
    const std::int64_t extent = y.size(at);
    Ints places, edge = y.sizes().vec(), split = y.sizes().vec();
    for (std::int64_t o = 0; o < axis.output; ++o) {
      for (std::int64_t k = 0; k < axis.size; ++k) {
        const std::int64_t place = o * axis.stride + k * axis.rate - axis.before;
        places.push_back(place < 0 || place >= extent ? extent : place);
      }
    }
    edge[static_cast<std::size_t>(at)] = 1;
    y = at::cat({y, outside.expand(edge)}, at).index_select(at, int64_tensor(places));
    split[static_cast<std::size_t>(at)] = axis.output;
    split.insert(split.begin() + at + 1, axis.size);
    y = y.reshape(split);
  }
  Ints order = {0};
  for (std::size_t i = 0; i < axes.size(); ++i) order.push_back(static_cast<std::int64_t>(1 + 2 * i));
  for (std::size_t i = 0; i < axes.size(); ++i) order.push_back(static_cast<std::int64_t>(2 + 2 * i));
  order.push_back(y.dim() - 1);
  return y.permute(order);
}

Ints rates_of(const Call& call, int rank) {
  const Ints* rates = call.find_attr<Ints>("rates");
  return rates ? *rates : Ints(static_cast<std::size_t>(rank), 1);
}

Tensors extract_patches(const Call& call) {
  const Shape& shape = call.input(0).shape();
  const auto axes = window_axes(shape, call.attr<Ints>("ksizes"), call.attr<Ints>("strides"),
                                rates_of(call, shape.rank()), call.attr<std::string>("padding"));
  const at::Tensor& x = in(call, 0);
  const at::Tensor y = windows_of(widen(x), axes, at::zeros({}, widen(x).options()));
  Ints out = {x.size(0)};
  std::int64_t depth = x.size(-1);
  for (const WindowAxis& axis : axes) out.push_back(axis.output), depth *= axis.size;
  out.push_back(depth);
  return one(narrow_to(y.reshape(out), x.scalar_type()));
}

Shapes patches_shape(const Call& call) {
  const Shape& shape = call.input(0).shape();
  if (!shape.known_rank()) return {shape};
  const auto axes = window_axes(shape, call.attr<Ints>("ksizes"), call.attr<Ints>("strides"),
                                rates_of(call, shape.rank()), call.attr<std::string>("padding"));
  Shape out{shape[0]};
  std::int64_t depth = shape[-1];
  for (const WindowAxis& axis : axes) {
    out.push_back(axis.output);
    if (depth != kUnknownDim && __builtin_mul_overflow(depth, axis.size, &depth))
      throw_invalid_argument("a window is too large");
  }
  out.push_back(depth);
  return {out};
}

at::Tensor lowest_of(at::ScalarType type, const at::TensorOptions& options) {
  if (at::isFloatingType(type)) return at::full({}, lowest_number(type), options);
  if (!at::isSignedType(type)) return at::zeros({}, options);
  const auto bits = static_cast<int>(8 * at::elementSize(type));
  return at::full({}, std::numeric_limits<std::int64_t>::min() >> (64 - bits), options);
}

Tensors dilation(const Call& call) {
  const auto wide = [&](int i) { return is_float(in(call, i)) ? in(call, i) : in(call, i).to(at::kLong); };
  const at::Tensor x = wide(0), filter = wide(1);
  if (filter.size(2) != x.size(3))
    throw_invalid_argument(fmt::format("the filter has {} channels, the input {}", filter.size(2), x.size(3)));
  const auto axes =
      window_axes(call.input(0).shape(), {1, filter.size(0), filter.size(1), 1}, call.attr<Ints>("strides"),
                  call.attr<Ints>("rates"), call.attr<std::string>("padding"));
  // Whole numbers wrap around in their own type before they are compared; a NaN is never the greatest.
  const at::ScalarType type = in(call, 0).scalar_type();
  at::Tensor sums = windows_of(x, axes, at::zeros({}, x.options())) + filter;
  if (!is_float(sums)) sums = widen(narrow_to(sums, type)).to(at::kLong);
  if (filter.numel() == 0) throw_invalid_argument("the filter must not be empty");
  if (sums.numel() == 0)
    return one(at::empty({sums.size(0), sums.size(1), sums.size(2), sums.size(-1)}, in(call, 0).options()));
  const at::Tensor inside =
      windows_of(at::ones(x.sizes(), x.options().dtype(at::kBool)), axes, at::zeros({}, at::kBool));
  const at::Tensor lowest = lowest_of(type, sums.options());
  const at::Tensor masked = at::where(at::logical_and(inside, sums.detach() > lowest), sums, lowest);
  return one(narrow_to(std::get<0>(masked.flatten(3, 4).max(3)), type));
}

}  // namespace

void register_image_patches(Table& table) {
  table.add("RGBToHSV", same_shape, rgb_to_hsv);
  table.add("HSVToRGB", same_shape, [](const Call& call) {
    check_colors(in(call, 0));
    return one(to_rgb(in(call, 0)));  // each step is rounded to the type of the images, as in TensorFlow
  });
  table.add("AdjustHue", same_shape, adjust_hue);
  table.add("AdjustSaturation", same_shape, adjust_saturation);
  table.add("AdjustContrast", same_shape, adjust_contrast_v1);
  for (auto name : {"ExtractImagePatches", "ExtractVolumePatches"}) table.add(name, patches_shape, extract_patches);
  table.add("Dilation2D", nullptr, dilation);
}

}  // namespace lockstep::ops
