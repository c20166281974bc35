// Quantization that is simulated in floating point, as models trained for it have it.
#include <cmath>
#include <limits>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

// A range moved so that 0 is one of its levels.
struct NudgedRange {
  float low = 0, high = 0, scale = 1;
};

NudgedRange nudge(float low, float high, std::int64_t bits, bool narrow) {
  const float least = narrow ? 1 : 0, most = static_cast<float>((std::int64_t{1} << bits) - 1);
  NudgedRange out;
  out.scale = (high - low) / (most - least);
  const float zero = least - low / out.scale;
  const float level = zero < least ? least : zero > most ? most : std::round(zero);
  out.low = (least - level) * out.scale;
  out.high = (most - level) * out.scale;
  return out;
}

std::int64_t bits_of(const Call& call) {
  const std::int64_t bits = call.attr<std::int64_t>("num_bits");
  if (bits < 2 || bits > 16) throw_invalid_argument(fmt::format("invalid num_bits: found {}, expected 2 to 16", bits));
  return bits;
}

// One range for each entry of min and max, as tensors; entries with min = max = 0 are `off`.
struct Ranges {
  at::Tensor low, high, scale, off;
};

Ranges ranges_of(const Call& call, const at::Tensor& min, const at::Tensor& max) {
  const at::Tensor a = min.detach().contiguous(), b = max.detach().contiguous();
  Ranges out{at::empty_like(a), at::empty_like(a), at::empty_like(a), at::logical_and(a == 0, b == 0)};
  const std::int64_t bits = bits_of(call);
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const float low = a.const_data_ptr<float>()[i], high = b.const_data_ptr<float>()[i];
    const bool off = low == 0 && high == 0;
    const NudgedRange range = off ? NudgedRange() : nudge(low, high, bits, call.attr<bool>("narrow_range"));
    out.low.mutable_data_ptr<float>()[i] = range.low;
    out.high.mutable_data_ptr<float>()[i] = range.high;
    out.scale.mutable_data_ptr<float>()[i] = range.scale;
  }
  return out;
}

void check_range(const Call& call) {
  const float low = call.attr<float>("min"), high = call.attr<float>("max");
  if (!(low < high)) throw_invalid_argument(fmt::format("min {} must be smaller than max {}", low, high));
}

void check_channels(const Call& call, int x, int min) {
  const bool by_channel = call.name().find("PerChannel") != std::string::npos;
  if (by_channel ? in(call, x).size(-1) != in(call, min).numel() : in(call, min).numel() != 1)
    throw_invalid_argument("min and max need one number" + std::string(by_channel ? " for each channel" : ""));
  if (in(call, min).sizes() != in(call, min + 1).sizes()) throw_invalid_argument("min and max differ in their shapes");
}

at::Tensor levels_of(const at::Tensor& x, const Ranges& r) {
  const at::Tensor shifted = at::maximum(at::minimum(x, r.high), r.low) - r.low;
  const at::Tensor y = at::floor(shifted * (1 / r.scale) + 0.5) * r.scale + r.low;
  return at::where(r.off, at::zeros({}, x.options()), y);
}

// True where x is in the range, and for all elements if there is no range. NaN is never in the range.
at::Tensor inside_of(const at::Tensor& x, const Ranges& r) {
  return at::logical_or(at::logical_and(x >= r.low, x <= r.high), r.off);
}

at::Tensor sum_channels(const at::Tensor& x, const at::Tensor& like) {
  if (like.numel() == 1) return x.sum().reshape(like.sizes());
  return x.dim() == 1 ? x : x.flatten(0, x.dim() - 2).sum(0);
}

// The gradient goes to x inside of the range, to min below it and to max above it: to both where min is above max.
// Products, so that slopes that are not finite give NaN where they do not count, as in TensorFlow.
Tensors slopes_of(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& min, const Ranges& r) {
  const auto part = [&](const at::Tensor& where) { return dy * where.to(dy.scalar_type()); };
  const at::Tensor below = at::logical_and(x < r.low, ~r.off), above = at::logical_and(x > r.high, ~r.off);
  return {wrap(part(inside_of(x, r))), wrap(sum_channels(part(below), min)), wrap(sum_channels(part(above), min))};
}

