// Decompositions, inverses and solutions of batches of matrices, by LAPACK through LibTorch; Fourier transforms.
#include <algorithm>
#include <complex>
#include <utility>

#include <ATen/ops/linalg_cholesky_ex.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/precision_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/ops/self_adjoint_internal.h"
#include "lockstep/ops/singular_vectors_internal.h"

namespace lockstep::ops {
namespace {

// LAPACK knows no float16 and no bfloat16.
bool is_short(const at::Tensor& x) { return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16; }
at::Tensor for_lapack(const at::Tensor& x) {
  if (x.dim() < 2) throw_invalid_argument("a matrix must have at least two axes");
  std::int64_t batch = 1;  // LibTorch goes through all matrices even where they are empty
  for (std::int64_t i = 0; i + 2 < x.dim(); ++i) batch *= std::min<std::int64_t>(x.size(i), 1 << 15);
  if (x.numel() == 0 && batch > 1 << 15) throw_invalid_argument("there are too many empty matrices");
  return is_short(x) ? x.to(at::kFloat) : x;
}
at::Tensor square_matrix(const Call& call, int i) {
  const at::Tensor x = for_lapack(in(call, i));
  if (x.size(-1) != x.size(-2))
    throw_invalid_argument(fmt::format("a square matrix is needed, found shape {}", call.input(i).shape().to_string()));
  return x;
}
// LAPACK's decompositions complain on stderr about numbers that are not finite.
const at::Tensor& finite(const at::Tensor& x) {
  if (x.numel() > 0 && !at::isfinite(x).all().item<bool>()) throw_invalid_argument("the input must be finite");
  return x;
}
// A value in the dtype of input 0, with its conjugation carried out.
Tensor settled(const Call& call, const at::Tensor& y) {
  return wrap(narrow_to(y.resolve_conj(), in(call, 0).scalar_type()).contiguous());
}
at::Tensor adjoint_if(const at::Tensor& x, bool adjoint) { return adjoint ? x.mH() : x; }

// The factor of a matrix with numbers that are not finite, column by column as TensorFlow computes it: LAPACK stops at
// a NaN, TensorFlow only at a pivot that is not positive.
at::Tensor factor_by_columns(const at::Tensor& matrix) {
  const at::Tensor l = matrix.tril();
  for (std::int64_t k = 0; k < l.size(0); ++k) {
    const at::Tensor column = l.slice(0, k).select(1, k);
    column.sub_(at::mv(l.slice(0, k).slice(1, 0, k), l[k].slice(0, 0, k).conj()));
    const at::Tensor pivot = column[0];
    if (at::real(pivot).item<double>() <= 0) return at::full_like(l, NAN).tril();
    pivot.copy_(at::real(pivot).sqrt());
    column.slice(0, 1).div_(at::real(pivot));
  }
  return l;
}

at::Tensor lower_factor(const at::Tensor& x) {
  auto [l, info] = at::linalg_cholesky_ex(x, /*upper=*/false, /*check_errors=*/false);
  if (!at::isfinite(x.sum()).item<bool>()) {
    const at::Tensor from = x.reshape({-1, x.size(-2), x.size(-1)}), to = at::empty_like(from);
    for (std::int64_t i = 0; i < from.size(0); ++i) to[i].copy_(factor_by_columns(from[i]));
    return to.view(x.sizes());
  }
  if (info.numel() > 0 && info.ne(0).any().item<bool>()) {
    const at::Tensor bad = info.ne(0).unsqueeze(-1).unsqueeze(-1);
    l = at::where(bad, at::full({}, NAN, l.options()), l).tril();
  }
  return l;
}

// The gradient of Cholesky from l and dl.
at::Tensor slope_of_factor(const at::Tensor& l, const at::Tensor& dl) {
  at::Tensor middle = at::matmul(l.mH(), dl).tril();
  middle = middle - 0.5 * at::diag_embed(middle.diagonal(0, -2, -1));
  const at::Tensor left = at::linalg_solve_triangular(l.mH(), middle, /*upper=*/true);
  const at::Tensor both = at::linalg_solve_triangular(l.mH(), left.mH(), /*upper=*/true).mH();
  return 0.5 * (both + both.mH());
}

Tensors cholesky(const Call& call) {
  const at::Tensor x = square_matrix(call, 0);
  if (!grad_enabled() || !x.requires_grad()) return {settled(call, lower_factor(x))};
  const at::Tensor l = lower_factor(x.detach());
  const auto gradient = [l](const Tensors& dys, const Tensors& captured) {
    return Tensors{wrap(slope_of_factor(grad_enabled() ? dense(call1("Cholesky", {captured[0]})) : l, dense(dys[0])))};
  };
  return {settled(call, dense(with_gradients({wrap(x)}, {wrap(l)}, {wrap(x)}, gradient)[0]))};
}

Tensors cholesky_grad(const Call& call) {
  const at::Tensor l = square_matrix(call, 0).tril(), dl = for_lapack(in(call, 1));
  if (l.sizes() != dl.sizes()) throw_invalid_argument("l and grad differ in their shapes");
  return {settled(call, slope_of_factor(l, dl))};
}

Tensors qr(const Call& call) {
  const auto [q, r] = at::linalg_qr(for_lapack(in(call, 0)), call.attr<bool>("full_matrices") ? "complete" : "reduced");
  return {settled(call, q), settled(call, r)};
}

Tensors svd(const Call& call) {
  const at::Tensor x = finite(for_lapack(in(call, 0)));
  const at::Tensor none = at::empty({0}, x.options());
  const auto as_t = [&](const at::Tensor& s) { return settled(call, s.to(x.scalar_type())); };
  if (!call.attr<bool>("compute_uv")) return {as_t(at::linalg_svdvals(x)), settled(call, none), settled(call, none)};
  const bool full = call.attr<bool>("full_matrices");
  const auto [left, values, right] = singular_vectors(x, full);
  const auto out = [&](const at::Tensor& s, const at::Tensor& u, const at::Tensor& v) {
    return Tensors{as_t(s), settled(call, u), settled(call, v)};
  };
  if (!x.requires_grad() || !grad_enabled()) return out(values, left, right);
  const std::int64_t m = x.size(-2), n = x.size(-1), k = std::min(m, n);
  if (full && std::max(m, n) - k > 1) {
    return with_gradients({wrap(x)}, out(values, left, right), {}, [](const Tensors&, const Tensors&) -> Tensors {
      throw_unimplemented("gradient: Svd with full_matrices and sides that differ by more than 1");
    });
  }
  // LibTorch's vectors have gradients; they get the signs of the other ones.
  const auto [u, s, vh] = at::linalg_svd(x, full);
  const at::Tensor v = vh.mH();
  const auto turns = [](const at::Tensor& from, const at::Tensor& to) {
    const at::Tensor turn = (from.detach().conj() * to).sum(-2, true).sgn();
    return at::where(turn == 0, at::ones_like(turn), turn);
  };
  // The vector that the singular values leave out follows from the others. LibTorch gives it no gradient.
  const at::Tensor turn = turns(u.slice(-1, 0, k), left.slice(-1, 0, k));
  const auto turned = [&](const at::Tensor& vectors, const at::Tensor& to) {
    const at::Tensor own = vectors.slice(-1, 0, k);
    if (vectors.size(-1) == k) return own * turn;
    const at::Tensor rest = vectors.slice(-1, k).detach(), last = rest * turns(rest, to.slice(-1, k));
    return at::cat({own * turn, last - at::matmul(own, at::matmul(own.mH(), last))}, -1);
  };
  return out(s, turned(u, left), turned(v, right));
}

// The gradient of a matrix, of which the lower triangle is read, from its eigenvalues and vectors; equal values give
// no infinite factors, as in TensorFlow. `dv` may be undefined.
at::Tensor slope_of_eigen(const at::Tensor& e, const at::Tensor& v, const at::Tensor& de, const at::Tensor& dv) {
  at::Tensor middle = at::diag_embed(de.defined() ? de : at::zeros_like(e));
  if (dv.defined()) {
    const at::Tensor gap = e.unsqueeze(-2) - e.unsqueeze(-1);
    middle = middle + gap / (gap * gap + 1e-20) * at::matmul(v.mH(), dv);
  }
  const at::Tensor whole = at::matmul(v, at::matmul(middle, v.mH()));
  const at::Tensor both = whole + whole.mH();
  return at::tril(both, -1) + at::diag_embed(0.5 * both.diagonal(0, -2, -1));
}

Tensors self_adjoint_eig(const Call& call) {
  const at::Tensor x = finite(square_matrix(call, 0));
  const auto [values, vectors] = self_adjoint_eigen(x);
  Tensors out{wrap(values), wrap(vectors)};
  if (grad_enabled() && x.requires_grad()) {
    out = with_gradients({wrap(x)}, out, {wrap(x)}, [out](const Tensors& dys, const Tensors& captured) {
      const Tensors made = grad_enabled() ? lockstep::ops::call("SelfAdjointEigV2", captured) : out;
      const auto slope = [&](std::size_t i) { return dys[i].defined() ? dense(dys[i]) : at::Tensor(); };
      return Tensors{wrap(slope_of_eigen(dense(made[0]), dense(made[1]), slope(0), slope(1)))};
    });
  }
  const at::Tensor e = dense(out[0]), v = dense(out[1]);
  if (call.name().ends_with("Eig"))  // the first version: values above vectors, in one tensor
    return {settled(call, at::cat({e.unsqueeze(-2), v}, -2))};
  return {settled(call, e), settled(call, call.attr<bool>("compute_v") ? v : at::empty({0}, x.options()))};
}

Tensors eig(const Call& call) {
  require_one_precision(call.input(0).dtype(), call.attr<DType>("Tout"));
  const at::Tensor x = finite(square_matrix(call, 0));
  const at::ScalarType type = to_scalar_type(call.attr<DType>("Tout"));
  const bool sorted = at::isComplexType(x.scalar_type());  // those of complex matrices come by their magnitude
  const auto order = [](const at::Tensor& e) { return at::argsort(at::abs(e.detach()), true, -1, false); };
  if (!call.attr<bool>("compute_v")) {
    const at::Tensor e = at::linalg_eigvals(x);
    return {wrap((sorted ? e.gather(-1, order(e)) : e).to(type)), wrap(at::empty({0}, x.options().dtype(type)))};
  }
  auto [e, v] = at::linalg_eig(x);
  if (sorted) {
    const at::Tensor places = order(e);
    e = e.gather(-1, places), v = v.gather(-1, places.unsqueeze(-2).expand_as(v));
  }
  return {wrap(e.to(type)), wrap(v.to(type))};
}

Tensors inverse(const Call& call) {
  const at::Tensor x = square_matrix(call, 0);
  const auto [y, info] = at::linalg_inv_ex(adjoint_if(x, call.attr<bool>("adjoint")), false);
  if (info.numel() > 0 && info.ne(0).any().item<bool>()) throw_invalid_argument("the input is not invertible");
  return {settled(call, y)};
}

Tensors solve(const Call& call) {
  const at::Tensor a = square_matrix(call, 0), b = for_lapack(in(call, 1));
  if (b.dim() != a.dim() || b.size(-2) != a.size(-1) ||
      b.sizes().slice(0, static_cast<std::size_t>(b.dim()) - 2) !=
          a.sizes().slice(0, static_cast<std::size_t>(a.dim()) - 2)) {
    throw_invalid_argument(fmt::format("matrix {} and rhs {} have incompatible shapes",
                                       call.input(0).shape().to_string(), call.input(1).shape().to_string()));
  }
  const auto [y, info] = at::linalg_solve_ex(adjoint_if(a, call.attr<bool>("adjoint")), b, true, false);
  if (info.numel() > 0 && info.ne(0).any().item<bool>()) throw_invalid_argument("the input matrix is not invertible");
  return {settled(call, y)};
}

Tensors triangular_solve(const Call& call) {
  const at::Tensor a = square_matrix(call, 0), b = for_lapack(in(call, 1));
  if (b.size(-2) != a.size(-1)) throw_invalid_argument("matrix and rhs have incompatible shapes");
  const bool lower = call.attr<bool>("lower"), adjoint = call.attr<bool>("adjoint");
  return {settled(call, at::linalg_solve_triangular(adjoint_if(a, adjoint), b, /*upper=*/lower == adjoint))};
}

// The rows of `matrix` are diagonals: the main one first where it is lower, last where it is upper. Entry i of each
// belongs to row i of the triangular matrix.
Tensors banded_triangular_solve(const Call& call) {
  const Tensor& bands = call.input(0);
  if (bands.rank() < 2 || call.input(1).rank() < 2)
    throw_invalid_argument("matrix and rhs must have at least two axes");
  const std::int64_t count = bands.dim(-2), n = bands.dim(-1);
  if (count < 1 || count > n) throw_invalid_argument(fmt::format("found {} bands of {} entries", count, n));
  const auto lower = call.attr<bool>("lower");
  const Ints range = lower ? Ints{1 - count, 0} : Ints{0, count - 1};
  const auto number = [](std::int64_t value) { return Tensor::scalar(static_cast<std::int32_t>(value)); };
  const Tensor full = call1("MatrixDiagV3",
                            {count == 1 ? wrap(in(call, 0).squeeze(-2)) : bands,
                             Tensor::from_vector(std::vector<std::int32_t>(range.begin(), range.end()), Shape{2}),
                             number(n), number(n), Tensor::zeros(Shape{}, bands.dtype())},
                            {{"align", std::string("LEFT_RIGHT")}});
  if (in(call, 0).detach().select(-2, lower ? 0 : count - 1).eq(0).any().item<bool>())
    throw_invalid_argument("the input matrix is not invertible");
  return {call1("MatrixTriangularSolve", {full, call.input(1)},
                {{"lower", lower}, {"adjoint", call.attr<bool>("adjoint")}})};
}

// With TensorFlow's gradient, which adds a matrix and its transpose where the adjoint is meant.
at::Tensor tall_complex_solution(const at::Tensor& a, const at::Tensor& b, double l2) {
  const auto solve_normal = [l2](const at::Tensor& matrix, const at::Tensor& rhs) {
    const at::Tensor gram = at::matmul(matrix.mH(), matrix);
    return at::linalg_solve(gram + l2 * at::eye(gram.size(-1), gram.options()), rhs);
  };
  const auto gradient = [solve_normal](const Tensors& dys, const Tensors& captured) {
    const at::Tensor &m = dense(captured[0]), &rhs = dense(captured[1]);
    const at::Tensor x = solve_normal(m, at::matmul(m.mH(), rhs)), z = solve_normal(m, dense(dys[0]));
    const at::Tensor both = at::matmul(x, z.mH());
    return Tensors{wrap(at::matmul(rhs, z.mH()) - at::matmul(m, both + both.mT())), wrap(at::matmul(m, z))};
  };
  const Tensors inputs{wrap(a), wrap(b)};
  const at::Tensor x = solve_normal(a.detach(), at::matmul(a.detach().mH(), b.detach()));
  return dense(with_gradients(inputs, {wrap(x)}, inputs, gradient)[0]);
}

// argmin |a x - b|^2 + l2 |x|^2; of several solutions the shortest.
Tensors least_squares(const Call& call) {
  const at::Tensor a = for_lapack(in(call, 0)), b = for_lapack(in(call, 1));
  if (b.dim() != a.dim() || b.sizes().slice(0, b.sizes().size() - 1) != a.sizes().slice(0, a.sizes().size() - 1))
    throw_invalid_argument("matrix and rhs have incompatible shapes");
  if (in(call, 2).numel() != 1) throw_invalid_argument("l2_regularizer must be one number");
  const double l2 = in(call, 2).item<double>();
  if (!(l2 >= 0)) throw_invalid_argument(fmt::format("l2_regularizer {:g} must not be negative", l2));
  if (!call.attr<bool>("fast")) return {settled(call, at::matmul(at::linalg_pinv(finite(a)), b))};
  const bool tall = a.size(-2) >= a.size(-1);
  const at::Tensor gram = tall ? at::matmul(a.mH(), a) : at::matmul(a, a.mH());
  const at::Tensor system = gram + l2 * at::eye(gram.size(-1), gram.options());
  if (tall && has_complex(a) && (a.requires_grad() || b.requires_grad()) && grad_enabled())
    return {settled(call, tall_complex_solution(a, b, l2))};
  if (tall) return {settled(call, at::linalg_solve(system, at::matmul(a.mH(), b)))};
  return {settled(call, at::matmul(a.mH(), at::linalg_solve(system, b)))};
}

at::Tensor scaled_adjoint_inverse(const at::Tensor& scale, const at::Tensor& x) {
  return scale.unsqueeze(-1).unsqueeze(-1) * at::linalg_inv(x).mH();
}
// The gradient of that of a complex matrix has the determinant itself as a factor, not its conjugate, as in
// TensorFlow.
Tensors determinant(const Call& call) {
  const at::Tensor x = square_matrix(call, 0);
  if (!has_complex(x) || !x.requires_grad() || !grad_enabled()) return {settled(call, at::linalg_det(x))};
  const auto gradient = [](const Tensors& dys, const Tensors& captured) {
    const at::Tensor& m = dense(captured[0]);
    return Tensors{wrap(scaled_adjoint_inverse(dense(dys[0]) * at::linalg_det(m), m))};
  };
  const at::Tensor y = at::linalg_det(x.detach());
  return {settled(call, dense(with_gradients({wrap(x)}, {wrap(y)}, {wrap(x)}, gradient)[0]))};
}

// NaN where the determinant is.
at::Tensor known_sign(const at::Tensor& sign, const at::Tensor& log) {
  return at::where(at::isnan(log), sign * log.to(sign.scalar_type()), sign);
}

// The sign has no gradient.
Tensors log_determinant(const Call& call) {
  const at::Tensor x = square_matrix(call, 0);
  if (has_complex(x) && x.requires_grad() && grad_enabled()) {
    const auto [sign, log] = at::linalg_slogdet(x.detach());
    const auto gradient = [](const Tensors& dys, const Tensors& captured) {
      return Tensors{wrap(scaled_adjoint_inverse(dense(dys[0]), dense(captured[0])))};
    };
    const Tensor y = with_gradients({wrap(x)}, {wrap(log.to(x.scalar_type()))}, {wrap(x)}, gradient)[0];
    return {settled(call, known_sign(sign, log)), settled(call, dense(y))};
  }
  const auto [sign, log] = at::linalg_slogdet(x);
  return {settled(call, known_sign(sign, log.detach())), settled(call, log.to(sign.scalar_type()))};
}

// l and u in one matrix; row i of the product of both is row p[i] of the input.
// By the pivots of greatest absolute value; LAPACK takes those with the greatest sum of both parts.
template <typename T>
void factor_complex(T* a, std::int64_t n, std::int64_t* order) {
  for (std::int64_t i = 0; i < n; ++i) order[i] = i;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t best = k;
    for (std::int64_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
    }
    if (a[best * n + k] == T(0)) throw_invalid_argument("the input is not invertible");
    std::swap(order[k], order[best]);
    for (std::int64_t j = 0; best != k && j < n; ++j) std::swap(a[k * n + j], a[best * n + j]);
    for (std::int64_t i = k + 1; i < n; ++i) {
      a[i * n + k] /= a[k * n + k];
      for (std::int64_t j = k + 1; j < n; ++j) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
  }
}
Tensors complex_lu(const Call& call, const at::Tensor& x) {
  const std::int64_t n = x.size(-1), count = n == 0 ? 0 : x.numel() / n / n;
  const at::Tensor packed = x.to(at::kComplexDouble).contiguous().clone();
  const at::Tensor order = at::empty(x.sizes().slice(0, static_cast<std::size_t>(x.dim()) - 1), at::kLong);
  for (std::int64_t k = 0; k < count; ++k) {
    auto* values = static_cast<std::complex<double>*>(packed.mutable_data_ptr());
    factor_complex(values + k * n * n, n, order.mutable_data_ptr<std::int64_t>() + k * n);
  }
  return {settled(call, packed), wrap(order.to(to_scalar_type(call.attr<DType>("output_idx_type"))))};
}

Tensors lu(const Call& call) {
  const at::Tensor x = square_matrix(call, 0);
  if (has_complex(x) && !x.requires_grad()) return complex_lu(call, x);
  const auto [packed, pivots] = at::linalg_lu_factor(x);
  const std::int64_t n = x.size(-1), count = n == 0 ? 0 : pivots.numel() / n;
  const Ints swaps = ints_of(pivots);
  Ints order;
  for (std::int64_t k = 0; k < count; ++k) {
    Ints own(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) own[static_cast<std::size_t>(i)] = i;
    for (std::int64_t i = 0; i < n; ++i)
      std::swap(own[static_cast<std::size_t>(i)],
                own[static_cast<std::size_t>(swaps[static_cast<std::size_t>(k * n + i)] - 1)]);
    order.insert(order.end(), own.begin(), own.end());
  }
  return {settled(call, packed),
          wrap(int64_tensor(order, pivots.sizes().vec()).to(to_scalar_type(call.attr<DType>("output_idx_type"))))};
}

// ---- shapes of decompositions: [..., m, n] ------------------------------------------------------------------------
// The axes of the batch, and others behind them.
Shape behind_batch(const Shape& x, std::initializer_list<std::int64_t> last) {
  if (!x.known_rank() || x.rank() < 2) return Shape::unknown_rank();
  Shape out;
  for (int i = 0; i + 2 < x.rank(); ++i) out.push_back(x[i]);
  for (const std::int64_t extent : last) out.push_back(extent);
  return out;
}
std::pair<std::int64_t, std::int64_t> sides_of(const Shape& x) {
  if (!x.known_rank() || x.rank() < 2) return {kUnknownDim, kUnknownDim};
  return {x[-2], x[-1]};
}
std::int64_t lesser(std::int64_t m, std::int64_t n) {
  return m == kUnknownDim || n == kUnknownDim ? kUnknownDim : std::min(m, n);
}
Shapes qr_shapes(const Call& call) {
  const Shape x = call.input(0).shape();
  const auto [m, n] = sides_of(x);
  const std::int64_t inner = call.attr<bool>("full_matrices") ? m : lesser(m, n);
  return {behind_batch(x, {m, inner}), behind_batch(x, {inner, n})};
}
Shapes svd_shapes(const Call& call) {
  const Shape x = call.input(0).shape();
  const auto [m, n] = sides_of(x);
  const std::int64_t k = lesser(m, n);
  if (!call.attr<bool>("compute_uv")) return {behind_batch(x, {k}), Shape{0}, Shape{0}};
  const bool full = call.attr<bool>("full_matrices");
  return {behind_batch(x, {k}), behind_batch(x, {m, full ? m : k}), behind_batch(x, {n, full ? n : k})};
}
Shapes diagonal_shapes(const Call& call) {
  const Shape x = call.input(0).shape();
  const auto [m, n] = sides_of(x);
  return {behind_batch(x, {lesser(m, n)})};
}
Shapes eigen_shapes(const Call& call) {
  const Shape x = call.input(0).shape();
  const std::int64_t n = sides_of(x).second;
  return {behind_batch(x, {n}), call.attr<bool>("compute_v") ? behind_batch(x, {n, n}) : Shape{0}};
}
Shapes lu_shapes(const Call& call) {
  const Shape x = call.input(0).shape();
  return {x, behind_batch(x, {sides_of(x).second})};
}
Shapes determinant_shapes(const Call& call) {
  const Shape one = behind_batch(call.input(0).shape(), {});
  return {one, one};
}

Tensors cross(const Call& call) {
  const at::Tensor a = widen(in(call, 0)), b = widen(in(call, 1));
  if (a.sizes() != b.sizes() || a.size(-1) != 3)
    throw_invalid_argument("both inputs must have the same shape and end in 3");
  return one(narrow_to(at::linalg_cross(a, b, -1), in(call, 0).scalar_type()));
}

// ---- the first version of diagonals ------------------------------------------------------------------------------
Tensors tensor_diagonal(const Call& call) {
  const at::Tensor& x = in(call, 0);
  Ints shape = x.sizes().vec();
  shape.insert(shape.end(), x.sizes().begin(), x.sizes().end());
  element_count(shape, static_cast<std::int64_t>(x.element_size()));
  return one(at::diag_embed(x.reshape({-1})).reshape(shape));
}
Tensors tensor_diagonal_part(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const auto half = static_cast<std::size_t>(x.dim() / 2);
  if (x.dim() % 2 != 0 || x.sizes().slice(0, half) != x.sizes().slice(half))
    throw_invalid_argument(
        fmt::format("both halves of the shape must be equal, found {}", call.input(0).shape().to_string()));
  std::int64_t n = 1;
  for (std::size_t i = 0; i < half; ++i) n *= x.size(static_cast<std::int64_t>(i));
  return one(x.reshape({n, n}).diagonal().reshape(x.sizes().slice(0, half)).contiguous());
}
Tensors batch_diagonal(const Call& call) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() < 1) throw_invalid_argument("diagonal must have at least one axis");
  element_count({x.numel(), x.size(-1)}, static_cast<std::int64_t>(x.element_size()));
  return one(at::diag_embed(x));
}
Tensors batch_diagonal_part(const Call& call) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() < 2) throw_invalid_argument("input must have at least two axes");
  return one(x.diagonal(0, -2, -1).contiguous());
}
Tensors batch_set_diagonal(const Call& call) {
  const at::Tensor &x = in(call, 0), &d = in(call, 1);
  if (x.dim() < 2 || d.sizes() != x.diagonal(0, -2, -1).sizes())
    throw_invalid_argument("input and diagonal have incompatible shapes");
  const at::Tensor mask = at::eye(x.size(-2), x.size(-1), x.options().dtype(at::kBool));
  const std::int64_t missing = std::max(x.size(-2), x.size(-1)) - d.size(-1);
  at::Tensor placed =
      at::diag_embed(at::constant_pad_nd(d, {0, missing})).slice(-2, 0, x.size(-2)).slice(-1, 0, x.size(-1));
  return one(at::where(mask, placed, x));
}

