// Integers with a scale and a zero point, one for the tensor or one for each entry of an axis: x = scale * (q - zero).
#pragma GCC optimize("fp-contract=off")
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "lockstep/formats/varint_internal.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/tensor/quantized_internal.h"

namespace lockstep::ops {
namespace {

// Scales (float) and zero points (int64) that broadcast with a tensor.
struct Levels {
  at::Tensor scale, zero;
};

// Of inputs `scales` and `scales` + 1, for values of rank `rank`.
Levels levels_in(const Call& call, int scales, std::int64_t axis, const at::Tensor& x) {
  Levels out{in(call, scales), in(call, scales + 1).to(at::kLong)};
  if (out.scale.sizes() != out.zero.sizes() || out.scale.dim() > 1)
    throw_invalid_argument("scales and zero_points must be numbers, or vectors of the same length");
  if (!(out.scale > 0).all().item<bool>() || !at::isfinite(out.scale).all().item<bool>())
    throw_invalid_argument("scales must be positive and finite");
  if (axis == -1) {
    if (out.scale.dim() != 0) throw_invalid_argument("scales is a vector, but there is no quantization_axis");
    return out;
  }
  const std::int64_t along = whole_axis(axis, x.dim());
  if (out.scale.dim() != 1 || out.scale.size(0) != x.size(along))
    throw_invalid_argument(fmt::format("scales must have {} numbers", x.size(along)));
  Ints view(static_cast<std::size_t>(x.dim()), 1);
  view[static_cast<std::size_t>(along)] = x.size(along);
  out.scale = out.scale.view(view), out.zero = out.zero.view(view);
  return out;
}

std::int64_t axis_of(const Call& call, const char* prefix) {
  return call.attr<std::int64_t>(fmt::format("{}quantization_axis", prefix));
}
at::Tensor clamped(const Call& call, const char* prefix, const at::Tensor& x) {
  return at::clamp(x, call.attr<std::int64_t>(fmt::format("{}quantization_min_val", prefix)),
                   call.attr<std::int64_t>(fmt::format("{}quantization_max_val", prefix)));
}
Tensors as(const at::Tensor& x, DType dtype) { return {wrap_as(x.to(to_scalar_type(dtype)), dtype)}; }
at::Tensor whole(const Call& call, int i) { return widen(in(call, i)).to(at::kLong); }

Tensors quantize(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const Levels levels = levels_in(call, 1, axis_of(call, ""), x);
  const at::Tensor level = at::floor(x * at::reciprocal(levels.scale) + 0.5);
  const at::Tensor bounded = at::nan_to_num(level, 0, 0x1p31, -0x1p31).clamp(-0x1p31, 0x1p31).to(at::kLong);
  return as(clamped(call, "", bounded + levels.zero), call.attr<DType>("Tout"));
}

Tensors dequantize(const Call& call) {
  const at::Tensor x = whole(call, 0);
  const Levels levels = levels_in(call, 1, axis_of(call, ""), x);
  return one((x - levels.zero).to(at::kFloat) * levels.scale);
}

// x times a factor in fixed point: 31 bits and a shift, rounded to nearest.
std::int64_t times_fixed(std::int64_t x, double factor) {
  int exponent = 0;
  auto digits = static_cast<std::int64_t>(std::llround(std::frexp(factor, &exponent) * 0x1p31));
  if (digits == std::int64_t{1} << 31) digits /= 2, ++exponent;
  const int shift = 31 - exponent;
  if (digits == 0 || shift > 62) return 0;
  if (shift < 1) throw_invalid_argument("the scale of the output is too small for that of the input");
  const auto product = static_cast<__int128>(x) * digits + (__int128{1} << (shift - 1));
  return static_cast<std::int64_t>(product >> shift);
}
// Integers of one scale, without their zero point, at another scale.
at::Tensor rescaled(const at::Tensor& x, const at::Tensor& from, const Levels& to) {
  const auto parts = at::broadcast_tensors({x, from.to(at::kDouble) / to.scale.to(at::kDouble)});
  const at::Tensor values = parts[0].contiguous(), factors = parts[1].contiguous(), out = at::empty_like(values);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.mutable_data_ptr<std::int64_t>()[i] =
        times_fixed(values.const_data_ptr<std::int64_t>()[i], factors.const_data_ptr<double>()[i]);
  }
  return out + to.zero;
}

Tensors requantize(const Call& call) {
  const at::Tensor x = whole(call, 0);
  const Levels from = levels_in(call, 1, axis_of(call, "input_"), x),
               to = levels_in(call, 3, axis_of(call, "output_"), x);
  return as(clamped(call, "output_", rescaled(x - from.zero, from.scale, to)), call.attr<DType>("Tout"));
}

Tensors add(const Call& call) {
  const at::Tensor a = whole(call, 0), b = whole(call, 1), like = at::broadcast_tensors({a, b})[0];
  const Levels left = levels_in(call, 2, axis_of(call, "lhs_"), a),
               right = levels_in(call, 4, axis_of(call, "rhs_"), b),
               out = levels_in(call, 6, axis_of(call, "output_"), like);
  const at::Tensor sum =
      rescaled(a - left.zero, left.scale, out) + rescaled(b - right.zero, right.scale, out) - out.zero;
  return as(clamped(call, "output_", sum), call.attr<DType>("T"));
}

Tensors clip(const Call& call) {
  const at::Tensor x = whole(call, 0);
  const std::int64_t axis = axis_of(call, "");
  Ints view(axis == -1 ? 0 : static_cast<std::size_t>(x.dim()), 1);
  if (axis != -1) {
    const std::int64_t along = whole_axis(axis, x.dim());
    view[static_cast<std::size_t>(along)] = x.size(along);
  }
  const auto bound = [&](int i) {
    const at::Tensor b = whole(call, i);
    if (b.dim() != (axis == -1 ? 0 : 1) || b.numel() != c10::multiply_integers(view))
      throw_invalid_argument("min and max must be numbers, or vectors with an entry for each one of quantization_axis");
    return b.view(view);
  };
  return as(at::minimum(at::maximum(x, bound(1)), bound(2)), call.attr<DType>("T"));
}

Tensors dot(const Call& call) {
  const at::Tensor a = whole(call, 0), b = whole(call, 1);
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0))
    throw_invalid_argument("lhs and rhs have incompatible shapes");
  const Levels left = levels_in(call, 2, axis_of(call, "lhs_"), a),
               right = levels_in(call, 4, axis_of(call, "rhs_"), b);
  // Sums of products of 8 bits are exact as double.
  const at::Tensor sums = at::mm((a - left.zero).to(at::kDouble), (b - right.zero).to(at::kDouble)).to(at::kLong);
  const Levels out = levels_in(call, 6, axis_of(call, "output_"), sums);
  return as(clamped(call, "output_", rescaled(sums, left.scale.to(at::kDouble) * right.scale.to(at::kDouble), out)),
            call.attr<DType>("Tout"));
}

