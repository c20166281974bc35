// tf.linalg: functions of matrices, which are the last two axes of a tensor. ops::linalg is another name of this
// namespace. Names, order of arguments and defaults are TensorFlow's. Throw InvalidArgument for shapes that do not fit
// and for matrices that cannot be inverted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/composed.h"

namespace lockstep::ops {

struct SolveKeywords {
  FieldNamesOnly names_only = {};
  bool adjoint = false;
};
Tensor solve(const Tensor& matrix, const Tensor& rhs, const SolveKeywords& keywords = {});
Tensor inv(const Tensor& x, const SolveKeywords& keywords = {});
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
Tensor svdvals(const Tensor& x);
// svd(x, {.compute_uv = false}): svdvals(x). Throws InvalidArgument for true, which is svd(x).
struct SingularValuesKeywords {
  FieldNamesOnly names_only = {};
  bool compute_uv = true;
};
Tensor svd(const Tensor& x, const SingularValuesKeywords& keywords);
struct Eigen {
  Tensor e, v;  // the values, from the smallest, and the vectors in columns
};
Eigen eigh(const Tensor& x);  // of symmetric matrices
Tensor eigvalsh(const Tensor& x);
// Of any square matrices, complex, in the order of LAPACK.
Eigen eig(const Tensor& x);
Tensor eigvals(const Tensor& x);
Tensor expm(const Tensor& x);
Tensor sqrtm(const Tensor& x);
Tensor logm(const Tensor& x);  // of complex matrices
struct RankKeywords {
  FieldNamesOnly names_only = {};
  std::optional<double> tol = std::nullopt;  // default: the largest singular value, times its rounding error
};
Tensor matrix_rank(const Tensor& x, const RankKeywords& keywords = {});  // int32
struct PseudoInverseKeywords {
  FieldNamesOnly names_only = {};
  std::optional<double> rcond = std::nullopt;
};
inline Tensor pinv(const Tensor& x, const PseudoInverseKeywords& keywords) { return pinv(x, keywords.rcond); }

// Matrices below and above the diagonal in one, and the order of the rows: x[p] is lower · upper.
struct LU {
  Tensor lu, p;
};
LU lu(const Tensor& x);
Tensor lu_reconstruct(const Tensor& lower_upper, const Tensor& perm);
Tensor lu_solve(const Tensor& lower_upper, const Tensor& perm, const Tensor& rhs);
Tensor lu_matrix_inverse(const Tensor& lower_upper, const Tensor& perm);

// Matrices with three diagonals: (..., 3, n), the one above, the main one and the one below, with an unused number at
// the end of the first and at the begin of the last ("compact"), or the whole matrix ("matrix").
struct TridiagonalKeywords {
  FieldNamesOnly names_only = {};
  std::string_view diagonals_format = "compact";
};
struct TridiagonalSolveKeywords {
  FieldNamesOnly names_only = {};
  std::string_view diagonals_format = "compact";
  bool transpose_rhs = false;
  bool conjugate_rhs = false;
  bool partial_pivoting = true;
  bool perturb_singular = false;
};
// rhs (..., n, columns), or vectors (..., n).
Tensor tridiagonal_solve(const Tensor& diagonals, const Tensor& rhs, const TridiagonalSolveKeywords& keywords = {});
Tensor tridiagonal_matmul(const Tensor& diagonals, const Tensor& rhs, const TridiagonalKeywords& keywords = {});
// bands (..., k, n): the main diagonal first if lower, else last.
Tensor banded_triangular_solve(const Tensor& bands, const Tensor& rhs, const TriangularKeywords& keywords = {});

struct MatvecKeywords {
  FieldNamesOnly names_only = {};
  bool transpose_a = false;
  bool adjoint_a = false;
};
Tensor matvec(const Tensor& a, const Tensor& b, const MatvecKeywords& keywords = {});
struct ConjugateKeywords {
  FieldNamesOnly names_only = {};
  bool conjugate = false;
};
Tensor matrix_transpose(const Tensor& x, const ConjugateKeywords& keywords = {});
Tensor adjoint(const Tensor& x);  // with conjugated numbers
// k: above the main diagonal, or if negative below it; or the lowest and the highest of several, whose rows are aligned
// as `align` says. Default of the numbers of rows and columns: the smallest that fit.
struct DiagonalKeywords {
  FieldNamesOnly names_only = {};
  IntOrInts k = 0;
  std::int64_t num_rows = -1;
  std::int64_t num_cols = -1;
  double padding_value = 0;
  std::string align = "RIGHT_LEFT";
};
Tensor diag(const Tensor& diagonal);
Tensor diag(const Tensor& diagonal, const DiagonalKeywords& keywords);
struct DiagonalPartKeywords {
  FieldNamesOnly names_only = {};
  IntOrInts k = 0;
  double padding_value = 0;
  std::string align = "RIGHT_LEFT";
};
Tensor diag_part(const Tensor& x);
Tensor diag_part(const Tensor& x, const DiagonalPartKeywords& keywords);
struct SetDiagonalKeywords {
  FieldNamesOnly names_only = {};
  IntOrInts k = 0;
  std::string align = "RIGHT_LEFT";
};
Tensor set_diag(const Tensor& x, const Tensor& diagonal);
Tensor set_diag(const Tensor& x, const Tensor& diagonal, const SetDiagonalKeywords& keywords);
// A tensor of shape (d1, ..., d1, ...) with the tensor of shape (d1, ...) on its diagonal, and the diagonal of one.
Tensor tensor_diag(const Tensor& diagonal);
Tensor tensor_diag_part(const Tensor& x);
inline Tensor band_part(const Tensor& x, std::int64_t lower, std::int64_t upper) {
  return matrix_band_part(x, lower, upper);
}
Tensor cross(const Tensor& a, const Tensor& b);
struct Normalized {
  Tensor normalized, norm;
};
Normalized normalize(const Tensor& x, const NormOrder& ord = {}, const Axes& axes = std::nullopt);

}  // namespace lockstep::ops
