// Numbers quantized to integers, each tensor with the range that its integers stand for. The formulas are those of
// TensorFlow's reference kernels, in the same precision.
#pragma GCC optimize("fp-contract=off")
#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/ops/call.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/tensor/quantized_internal.h"

namespace lockstep::ops {
namespace {

struct Range {
  float min = 0, max = 0;
};

float scalar_in(const Call& call, int i) {
  const at::Tensor& x = in(call, i);
  if (x.numel() != 1) throw_invalid_argument(fmt::format("input {} must be a single number", i));
  return x.to(at::kFloat).item<float>();
}
Range range_in(const Call& call, int i) { return {scalar_in(call, i), scalar_in(call, i + 1)}; }

Tensor number(float value) { return Tensor::scalar(value); }
Tensors with_range(at::Tensor value, DType dtype, Range range) {
  return {wrap_as(std::move(value), dtype), number(range.min), number(range.max)};
}

// What the integers of a type are.
struct Levels {
  double lowest = 0, highest = 0, steps = 0;
  bool is_signed = false;
};
Levels levels_of(DType dtype) {
  switch (dtype) {
    case DType::kQInt8: return {-128, 127, 256, true};
    case DType::kQUInt8: return {0, 255, 256, false};
    case DType::kQInt16: return {-32768, 32767, 65536, true};
    case DType::kQUInt16: return {0, 65535, 65536, false};
    case DType::kQInt32: return {-2147483648.0, 2147483647.0, 4294967296.0, true};
    default: throw_invalid_argument(fmt::format("{} is not a quantized type", dtype_name(dtype)));
  }
}

double quantized_unclamped(double value, Range range, const Levels& levels) {
  if (range.min == range.max) return levels.lowest;
  const double width = static_cast<double>(range.max - range.min) * (levels.steps / (levels.steps - 1));
  const double scale = levels.steps / width;
  return std::round(value * scale) - std::round(static_cast<double>(range.min) * scale) + levels.lowest;
}
double quantized(double value, Range range, const Levels& levels) {
  return std::clamp(quantized_unclamped(value, range, levels), levels.lowest, levels.highest);
}
double level_scale(Range range, const Levels& levels) {
  const double width = static_cast<double>(range.max - range.min) * (levels.steps / (levels.steps - 1));
  return width / levels.steps;
}
float dequantized(double value, Range range, const Levels& levels) {
  if (range.min == range.max) return range.min;
  const double scale = level_scale(range, levels);
  // In single precision, which is where TensorFlow's half level of qint32 comes from.
  const auto narrow = static_cast<float>(scale);
  const float first = std::round(range.min / narrow) * narrow;
  return static_cast<float>(static_cast<double>(first) + (value - levels.lowest) * scale);
}
float one_level(Range range, const Levels& levels) {
  return static_cast<float>((static_cast<double>(range.max) - static_cast<double>(range.min)) /
                            (levels.highest - levels.lowest));
}
Range range_of_products(Range a, const Levels& la, Range b, const Levels& lb) {
  const Levels out = levels_of(DType::kQInt32);
  const float one = one_level(a, la) * one_level(b, lb);
  return {one * static_cast<float>(out.lowest), one * static_cast<float>(out.highest)};
}

// The integers of input i.
at::Tensor wide(const Call& call, int i) { return widen(in(call, i)).to(at::kLong).contiguous(); }
DType dtype_in(const Call& call, int i) { return call.input(i).dtype(); }

template <typename F>
at::Tensor each(const at::Tensor& x, DType to, const F& f) {
  at::Tensor y = at::empty(x.sizes(), at::kLong);
  const std::int64_t* from = x.const_data_ptr<std::int64_t>();
  std::transform(from, from + x.numel(), y.mutable_data_ptr<std::int64_t>(),
                 [&](std::int64_t v) { return static_cast<std::int64_t>(f(static_cast<double>(v))); });
  return y.to(to_scalar_type(to));
}

// ---- to and from floats ------------------------------------------------------------------------------------------
at::Tensor half_away(const at::Tensor& x) { return at::trunc(x + at::copysign(at::full({}, 0.49999997F), x)); }

// One slice of QuantizeV2: the integers as floats, and the range that they stand for.
at::Tensor quantize(const Call& call, const at::Tensor& x, Range& range, const Levels& levels) {
  const float given_min = range.min, given_max = range.max;
  if (!std::isfinite(given_min) || !std::isfinite(given_max) || given_min > given_max)
    throw_invalid_argument(fmt::format("invalid range: {} to {}", given_min, given_max));
  range.min = std::min(0.0F, given_min);
  const float gap =
      std::max(1.0F, std::max(std::abs(given_min), std::abs(given_max))) * call.attr<float>("ensure_minimum_range");
  range.max = std::max(0.0F, std::max(given_max, range.min + gap));
  const auto& mode = call.attr<std::string>("mode");
  if (mode != "SCALED" && call.attr<std::string>("round_mode") != "HALF_AWAY_FROM_ZERO")
    throw_invalid_argument(fmt::format("round_mode HALF_TO_EVEN requires mode SCALED; found {}", mode));
  if (mode == "MIN_FIRST") {
    const at::Tensor flat = x.contiguous();
    at::Tensor y = at::empty(x.sizes(), at::kDouble);
    std::transform(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel(),
                   y.mutable_data_ptr<double>(),
                   [&](float v) { return quantized(static_cast<double>(v), range, levels); });
    return y;
  }
  if (mode == "MIN_COMBINED") {
    const auto scale =
        static_cast<float>((levels.highest - levels.lowest) / static_cast<double>(range.max - range.min));
    at::Tensor y = (at::clamp(x, range.min, range.max) - range.min) * scale;
    if (levels.is_signed) y = y - levels.steps / 2;
    return half_away(y);
  }
  const auto lowest = static_cast<float>(levels.lowest + (call.attr<bool>("narrow_range") ? 1 : 0)),
             highest = static_cast<float>(levels.highest);
  constexpr float kNone = std::numeric_limits<float>::max();
  const float scale = std::min(lowest * range.min > 0 ? lowest / range.min : kNone,
                               highest * range.max > 0 ? highest / range.max : kNone);
  range = {lowest / scale, highest / scale};
  const at::Tensor y = at::clamp(x, range.min, range.max) * scale;
  return call.attr<std::string>("round_mode") == "HALF_TO_EVEN" ? at::round(y) : half_away(y);
}

Tensors quantize_v2(const Call& call) {
  const auto dtype = call.attr<DType>("T");
  const Levels levels = levels_of(dtype);
  const auto axis = call.attr<std::int64_t>("axis");
  const at::Tensor& x = in(call, 0);
  const auto finish = [&](const at::Tensor& y) {
    const at::Tensor wide = y.to(at::kDouble);
    // A float beyond 32 bits becomes the lowest integer, as x86 converts it. MIN_FIRST is in double precision.
    const at::Tensor kept = dtype == DType::kQInt32 && call.attr<std::string>("mode") != "MIN_FIRST"
                                ? at::where(wide > levels.highest, at::full({}, levels.lowest, wide.options()), wide)
                                : wide;
    return at::clamp(kept, levels.lowest, levels.highest).to(at::kLong).to(to_scalar_type(dtype));
  };
  if (axis == -1) {
    Range range = range_in(call, 1);
    const at::Tensor y = finish(quantize(call, x, range, levels));
    return with_range(y, dtype, range);
  }
  const std::int64_t along = whole_axis(axis, x.dim());
  std::vector<at::Tensor> slices;
  std::vector<float> mins, maxes;
  const at::Tensor lows = in(call, 1).contiguous(), highs = in(call, 2).contiguous();
  if (lows.numel() != x.size(along) || highs.numel() != x.size(along))
    throw_invalid_argument("min_range and max_range must have a number for each slice");
  for (std::int64_t i = 0; i < x.size(along); ++i) {
    Range range{lows.const_data_ptr<float>()[i], highs.const_data_ptr<float>()[i]};
    slices.push_back(quantize(call, x.select(along, i), range, levels).to(at::kDouble));
    mins.push_back(range.min), maxes.push_back(range.max);
  }
  const Shape ends = mins.size() == 1 ? Shape() : Shape{static_cast<std::int64_t>(mins.size())};
  return {wrap_as(finish(at::stack(slices, along)), dtype), Tensor::from_vector(mins, ends),
          Tensor::from_vector(maxes, ends)};
}

at::Tensor dequantize_part(const Call& call, const at::Tensor& x, Range range, const Levels& levels) {
  const auto& mode = call.attr<std::string>("mode");
  if (mode == "MIN_FIRST") {
    at::Tensor y = at::empty(x.sizes(), at::kFloat);
    const at::Tensor flat = x.contiguous();
    std::transform(flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel(),
                   y.mutable_data_ptr<float>(),
                   [&](std::int64_t v) { return dequantized(static_cast<double>(v), range, levels); });
    return y;
  }
  if (mode == "MIN_COMBINED") {
    const auto scale =
        static_cast<float>(static_cast<double>(range.max - range.min) / (levels.highest - levels.lowest));
    const double half = levels.is_signed ? levels.steps / 2 : 0;
    return (x.to(at::kFloat) + half) * scale + range.min;
  }
  const auto lowest = static_cast<float>(levels.lowest + (call.attr<bool>("narrow_range") ? 1 : 0)),
             highest = static_cast<float>(levels.highest);
  const float scale = levels.lowest == 0 ? range.max / highest : std::max(range.min / lowest, range.max / highest);
  return x.to(at::kFloat) * scale;
}

Tensors dequantize(const Call& call) {
  const Levels levels = levels_of(dtype_in(call, 0));
  const at::Tensor x = wide(call, 0);
  const auto type = to_scalar_type(call.attr<DType>("dtype"));
  const auto axis = call.attr<std::int64_t>("axis");
  if (axis == -1) return one(dequantize_part(call, x, range_in(call, 1), levels).to(type));
  const std::int64_t along = whole_axis(axis, x.dim());
  const at::Tensor lows = in(call, 1).contiguous(), highs = in(call, 2).contiguous();
  if (lows.numel() != x.size(along) || highs.numel() != x.size(along))
    throw_invalid_argument("min_range and max_range must have a number for each slice");
  std::vector<at::Tensor> slices;
  for (std::int64_t i = 0; i < x.size(along); ++i) {
    const Range range{lows.const_data_ptr<float>()[i], highs.const_data_ptr<float>()[i]};
    slices.push_back(dequantize_part(call, x.select(along, i), range, levels));
  }
  return one(at::stack(slices, along).to(type));
}

// ---- between ranges ----------------------------------------------------------------------------------------------
at::Tensor requantized(const at::Tensor& x, DType from, Range old, DType to, Range wanted) {
  if (from != DType::kQInt32 || to != DType::kQUInt8) {
    const Levels source = levels_of(from), target = levels_of(to);
    return each(x, to,
                [&](double v) { return quantized(static_cast<double>(dequantized(v, old, source)), wanted, target); });
  }
  // TensorFlow's fixed-point arithmetic for this pair.
  constexpr int kShift = 16;
  const float width = old.max - old.min, target = wanted.max - wanted.min;
  const auto fixed = [&](double value) { return target == 0 ? 0 : static_cast<std::int64_t>(value); };
  const float per_unit = target == 0 ? 0 : 255.0F / target, middle = (old.min + old.max) / 2;
  const std::int64_t scale = fixed(255.0 * (1 << kShift) * static_cast<double>(width) / static_cast<double>(target));
  const std::int64_t offset = static_cast<std::int64_t>(middle * per_unit * (1 << kShift));
  const std::int64_t base =
      fixed((1 << kShift) * (static_cast<double>(wanted.min) * 255.0) / static_cast<double>(target));
  at::Tensor y = at::empty(x.sizes(), at::kByte);
  const std::int64_t* values = x.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t level = ((values[i] * scale) >> 32) + offset - base + (1 << (kShift - 1));
    y.mutable_data_ptr<std::uint8_t>()[i] =
        static_cast<std::uint8_t>(std::clamp<std::int64_t>(level >> kShift, 0, 255));
  }
  return y;
}

Tensors requantize(const Call& call) {
  const Range wanted = range_in(call, 3);
  if (!(wanted.min <= 0))
    throw_invalid_argument(fmt::format("requested_output_min is {}, expected at most 0", wanted.min));
  if (!(wanted.max >= wanted.min)) throw_invalid_argument("requested_output_max is less than requested_output_min");
  const auto to = call.attr<DType>("out_type");
  return with_range(requantized(wide(call, 0), dtype_in(call, 0), range_in(call, 1), to, wanted), to, wanted);
}

Range used_range(const Call& call) {
  const at::Tensor x = wide(call, 0);
  const Levels levels = levels_of(dtype_in(call, 0));
  const Range range = range_in(call, 1);
  if (x.numel() == 0) throw_invalid_argument("a tensor without elements has no range");
  return {std::min(0.0F, dequantized(static_cast<double>(x.min().item<std::int64_t>()), range, levels)),
          dequantized(static_cast<double>(x.max().item<std::int64_t>()), range, levels)};
}
Tensors requantization_range(const Call& call) {
  const Range range = used_range(call);
  return {number(range.min), number(range.max)};
}
Tensors shrink_range(const Call& call) {
  const Range range = used_range(call);
  const auto to = call.attr<DType>("out_type");
  return with_range(requantized(wide(call, 0), dtype_in(call, 0), range_in(call, 1), to, range), to, range);
}

// ---- arithmetic --------------------------------------------------------------------------------------------------
// The integers without the one that stands for 0.
at::Tensor centered(const Call& call, int i, Range range) {
  const double zero = quantized_unclamped(0, range, levels_of(dtype_in(call, i)));
  return wide(call, i).to(at::kDouble) - zero;
}
// Sums of products are exact as double.
at::Tensor as_qint32(const at::Tensor& x) { return x.to(at::kLong).to(at::kInt); }

// TensorFlow's kernels give one type for each type of input.
void require_output(const Call& call, std::string_view attr, DType expected) {
  if (const DType found = call.attr<DType>(attr); found != expected)
    throw_unimplemented(fmt::format("{} is {}, expected {}", attr, dtype_name(found), dtype_name(expected)));
}

void require_input(const Call& call, DType expected) {
  if (const DType found = dtype_in(call, 0); found != expected)
    throw_unimplemented(fmt::format("the input is {}, expected {}", dtype_name(found), dtype_name(expected)));
}

Tensors quantized_matmul(const Call& call) {
  require_output(call, "Toutput", DType::kQInt32);
  const Range a = range_in(call, 2), b = range_in(call, 4);
  at::Tensor x = centered(call, 0, a), y = centered(call, 1, b);
  if (call.attr<bool>("transpose_a")) x = x.t();
  if (call.attr<bool>("transpose_b")) y = y.t();
  return with_range(as_qint32(at::mm(x, y)), DType::kQInt32,
                    range_of_products(a, levels_of(dtype_in(call, 0)), b, levels_of(dtype_in(call, 1))));
}

Tensors quantized_conv(const Call& call) {
  require_output(call, "out_type", DType::kQInt32);
  const Range a = range_in(call, 2), b = range_in(call, 4);
  const Attrs attrs{{"strides", call.attr<std::vector<std::int64_t>>("strides")},
                    {"padding", call.attr<std::string>("padding")},
                    {"dilations", call.attr<std::vector<std::int64_t>>("dilations")}};
  const Tensor sums = call1("Conv2D", {wrap(centered(call, 0, a)), wrap(centered(call, 1, b))}, attrs);
  return with_range(as_qint32(dense(sums)), DType::kQInt32,
                    range_of_products(a, levels_of(dtype_in(call, 0)), b, levels_of(dtype_in(call, 1))));
}

Tensors quantized_mul(const Call& call) {
  require_output(call, "Toutput", DType::kQInt32);
  const Range a = range_in(call, 2), b = range_in(call, 4);
  return with_range(as_qint32(centered(call, 0, a) * centered(call, 1, b)), DType::kQInt32,
                    range_of_products(a, levels_of(dtype_in(call, 0)), b, levels_of(dtype_in(call, 1))));
}

// Both in one range that is wide enough for many sums. The operations name the type of their result differently.
Tensors quantized_add(const Call& call) {
  const bool bias = call.name() == "QuantizedBiasAdd";
  require_output(call, bias ? "out_type" : "Toutput", DType::kQInt32);
  const Range a = range_in(call, 2), b = range_in(call, 4);
  const float most = std::max({a.max, -a.min, b.max, -b.min}) * static_cast<float>(bias ? 1 << 17 : 1 << 14);
  const Range out{-most, most};
  const at::Tensor x = requantized(wide(call, 0), dtype_in(call, 0), a, DType::kQInt32, out),
                   y = requantized(wide(call, 1), dtype_in(call, 1), b, DType::kQInt32, out);
  return with_range(x + y, DType::kQInt32, out);
}

Tensors quantized_relu(const Call& call) {
  const Range range = range_in(call, 1);
  const DType dtype = dtype_in(call, 0);
  require_output(call, "out_type", dtype);
  const Levels levels = levels_of(dtype);
  const double zero = quantized(0, range, levels);
  const double six = call.name() == "QuantizedRelu6" ? quantized(6, range, levels) : levels.highest;
  return with_range(each(wide(call, 0), dtype, [&](double v) { return std::min(std::max(v, zero), six); }), dtype,
                    range);
}

Tensors quantized_max_pool(const Call& call) {
  const DType dtype = dtype_in(call, 0);
  const Attrs attrs{{"ksize", call.attr<std::vector<std::int64_t>>("ksize")},
                    {"strides", call.attr<std::vector<std::int64_t>>("strides")},
                    {"padding", call.attr<std::string>("padding")}};
  const Tensor y = call1("MaxPool", {wrap(wide(call, 0).to(at::kDouble))}, attrs);
  return with_range(dense(y).to(at::kLong).to(to_scalar_type(dtype)), dtype, range_in(call, 1));
}

// Means of whole numbers, cut off.
Tensors quantized_average_pool(const Call& call) {
  const DType dtype = dtype_in(call, 0);
  const Attrs attrs{{"ksize", call.attr<std::vector<std::int64_t>>("ksize")},
                    {"strides", call.attr<std::vector<std::int64_t>>("strides")},
                    {"padding", call.attr<std::string>("padding")}};
  const at::Tensor mean = dense(call1("AvgPool", {wrap(wide(call, 0).to(at::kDouble))}, attrs));
  const at::Tensor whole = at::round(mean);
  const at::Tensor cut = at::where(at::abs(mean - whole) < 1e-9, whole, at::trunc(mean));
  return with_range(cut.to(to_scalar_type(dtype)), dtype, range_in(call, 1));
}

// ---- a range for each channel, the last axis ---------------------------------------------------------------------
// What the integers are multiplied by to be of the unit that `largest` levels make of a range.
at::Tensor channel_ranges(const Call& call) {
  const at::Tensor& lows = in(call, 1);
  const at::Tensor& highs = in(call, 2);
  const at::Tensor& x = in(call, 0);
  if (lows.sizes() != highs.sizes() || lows.dim() > 1 || x.dim() < 1 ||
      (lows.numel() != 1 && lows.numel() != x.size(-1)))
    throw_invalid_argument("input_min and input_max must be vectors with a number for each channel");
  return at::maximum(at::abs(lows), at::abs(highs)).to(at::kFloat);
}

Tensors requantize_per_channel(const Call& call) {
  require_input(call, DType::kQInt32);
  const auto to = call.attr<DType>("out_type");
  if (to != DType::kQInt8 && to != DType::kQUInt8)
    throw_unimplemented(fmt::format("out_type is {}, expected qint8 or quint8", dtype_name(to)));
  const Levels levels = levels_of(to);
  const Range wanted = range_in(call, 3);
  const float most = std::max(std::abs(wanted.min), std::abs(wanted.max));
  const at::Tensor scales = channel_ranges(call) / most * static_cast<float>(levels.highest) / 0x1p31F;
  const at::Tensor level = at::round(wide(call, 0).to(at::kFloat) * scales);
  return with_range(at::clamp(level, levels.lowest, levels.highest).to(to_scalar_type(to)), to, wanted);
}

Tensors requantization_range_per_channel(const Call& call) {
  require_input(call, DType::kQInt32);
  const at::Tensor x = wide(call, 0).reshape({-1, in(call, 0).size(-1)});
  if (x.numel() == 0) throw_invalid_argument("a tensor without elements has no range");
  const at::Tensor ranges = channel_ranges(call) * at::abs(x).amax(0).to(at::kFloat) / 0x1p31F;
  const float most = std::min(ranges.max().item<float>(), call.attr<float>("clip_value_max"));
  return {number((x < 0).any().item<bool>() ? -most : 0.0F), number(most)};
}

// ---- normalization -----------------------------------------------------------------------------------------------
// In fixed point, from -2^20 to 2^20.
Tensors quantized_batch_normalization(const Call& call) {
  const DType type = DType::kQInt32;
  require_output(call, "out_type", type);
  const Levels levels = levels_of(type);
  const Range out{-0x1p20F, 0x1p20F};
  const auto values = [&](int i) {
    std::vector<float> numbers;
    const at::Tensor x = wide(call, i);
    if (x.dim() != 1 || in(call, 0).dim() != 4 || x.size(0) != in(call, 0).size(3))
      throw_invalid_argument("the parameters of a batch normalization must have a number for each channel");
    for (std::int64_t k = 0; k < x.numel(); ++k) {
      numbers.push_back(dequantized(static_cast<double>(x.const_data_ptr<std::int64_t>()[k]), range_in(call, i + 1),
                                    levels_of(dtype_in(call, i))));
    }
    return numbers;
  };
  const std::vector<float> mean = values(3), variance = values(6), beta = values(9), gamma = values(12);
  std::vector<std::int32_t> scales, offsets;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    float scale = 1.0F / std::sqrt(variance[c] + call.attr<float>("variance_epsilon"));
    if (call.attr<bool>("scale_after_normalization")) scale *= gamma[c];
    scales.push_back(static_cast<std::int32_t>(quantized(static_cast<double>(scale), out, levels)));
    offsets.push_back(
        static_cast<std::int32_t>(quantized(static_cast<double>(-mean[c] * scale + beta[c]), out, levels)));
  }
  const auto unit = static_cast<std::int32_t>(quantized(1, out, levels));
  const at::Tensor x = requantized(wide(call, 0), dtype_in(call, 0), range_in(call, 1), type, out);
  const at::Tensor y = at::empty(x.sizes(), at::kInt);
  const at::Tensor flat = x.contiguous();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::size_t c = static_cast<std::size_t>(i) % scales.size();
    // Products keep their lowest 32 bits.
    const auto product = static_cast<std::int32_t>(static_cast<std::uint32_t>(flat.const_data_ptr<std::int32_t>()[i]) *
                                                   static_cast<std::uint32_t>(scales[c]));
    y.mutable_data_ptr<std::int32_t>()[i] = product / unit + offsets[c];
  }
  return with_range(y, type, out);
}

