#include "lockstep/ops/linear_algebra.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/complex_functions.h"
#include "lockstep/ops/composed.h"

namespace lockstep::ops {
namespace {

double epsilon_of(const Tensor& x) {
  return x.dtype() == DType::kFloat64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

}  // namespace

Tensor solve(const Tensor& matrix, const Tensor& rhs, const SolveKeywords& keywords) {
  return call1("MatrixSolve", {matrix, rhs}, {{"adjoint", keywords.adjoint}});
}
Tensor inv(const Tensor& x, const SolveKeywords& keywords) {
  return call1("MatrixInverse", {x}, {{"adjoint", keywords.adjoint}});
}
Tensor det(const Tensor& x) { return call1("MatrixDeterminant", {x}); }
Tensor cholesky(const Tensor& x) { return call1("Cholesky", {x}); }
Tensor cholesky_solve(const Tensor& chol, const Tensor& rhs) {
  return triangular_solve(chol, triangular_solve(chol, rhs), {.adjoint = true});
}
Tensor triangular_solve(const Tensor& matrix, const Tensor& rhs, const TriangularKeywords& keywords) {
  return call1("MatrixTriangularSolve", {matrix, rhs}, {{"lower", keywords.lower}, {"adjoint", keywords.adjoint}});
}
Tensor lstsq(const Tensor& matrix, const Tensor& rhs, const LeastSquaresKeywords& keywords) {
  return call1("MatrixSolveLs", {matrix, rhs, constant(keywords.l2_regularizer, DType::kFloat64)},
               {{"fast", keywords.fast}});
}
SignAndLogDet slogdet(const Tensor& x) {
  Tensors out = call("LogMatrixDeterminant", {x});
  return {std::move(out[0]), std::move(out[1])};
}
Tensor logdet(const Tensor& x) { return 2 * reduce_sum(log(diag_part(cholesky(x))), -1); }
Tensor pinv(const Tensor& x, std::optional<double> rcond) {
  const auto [s, u, v] = svd(x);
  const double relative = rcond.value_or(10 * static_cast<double>(std::max(x.dim(-2), x.dim(-1))) * epsilon_of(x));
  const Tensor cutoff = expand_dims(relative * reduce_max(s, -1), -1);
  const Tensor kept = where(greater(s, cutoff), s, fill(shape(s), constant(INFINITY, s.dtype())));
  return matmul(v / expand_dims(kept, -2), u, false, true);
}

QR qr(const Tensor& x, const MatricesKeywords& keywords) {
  Tensors out = call("Qr", {x}, {{"full_matrices", keywords.full_matrices}});
  return {std::move(out[0]), std::move(out[1])};
}
SVD svd(const Tensor& x, const MatricesKeywords& keywords) {
  Tensors out = call("Svd", {x}, {{"full_matrices", keywords.full_matrices}});
  return {std::move(out[0]), std::move(out[1]), std::move(out[2])};
}
Tensor svdvals(const Tensor& x) { return call("Svd", {x}, {{"compute_uv", false}})[0]; }
Eigen eigh(const Tensor& x) {
  Tensors out = call("SelfAdjointEigV2", {x});
  return {std::move(out[0]), std::move(out[1])};
}
Tensor eigvalsh(const Tensor& x) { return call("SelfAdjointEigV2", {x}, {{"compute_v", false}})[0]; }
Tensor svd(const Tensor& x, const SingularValuesKeywords& keywords) {
  if (keywords.compute_uv) {
    throw_invalid_argument("svd: compute_uv = true returns three tensors; leave the argument out: svd(x)");
  }
  return svdvals(x);
}
namespace {

Tensors eigen_of(const Tensor& x, bool compute_v) {
  const bool is_double = x.dtype() == DType::kFloat64 || x.dtype() == DType::kComplex128;
  return call("Eig", {x}, {{"compute_v", compute_v}, {"Tout", is_double ? DType::kComplex128 : DType::kComplex64}});
}

}  // namespace
Eigen eig(const Tensor& x) {
  Tensors out = eigen_of(x, true);
  return {std::move(out[0]), std::move(out[1])};
}
Tensor eigvals(const Tensor& x) { return eigen_of(x, false)[0]; }
Tensor expm(const Tensor& x) { return call1("MatrixExponential", {x}); }
Tensor sqrtm(const Tensor& x) { return call1("MatrixSquareRoot", {x}); }
Tensor logm(const Tensor& x) { return call1("MatrixLogarithm", {x}); }
Tensor matrix_rank(const Tensor& x, const RankKeywords& keywords) {
  const Tensor s = svdvals(x);
  const Tensor tolerance =
      keywords.tol
          ? constant(*keywords.tol, s.dtype())
          : reduce_max(s, -1, true) * Number(epsilon_of(x) * static_cast<double>(std::max(x.dim(-2), x.dim(-1))));
  return reduce_sum(cast(greater(s, tolerance), DType::kInt32), -1);
}

LU lu(const Tensor& x) {
  Tensors out = call("Lu", {x});
  return {std::move(out[0]), std::move(out[1])};
}
namespace {

int batch_axes_of(const Tensor& perm) { return perm.rank() - 1; }
Tensor diagonal_of_ones(const Tensor& x) {
  return fill(slice(shape_of(x), {0}, {x.rank() - 1}), constant(1.0, x.dtype()));
}
// Ones on the diagonal, and what is below.
Tensor unit_lower(const Tensor& lower_upper) {
  return set_diag(matrix_band_part(lower_upper, -1, 0), diagonal_of_ones(lower_upper));
}

}  // namespace
Tensor lu_reconstruct(const Tensor& lower_upper, const Tensor& perm) {
  const Tensor product = matmul(unit_lower(lower_upper), matrix_band_part(lower_upper, 0, -1));
  const int axes = batch_axes_of(perm);
  return gather(product, argsort(perm), axes, axes);
}
Tensor lu_solve(const Tensor& lower_upper, const Tensor& perm, const Tensor& rhs) {
  const int axes = batch_axes_of(perm);
  const Tensor lower = triangular_solve(unit_lower(lower_upper), gather(rhs, perm, axes, axes));
  return triangular_solve(lower_upper, lower, {.lower = false});
}
Tensor lu_matrix_inverse(const Tensor& lower_upper, const Tensor& perm) {
  return lu_solve(lower_upper, perm, diag(diagonal_of_ones(lower_upper)));
}

namespace {

// (..., 3, n) of "compact" or of whole matrices.
Tensor three_diagonals(const char* function, const Tensor& diagonals, std::string_view format) {
  if (format == "compact") return diagonals;
  if (format == "matrix") return diag_part(diagonals, {.k = {-1, 1}, .align = "LEFT_RIGHT"});
  throw_invalid_argument(std::string(function) + ": invalid diagonals_format: found \"" + std::string(format) +
                         "\", expected \"compact\" or \"matrix\"");
}

}  // namespace
Tensor tridiagonal_solve(const Tensor& diagonals, const Tensor& rhs, const TridiagonalSolveKeywords& o) {
  const Tensor three = three_diagonals("tridiagonal_solve", diagonals, o.diagonals_format);
  const bool vectors = rhs.rank() == three.rank() - 1;
  Tensor columns = vectors ? expand_dims(rhs, -1) : rhs;
  if (o.conjugate_rhs) columns = conj(columns);
  if (o.transpose_rhs && !vectors) columns = matrix_transpose(columns);
  const Tensor out = call1("TridiagonalSolve", {three, columns},
                           {{"partial_pivoting", o.partial_pivoting}, {"perturb_singular", o.perturb_singular}});
  return vectors ? squeeze(out, {-1}) : out;
}
Tensor tridiagonal_matmul(const Tensor& diagonals, const Tensor& rhs, const TridiagonalKeywords& o) {
  const Tensor three = three_diagonals("tridiagonal_matmul", diagonals, o.diagonals_format);
  const auto row = [&three](std::int64_t i) { return slice_axis(three, -2, i, i + 1); };
  return call1("TridiagonalMatMul", {row(0), row(1), row(2), rhs});
}
Tensor banded_triangular_solve(const Tensor& bands, const Tensor& rhs, const TriangularKeywords& keywords) {
  return call1("BandedTriangularSolve", {bands, rhs}, {{"lower", keywords.lower}, {"adjoint", keywords.adjoint}});
}

Tensor matvec(const Tensor& a, const Tensor& b, const MatvecKeywords& keywords) {
  const Tensor left = keywords.adjoint_a ? conj(a) : a;
  return squeeze(matmul(left, expand_dims(b, -1), keywords.transpose_a || keywords.adjoint_a, false), {-1});
}
Tensor matrix_transpose(const Tensor& x, const ConjugateKeywords& keywords) {
  if (x.rank() < 2)
    throw_invalid_argument("matrix_transpose: shape " + x.shape().to_string() + " has fewer than two axes");
  Ints permutation;
  for (int i = 0; i < x.rank(); ++i) permutation.push_back(i);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(keywords.conjugate ? conj(x) : x, permutation);
}
Tensor adjoint(const Tensor& x) { return matrix_transpose(x, {.conjugate = true}); }
namespace {

Tensor diagonals_of(const IntOrInts& k) {
  return k.is_one() || k.size() == 1 ? Tensor::scalar(static_cast<std::int32_t>(k[0]))
                                     : constant_ints(static_cast<const Ints&>(k), DType::kInt32);
}

}  // namespace
Tensor diag(const Tensor& diagonal) { return call1("MatrixDiag", {diagonal}); }
Tensor diag(const Tensor& diagonal, const DiagonalKeywords& o) {
  return call1("MatrixDiagV3",
               {diagonal, diagonals_of(o.k), Tensor::scalar(static_cast<std::int32_t>(o.num_rows)),
                Tensor::scalar(static_cast<std::int32_t>(o.num_cols)), constant(o.padding_value, diagonal.dtype())},
               {{"align", o.align}});
}
Tensor diag_part(const Tensor& x) { return call1("MatrixDiagPart", {x}); }
Tensor diag_part(const Tensor& x, const DiagonalPartKeywords& o) {
  return call1("MatrixDiagPartV3", {x, diagonals_of(o.k), constant(o.padding_value, x.dtype())}, {{"align", o.align}});
}
Tensor set_diag(const Tensor& x, const Tensor& diagonal) { return call1("MatrixSetDiag", {x, diagonal}); }
Tensor set_diag(const Tensor& x, const Tensor& diagonal, const SetDiagonalKeywords& o) {
  return call1("MatrixSetDiagV3", {x, diagonal, diagonals_of(o.k)}, {{"align", o.align}});
}
Tensor tensor_diag(const Tensor& diagonal) { return call1("Diag", {diagonal}); }
Tensor tensor_diag_part(const Tensor& x) { return call1("DiagPart", {x}); }
Tensor cross(const Tensor& a, const Tensor& b) { return call1("Cross", {a, b}); }
Normalized normalize(const Tensor& x, const NormOrder& ord, const Axes& axes) {
  const Tensor length = norm(x, ord, axes, true);
  return {x / length, length};
}

}  // namespace lockstep::ops
