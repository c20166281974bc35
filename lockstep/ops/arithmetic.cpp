// Elementwise mathematics, comparison, logic, casts.
#include <cfenv>
#include <cmath>
#include <limits>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/tensor/quantized_internal.h"

namespace lockstep::ops {
namespace {

using Unary = at::Tensor (*)(const at::Tensor&);
using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

void add_unary(Table& table, std::string_view name, Unary f) {
  table.add(name, same_shape, [f](const Call& call) {
    const at::Tensor& x = in(call, 0);
    return one(narrow_to(f(widen(x)), x.scalar_type()));
  });
}
void add_test(Table& table, std::string_view name, Unary f) {
  table.add(name, same_shape, [f](const Call& call) { return one(f(widen(in(call, 0)))); });
}
void add_binary(Table& table, std::string_view name, Binary f) {
  table.add(name, broadcast_rule, [f](const Call& call) {
    const at::Tensor &a = in(call, 0), &b = in(call, 1);
    return one(narrow_to(f(widen(a), widen(b)), a.scalar_type()));
  });
}
void add_comparison(Table& table, std::string_view name, Binary f) {
  table.add(name, broadcast_rule, [f](const Call& call) { return one(f(ordered(in(call, 0)), ordered(in(call, 1)))); });
}
// Chooses one of its operands.
void add_choice(Table& table, std::string_view name, Binary f) {
  table.add(name, broadcast_rule, [f](const Call& call) {
    const at::Tensor &a = in(call, 0), &b = in(call, 1);
    return one(from_ordered(f(ordered(a), ordered(b)), a.scalar_type()));
  });
}
// A function of uint64, whose quotients and shifts differ from those of int64.
template <typename F>
Tensors by_words(const Call& call, const F& of_words) {
  const auto both = at::broadcast_tensors({in(call, 0).view(at::kLong), in(call, 1).view(at::kLong)});
  const at::Tensor x = both[0].contiguous(), y = both[1].contiguous(), out = at::empty(x.sizes(), at::kUInt64);
  const auto* left = static_cast<const std::uint64_t*>(x.const_data_ptr());
  const auto* right = static_cast<const std::uint64_t*>(y.const_data_ptr());
  auto* to = static_cast<std::uint64_t*>(out.mutable_data_ptr());
  for (std::int64_t i = 0; i < out.numel(); ++i) to[i] = of_words(left[i], right[i]);
  return one(out);
}
// As add_binary, with its own function for uint64.
template <typename F>
void add_binary(Table& table, std::string_view name, Binary f, const F& of_words) {
  table.add(name, broadcast_rule, [f, of_words](const Call& call) {
    const at::Tensor& a = in(call, 0);
    if (a.scalar_type() == at::kUInt64) return by_words(call, of_words);
    return one(narrow_to(f(widen(a), widen(in(call, 1))), a.scalar_type()));
  });
}
// By at most the width of the operands' dtype, less one.
template <typename F>
void add_shift(Table& table, std::string_view name, bool left, const F& of_words) {
  table.add(name, broadcast_rule, [left, of_words](const Call& call) {
    const at::Tensor& a = in(call, 0);
    if (a.scalar_type() == at::kUInt64) return by_words(call, of_words);
    const at::Tensor by = at::clamp(widen(in(call, 1)), 0, static_cast<std::int64_t>(a.element_size()) * 8 - 1);
    const at::Tensor value = widen(a);
    return one(
        narrow_to(left ? at::bitwise_left_shift(value, by) : at::bitwise_right_shift(value, by), a.scalar_type()));
  });
}
std::uint64_t divide_words(std::uint64_t a, std::uint64_t b) {
  if (b == 0) throw_invalid_argument("Integer division by zero");
  return a / b;
}
std::uint64_t remainder_of_words(std::uint64_t a, std::uint64_t b) {
  if (b == 0) throw_invalid_argument("Integer division by zero");
  return a % b;
}

bool is_int(const at::Tensor& x) { return at::isIntegralType(x.scalar_type(), false); }

// A result without elements divides nothing.
void check_divisor(const at::Tensor& a, const at::Tensor& b) {
  if (is_int(b) && a.numel() > 0 && b.numel() > 0 && b.eq(0).any().item<bool>())
    throw_invalid_argument("Integer division by zero");
}

at::Tensor divide(const at::Tensor& a, const at::Tensor& b) {
  check_divisor(a, b);
  return is_int(a) ? at::div(a, b, "trunc") : at::div(a, b);
}
at::Tensor truncate_divide(const at::Tensor& a, const at::Tensor& b) {
  check_divisor(a, b);
  return at::div(a, b, "trunc");
}
at::Tensor floor_divide(const at::Tensor& a, const at::Tensor& b) {
  check_divisor(a, b);
  return is_float(a) ? at::floor(at::div(a.detach(), b.detach())) : at::div(a, b, "floor");
}
at::Tensor floor_mod(const at::Tensor& a, const at::Tensor& b) {
  check_divisor(a, b);
  return at::remainder(a, b);
}
at::Tensor truncate_mod(const at::Tensor& a, const at::Tensor& b) {
  check_divisor(a, b);
  return at::fmod(a, b);
}
// The value where b is zero must not reach the gradient either, hence the safe divisor.
at::Tensor divide_no_nan(const at::Tensor& a, const at::Tensor& b) {
  if (b.numel() == 1 && !b.requires_grad() && b.is_nonzero()) return at::div(a, b);
  const at::Tensor zero = b == 0;
  const at::Tensor safe = at::where(zero, at::ones({}, b.options()), b);
  return at::where(zero, at::zeros({}, a.options()), at::div(a, safe));
}
at::Tensor multiply_no_nan(const at::Tensor& a, const at::Tensor& b) {
  if (has_own_pair(a, b) && !b.requires_grad()) return own_product_no_nan(a, b);
  return multiply_no_nan_like_tf(a, b);
}
at::Tensor power(const at::Tensor& a, const at::Tensor& b) {
  if (is_int(b) && (a.numel() == 0 || b.numel() == 0)) return at::mul(a, b);
  if (is_int(b) && b.lt(0).any().item<bool>()) {
    throw_invalid_argument("Integers to negative integer powers are not allowed");
  }
  if (b.dim() == 0 && !b.requires_grad() && b.numel() == 1) return at::pow(a, b.item());
  return power_like_tf(a, b);
}
at::Tensor squared_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor gap = a - b;
  if (!has_complex(gap)) return at::square(gap);
  const at::Tensor size = at::square(at::real(gap)) + at::square(at::imag(gap));
  return at::complex(size, at::zeros_like(size));
}
at::Tensor plus(const at::Tensor& a, const at::Tensor& b) {
  if (has_own_pair(a, b)) return own_sum(a, b);
  return a.scalar_type() == at::kBool ? at::logical_or(a, b) : at::add(a, b);
}
at::Tensor times(const at::Tensor& a, const at::Tensor& b) {
  if (auto own = try_channel_product(a, b)) return *std::move(own);
  if (has_own_pair(a, b)) return own_product(a, b);
  return at::mul(a, b);
}
// TensorFlow's kernel gives 0 for integers; its function tf.round does not call it for them.
at::Tensor half_even(const at::Tensor& x) { return is_int(x) ? at::zeros_like(x) : at::round(x.detach()); }
at::Tensor sign_of(const at::Tensor& x) {
  if (has_complex(x)) {
    return dense(with_adjoint(wrap(x), wrap(at::sgn(x.detach())),
                              [](const Tensor& dy) { return wrap(at::zeros_like(dense(dy))); }));
  }
  // LibTorch's sign of NaN is 0.
  return is_float(x) ? at::where(at::isnan(x), x.detach(), at::sign(x)) : at::sign(x);
}

// Float to integer as an x86 CPU does it: out of range and NaN give the smallest number of the wide type.
at::Tensor float_to_int(const at::Tensor& x, at::ScalarType to) {
  const bool wide = to == at::kLong || to == at::kUInt32 || to == at::kUInt64;
  const at::Tensor y = x.detach().to(at::kDouble);
  const double low = wide ? -0x1p63 : -0x1p31;
  at::Tensor inside = at::logical_and(y > (wide ? -0x1p63 : -0x1p31 - 1.0), y < -low);
  if (to == at::kUInt64) inside = at::logical_and(y > -0x1p63, y < 0x1p64);
  const at::Tensor safe = at::where(inside, y, at::zeros({}, y.options()));
  at::Tensor whole;
  if (to == at::kUInt64) {
    const at::Tensor big = safe >= 0x1p63;
    whole = at::where(big, (safe - 0x1p63), safe).to(at::kLong);
    whole = at::where(big, at::bitwise_xor(whole, std::numeric_limits<std::int64_t>::min()), whole);
  } else {
    whole = safe.to(at::kLong);
  }
  const std::int64_t lowest =
      wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
  return at::where(inside, whole, at::full({}, lowest, whole.options())).to(to);
}

// How many floats TensorFlow's kernel converts to unsigned 32-bit or to short integers at once.
std::int64_t cast_packet(at::ScalarType from, at::ScalarType to) {
  if (to == at::kUInt32) return 8;
  if (to == at::kInt || to == at::kLong || to == at::kUInt64) return 0;
  return from == at::kFloat ? 32 : from == at::kBFloat16 ? 8 : 16;
}

// As float_to_int, with the results of TensorFlow's packets: there short integers are saturated, while the elements
// after the last whole packet are truncated.
at::Tensor float_to_int_in_packets(const at::Tensor& x, at::ScalarType to) {
  const std::int64_t packet = cast_packet(x.scalar_type(), to);
  const at::Tensor each = float_to_int(x, to);
  if (packet == 0 || x.numel() < packet) return each;
  const std::int64_t count = x.numel() - x.numel() % packet;
  const at::Tensor given = x.detach().reshape({-1}).slice(0, 0, count), wide = given.to(at::kDouble);
  at::Tensor whole;
  if (to == at::kUInt32) {
    const at::Tensor inside = at::logical_and(wide > -0x1p31 - 1, wide < 0x1p32);
    whole = at::where(inside, wide, at::full({}, 0x1p31, wide.options())).to(at::kLong);
  } else {
    whole = float_to_int(given, at::kInt);
    if (to == at::kByte && x.scalar_type() == at::kDouble)
      whole = at::where(whole > std::numeric_limits<std::int16_t>::max(), at::zeros({}, whole.options()), whole);
    if (to == at::kByte) whole = at::clamp(whole, 0, std::numeric_limits<std::uint8_t>::max());
    if (to == at::kChar)
      whole = at::clamp(whole, std::numeric_limits<std::int8_t>::min(), std::numeric_limits<std::int8_t>::max());
    if (to == at::kShort)
      whole = at::clamp(whole, std::numeric_limits<std::int16_t>::min(), std::numeric_limits<std::int16_t>::max());
    if (to == at::kUInt16) whole = at::clamp(whole, 0, std::numeric_limits<std::uint16_t>::max());
  }
  const at::Tensor rest = each.reshape({-1}).slice(0, count);
  return at::cat({whole.to(at::kLong), rest.to(at::kLong)}).to(to).view(x.sizes());
}

// How many bits of the mantissa a cast to a shorter type drops; 0 for others.
int dropped_bits(at::ScalarType from, at::ScalarType to) {
  const auto mantissa = [](at::ScalarType type) {
    switch (type) {
      case at::kDouble: return 52;
      case at::kFloat: return 23;
      case at::kHalf: return 10;
      case at::kBFloat16: return 7;
      default: return 0;
    }
  };
  if (from == at::kDouble && to == at::kBFloat16) return 0;  // TensorFlow rounds
  if (mantissa(to) == 0 || (from != at::kDouble && from != at::kFloat)) return 0;
  return std::max(mantissa(from) - mantissa(to), 0);
}

// The bits are set to zero before the cast, which then has nothing to round.
at::Tensor without_low_bits(const at::Tensor& x, int bits) {
  const at::ScalarType whole = x.scalar_type() == at::kDouble ? at::kLong : at::kInt;
  const at::Tensor given = x.detach();
  const at::Tensor cut = at::bitwise_and(given.view(whole), -(std::int64_t{1} << bits)).view(x.scalar_type());
  const at::Tensor same = at::logical_or(cut == given, at::isfinite(given).logical_not());
  return x + at::where(same, at::full({}, -0.0, given.options()), cut - given);  // adding -0 changes nothing
}

at::Tensor cast_to(const at::Tensor& x, at::ScalarType to, bool truncate) {
  const at::ScalarType from = x.scalar_type();
  if (from == to) return x;
  if (from == at::kComplexFloat && at::isIntegralType(to, false)) return float_to_int(at::real(x), to);  // no packets
  if (at::isComplexType(from) && !at::isComplexType(to)) return cast_to(at::real(x), to, truncate);
  if (to == at::kBool) return widen(x).ne(0);
  if (at::isFloatingType(from) && at::isIntegralType(to, false)) return float_to_int_in_packets(x, to);
  if (const int bits = truncate ? dropped_bits(from, to) : 0; bits > 0) return without_low_bits(x, bits).to(to);
  return x.to(to);
}

Tensors cast_kernel(const Call& call) {
  const DType to = call.attr<DType>("DstT");
  if (call.input(0).dtype() == DType::kString || to == DType::kString) {
    if (call.input(0).dtype() == to) return {call.input(0)};
    throw_unimplemented(
        fmt::format("Cast {} to {} is not supported", dtype_name(call.input(0).dtype()), dtype_name(to)));
  }
  return {wrap_as(cast_to(in(call, 0), to_scalar_type(to), call.attr<bool>("Truncate")), to)};
}

at::Tensor bitcast(const at::Tensor& x, at::ScalarType to) {
  const std::size_t from_size = x.element_size(), to_size = at::elementSize(to);
  if (to_size < from_size) return x.unsqueeze(-1).view(to);
  if (to_size == from_size) return x.view(to);
  if (x.dim() == 0 || x.size(-1) * static_cast<std::int64_t>(from_size) != static_cast<std::int64_t>(to_size))
    throw_invalid_argument(fmt::format("the last axis must have {} elements", to_size / from_size));
  return x.view(to).squeeze(-1);
}
Tensors bitcast_kernel(const Call& call) {
  const auto to = call.attr<DType>("type");
  return {wrap_as(bitcast(in(call, 0).contiguous(), to_scalar_type(to)), to)};
}

Shapes bitcast_shape(const Call& call) {
  const std::size_t from = dtype_size(call.input(0).dtype()), to = dtype_size(call.attr<DType>("type"));
  Shape shape = call.input(0).shape();
  if (!shape.known_rank() || from == to) return {shape};
  if (from > to) {
    shape.push_back(static_cast<std::int64_t>(from / to));
    return {shape};
  }
  if (shape.rank() == 0) throw_invalid_argument("a scalar cannot be cast to a wider type");
  return {Shape(std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end() - 1))};
}