at::Tensor tied(const at::Tensor& x, const at::Tensor& min, const at::Tensor& max, const Ranges& r,
                const at::Tensor& y) {
  if (!x.requires_grad() && !min.requires_grad() && !max.requires_grad()) return y;
  const Tensors inputs{wrap(x), wrap(min), wrap(max)};
  return dense(with_gradients(inputs, {wrap(y)}, inputs, [r](const Tensors& dys, const Tensors& captured) {
    return slopes_of(dense(dys[0]), dense(captured[0]).detach(), dense(captured[1]), r);
  })[0]);
}

Tensors fake_quant(const Call& call) {
  const at::Tensor& x = in(call, 0);
  at::Tensor min, max;
  if (call.num_inputs() == 1) {
    check_range(call);
    min = at::full({}, call.attr<float>("min"), at::kFloat), max = at::full({}, call.attr<float>("max"), at::kFloat);
  } else {
    check_channels(call, 0, 1);
    min = in(call, 1), max = in(call, 2);
  }
  const Ranges r = ranges_of(call, min, max);
  return one(tied(x, min, max, r, levels_of(x.detach(), r)));
}

Tensors fake_quant_gradient(const Call& call) {
  const at::Tensor &dy = in(call, 0), &x = in(call, 1);
  if (dy.sizes() != x.sizes()) throw_invalid_argument("gradients and inputs differ in their shapes");
  at::Tensor min, max;
  if (call.num_inputs() == 2) {
    check_range(call);
    min = at::full({}, call.attr<float>("min"), at::kFloat), max = at::full({}, call.attr<float>("max"), at::kFloat);
  } else {
    if (x.dim() < 1 && in(call, 2).dim() > 0) throw_invalid_argument("inputs must have at least one axis");
    check_channels(call, 1, 2);
    min = in(call, 2), max = in(call, 3);
  }
  const Ranges r = ranges_of(call, min, max);
  Tensors out = slopes_of(dy, x, min, r);
  if (call.num_inputs() == 2) out.resize(1);
  return out;
}

// ---- QuantizeAndDequantize ---------------------------------------------------------------------------------------
struct LevelRule {
  std::int64_t bits = 8, axis = -1;
  bool is_signed = true, given = false, narrow = false, half_up = false;
};

// Rounds x to levels between `low` and `high` (each one number, or one for each entry of an axis, broadcast to x).
at::Tensor rounded_levels(const LevelRule& rule, const at::Tensor& x, const at::Tensor& low, const at::Tensor& high) {
  const double least = rule.is_signed ? -std::ldexp(1.0, static_cast<int>(rule.bits - 1)) + (rule.narrow ? 1 : 0) : 0;
  const double most = std::ldexp(1.0, static_cast<int>(rule.is_signed ? rule.bits - 1 : rule.bits)) - 1;
  const bool wide = x.scalar_type() == at::kDouble;
  const at::Tensor far =
      at::full({}, wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max(), x.options());
  const at::Tensor of_low = at::where(low * least > 0, least / low, far),
                   of_high = at::where(high * most > 0, most / high, far);
  const at::Tensor by_low = of_low < of_high, scale = at::where(by_low, of_low, of_high);
  const at::Tensor step = at::where(by_low, low / least, high / most);
  at::Tensor y = x;
  if (rule.given)
    y = at::maximum(at::minimum(y, at::where(by_low, most * step, high)), at::where(by_low, low, least * step));
  y = y * scale;
  return (rule.half_up ? at::floor(y + 0.5) : at::round(y)) * step;
}

LevelRule level_rule(const Call& call) {
  LevelRule rule;
  rule.bits = call.name() == "QuantizeAndDequantizeV3" ? int_in(call, 3) : call.attr<std::int64_t>("num_bits");
  rule.is_signed = call.attr<bool>("signed_input"), rule.given = call.attr<bool>("range_given");
  if (const bool* narrow = call.find_attr<bool>("narrow_range")) rule.narrow = *narrow;
  if (const auto* axis = call.find_attr<std::int64_t>("axis")) rule.axis = *axis;
  if (const auto* mode = call.find_attr<std::string>("round_mode")) rule.half_up = *mode == "HALF_UP";
  const std::int64_t most = rule.is_signed ? 62 : 63;
  if (rule.bits < 1 || rule.bits > most)
    throw_invalid_argument(fmt::format("invalid num_bits: found {}, expected 1 to {}", rule.bits, most));
  return rule;
}