// ---- convolutions ------------------------------------------------------------------------------------------------
// Where the axes of images, filters and results are: batch or outputs, channels, then the spatial ones. The attribute
// is a serialized message whose fields hold numbers of axes; absent: in this order.
struct Axes {
  Ints images, kernels, results;
};
std::map<int, Ints> numbers_by_field(const std::string& bytes) {
  std::map<int, Ints> found;
  auto rest = std::as_bytes(std::span(bytes));
  const auto varint = [&] {
    const auto value = formats::take_varint(rest);
    if (!value) throw_invalid_argument("invalid dimension_numbers: the message ends within a number");
    return static_cast<std::int64_t>(*value);
  };
  while (!rest.empty()) {
    const std::int64_t tag = varint();
    Ints& numbers = found[static_cast<int>(tag >> 3)];
    if ((tag & 7) == 0) {
      numbers.push_back(varint());
    } else if ((tag & 7) == 2) {
      const auto size = static_cast<std::uint64_t>(varint());
      if (size > rest.size()) throw_invalid_argument("invalid dimension_numbers: the message is cut off");
      for (const std::size_t behind = rest.size() - size; rest.size() > behind;) numbers.push_back(varint());
    } else {
      throw_invalid_argument("invalid dimension_numbers: found a field that is not a number");
    }
  }
  return found;
}
Axes axes_of(const std::string& bytes, std::int64_t rank) {
  Axes axes;
  std::map<int, Ints> found = numbers_by_field(bytes);
  const auto collect = [&](Ints& order, int first, int second, int spatial) {
    if (bytes.empty()) {
      for (std::int64_t i = 0; i < rank; ++i) order.push_back(i);
      return;
    }
    for (const int field : {first, second}) order.push_back(found[field].empty() ? 0 : found[field].back());
    order.insert(order.end(), found[spatial].begin(), found[spatial].end());
    if (static_cast<std::int64_t>(order.size()) != rank)
      throw_invalid_argument(fmt::format("invalid dimension_numbers: expected {} axes, found {}", rank, order.size()));
    order = whole_axes(order, rank);
  };
  collect(axes.images, 1, 2, 3);
  collect(axes.kernels, 5, 4, 6);
  collect(axes.results, 7, 8, 9);
  return axes;
}