// For each element of the result, the number of the element of `t` that is broadcast to it.
at::Tensor broadcast_numbers(const Tensor& t, const Shape& shape) {
  return at::arange(t.num_elements()).view(t.shape().dims()).expand(shape.dims()).contiguous();
}

Tensor sum_of_strings(const Tensor& a, const Tensor& b) {
  const auto &x = a.string_values(), &y = b.string_values();
  const Shape shape = broadcast_shape(a.shape(), b.shape());
  const at::Tensor i = broadcast_numbers(a, shape), j = broadcast_numbers(b, shape);
  std::vector<std::string> joined(static_cast<std::size_t>(i.numel()));
  for (std::size_t n = 0; n < joined.size(); ++n) {
    joined[n] = x[static_cast<std::size_t>(i.const_data_ptr<std::int64_t>()[n])] +
                y[static_cast<std::size_t>(j.const_data_ptr<std::int64_t>()[n])];
  }
  return Tensor::strings(std::move(joined), shape);
}

Tensors equality(const Call& call, bool equal) {
  const Tensor &a = call.input(0), &b = call.input(1);
  if (!call.attr<bool>("incompatible_shape_error")) {
    try {
      broadcast_shape(a.shape(), b.shape());
    } catch (const Error&) {
      return one(at::full({}, !equal, at::kBool));
    }
  }
  if (a.dtype() != DType::kString) {
    const at::Tensor x = widen(dense(a)), y = widen(dense(b));
    return one(equal ? x.eq(y) : x.ne(y));
  }
  const auto &x = a.string_values(), &y = b.string_values();
  const Shape shape = broadcast_shape(a.shape(), b.shape());
  const at::Tensor i = broadcast_numbers(a, shape), j = broadcast_numbers(b, shape),
                   out = at::empty(shape.dims(), at::kBool);
  for (std::int64_t n = 0; n < out.numel(); ++n) {
    const bool match = x[static_cast<std::size_t>(i.const_data_ptr<std::int64_t>()[n])] ==
                       y[static_cast<std::size_t>(j.const_data_ptr<std::int64_t>()[n])];
    out.mutable_data_ptr<bool>()[n] = match == equal;
  }
  return one(out);
}