Tensors quantized_instance_normalization(const Call& call) {
  require_input(call, DType::kQUInt8);
  const Range range = range_in(call, 1);
  if (!(range.min < range.max)) throw_invalid_argument("x_min must be less than x_max");
  if (in(call, 0).dim() != 4) throw_invalid_argument("x must have 4 axes");
  const at::Tensor x = wide(call, 0).to(at::kFloat) * ((range.max - range.min) / 255.0F) + range.min;
  const at::Tensor centered = x - x.mean({1, 2}, true);
  const at::Tensor y =
      centered * at::rsqrt(centered.square().mean({1, 2}, true) + call.attr<float>("variance_epsilon"));
  Range out{call.attr<float>("given_y_min"), call.attr<float>("given_y_max")};
  if (!call.attr<bool>("output_range_given")) {
    if (y.numel() == 0) throw_invalid_argument("a tensor without elements has no range");
    out.min = y.min().item<float>();
    out.max = std::max(y.max().item<float>(), out.min + call.attr<float>("min_separation"));
  }
  const Levels levels = levels_of(DType::kQUInt8);
  const at::Tensor flat = y.contiguous();
  const at::Tensor result = at::empty(y.sizes(), at::kByte);
  std::transform(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel(),
                 result.mutable_data_ptr<std::uint8_t>(),
                 [&](float v) { return static_cast<std::uint8_t>(quantized(static_cast<double>(v), out, levels)); });
  return with_range(result, DType::kQUInt8, out);
}

