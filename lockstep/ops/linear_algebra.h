// tf.linalg: functions of matrices, which are the last two axes of a tensor. ops::linalg is another name of this
// namespace. Names, order of arguments and defaults are TensorFlow's. Throw InvalidArgument for shapes that do not fit
// and for matrices that cannot be inverted.
#pragma once

#include <optional>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/composed.h"

namespace lockstep::ops {

Tensor solve(const Tensor& matrix, const Tensor& rhs);
Tensor inv(const Tensor& x);
Tensor det(const Tensor& x);
Tensor cholesky(const Tensor& x);  // NaN for a matrix that is not positive definite
Tensor cholesky_solve(const Tensor& chol, const Tensor& rhs);
struct TriangularKeywords {
  FieldNamesOnly names_only = {};
  bool lower = true;
  bool adjoint = false;
};
Tensor triangular_solve(const Tensor& matrix, const Tensor& rhs, const TriangularKeywords& keywords = {});
struct LeastSquaresKeywords {
  FieldNamesOnly names_only = {};
  double l2_regularizer = 0.0;
  bool fast = true;
};
Tensor lstsq(const Tensor& matrix, const Tensor& rhs, const LeastSquaresKeywords& keywords = {});
struct SignAndLogDet {
  Tensor sign, log_abs_determinant;
};
SignAndLogDet slogdet(const Tensor& x);
Tensor logdet(const Tensor& x);  // of a positive definite matrix
Tensor pinv(const Tensor& x, std::optional<double> rcond = std::nullopt);

struct QR {
  Tensor q, r;
};
struct MatricesKeywords {
  FieldNamesOnly names_only = {};
  bool full_matrices = false;
};
QR qr(const Tensor& x, const MatricesKeywords& keywords = {});
struct SVD {
  Tensor s, u, v;  // x is u · diag(s) · vᵀ
};
SVD svd(const Tensor& x, const MatricesKeywords& keywords = {});
Tensor svdvals(const Tensor& x);  // svd(x, compute_uv=False)
struct Eigen {
  Tensor e, v;  // the values, from the smallest, and the vectors in columns
};
Eigen eigh(const Tensor& x);  // of symmetric matrices
Tensor eigvalsh(const Tensor& x);
Tensor expm(const Tensor& x);
Tensor sqrtm(const Tensor& x);
Tensor matrix_rank(const Tensor& x);  // int32

Tensor matvec(const Tensor& a, const Tensor& b);
Tensor matrix_transpose(const Tensor& x);
Tensor adjoint(const Tensor& x);  // the same of real numbers
Tensor diag(const Tensor& diagonal);
Tensor diag_part(const Tensor& x);
Tensor set_diag(const Tensor& x, const Tensor& diagonal);
inline Tensor band_part(const Tensor& x, std::int64_t lower, std::int64_t upper) {
  return matrix_band_part(x, lower, upper);
}
Tensor cross(const Tensor& a, const Tensor& b);
struct Normalized {
  Tensor normalized, norm;
};
Normalized normalize(const Tensor& x, const NormOrder& ord = {}, const Axes& axes = std::nullopt);

}  // namespace lockstep::ops
