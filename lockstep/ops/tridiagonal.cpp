// Tridiagonal matrices in compact form: the rows of `diagonals` are those above the main diagonal (the last number is
// unused), on it, and below it (the first one is unused).
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/gradients_internal.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

template <typename T>
struct RealOf {
  using type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using type = T;
};

// Solves a system whose matrix may be singular, as inverse iteration needs it: elimination with pivots that are chosen
// relative to the size of their rows; a pivot that would overflow the solution is moved by multiples of the rounding
// error of the largest one (LAPACK's xLAGTF and xLAGTS).
template <typename T>
class PerturbedSolver {
  using Real = typename RealOf<T>::type;

 public:
  PerturbedSolver(const T* bands, std::int64_t n, const T* rhs, std::int64_t columns, T* x)
      : above_(bands), main_(bands + n), below_(bands + 2 * n), n_(n), columns_(columns), rhs_(rhs), x_(x) {}

  void solve() {
    if (n_ == 0) return;
    const auto size = static_cast<std::size_t>(n_);
    pivot_.assign(size, T(0)), first_.assign(size, T(0)), second_.assign(size, T(0));
    eliminate();
    for (std::int64_t k = n_ - 1; k >= 0; --k) {
      T* const row = x_ + k * columns_;
      for (std::int64_t c = 0; c < columns_; ++c) {
        if (k + 1 < n_) row[c] -= first_[static_cast<std::size_t>(k)] * row[columns_ + c];
        if (k + 2 < n_) row[c] -= second_[static_cast<std::size_t>(k)] * row[2 * columns_ + c];
      }
      const T inverse = T(1) / safe_pivot(pivot_[static_cast<std::size_t>(k)], row);
      for (std::int64_t c = 0; c < columns_; ++c) row[c] *= inverse;
    }
  }

 private:
  void note(T value) { largest_ = std::max(largest_, std::abs(value)); }

  void eliminate() {
    pivot_[0] = main_[0];
    if (n_ > 1) first_[0] = above_[0];
    note(pivot_[0]), note(first_[0]);
    Real size = std::abs(pivot_[0]) + std::abs(first_[0]);
    std::copy_n(rhs_, columns_, x_);
    for (std::int64_t k = 0; k + 1 < n_; ++k) {
      const auto i = static_cast<std::size_t>(k);
      const bool last = k + 2 == n_;
      const T low = below_[k + 1], next_above = last ? T(0) : above_[k + 1];
      T *const row = x_ + k * columns_, *const next = row + columns_;
      const T* const given = rhs_ + (k + 1) * columns_;
      const Real next_size = std::abs(low) + std::abs(main_[k + 1]) + std::abs(next_above);
      const Real weight = pivot_[i] == T(0) ? Real(0) : std::abs(pivot_[i]) / size;
      pivot_[i + 1] = main_[k + 1], first_[i + 1] = next_above;
      if (low == T(0) || std::abs(low) / next_size <= weight) {
        const T factor = low == T(0) ? T(0) : low / pivot_[i];
        size = next_size;
        pivot_[i + 1] -= factor * first_[i];
        for (std::int64_t c = 0; c < columns_; ++c) next[c] = given[c] - factor * row[c];
      } else {  // the next row takes the place of this one
        const T factor = pivot_[i] / low;
        pivot_[i] = low;
        pivot_[i + 1] = first_[i] - factor * main_[k + 1];
        first_[i] = main_[k + 1];
        second_[i] = next_above;
        first_[i + 1] = -factor * next_above;
        for (std::int64_t c = 0; c < columns_; ++c) {
          next[c] = row[c] - factor * given[c];
          row[c] = given[c];
        }
      }
      if (!last) note(pivot_[i]), note(first_[i]), note(second_[i]);
    }
    note(pivot_.back());
  }

  // The pivot, moved away from zero as far as dividing this row by it needs; the row may be scaled with it.
  T safe_pivot(T pivot, T* row) const {
    constexpr Real kTiny = std::numeric_limits<Real>::min(), kHuge = 1 / kTiny;
    Real step = std::copysign(std::max(std::numeric_limits<Real>::epsilon() * largest_, kTiny), std::real(pivot));
    Real most = 0;
    for (std::int64_t c = 0; c < columns_; ++c) most = std::max(most, std::abs(row[c]));
    for (Real size = std::abs(pivot); size < 1; size = std::abs(pivot)) {
      const bool small = size < kTiny;
      if (small ? size == 0 || most * kTiny > size : most > size * kHuge) {
        pivot += step;
        step *= 2;
        continue;
      }
      if (small) {
        pivot *= kHuge;
        for (std::int64_t c = 0; c < columns_; ++c) row[c] *= kHuge;
      }
      break;
    }
    return pivot;
  }

  const T *above_, *main_, *below_;
  std::int64_t n_, columns_;
  const T* rhs_;
  T* x_;
  std::vector<T> pivot_, first_, second_;  // of the upper triangle: the diagonal and the two above it
  Real largest_ = 0;
};

template <typename T>
void solve_perturbed(const at::Tensor& bands, const at::Tensor& b, const at::Tensor& x) {
  const std::int64_t n = bands.size(-1), columns = b.size(-1), count = n == 0 ? 0 : bands.numel() / (3 * n);
  const auto* matrix = static_cast<const T*>(bands.const_data_ptr());
  const auto* rhs = static_cast<const T*>(b.const_data_ptr());
  auto* to = static_cast<T*>(x.mutable_data_ptr());
  for (std::int64_t i = 0; i < count; ++i)
    PerturbedSolver<T>(matrix + i * 3 * n, n, rhs + i * n * columns, columns, to + i * n * columns).solve();
}