Tensors quantized_reshape(const Call& call) {
  const Tensor y = call1("Reshape", {wrap(in(call, 0)), call.input(1)});
  return with_range(dense(y), dtype_in(call, 0), range_in(call, 2));
}

// In single precision throughout, as TensorFlow does it here.
at::Tensor moved_to_range(const at::Tensor& x, DType dtype, Range old, Range wanted) {
  const Levels levels = levels_of(dtype);
  const auto steps = static_cast<float>(levels.steps - 1);
  const auto lowest = static_cast<float>(levels.lowest), highest = static_cast<float>(levels.highest);
  const float from = (old.max - old.min) / steps;
  const float first = old.max == old.min ? old.min : std::round(old.min / from) * from;
  const float to = wanted.max == wanted.min ? 0.0F : steps / (wanted.max - wanted.min);
  const float base = std::round(wanted.min * to) - lowest;
  return each(x, dtype, [&](double v) {
    const float value = (static_cast<float>(v) - lowest) * from + first;
    return static_cast<double>(std::clamp(std::round(value * to) - base, lowest, highest));
  });
}

Tensors quantized_concat(const Call& call) {
  const auto count = static_cast<int>(call.attr<std::int64_t>("N"));
  const DType dtype = dtype_in(call, 1);
  std::vector<Range> ranges;
  Range out{std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
  for (int i = 0; i < count; ++i) {
    ranges.push_back({scalar_in(call, 1 + count + i), scalar_in(call, 1 + 2 * count + i)});
    out = {std::min(out.min, ranges.back().min), std::max(out.max, ranges.back().max)};
  }
  out.min = std::min(0.0F, out.min);
  if (levels_of(dtype).is_signed) {
    const float most = std::max(std::abs(out.min), std::abs(out.max));
    out = {-most, most};
  }
  std::vector<at::Tensor> parts;
  for (int i = 0; i < count; ++i) {
    const Range range = ranges[static_cast<std::size_t>(i)];
    const bool same = range.min == out.min && range.max == out.max;
    parts.push_back(same ? in(call, 1 + i) : moved_to_range(wide(call, 1 + i), dtype, range, out));
  }
  return with_range(at::cat(parts, int_in(call, 0)), dtype, out);
}

Shapes like_first(const Call& call) { return {call.input(0).shape(), Shape{}, Shape{}}; }

}  // namespace