// Lists item by item: gradients of loops and branches. An item that was never set counts as zero.
Tensor sum_of_lists(const Tensor& a, const Tensor& b) {
  Tensors items = a.list_elements();
  const Tensors& more = b.list_elements();
  if (items.size() != more.size())
    throw_invalid_argument(fmt::format("lists of {} and {} tensors cannot be added", items.size(), more.size()));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].defined()) {
      items[i] = more[i];
    } else if (more[i].defined()) {
      items[i] = call1("AddN", {items[i], more[i]});
    }
  }
  return Tensor::list(std::move(items), merge_shapes(a.list_element_shape(), b.list_element_shape()),
                      a.list_element_dtype());
}

Tensors add_n(const Call& call) {
  if (call.input(0).dtype() == DType::kVariant) {
    Tensor sum = call.input(0);
    for (int i = 1; i < call.num_inputs(); ++i) sum = sum_of_lists(sum, call.input(i));
    return {sum};
  }
  at::Tensor sum = in(call, 0);
  for (int i = 1; i < call.num_inputs(); ++i) {
    if (in(call, i).sizes() != sum.sizes()) throw_invalid_argument("all inputs must have the same shape");
    sum = narrow_to(at::add(widen(sum), widen(in(call, i))), sum.scalar_type());
  }
  return one(sum);
}
Shapes add_n_shape(const Call& call) {
  Shape shape = call.input(0).shape();
  for (const Tensor& input : call.inputs()) shape = merge_shapes(shape, input.shape());
  return {shape};
}

