#include "lockstep/ops/math_functions.h"

#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/operators.h"

namespace lockstep::ops {

Tensor accumulate_n(const Tensors& inputs) { return call1("AddN", std::span<const Tensor>(inputs)); }
Tensor bessel_i0(const Tensor& x) { return call1("BesselI0", {x}); }
Tensor bessel_i0e(const Tensor& x) { return call1("BesselI0e", {x}); }
Tensor bessel_i1(const Tensor& x) { return call1("BesselI1", {x}); }
Tensor bessel_i1e(const Tensor& x) { return call1("BesselI1e", {x}); }
Tensor betainc(const Tensor& a, const Tensor& b, const Tensor& x) { return call1("Betainc", {a, b, x}); }
Tensor erfinv(const Tensor& x) { return call1("Erfinv", {x}); }
Tensor erfcinv(const Tensor& x) { return -ndtri(0.5 * x) * std::sqrt(0.5); }
Tensor ndtri(const Tensor& x) { return call1("Ndtri", {x}); }
Tensor nextafter(const Tensor& x1, const Tensor& x2) { return call1("NextAfter", {x1, x2}); }
Tensor polygamma(const Tensor& a, const Tensor& x) { return call1("Polygamma", {a, x}); }
Tensor zeta(const Tensor& x, const Tensor& q) { return call1("Zeta", {x, q}); }
Tensor rint(const Tensor& x) { return call1("Rint", {x}); }
Tensor xlog1py(const Tensor& x, const Tensor& y) { return call1("Xlog1py", {x, y}); }
Tensor log_sigmoid(const Tensor& x) { return -softplus(-x); }
Tensor logical_xor(const Tensor& x, const Tensor& y) {
  return logical_and(logical_or(x, y), logical_not(logical_and(x, y)));
}
Tensor multiply_no_nan(const Tensor& x, const Tensor& y) { return mul_no_nan(x, y); }
Tensor reciprocal_no_nan(const Tensor& x) { return call1("DivNoNan", {ones_like(x), x}); }
Tensor scalar_mul(const Tensor& scalar, const Tensor& x) { return scalar * x; }
Tensor truediv(const Tensor& x, const Tensor& y) { return x / y; }
Tensor lbeta(const Tensor& x) { return reduce_sum(lgamma(x), -1) - lgamma(reduce_sum(x, -1)); }

namespace {

// Whether the comparison holds for each element and the next one.
Tensor all_pairs(const Tensor& x, Tensor (*in_order)(const Tensor& a, const Tensor& b)) {
  const Tensor flat = reshape(x, {-1});
  const std::int64_t n = flat.dim(0);
  if (n < 2) return Tensor::scalar(true);
  return reduce_all(in_order(flat[{0, n - 1}], flat[{1, n}]));
}

}  // namespace

Tensor is_non_decreasing(const Tensor& x) {
  return all_pairs(x, [](const Tensor& a, const Tensor& b) { return a <= b; });
}
Tensor is_strictly_increasing(const Tensor& x) {
  return all_pairs(x, [](const Tensor& a, const Tensor& b) { return a < b; });
}
Tensor cumulative_logsumexp(const Tensor& x, const CumulativeKeywords& o) {
  return call1("CumulativeLogsumexp", {x, Tensor::scalar(o.axis)},
               {{"exclusive", o.exclusive}, {"reverse", o.reverse}});
}
namespace {

TopK approx_k(const Tensor& operand, std::int64_t k, bool is_max_k, const ApproxKeywords& o) {
  Tensors out = call("ApproxTopK", {operand},
                     {{"k", k},
                      {"reduction_dimension", static_cast<std::int64_t>(o.reduction_dimension)},
                      {"recall_target", static_cast<float>(o.recall_target)},
                      {"is_max_k", is_max_k},
                      {"reduction_input_size_override", o.reduction_input_size_override},
                      {"aggregate_to_topk", o.aggregate_to_topk}});
  return {out[0], out[1]};
}

}  // namespace

TopK approx_max_k(const Tensor& operand, std::int64_t k, const ApproxKeywords& keywords) {
  return approx_k(operand, k, true, keywords);
}
TopK approx_min_k(const Tensor& operand, std::int64_t k, const ApproxKeywords& keywords) {
  return approx_k(operand, k, false, keywords);
}
Tensor sobol_sample(std::int64_t dim, std::int64_t num_results, const SobolKeywords& keywords) {
  const auto number = [](std::int64_t value) { return Tensor::scalar(static_cast<std::int32_t>(value)); };
  return call1("SobolSample", {number(dim), number(num_results), number(keywords.skip)},
               {{"dtype", DType(keywords.dtype)}});
}
Tensor l2_normalize(const Tensor& x, const L2NormalizeKeywords& o) {
  return x * rsqrt(maximum(reduce_sum(square(x), o.axis, true), o.epsilon));
}

}  // namespace lockstep::ops

namespace lockstep::ops::special {

Tensor bessel_j0(const Tensor& x) { return call1("BesselJ0", {x}); }
Tensor bessel_j1(const Tensor& x) { return call1("BesselJ1", {x}); }
Tensor bessel_k0(const Tensor& x) { return call1("BesselK0", {x}); }
Tensor bessel_k0e(const Tensor& x) { return call1("BesselK0e", {x}); }
Tensor bessel_k1(const Tensor& x) { return call1("BesselK1", {x}); }
Tensor bessel_k1e(const Tensor& x) { return call1("BesselK1e", {x}); }
Tensor bessel_y0(const Tensor& x) { return call1("BesselY0", {x}); }
Tensor bessel_y1(const Tensor& x) { return call1("BesselY1", {x}); }
Tensor dawsn(const Tensor& x) { return call1("Dawsn", {x}); }
Tensor expint(const Tensor& x) { return call1("Expint", {x}); }
Tensor fresnel_cos(const Tensor& x) { return call1("FresnelCos", {x}); }
Tensor fresnel_sin(const Tensor& x) { return call1("FresnelSin", {x}); }
Tensor spence(const Tensor& x) { return call1("Spence", {x}); }

}  // namespace lockstep::ops::special

namespace lockstep::bitwise {

Tensor bitwise_and(const Tensor& x, const Tensor& y) { return ops::call1("BitwiseAnd", {x, y}); }
Tensor bitwise_or(const Tensor& x, const Tensor& y) { return ops::call1("BitwiseOr", {x, y}); }
Tensor bitwise_xor(const Tensor& x, const Tensor& y) { return ops::call1("BitwiseXor", {x, y}); }
Tensor invert(const Tensor& x) { return ops::call1("Invert", {x}); }
Tensor left_shift(const Tensor& x, const Tensor& y) { return ops::call1("LeftShift", {x, y}); }
Tensor right_shift(const Tensor& x, const Tensor& y) { return ops::call1("RightShift", {x, y}); }

}  // namespace lockstep::bitwise