// ---- Fourier transforms ------------------------------------------------------------------------------------------
Ints last_axes(int count) {
  Ints axes;
  for (int i = count; i > 0; --i) axes.push_back(-i);
  return axes;
}

Tensors complex_transform(const Call& call, int count, bool inverse) {
  const at::Tensor& x = in(call, 0);
  if (x.numel() == 0) return one(x.clone());
  return one(inverse ? at::fft_ifftn(x, std::nullopt, last_axes(count))
                     : at::fft_fftn(x, std::nullopt, last_axes(count)));
}

Ints transform_lengths(const Call& call, int count) {
  Ints lengths = ints_in(call, 1);
  if (static_cast<int>(lengths.size()) != count)
    throw_invalid_argument(fmt::format("invalid fft_length: found {} numbers, expected {}", lengths.size(), count));
  for (const std::int64_t length : lengths) {
    if (length < 0)
      throw_invalid_argument(fmt::format("invalid fft_length: found {}, expected a positive number", length));
  }
  return lengths;
}

Tensors real_transform(const Call& call, int count) {
  require_one_precision(call.input(0).dtype(), call.attr<DType>("Tcomplex"));
  const at::Tensor& x = in(call, 0);
  const Ints lengths = transform_lengths(call, count);
  for (int i = 0; i < count; ++i) {
    const std::int64_t extent = x.size(i - count), length = lengths[static_cast<std::size_t>(i)];
    if (extent != 0 && extent < length)
      throw_invalid_argument(
          fmt::format("fft_length {} is more than the {} elements of axis {}", length, extent, i - count));
  }
  Ints shape = x.sizes().vec();
  for (int i = 0; i < count; ++i)
    shape[shape.size() - static_cast<std::size_t>(count - i)] = lengths[static_cast<std::size_t>(i)];
  if (lengths.back() == 0) throw_invalid_argument("invalid fft_length: found 0, expected a positive number");
  shape.back() = lengths.back() / 2 + 1;
  const at::ScalarType type = to_scalar_type(call.attr<DType>("Tcomplex"));
  if (element_count(shape, 16) == 0 || x.numel() == 0) return one(at::zeros(shape, x.options().dtype(type)));
  return one(at::fft_rfftn(x, at::IntArrayRef(lengths), last_axes(count)).to(type));
}