// The values with `count` - 1 zeros between them, on each spatial axis.
at::Tensor spread(at::Tensor x, const Ints& counts) {
  Ints shape = x.sizes().vec();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 1) throw_invalid_argument("lhs_dilation must be positive");
    shape[i + 2] = shape[i + 2] == 0 ? 0 : (shape[i + 2] - 1) * counts[i] + 1;
  }
  element_count(shape, sizeof(double));
  at::Tensor out = at::zeros(shape, x.options());
  at::Tensor places = out;
  for (std::size_t i = 0; i < counts.size(); ++i)
    places = places.slice(static_cast<std::int64_t>(i) + 2, 0, std::nullopt, counts[i]);
  places.copy_(x);
  return out;
}

Ints numbers_for(const Call& call, const char* name, std::size_t count, std::int64_t otherwise) {
  Ints given = call.attr<Ints>(name);
  if (given.empty()) given.assign(count, otherwise);
  if (given.size() != count) throw_invalid_argument(fmt::format("{} must have {} numbers", name, count));
  return given;
}

// Of values without zero points; groups of channels or of images have their own filters.
at::Tensor convolved(const Call& call, const at::Tensor& images, const at::Tensor& kernels) {
  const std::int64_t rank = images.dim();
  if (rank < 3 || rank > 5 || kernels.dim() != rank)
    throw_invalid_argument(
        fmt::format("lhs and rhs must have the same number of axes, 3 to 5; they have {} and {}", rank, kernels.dim()));
  const Axes axes = axes_of(call.attr<std::string>("dimension_numbers"), rank);
  const auto spatial = static_cast<std::size_t>(rank - 2);
  const Ints strides = numbers_for(call, "window_strides", spatial, 1),
             dilations = numbers_for(call, "rhs_dilation", spatial, 1);
  for (std::size_t i = 0; i < spatial; ++i) {
    if (strides[i] < 1 || dilations[i] < 1) throw_invalid_argument("strides and dilations must be positive");
  }
  at::Tensor x = spread(images.permute(axes.images), numbers_for(call, "lhs_dilation", spatial, 1));
  at::Tensor k = kernels.permute(axes.kernels);
  const auto& padding = call.attr<std::string>("padding");
  const Ints given = numbers_for(call, "explicit_padding", 2 * spatial, 0);
  Ints pads;  // of the last axis first
  for (std::size_t i = spatial; i-- > 0;) {
    const std::int64_t size = x.size(static_cast<std::int64_t>(i) + 2),
                       window = (k.size(static_cast<std::int64_t>(i) + 2) - 1) * dilations[i] + 1;
    std::int64_t before = given[2 * i], after = given[2 * i + 1];
    if (padding != "EXPLICIT") {
      const std::int64_t whole = (size + strides[i] - 1) / strides[i];
      const std::int64_t total = padding == "SAME" ? same_padding(size, window, strides[i], whole) : 0;
      before = total / 2, after = total - before;
    }
    if (before < 0 || after < 0) throw_invalid_argument("explicit_padding must not be negative");
    if (size + before + after < window) throw_invalid_argument("the filter is larger than the padded input");
    pads.push_back(before), pads.push_back(after);
  }
  Ints padded = x.sizes().vec();
  for (std::size_t i = 0; i < spatial; ++i) padded[padded.size() - 1 - i] += pads[2 * i] + pads[2 * i + 1];
  element_count(padded, sizeof(double));
  x = at::constant_pad_nd(x, pads);
  const auto groups = call.attr<std::int64_t>("feature_group_count"),
             batches = call.attr<std::int64_t>("batch_group_count");
  if (groups < 1 || batches < 1 || (groups > 1 && batches > 1))
    throw_invalid_argument("feature_group_count and batch_group_count must be positive, one of them 1");
  if (x.size(1) != k.size(1) * groups || k.size(0) % (groups * batches) != 0 || x.size(0) % batches != 0)
    throw_invalid_argument(fmt::format("{} channels and {} images do not fit a filter {} with {} and {} groups",
                                       x.size(1), x.size(0), Shape(k.sizes().vec()).to_string(), groups, batches));
  const auto run = [&](const at::Tensor& part, const at::Tensor& weights, std::int64_t count) {
    const Ints none(spatial, 0);
    return at::convolution(part, weights, {}, strides, none, dilations, false, none, count);
  };
  at::Tensor y;
  if (batches == 1) {
    y = run(x, k, groups);
  } else {
    std::vector<at::Tensor> parts;
    for (std::int64_t b = 0; b < batches; ++b)
      parts.push_back(
          run(x.chunk(batches, 0)[static_cast<std::size_t>(b)], k.chunk(batches, 0)[static_cast<std::size_t>(b)], 1));
    y = at::cat(parts, 1);
  }
  Ints back(static_cast<std::size_t>(rank));
  for (std::size_t i = 0; i < back.size(); ++i)
    back[static_cast<std::size_t>(axes.results[i])] = static_cast<std::int64_t>(i);
  return y.permute(back).contiguous();
}

