#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/arrays_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/number_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::ops {
namespace {

// What true division computes integers in.
Tensor divisible(const Tensor& x) {
  if (!is_integer(x.dtype())) return x;
  const bool narrow = dtype_size(x.dtype()) <= 2 && !is_array(x);
  return x.astype(narrow ? DType::kFloat32 : DType::kFloat64);
}

// All axes of x, as a tensor when the rank is not known.
Tensor axes_tensor(const Tensor& x, const Axes& axes) {
  if (axes) return constant_ints(*axes);
  if (!x.shape().known_rank()) return range(constant(0, DType::kInt32), rank_of(x), constant(1, DType::kInt32));
  Ints all;
  for (int i = 0; i < x.rank(); ++i) all.push_back(i);
  return constant_ints(all);
}

Tensor reduce(std::string_view name, const Tensor& x, const Axes& axes, bool keepdims) {
  return call1(name, {x, axes_tensor(x, axes)}, {{"keep_dims", keepdims}});
}

}  // namespace

Tensor number_like(const Tensor& other, Number number) {
  if (!other.defined()) throw_invalid_argument("arithmetic on an undefined tensor");
  const DType dtype = other.dtype();
  if (!is_integer(dtype)) return Tensor::scalar(number.value(), dtype);
  const bool whole =
      number.is_integer() || (std::nearbyint(number.value()) == number.value() && std::abs(number.value()) < 9e18);
  if (!whole) {
    throw_invalid_argument(
        fmt::format("arithmetic: {} cannot be converted to {}; cast the tensor first, e.g. with ops::cast(x, "
                    "DType::kFloat32)",
                    number.value(), dtype_name(dtype)));
  }
  const std::int64_t integer = number.is_integer() ? number.integer() : static_cast<std::int64_t>(number.value());
  const bool is_unsigned = dtype_name(dtype).starts_with('u');
  const int bits = static_cast<int>(dtype_size(dtype)) * 8 - (is_unsigned ? 0 : 1);
  const std::int64_t largest = bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
  if (integer > largest || integer < (is_unsigned ? 0 : -largest - 1)) {
    throw_invalid_argument(fmt::format("arithmetic: {} is out of range for {}", integer, dtype_name(dtype)));
  }
  return cast(Tensor::scalar(integer), dtype);
}

Tensor constant(double value, DType dtype) { return Tensor::scalar(value, dtype); }

Tensor zeros(const ShapeArg& shape, DTypeLike dtype) {
  return shape.is_known() ? Tensor::zeros(shape.shape(), dtype) : fill(shape, constant(0, dtype));
}
Tensor ones(const ShapeArg& shape, DTypeLike dtype) {
  return shape.is_known() ? Tensor::full(shape.shape(), 1, dtype) : fill(shape, constant(1, dtype));
}

Tensor constant_ints(const Ints& values, DType dtype) {
  if (dtype == DType::kInt64) return Tensor::from_vector(values);
  for (const std::int64_t value : values) {
    if (!std::in_range<std::int32_t>(value)) throw_invalid_argument(fmt::format("{} does not fit into int32", value));
  }
  return Tensor::from_vector(std::vector<std::int32_t>(values.begin(), values.end()));
}

namespace {
// Of strings too, which cast() does not take.
Tensor filled_like(const Tensor& x, double value, DType dtype) { return fill(shape(x), Tensor::scalar(value, dtype)); }
}  // namespace
Tensor zeros_like(const Tensor& x, DTypeLike dtype) { return filled_like(x, 0, dtype); }
Tensor ones_like(const Tensor& x, DTypeLike dtype) { return filled_like(x, 1, dtype); }

#define LOCKSTEP_UNARY(function, op) \
  Tensor function(const Tensor& x) { return call1(op, {x}); }