// A bound that is NaN does not bind.
at::Tensor binding(const at::Tensor& bound, double none) {
  return is_float(bound) ? at::where(at::isnan(bound), at::full({}, none, bound.options()), bound) : bound;
}

// The bounds have gradients where the value is outside of them, also where they cross.
Tensors clip(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const at::Tensor low = binding(in(call, 1), -INFINITY), high = binding(in(call, 2), INFINITY);
  for (const at::Tensor& bound : {low, high}) {
    if (bound.dim() != 0 && bound.sizes() != x.sizes())
      throw_invalid_argument("the bounds must be scalars or have the shape of the value");
  }
  at::Tensor y;
  if (has_complex(x)) {  // real and imaginary parts by themselves
    const auto part = [&](const at::Tensor& z) { return at::view_as_real(z.resolve_conj()); };
    const auto bounds = at::broadcast_tensors({x, low, high});
    y = at::view_as_complex(
        at::clamp(part(x), part(bounds[1]), at::maximum(part(bounds[1]), part(bounds[2]))).contiguous());
  } else {
    const at::Tensor lower = ordered(low.detach());
    // Where the bounds cross, the lower one.
    y = from_ordered(at::clamp(ordered(x.detach()), lower, at::maximum(lower, ordered(high.detach()))),
                     x.scalar_type());
  }
  if (has_complex(x) || !grad_enabled() || !(x.requires_grad() || low.requires_grad() || high.requires_grad()))
    return one(y);
  const at::Tensor below = at::lt(x, low), above = at::gt(x, high);
  const auto tie = [&y](const at::Tensor& input, const at::Tensor& chosen) {
    if (!input.requires_grad()) return;
    y = y + dense(with_adjoint(wrap(input.expand_as(y)), wrap(at::zeros_like(y)), [chosen](const Tensor& dy) {
          return wrap(at::where(chosen, dense(dy), at::zeros({}, dense(dy).options())));
        }));
  };
  tie(x, at::logical_not(at::logical_or(below, above)));
  tie(low, below);
  tie(high, above);
  return one(y);
}