// The scales of filters, where the channels of the result are.
at::Tensor filter_scales(const Levels& filters, std::int64_t channels, std::int64_t rank) {
  const at::Tensor scales = filters.scale.to(at::kDouble);
  if (scales.numel() == 1) return scales.reshape({});
  Ints view(static_cast<std::size_t>(rank), 1);
  view[static_cast<std::size_t>(channels)] = -1;
  return scales.reshape(view);
}

Tensors convolution(const Call& call) {
  const at::Tensor a = whole(call, 0), b = whole(call, 1);
  const Levels left = levels_in(call, 2, axis_of(call, "lhs_"), a),
               right = levels_in(call, 4, axis_of(call, "rhs_"), b);
  const at::Tensor sums =
      convolved(call, (a - left.zero).to(at::kDouble), (b - right.zero).to(at::kDouble)).to(at::kLong);
  const Levels out = levels_in(call, 6, axis_of(call, "output_"), sums);
  const std::int64_t channels = axes_of(call.attr<std::string>("dimension_numbers"), sums.dim()).results[1];
  const at::Tensor scales = filter_scales(right, channels, sums.dim());
  return as(clamped(call, "output_", rescaled(sums, left.scale.to(at::kDouble) * scales, out)),
            call.attr<DType>("Tout"));
}

// ---- floats by quantized weights ---------------------------------------------------------------------------------
// TensorFlow quantizes the floats: each row of the first axis to 8 bits, with its own range that holds 0.
struct DynamicLevels {
  at::Tensor values;  // whole numbers without the zero point
  at::Tensor scales;  // broadcast with the values
};
DynamicLevels dynamic_levels(const at::Tensor& x) {
  Ints view(static_cast<std::size_t>(x.dim()), 1);
  view[0] = x.size(0);
  if (x.numel() == 0) return {at::zeros(x.sizes(), at::kDouble), at::ones(view, at::kFloat)};
  const at::Tensor rows = x.reshape({x.size(0), -1}).to(at::kDouble);
  const at::Tensor low = rows.amin(1).clamp_max(0), high = rows.amax(1).clamp_min(0);
  const at::Tensor width = high - low;
  const at::Tensor scales = at::where(width > 0, width / 255, at::ones({}, at::kDouble)).to(at::kFloat).view(view);
  const at::Tensor zeros = at::floor(-128 - low.view(view) / scales + 0.5).clamp(-128, 127);
  const at::Tensor levels = (at::floor(x * at::reciprocal(scales) + 0.5).to(at::kDouble) + zeros).clamp(-128, 127);
  return {levels - zeros, scales};
}

Tensors hybrid_convolution(const Call& call) {
  const at::Tensor b = whole(call, 1);
  const Levels right = levels_in(call, 2, axis_of(call, "rhs_"), b);
  const Axes axes = axes_of(call.attr<std::string>("dimension_numbers"), b.dim());
  if (in(call, 0).dim() != b.dim()) throw_invalid_argument("lhs and rhs must have the same number of axes");
  const std::int64_t images = axes.images[0], batch = axes.results[0];
  const DynamicLevels left = dynamic_levels(in(call, 0).transpose(0, images));
  const at::Tensor sums = convolved(call, left.values.transpose(0, images), (b - right.zero).to(at::kDouble));
  if (sums.size(batch) != left.scales.numel()) throw_unimplemented("groups of images with their own filters");
  return one(sums.to(at::kFloat) * left.scales.transpose(0, batch) *
             filter_scales(right, axes.results[1], sums.dim()).to(at::kFloat));
}

Tensors hybrid_dot(const Call& call) {
  const at::Tensor& a = in(call, 0);
  const at::Tensor b = whole(call, 1);
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0))
    throw_invalid_argument("lhs and rhs have incompatible shapes");
  const Levels right = levels_in(call, 2, axis_of(call, "rhs_"), b);
  const DynamicLevels left = dynamic_levels(a);
  return one(at::mm(left.values, (b - right.zero).to(at::kDouble)).to(at::kFloat) * left.scales * right.scale);
}

}  // namespace

void register_uniform_quantized(Table& table) {
  table.add("UniformQuantize", same_shape, quantize);
  table.add("UniformDequantize", same_shape, dequantize);
  table.add("UniformRequantize", same_shape, requantize);
  table.add("UniformQuantizedAdd", broadcast_rule, add);
  table.add("UniformQuantizedClipByValue", same_shape, clip);
  table.add("UniformQuantizedDot", nullptr, dot);
  table.add("UniformQuantizedConvolution", nullptr, convolution);
  table.add("UniformQuantizedConvolutionHybrid", nullptr, hybrid_convolution);
  table.add("UniformQuantizedDotHybrid", nullptr, hybrid_dot);
}

}  // namespace lockstep::ops