Tensors inverse_real_transform(const Call& call, int count) {
  require_one_precision(call.input(0).dtype(), call.attr<DType>("Treal"));
  const at::Tensor& x = in(call, 0);
  const Ints lengths = transform_lengths(call, count);
  for (int i = 0; i < count; ++i) {
    const std::int64_t extent = x.size(i - count), length = lengths[static_cast<std::size_t>(i)];
    const std::int64_t needed = i + 1 == count ? length / 2 + 1 : length;
    if (extent != 0 && extent < needed)
      throw_invalid_argument(
          fmt::format("fft_length {} needs {} elements of axis {}, found {}", length, needed, i - count, extent));
  }
  Ints shape = x.sizes().vec();
  for (int i = 0; i < count; ++i)
    shape[shape.size() - static_cast<std::size_t>(count - i)] = lengths[static_cast<std::size_t>(i)];
  const at::ScalarType type = to_scalar_type(call.attr<DType>("Treal"));
  if (element_count(shape, 8) == 0 || x.numel() == 0) return one(at::zeros(shape, x.options().dtype(type)));
  return one(at::fft_irfftn(x, at::IntArrayRef(lengths), last_axes(count)).to(type));
}

Shapes transform_shape(const Call& call, int count, bool to_complex) {
  Shape out = call.input(0).shape();
  if (!out.known_rank() || out.rank() < count) return {Shape::unknown_rank()};
  const auto lengths = known_ints(call, 1);
  for (int i = 0; i < count; ++i) {
    const bool known = lengths && static_cast<int>(lengths->size()) == count;
    std::int64_t length = known ? (*lengths)[static_cast<std::size_t>(i)] : kUnknownDim;
    if (known && length < 1) return {Shape::unknown_rank()};
    if (known && to_complex && i + 1 == count) length = length / 2 + 1;
    out[i - count] = length;
  }
  return {out};
}

