#include "lockstep/ops/linear_algebra.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"

namespace lockstep::ops {
namespace {

double epsilon_of(const Tensor& x) {
  return x.dtype() == DType::kFloat64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

}  // namespace

Tensor solve(const Tensor& matrix, const Tensor& rhs) { return call1("MatrixSolve", {matrix, rhs}); }
Tensor inv(const Tensor& x) { return call1("MatrixInverse", {x}); }
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
Tensor expm(const Tensor& x) { return call1("MatrixExponential", {x}); }
Tensor sqrtm(const Tensor& x) { return call1("MatrixSquareRoot", {x}); }
Tensor matrix_rank(const Tensor& x) {
  const Tensor s = svdvals(x);
  const Tensor tolerance =
      reduce_max(s, -1, true) * Number(epsilon_of(x) * static_cast<double>(std::max(x.dim(-2), x.dim(-1))));
  return reduce_sum(cast(greater(s, tolerance), DType::kInt32), -1);
}

Tensor matvec(const Tensor& a, const Tensor& b) { return squeeze(matmul(a, expand_dims(b, -1)), {-1}); }
Tensor matrix_transpose(const Tensor& x) {
  if (x.rank() < 2)
    throw_invalid_argument("matrix_transpose: shape " + x.shape().to_string() + " has fewer than two axes");
  Ints permutation;
  for (int i = 0; i < x.rank(); ++i) permutation.push_back(i);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(x, permutation);
}
Tensor adjoint(const Tensor& x) { return matrix_transpose(x); }
Tensor diag(const Tensor& diagonal) { return call1("MatrixDiag", {diagonal}); }
Tensor diag_part(const Tensor& x) { return call1("MatrixDiagPart", {x}); }
Tensor set_diag(const Tensor& x, const Tensor& diagonal) { return call1("MatrixSetDiag", {x, diagonal}); }
Tensor cross(const Tensor& a, const Tensor& b) { return call1("Cross", {a, b}); }
Normalized normalize(const Tensor& x, const NormOrder& ord, const Axes& axes) {
  const Tensor length = norm(x, ord, axes, true);
  return {x / length, length};
}

}  // namespace lockstep::ops