void register_quantized(Table& table) {
  table.add("QuantizeV2", nullptr, quantize_v2);
  table.add("Dequantize", same_shape, dequantize);
  table.add("Requantize", like_first, requantize);
  table.add("RequantizationRange", nullptr, requantization_range);
  table.add("QuantizeDownAndShrinkRange", like_first, shrink_range);
  table.add("QuantizedMatMul", nullptr, quantized_matmul);
  table.add("QuantizedConv2D", nullptr, quantized_conv);
  table.add("QuantizedMul", nullptr, quantized_mul);
  table.add("QuantizedAdd", nullptr, quantized_add);
  table.add("QuantizedBiasAdd", like_first, quantized_add);
  table.add("QuantizedRelu", like_first, quantized_relu);
  table.add("QuantizedRelu6", like_first, quantized_relu);
  table.add("QuantizedMaxPool", nullptr, quantized_max_pool);
  table.add("QuantizedAvgPool", nullptr, quantized_average_pool);
  table.add("QuantizedReshape", nullptr, quantized_reshape);
  table.add("RequantizePerChannel", like_first, requantize_per_channel);
  table.add("RequantizationRangePerChannel", nullptr, requantization_range_per_channel);
  table.add("QuantizedBatchNormWithGlobalNormalization", like_first, quantized_batch_normalization);
  table.add("QuantizedInstanceNorm", like_first, quantized_instance_normalization);
  table.add("QuantizedConcat", nullptr, quantized_concat);
}

}  // namespace lockstep::ops