at::Tensor perturbed_solution(const at::Tensor& bands, const at::Tensor& b) {
  const at::Tensor m = bands.detach().contiguous(), rhs = b.detach().contiguous(), x = at::empty_like(rhs);
  switch (m.scalar_type()) {
    case at::kFloat: solve_perturbed<float>(m, rhs, x); break;
    case at::kDouble: solve_perturbed<double>(m, rhs, x); break;
    case at::kComplexFloat: solve_perturbed<std::complex<float>>(m, rhs, x); break;
    case at::kComplexDouble: solve_perturbed<std::complex<double>>(m, rhs, x); break;
    default: throw_invalid_argument("diagonals must be float32, float64 or complex");
  }
  return x;
}

// The vectors that differ by one place: element i is x[i + 1], or x[i - 1]; 0 at the end.
at::Tensor following(const at::Tensor& x, std::int64_t axis) {
  return at::cat({x.slice(axis, 1), at::zeros_like(x.slice(axis, 0, 1))}, axis);
}
at::Tensor preceding(const at::Tensor& x, std::int64_t axis) {
  return at::cat({at::zeros_like(x.slice(axis, 0, 1)), x.slice(axis, 0, x.size(axis) - 1)}, axis);
}

Tensor solve_with_perturbation(const Tensor& bands, const Tensor& b) {
  const auto gradient = [](const Tensors& dys, const Tensors& captured) {
    const at::Tensor& m = dense(captured[0]);
    const Tensor transposed =
        wrap(at::stack({following(m.select(-2, 2), -1), m.select(-2, 1), preceding(m.select(-2, 0), -1)}, -2));
    const at::Tensor db = dense(solve_with_perturbation(transposed, dys[0])),
                     x = dense(solve_with_perturbation(captured[0], captured[1]));
    const at::Tensor above = (db * following(x, -2)).sum(-1), main = (db * x).sum(-1),
                     below = (db * preceding(x, -2)).sum(-1);
    return Tensors{wrap(-at::stack({above, main, below}, -2)), wrap(db)};
  };
  return with_gradients({bands, b}, {wrap(perturbed_solution(dense(bands), dense(b)))}, {bands, b}, gradient)[0];
}

// The solution for a singular matrix is NaN.
Tensors solve(const Call& call) {
  const at::Tensor bands = conjugate_gradient(in(call, 0)), b = conjugate_gradient(in(call, 1));
  if (bands.dim() < 2 || bands.size(-2) != 3 || b.dim() != bands.dim() || b.size(-2) != bands.size(-1) ||
      b.sizes().slice(0, static_cast<std::size_t>(b.dim()) - 2) !=
          bands.sizes().slice(0, static_cast<std::size_t>(b.dim()) - 2))
    throw_invalid_argument("diagonals must have the shape [..., 3, n] and rhs [..., n, k]");
  const std::int64_t n = bands.size(-1);
  if (call.attr<bool>("perturb_singular")) {
    if (!call.attr<bool>("partial_pivoting")) throw_invalid_argument("perturb_singular requires partial_pivoting");
    return {solve_with_perturbation(call.input(0), call.input(1))};
  }
  element_count({n, n}, static_cast<std::int64_t>(bands.element_size()));
  const at::Tensor above = bands.select(-2, 0).slice(-1, 0, std::max<std::int64_t>(n - 1, 0)),
                   below = bands.select(-2, 2).slice(-1, std::min<std::int64_t>(1, n));
  at::Tensor whole = at::diag_embed(bands.select(-2, 1));
  if (n > 1) whole = whole + at::diag_embed(above, 1) + at::diag_embed(below, -1);
  at::Tensor y = std::get<0>(at::linalg_solve_ex(whole, b, true, false));
  const at::Tensor info = std::get<1>(at::linalg_solve_ex(whole.detach(), b.detach(), true, false));
  if (info.numel() > 0 && info.ne(0).any().item<bool>())
    y = at::where(info.ne(0).unsqueeze(-1).unsqueeze(-1), at::full({}, NAN, y.options()), y);
  return one(conjugate_gradient(y).contiguous());
}

Tensors multiply(const Call& call) {
  const at::Tensor& x = in(call, 3);
  const std::int64_t n = x.size(-2);
  const auto band = [&](int i) {
    const at::Tensor& given = in(call, i);
    if (given.dim() != x.dim() || given.size(-2) != 1 || given.size(-1) != n)
      throw_invalid_argument(fmt::format("diagonals must have the shape [..., 1, {}]", n));
    return given.squeeze(-2).unsqueeze(-1);
  };
  const at::Tensor above = band(0), main = band(1), below = band(2);
  if (n == 0) return one(x.clone());
  return one(main * x + above * following(x, -2) + below * preceding(x, -2));
}

}  // namespace

void register_tridiagonal(Table& table) {
  table.add("TridiagonalSolve", nullptr, solve);
  table.add(
      "TridiagonalMatMul", [](const Call& call) { return Shapes{call.input(3).shape()}; }, multiply);
}

}  // namespace lockstep::ops