Tensors select_v2(const Call& call) { return one(at::where(in(call, 0), in(call, 1), in(call, 2))); }
// A vector condition chooses whole rows.
Tensors select_rows(const Call& call) {
  at::Tensor condition = in(call, 0);
  const at::Tensor &a = in(call, 1), &b = in(call, 2);
  if (a.sizes() != b.sizes()) throw_invalid_argument("'then' and 'else' must have the same shape");
  if (condition.dim() == 1 && a.dim() > 1) {
    Ints sizes(static_cast<std::size_t>(a.dim()), 1);
    sizes[0] = condition.size(0);
    condition = condition.view(sizes);
  }
  const bool rows = in(call, 0).dim() <= 1 && (in(call, 0).dim() == 0 || condition.size(0) == a.size(0));
  if (!rows && condition.sizes() != a.sizes())
    throw_invalid_argument("the condition must be a scalar, have an entry for each row, or the shape of 'then'");
  return one(at::where(condition, a, b));
}
Shapes select_shape(const Call& call) { return {merge_shapes(call.input(1).shape(), call.input(2).shape())}; }

}  // namespace

void register_unary_math(Table& table);

void register_arithmetic(Table& table) {
  register_unary_math(table);
  add_binary(table, "AddV2", plus);
  table.add("Add", broadcast_rule, [](const Call& call) -> Tensors {
    if (call.input(0).dtype() != DType::kString) return one(plus(widen(in(call, 0)), widen(in(call, 1))));
    return {sum_of_strings(call.input(0), call.input(1))};
  });
  add_binary(table, "Sub", [](const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); });
  add_binary(table, "Mul", times);
  add_binary(table, "Div", divide, divide_words);
  add_binary(table, "RealDiv", [](const at::Tensor& a, const at::Tensor& b) { return at::div(a, b); });
  add_binary(table, "TruncateDiv", truncate_divide, divide_words);
  add_binary(table, "FloorDiv", floor_divide, divide_words);
  add_binary(table, "FloorMod", floor_mod, remainder_of_words);
  add_binary(table, "Mod", truncate_mod);
  add_binary(table, "TruncateMod", truncate_mod);
  add_binary(table, "DivNoNan", divide_no_nan);
  add_binary(table, "MulNoNan", multiply_no_nan);
  add_binary(table, "Pow", power);
  add_binary(table, "SquaredDifference", squared_difference);
  add_binary(table, "Xdivy", x_divided_y_like_tf);
  add_binary(table, "Xlogy", x_log_y_like_tf);
  add_binary(table, "Xlog1py", x_log1p_y_like_tf);
  add_choice(table, "Maximum", maximum_like_tf);
  add_choice(table, "Minimum", minimum_like_tf);
  add_binary(table, "Atan2", atan2_like_tf);
  // The gradient goes to the first input, and a product with 0 to the second one.
  add_binary(table, "NextAfter", [](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor next = at::nextafter(a.detach(), b.detach());
    if (!grad_enabled() || !(a.requires_grad() || b.requires_grad())) return next;
    return dense(with_adjoint(wrap(a + b * 0), wrap(next), [](const Tensor& dy) { return dy; }));
  });
  add_binary(table, "BitwiseAnd", [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_and(a, b); });
  add_binary(table, "BitwiseOr", [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_or(a, b); });
  add_binary(table, "BitwiseXor", [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_xor(a, b); });
  add_shift(table, "LeftShift", true,
            [](std::uint64_t a, std::uint64_t b) { return a << std::min<std::uint64_t>(b, 63); });
  add_shift(table, "RightShift", false,
            [](std::uint64_t a, std::uint64_t b) { return a >> std::min<std::uint64_t>(b, 63); });
  add_comparison(table, "Less", [](const at::Tensor& a, const at::Tensor& b) { return a.lt(b); });
  add_comparison(table, "LessEqual", [](const at::Tensor& a, const at::Tensor& b) { return a.le(b); });
  add_comparison(table, "Greater", [](const at::Tensor& a, const at::Tensor& b) { return a.gt(b); });
  add_comparison(table, "GreaterEqual", [](const at::Tensor& a, const at::Tensor& b) { return a.ge(b); });
  add_comparison(table, "LogicalAnd", [](const at::Tensor& a, const at::Tensor& b) { return a.logical_and(b); });
  add_comparison(table, "LogicalOr", [](const at::Tensor& a, const at::Tensor& b) { return a.logical_or(b); });
  table.add("Equal", broadcast_rule, [](const Call& call) { return equality(call, true); });
  table.add("NotEqual", broadcast_rule, [](const Call& call) { return equality(call, false); });
  table.add("AddN", add_n_shape, add_n);
  table.add("ClipByValue", same_shape, clip);
  table.add("SelectV2", broadcast_all_rule, for_strings_too(select_v2));
  table.add("Select", select_shape, for_strings_too(select_rows));
  table.add("Cast", same_shape, cast_kernel);
  table.add("Bitcast", bitcast_shape, bitcast_kernel);
  add_unary(table, "Round", half_even);
  add_unary(table, "Sign", sign_of);
  add_unary(table, "Sqrt", sqrt_like_tf);
  add_unary(table, "Rsqrt", rsqrt_like_tf);
  for (const char* name : {"Reciprocal", "Inv"}) add_unary(table, name, reciprocal_like_tf);
  add_test(table, "LogicalNot", [](const at::Tensor& x) { return at::logical_not(x); });
  add_test(table, "IsNan", [](const at::Tensor& x) { return at::isnan(x); });
  add_test(table, "IsInf", [](const at::Tensor& x) { return at::isinf(x); });
  add_test(table, "IsFinite", [](const at::Tensor& x) { return at::isfinite(x); });
}