LOCKSTEP_UNARY(zeros_like, "ZerosLike")
LOCKSTEP_UNARY(ones_like, "OnesLike")
LOCKSTEP_UNARY(identity, "Identity")
LOCKSTEP_UNARY(stop_gradient, "StopGradient")
LOCKSTEP_UNARY(neg, "Neg")
LOCKSTEP_UNARY(sign, "Sign")
LOCKSTEP_UNARY(square, "Square")
LOCKSTEP_UNARY(sqrt, "Sqrt")
LOCKSTEP_UNARY(rsqrt, "Rsqrt")
LOCKSTEP_UNARY(reciprocal, "Reciprocal")
LOCKSTEP_UNARY(exp, "Exp")
LOCKSTEP_UNARY(expm1, "Expm1")
LOCKSTEP_UNARY(log, "Log")
LOCKSTEP_UNARY(log1p, "Log1p")
LOCKSTEP_UNARY(floor, "Floor")
LOCKSTEP_UNARY(ceil, "Ceil")
LOCKSTEP_UNARY(sin, "Sin")
LOCKSTEP_UNARY(cos, "Cos")
LOCKSTEP_UNARY(tan, "Tan")
LOCKSTEP_UNARY(asin, "Asin")
LOCKSTEP_UNARY(acos, "Acos")
LOCKSTEP_UNARY(atan, "Atan")
LOCKSTEP_UNARY(sinh, "Sinh")
LOCKSTEP_UNARY(cosh, "Cosh")
LOCKSTEP_UNARY(asinh, "Asinh")
LOCKSTEP_UNARY(acosh, "Acosh")
LOCKSTEP_UNARY(atanh, "Atanh")
LOCKSTEP_UNARY(erf, "Erf")
LOCKSTEP_UNARY(erfc, "Erfc")
LOCKSTEP_UNARY(lgamma, "Lgamma")
LOCKSTEP_UNARY(digamma, "Digamma")
LOCKSTEP_UNARY(logical_not, "LogicalNot")
LOCKSTEP_UNARY(is_nan, "IsNan")
LOCKSTEP_UNARY(is_finite, "IsFinite")
LOCKSTEP_UNARY(is_inf, "IsInf")
LOCKSTEP_UNARY(where, "Where")
LOCKSTEP_UNARY(l2_loss, "L2Loss")
#undef LOCKSTEP_UNARY

Tensor operator-(const Tensor& x) { return like(x, call1("Neg", {x})); }

Tensor round(const Tensor& x) { return is_integer(x.dtype()) ? x : call1("Round", {x}); }

namespace {

// A number takes the dtype of the tensor next to it, except a fraction next to integers.
Tensor like_operand(const Tensor& number, const Tensor& other) {
  if (!number.is_number() || !other.defined() || other.is_number()) return number;
  const DType dtype = other.dtype();
  const bool fits = is_complex(dtype) || (is_floating(dtype) && number.dtype() != DType::kBool) ||
                    (is_integer(dtype) && is_integer(number.dtype()));
  return fits ? cast(number, dtype) : number;
}

}  // namespace

#define LOCKSTEP_BINARY(function, op) \
  Tensor function(const Tensor& a, const Tensor& b) { return call1(op, {like_operand(a, b), like_operand(b, a)}); }
#define LOCKSTEP_BINARY_NUMBER(function, op) \
  LOCKSTEP_BINARY(function, op)              \
  Tensor function(const Tensor& a, double b) { return call1(op, {a, number_like(a, b)}); }
Tensor add(const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::kString && b.dtype() == DType::kString) return call1("StringJoin", {a, b});
  return call1("AddV2", {a, b});
}
LOCKSTEP_BINARY(sub, "Sub")
LOCKSTEP_BINARY(mul, "Mul")
LOCKSTEP_BINARY(floor_div, "FloorDiv")
LOCKSTEP_BINARY(floor_mod, "FloorMod")
LOCKSTEP_BINARY(div_no_nan, "DivNoNan")
LOCKSTEP_BINARY(mul_no_nan, "MulNoNan")
LOCKSTEP_BINARY_NUMBER(pow, "Pow")
LOCKSTEP_BINARY_NUMBER(maximum, "Maximum")
LOCKSTEP_BINARY_NUMBER(minimum, "Minimum")
LOCKSTEP_BINARY(squared_difference, "SquaredDifference")
LOCKSTEP_BINARY(xlogy, "Xlogy")
LOCKSTEP_BINARY(xdivy, "Xdivy")
LOCKSTEP_BINARY(atan2, "Atan2")
LOCKSTEP_BINARY_NUMBER(equal, "Equal")
LOCKSTEP_BINARY_NUMBER(not_equal, "NotEqual")
LOCKSTEP_BINARY_NUMBER(less, "Less")
LOCKSTEP_BINARY_NUMBER(less_equal, "LessEqual")
LOCKSTEP_BINARY_NUMBER(greater, "Greater")
LOCKSTEP_BINARY_NUMBER(greater_equal, "GreaterEqual")
LOCKSTEP_BINARY(logical_and, "LogicalAnd")
LOCKSTEP_BINARY(logical_or, "LogicalOr")
#undef LOCKSTEP_BINARY_NUMBER
#undef LOCKSTEP_BINARY

