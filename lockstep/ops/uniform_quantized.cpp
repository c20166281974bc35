// Integers with a scale and a zero point, one for the tensor or one for each entry of an axis: x = scale * (q - zero).
#pragma GCC optimize("fp-contract=off")
#include <cmath>
#include <limits>

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
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0)) throw_invalid_argument("lhs and rhs do not fit");
  const Levels left = levels_in(call, 2, axis_of(call, "lhs_"), a),
               right = levels_in(call, 4, axis_of(call, "rhs_"), b);
  // Sums of products of 8 bits are exact as double.
  const at::Tensor sums = at::mm((a - left.zero).to(at::kDouble), (b - right.zero).to(at::kDouble)).to(at::kLong);
  const Levels out = levels_in(call, 6, axis_of(call, "output_"), sums);
  return as(clamped(call, "output_", rescaled(sums, left.scale.to(at::kDouble) * right.scale.to(at::kDouble), out)),
            call.attr<DType>("Tout"));
}

}  // namespace

void register_uniform_quantized(Table& table) {
  table.add("UniformQuantize", same_shape, quantize);
  table.add("UniformDequantize", same_shape, dequantize);
  table.add("UniformRequantize", same_shape, requantize);
  table.add("UniformQuantizedAdd", broadcast_rule, add);
  table.add("UniformQuantizedClipByValue", same_shape, clip);
  table.add("UniformQuantizedDot", nullptr, dot);
}

}  // namespace lockstep::ops