void register_transforms(Table& table) {
  for (int count = 1; count <= 3; ++count) {
    const std::string suffix = count == 1 ? "" : fmt::format("{}D", count);
    table.add("FFT" + suffix, same_shape, [count](const Call& call) { return complex_transform(call, count, false); });
    table.add("IFFT" + suffix, same_shape, [count](const Call& call) { return complex_transform(call, count, true); });
    table.add(
        "RFFT" + suffix, [count](const Call& call) { return transform_shape(call, count, true); },
        [count](const Call& call) { return real_transform(call, count); });
    table.add(
        "IRFFT" + suffix, [count](const Call& call) { return transform_shape(call, count, false); },
        [count](const Call& call) { return inverse_real_transform(call, count); });
  }
}

}  // namespace

void register_linalg(Table& table) {
  for (auto name : {"Cholesky", "BatchCholesky"}) table.add(name, same_shape, cholesky);
  for (auto name : {"CholeskyGrad", "BatchCholeskyGrad"}) table.add(name, same_shape, cholesky_grad);
  table.add("Qr", qr_shapes, qr);
  for (auto name : {"Svd", "BatchSvd"}) table.add(name, svd_shapes, svd);
  for (auto name : {"SelfAdjointEig", "BatchSelfAdjointEig"}) table.add(name, nullptr, self_adjoint_eig);
  for (auto name : {"SelfAdjointEigV2", "BatchSelfAdjointEigV2"}) table.add(name, eigen_shapes, self_adjoint_eig);
  table.add("Eig", eigen_shapes, eig);
  for (auto name : {"MatrixInverse", "BatchMatrixInverse"}) table.add(name, same_shape, inverse);
  for (auto name : {"MatrixSolve", "BatchMatrixSolve"}) table.add(name, nullptr, solve);
  for (auto name : {"MatrixTriangularSolve", "BatchMatrixTriangularSolve"}) table.add(name, nullptr, triangular_solve);
  table.add("BandedTriangularSolve", nullptr, banded_triangular_solve);
  for (auto name : {"MatrixSolveLs", "BatchMatrixSolveLs"}) table.add(name, nullptr, least_squares);
  for (auto name : {"MatrixDeterminant", "BatchMatrixDeterminant"}) {
    table.add(name, nullptr, determinant);
  }
  table.add("LogMatrixDeterminant", determinant_shapes, log_determinant);
  table.add("MatrixExponential", same_shape,
            [](const Call& call) { return Tensors{settled(call, at::linalg_matrix_exp(square_matrix(call, 0)))}; });
  table.add("Lu", lu_shapes, lu);
  table.add("Cross", same_shape, cross);
  table.add("Diag", nullptr, tensor_diagonal);
  table.add("DiagPart", nullptr, tensor_diagonal_part);
  for (auto name : {"MatrixDiag", "BatchMatrixDiag"}) table.add(name, nullptr, batch_diagonal);
  for (auto name : {"MatrixDiagPart", "BatchMatrixDiagPart"}) table.add(name, diagonal_shapes, batch_diagonal_part);
  for (auto name : {"MatrixSetDiag", "BatchMatrixSetDiag"}) table.add(name, same_shape, batch_set_diagonal);
  table.add("SparseMatMul", nullptr, [](const Call& call) {
    const at::Tensor a = in(call, 0).to(at::kFloat), b = in(call, 1).to(at::kFloat);
    return one(at::matmul(call.attr<bool>("transpose_a") ? a.t() : a, call.attr<bool>("transpose_b") ? b.t() : b));
  });
  register_transforms(table);
}

}  // namespace lockstep::ops