namespace {

// asinh or acosh. LibTorch's gradients square x, which overflows for large ones: in half precision from 256 on. There
// the logarithm of 2x is as exact.
at::Tensor inverse_hyperbolic(const at::Tensor& x, at::Tensor (*plain)(const at::Tensor&), bool is_odd) {
  if (!is_float(x) || !x.requires_grad() || !grad_enabled()) return plain(x);
  const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  constexpr double kLimit = 1e9;
  const at::Tensor far = at::abs(wide.detach()) > kLimit;
  if (!far.any().item<bool>()) return narrow_to(plain(wide), x.scalar_type());
  const at::Tensor logarithm = at::log(at::clamp_min(at::abs(wide), kLimit)) + std::log(2.0);
  const at::Tensor near = plain(at::where(far, at::full({}, 2.0, wide.options()), wide));
  const at::Tensor large =  // acosh has no value below 1
      is_odd ? at::copysign(logarithm, wide.detach())
             : at::where(wide > 0, logarithm, at::full({}, std::numeric_limits<double>::quiet_NaN(), wide.options()));
  return narrow_to(at::where(far, large, near), x.scalar_type());
}

}  // namespace

void register_unary_math(Table& table) {
#define LOCKSTEP_UNARY(name, expression) \
  add_unary(table, name, [](const at::Tensor& x) -> at::Tensor { return expression; })
  LOCKSTEP_UNARY("Neg", at::neg(x));
  LOCKSTEP_UNARY("Abs", at::abs(x));
  LOCKSTEP_UNARY("Square", at::mul(x, x));
  LOCKSTEP_UNARY("Exp", at::exp(x));
  LOCKSTEP_UNARY("Expm1", at::expm1(x));
  LOCKSTEP_UNARY("Log", at::log(x));
  LOCKSTEP_UNARY("Log1p", at::log1p(x));
  // Without gradients in TensorFlow, so that optimizers leave the variables behind them as they are.
  LOCKSTEP_UNARY("Floor", is_int(x) ? x : at::floor(x.detach()));
  LOCKSTEP_UNARY("Ceil", is_int(x) ? x : at::ceil(x.detach()));
  LOCKSTEP_UNARY("Rint", at::round(x.detach()));
  LOCKSTEP_UNARY("Sin", at::sin(x));
  LOCKSTEP_UNARY("Cos", at::cos(x));
  LOCKSTEP_UNARY("Tan", at::tan(x));
  LOCKSTEP_UNARY("Asin", at::asin(x));
  LOCKSTEP_UNARY("Acos", at::acos(x));
  LOCKSTEP_UNARY("Atan", at::atan(x));
  LOCKSTEP_UNARY("Sinh", at::sinh(x));
  LOCKSTEP_UNARY("Cosh", at::cosh(x));
  LOCKSTEP_UNARY("Asinh", inverse_hyperbolic(x, at::asinh, true));
  LOCKSTEP_UNARY("Acosh", inverse_hyperbolic(x, at::acosh, false));
  LOCKSTEP_UNARY("Atanh", at::atanh(x));
  LOCKSTEP_UNARY("Erf", at::erf(x));
  LOCKSTEP_UNARY("Erfc", at::erfc(x));
  LOCKSTEP_UNARY("Erfinv", at::erfinv(x));
  LOCKSTEP_UNARY("Ndtri", at::special_ndtri(x));
  LOCKSTEP_UNARY("Lgamma", at::lgamma(x));
  LOCKSTEP_UNARY("Invert", at::bitwise_not(x));
  LOCKSTEP_UNARY("Conj", at::conj(x).resolve_conj());
#undef LOCKSTEP_UNARY
}

}  // namespace lockstep::ops