// An end of the range, one number or one for each entry of `axis`, to be broadcast against x.
at::Tensor range_input(const at::Tensor& given, const at::Tensor& x, std::int64_t axis) {
  if (axis < 0) {
    if (given.dim() != 0) throw_invalid_argument("an end of the range must be a scalar");
    return given;
  }
  if (given.dim() != 1) throw_invalid_argument("an end of the range must be a vector");
  Ints view(static_cast<std::size_t>(x.dim()), 1);
  view[static_cast<std::size_t>(axis)] = x.size(axis);
  if (given.numel() != x.size(axis))
    throw_invalid_argument(fmt::format("an end of the range needs {} numbers", x.size(axis)));
  return given.reshape(view);
}

at::Tensor extreme(const at::Tensor& x, std::int64_t axis, bool highest) {
  if (x.numel() == 0) return at::zeros({}, x.options());
  Ints axes;
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  if (axis < 0) return highest ? x.amax() : x.amin();
  if (axes.empty()) return x;
  return highest ? x.amax(axes, true) : x.amin(axes, true);
}

Tensors quantize_and_dequantize(const Call& call) {
  const at::Tensor& given = in(call, 0);
  const LevelRule rule = level_rule(call);
  if (rule.axis < -1 || rule.axis >= given.dim())
    throw_invalid_argument(fmt::format("axis {} of a tensor of rank {}", rule.axis, given.dim()));
  const bool narrow = given.scalar_type() == at::kHalf || given.scalar_type() == at::kBFloat16;
  const at::Tensor x = narrow ? given.detach().to(at::kFloat) : given.detach();
  at::Tensor low, high;
  if (!rule.given) {
    low = extreme(x, rule.axis, false), high = extreme(x, rule.axis, true);
  } else if (call.num_inputs() == 1) {
    low = at::full({}, call.attr<float>("input_min"), x.options()),
    high = at::full({}, call.attr<float>("input_max"), x.options());
  } else {
    low = range_input(in(call, 1), x, rule.axis).to(x.scalar_type()),
    high = range_input(in(call, 2), x, rule.axis).to(x.scalar_type());
  }
  if (low.gt(high).any().item<bool>()) throw_invalid_argument("input_min must not be above input_max");
  const at::Tensor y = narrow_to(rounded_levels(rule, x, low.detach(), high.detach()), given.scalar_type());
  if (call.name() != "QuantizeAndDequantizeV4")
    return {with_adjoint(wrap(given), wrap(y), [](const Tensor& dy) { return dy; })};
  // Also where the range is that of the values.
  return {with_adjoint(
      wrap(given), wrap(y), [low = in(call, 1), high = in(call, 2), x, axis = rule.axis](const Tensor& dy) {
        const at::Tensor inside = at::logical_and(x >= range_input(low, x, axis), x <= range_input(high, x, axis));
        return wrap(at::where(inside, dense(dy), at::zeros({}, dense(dy).options())));
      })};
}

// TensorFlow gives the ends of the range no gradient here.
Tensors quantize_v4_gradient(const Call& call) {
  const at::Tensor &dy = in(call, 0), &x = in(call, 1);
  const std::int64_t axis = call.attr<std::int64_t>("axis");
  if (axis < -1 || axis >= x.dim())
    throw_invalid_argument(fmt::format("axis {} of a tensor of rank {}", axis, x.dim()));
  const at::Tensor low = range_input(in(call, 2), x, axis), high = range_input(in(call, 3), x, axis),
                   zero = at::zeros({}, dy.options());
  const at::Tensor outside = at::logical_or(x.lt(low), x.gt(high));
  return {wrap(at::where(outside, zero, dy)), wrap(at::zeros_like(in(call, 2))), wrap(at::zeros_like(in(call, 3)))};
}

}  // namespace

void register_fake_quant(Table& table) {
  for (auto name : {"FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"}) {
    table.add(name, same_shape, fake_quant);
    table.add(fmt::format("{}Gradient", name), nullptr, fake_quant_gradient);
  }
  for (auto name :
       {"QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"})
    table.add(name, same_shape, quantize_and_dequantize);
  table.add("QuantizeAndDequantizeV4Grad", nullptr, quantize_v4_gradient);
}

}  // namespace lockstep::ops
