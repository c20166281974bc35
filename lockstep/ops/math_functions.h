// tf.math and tf.bitwise: functions that keras.ops does not have. All are elementwise, with broadcasting, unless the
// comment says otherwise.
#pragma once

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/keywords.h"

namespace lockstep::ops {

Tensor accumulate_n(const Tensors& inputs);  // the sum of tensors of one shape
Tensor bessel_i0(const Tensor& x);
Tensor bessel_i0e(const Tensor& x);
Tensor bessel_i1(const Tensor& x);
Tensor bessel_i1e(const Tensor& x);
Tensor betainc(const Tensor& a, const Tensor& b, const Tensor& x);
Tensor erfinv(const Tensor& x);
Tensor erfcinv(const Tensor& x);
Tensor ndtri(const Tensor& x);
Tensor nextafter(const Tensor& x1, const Tensor& x2);
Tensor polygamma(const Tensor& a, const Tensor& x);
Tensor zeta(const Tensor& x, const Tensor& q);
Tensor rint(const Tensor& x);
Tensor xlog1py(const Tensor& x, const Tensor& y);  // x log(1 + y), 0 where x is 0
Tensor log_sigmoid(const Tensor& x);
Tensor logical_xor(const Tensor& x, const Tensor& y);
Tensor multiply_no_nan(const Tensor& x, const Tensor& y);  // 0 where y is 0
Tensor reciprocal_no_nan(const Tensor& x);                 // 0 where x is 0
Tensor scalar_mul(const Tensor& scalar, const Tensor& x);
Tensor truediv(const Tensor& x, const Tensor& y);  // of integers a fraction
Tensor lbeta(const Tensor& x);                     // log of Beta over the last axis
Tensor is_non_decreasing(const Tensor& x);         // a boolean, of all elements in order
Tensor is_strictly_increasing(const Tensor& x);
Tensor cumulative_logsumexp(const Tensor& x, const CumulativeKeywords& keywords = {});
// The k largest or smallest numbers along an axis, in order, and their indices; as in TensorFlow the largest found need
// not be the largest ones, except on CPUs.
struct ApproxKeywords {
  FieldNamesOnly names_only = {};
  int reduction_dimension = -1;
  double recall_target = 0.95;
  std::int64_t reduction_input_size_override = -1;
  bool aggregate_to_topk = true;
};
TopK approx_max_k(const Tensor& operand, std::int64_t k, const ApproxKeywords& keywords = {});
TopK approx_min_k(const Tensor& operand, std::int64_t k, const ApproxKeywords& keywords = {});
// (num_results, dim): points of Sobol's sequence from `skip` on, from 0 to 1.
struct SobolKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t skip = 0;
  DTypeLike dtype = DType::kFloat32;
};
Tensor sobol_sample(std::int64_t dim, std::int64_t num_results, const SobolKeywords& keywords = {});
inline Tensor sobol_sample(std::int64_t dim, std::int64_t num_results, std::int64_t skip, SobolKeywords keywords = {}) {
  keywords.skip = skip;
  return sobol_sample(dim, num_results, keywords);
}
// tf.math.l2_normalize and tf.nn.l2_normalize: x over its Euclidean length along the axes, by default all; the square
// of the length counts as at least epsilon.
struct L2NormalizeKeywords {
  FieldNamesOnly names_only = {};
  Axes axis = std::nullopt;
  double epsilon = 1e-12;
};
Tensor l2_normalize(const Tensor& x, const L2NormalizeKeywords& keywords = {});
template <std::convertible_to<Axes> A>
Tensor l2_normalize(const Tensor& x, const A& axis, double epsilon = 1e-12) {
  return l2_normalize(x, L2NormalizeKeywords{{}, axis, epsilon});
}

}  // namespace lockstep::ops

// tf.math.special: elementwise.
namespace lockstep::ops::special {

using ops::bessel_i0;
using ops::bessel_i0e;
using ops::bessel_i1;
using ops::bessel_i1e;
Tensor bessel_j0(const Tensor& x);
Tensor bessel_j1(const Tensor& x);
Tensor bessel_k0(const Tensor& x);
Tensor bessel_k0e(const Tensor& x);
Tensor bessel_k1(const Tensor& x);
Tensor bessel_k1e(const Tensor& x);
Tensor bessel_y0(const Tensor& x);
Tensor bessel_y1(const Tensor& x);
Tensor dawsn(const Tensor& x);
Tensor expint(const Tensor& x);
Tensor fresnel_cos(const Tensor& x);
Tensor fresnel_sin(const Tensor& x);
Tensor spence(const Tensor& x);

}  // namespace lockstep::ops::special

namespace lockstep::bitwise {

// Of integers.
Tensor bitwise_and(const Tensor& x, const Tensor& y);
Tensor bitwise_or(const Tensor& x, const Tensor& y);
Tensor bitwise_xor(const Tensor& x, const Tensor& y);
Tensor invert(const Tensor& x);
Tensor left_shift(const Tensor& x, const Tensor& y);
Tensor right_shift(const Tensor& x, const Tensor& y);

}  // namespace lockstep::bitwise