Tensor div(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return call1("RealDiv", {divisible(a), divisible(b)});
  return call1("RealDiv", {a, b});  // reports the dtypes
}

Tensor add_n(const Tensors& values) {
  if (values.size() == 1) return values[0];
  return call1("AddN", values);
}

#define LOCKSTEP_OPERATOR(symbol, function, as_operand)                                  \
  Tensor operator symbol(const Tensor& a, const Tensor& b) {                             \
    if (is_array(a) || is_array(b)) {                                                    \
      const Tensor left = as_operand(a), right = as_operand(b);                          \
      return like(a, b, function(like_operand(left, right), like_operand(right, left))); \
    }                                                                                    \
    if (a.dtype() == b.dtype()) return function(a, b);                                   \
    return function(like_operand(a, b), like_operand(b, a));                             \
  }                                                                                      \
  Tensor operator symbol(const Tensor& a, Number b) {                                    \
    const Tensor left = array_next_to(as_operand(a), b);                                 \
    return like(a, function(left, number_like(left, b)));                                \
  }                                                                                      \
  Tensor operator symbol(Number a, const Tensor& b) {                                    \
    const Tensor right = array_next_to(as_operand(b), a);                                \
    return like(b, function(number_like(right, a), right));                              \
  }
LOCKSTEP_OPERATOR(+, add, )
LOCKSTEP_OPERATOR(-, sub, )
LOCKSTEP_OPERATOR(*, mul, )
LOCKSTEP_OPERATOR(/, div, divisible)
#undef LOCKSTEP_OPERATOR
Tensor& operator+=(Tensor& a, const Tensor& b) { return a = a + b; }
Tensor& operator-=(Tensor& a, const Tensor& b) { return a = a - b; }
Tensor& operator*=(Tensor& a, const Tensor& b) { return a = a * b; }
Tensor& operator/=(Tensor& a, const Tensor& b) { return a = a / b; }
Tensor& operator+=(Tensor& a, Number b) { return a = a + b; }
Tensor& operator-=(Tensor& a, Number b) { return a = a - b; }
Tensor& operator*=(Tensor& a, Number b) { return a = a * b; }
Tensor& operator/=(Tensor& a, Number b) { return a = a / b; }

Tensor clip_by_value(const Tensor& x, const Tensor& low, const Tensor& high) {
  const auto fits = [&x](const Tensor& bound) {
    const Shape& shape = bound.shape();
    return !shape.known_rank() || shape.rank() == 0 || shape == x.shape();
  };
  if (fits(low) && fits(high)) return call1("ClipByValue", {x, low, high});
  return maximum(minimum(x, high), low);
}
Tensor clip_by_value(const Tensor& x, double low, double high) {
  return clip_by_value(x, number_like(x, low), number_like(x, high));
}

Tensor clip_by_norm(const Tensor& x, double clip_norm, const Axes& axes) {
  const Tensor squares = reduce_sum(square(x), axes, true);
  const Tensor positive = greater(squares, 0.0);
  const Tensor length = where(positive, sqrt(where(positive, squares, ones_like(squares))), squares);
  return x * clip_norm / maximum(length, clip_norm);
}

Tensor global_norm(const Tensors& tensors) {
  Tensors halves;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) halves.push_back(l2_loss(tensor));
  }
  if (halves.empty()) return constant(0, DType::kFloat32);
  return sqrt(reduce_sum(stack(halves)) * 2.0);
}

ClippedTensors clip_by_global_norm(const Tensors& tensors, double clip_norm) {
  const Tensor norm = global_norm(tensors);
  const Tensor scale = clip_norm * minimum(1.0 / norm, 1.0 / clip_norm);
  const Tensor factor = scale + (norm - norm);  // NaN for a norm that is not finite
  Tensors clipped;
  for (const Tensor& tensor : tensors) clipped.push_back(tensor.defined() ? tensor * factor : Tensor());
  return {std::move(clipped), norm};
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return call1("Cast", {x}, {{"DstT", dtype}});
}
Tensor bitcast(const Tensor& x, DType dtype) { return call1("Bitcast", {x}, {{"type", dtype}}); }

Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return call1("SelectV2", {condition, yes, no});
}

Tensor reduce_sum(const Tensor& x, const AxisKeywords& how) { return reduce("Sum", x, how.axis, how.keepdims); }
Tensor reduce_mean(const Tensor& x, const AxisKeywords& how) { return reduce("Mean", x, how.axis, how.keepdims); }
Tensor reduce_max(const Tensor& x, const AxisKeywords& how) { return reduce("Max", x, how.axis, how.keepdims); }
Tensor reduce_min(const Tensor& x, const AxisKeywords& how) { return reduce("Min", x, how.axis, how.keepdims); }
Tensor reduce_prod(const Tensor& x, const AxisKeywords& how) { return reduce("Prod", x, how.axis, how.keepdims); }
Tensor reduce_any(const Tensor& x, const AxisKeywords& how) { return reduce("Any", x, how.axis, how.keepdims); }
Tensor reduce_all(const Tensor& x, const AxisKeywords& how) { return reduce("All", x, how.axis, how.keepdims); }

Tensor reduce_logsumexp(const Tensor& x, const AxisKeywords& how) {
  const Axes& axes = how.axis;
  const Tensor raw = reduce_max(x, axes, true);
  const Tensor highest = stop_gradient(where(is_finite(raw), raw, zeros_like(raw)));
  const Tensor sums = log(reduce_sum(exp(x - highest), axes, true)) + highest;
  if (how.keepdims) return sums;
  if (axes) return squeeze(sums, axes);
  return reshape(sums, Ints{});
}

Moments moments_of(const Tensor& x, const Axes& axes, bool keepdims) {
  const bool small = x.dtype() == DType::kFloat16 || x.dtype() == DType::kBFloat16;
  const Tensor y = small ? cast(x, DType::kFloat32) : x;
  Tensor mean = reduce_mean(y, axes, true);
  Tensor variance = reduce_mean(squared_difference(y, stop_gradient(mean)), axes, true);
  if (!keepdims) {
    mean = axes ? squeeze(mean, *axes) : reshape(mean, Ints{});
    variance = axes ? squeeze(variance, *axes) : reshape(variance, Ints{});
  }
  return {cast(mean, x.dtype()), cast(variance, x.dtype())};
}

Tensor argmax(const Tensor& x, int axis, DType dtype) {
  return call1("ArgMax", {x, constant(axis, DType::kInt32)}, {{"output_type", dtype}});
}
Tensor argmin(const Tensor& x, int axis, DType dtype) {
  return call1("ArgMin", {x, constant(axis, DType::kInt32)}, {{"output_type", dtype}});
}
Tensor cumsum(const Tensor& x, int axis, bool exclusive, bool reverse) {
  return call1("Cumsum", {x, constant(axis, DType::kInt32)}, {{"exclusive", exclusive}, {"reverse", reverse}});
}
Tensor cumprod(const Tensor& x, int axis, bool exclusive, bool reverse) {
  return call1("Cumprod", {x, constant(axis, DType::kInt32)}, {{"exclusive", exclusive}, {"reverse", reverse}});
}

TopK top_k(const Tensor& x, std::int64_t k, bool sorted) {
  Tensors out = call("TopKV2", {x, constant(static_cast<double>(k), DType::kInt32)}, {{"sorted", sorted}});
  return {out[0], out[1]};
}
Tensor abs(const Tensor& x) { return call1(is_complex(x.dtype()) ? "ComplexAbs" : "Abs", {x}); }
Tensor in_top_k(const Tensor& targets, const Tensor& predictions, std::int64_t k) {
  return call1("InTopKV2", {predictions, targets, constant(static_cast<double>(k), targets.dtype())});
}

Tensor bincount(const Tensor& x, std::int64_t size, const Tensor& weights, bool binary) {
  const Tensor w = weights.defined() ? weights : Tensor::zeros(Shape{0}, DType::kFloat32);
  return call1("DenseBincount", {x, constant(static_cast<double>(size), x.dtype()), w}, {{"binary_output", binary}});
}
Tensor unsorted_segment_sum(const Tensor& data, const Tensor& ids, std::int64_t num_segments) {
  return call1("UnsortedSegmentSum", {data, ids, constant(static_cast<double>(num_segments), DType::kInt32)});
}

Tensor unit_vectors(const Tensor& x, const Axes& axes, double epsilon) {
  return mul(x, minimum(rsqrt(reduce_sum(square(x), axes, true)), 1.0 / epsilon));
}

}  // namespace lockstep::ops
