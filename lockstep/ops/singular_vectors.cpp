// Singular vectors with TensorFlow's signs, which LAPACK's do not have: TensorFlow uses two-sided Jacobi rotations
// below 16 columns, above a bidiagonal form that is divided and conquered (Gu and Eisenstat, 1995), both as in Eigen.
// At each merge of two halves the vectors have the sign that makes the first entry of the right one negative.
#include "lockstep/ops/singular_vectors_internal.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kJacobiColumns = 16;  // fewer are rotated
constexpr double kMostSteps = 1 << 28;       // of larger decompositions, which LAPACK computes faster

template <typename T>
using RealOf = decltype(std::abs(T()));

template <typename T>
T conjugate(const T& x) {
  if constexpr (std::is_same_v<T, RealOf<T>>) {
    return x;
  } else {
    return std::conj(x);
  }
}

template <typename T>
RealOf<T> imaginary(const T& x) {
  if constexpr (std::is_same_v<T, RealOf<T>>) {
    return 0;
  } else {
    return x.imag();
  }
}

// By columns.
template <typename T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), values_(static_cast<std::size_t>(rows * columns)) {}
  static Matrix identity(std::int64_t rows, std::int64_t columns) {
    Matrix x(rows, columns);
    for (std::int64_t i = 0; i < std::min(rows, columns); ++i) x(i, i) = 1;
    return x;
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  T* column(std::int64_t c) { return values_.data() + c * rows_; }
  T& operator()(std::int64_t r, std::int64_t c) { return values_[static_cast<std::size_t>(c * rows_ + r)]; }
  const T& operator()(std::int64_t r, std::int64_t c) const { return values_[static_cast<std::size_t>(c * rows_ + r)]; }
  void swap_columns(std::int64_t a, std::int64_t b) { std::swap_ranges(column(a), column(a) + rows_, column(b)); }
  void scale_column(std::int64_t c, T factor) {
    for (std::int64_t r = 0; r < rows_; ++r) (*this)(r, c) *= factor;
  }
  void scale_row(std::int64_t r, T factor) {
    for (std::int64_t c = 0; c < columns_; ++c) (*this)(r, c) *= factor;
  }
  // The plane of rows (columns) p and q turns by (c, s).
  void turn_rows(std::int64_t p, std::int64_t q, T c, T s) {
    for (std::int64_t k = 0; k < columns_; ++k) turn((*this)(p, k), (*this)(q, k), c, s);
  }
  void turn_columns(std::int64_t p, std::int64_t q, T c, T s) {
    for (std::int64_t k = 0; k < rows_; ++k) turn((*this)(k, p), (*this)(k, q), c, -conjugate(s));
  }
  Matrix adjoint() const {
    Matrix x(columns_, rows_);
    for (std::int64_t c = 0; c < columns_; ++c) {
      for (std::int64_t r = 0; r < rows_; ++r) x(c, r) = conjugate((*this)(r, c));
    }
    return x;
  }
  RealOf<T> largest() const {
    RealOf<T> most = 0;
    for (const T& x : values_) most = std::max(most, std::abs(x));
    return most;
  }
  void divide(RealOf<T> by) {
    for (T& x : values_) x /= by;
  }
  at::Tensor tensor() {  // [rows, columns], over this memory
    return at::from_blob(values_.data(), {rows_, columns_}, {1, rows_}, c10::CppTypeToScalarType<AtenType>::value);
  }

 private:
  using AtenType = std::conditional_t<std::is_same_v<T, RealOf<T>>, T, c10::complex<RealOf<T>>>;
  static void turn(T& x, T& y, T c, T s) {
    const T first = x, second = y;
    x = c * first + conjugate(s) * second;
    y = -s * first + conjugate(c) * second;
  }
  std::int64_t rows_ = 0, columns_ = 0;
  std::vector<T> values_;
};

// H = 1 - tau v v*, with v = (1, rest), such that H* x = (beta, 0, …).
template <typename T>
struct Reflection {
  std::vector<T> v;
  T tau = 0;

  // x, of n numbers at a distance of `stride`, becomes (beta, 0, …).
  static Reflection of(T* x, std::int64_t n, std::int64_t stride = 1) {
    using Real = RealOf<T>;
    Reflection made{std::vector<T>(static_cast<std::size_t>(n)), 0};
    Real rest = 0;
    for (std::int64_t i = 1; i < n; ++i) rest += std::norm(x[i * stride]);
    const T head = x[0];
    Real beta = std::real(head);
    made.v[0] = 1;
    constexpr Real kNothing = std::numeric_limits<Real>::min();
    if (rest > kNothing || imaginary(head) * imaginary(head) > kNothing) {
      beta = std::sqrt(std::norm(head) + rest);
      if (std::real(head) >= 0) beta = -beta;
      for (std::int64_t i = 1; i < n; ++i) made.v[static_cast<std::size_t>(i)] = x[i * stride] / (head - beta);
      made.tau = conjugate((beta - head) / beta);
    }
    for (std::int64_t i = 1; i < n; ++i) x[i * stride] = 0;
    x[0] = beta;
    return made;
  }

  // Columns from `first` on, in the rows from `row` on, are multiplied by 1 - factor v v*.
  void apply(Matrix<T>& a, std::int64_t row, std::int64_t first, T factor) const {
    const auto n = static_cast<std::int64_t>(v.size());
    if (factor == T(0)) return;
    for (std::int64_t c = first; c < a.columns(); ++c) {
      T* x = a.column(c) + row;
      T sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += conjugate(v[static_cast<std::size_t>(i)]) * x[i];
      sum *= factor;
      for (std::int64_t i = 0; i < n; ++i) x[i] -= v[static_cast<std::size_t>(i)] * sum;
    }
  }
};

template <typename T>
using Reflections = std::vector<Reflection<T>>;

// x = H0 H1 … x; reflection i begins in row i + offset.
template <typename T>
void apply_product(const Reflections<T>& all, Matrix<T>& x, std::int64_t offset = 0) {
  for (auto i = static_cast<std::int64_t>(all.size()) - 1; i >= 0; --i) {
    const Reflection<T>& one = all[static_cast<std::size_t>(i)];
    one.apply(x, i + offset, 0, conjugate(one.tau));
  }
}

template <typename T>
struct Decomposition {
  Matrix<T> u, v;
  std::vector<RealOf<T>> s;
};

// QR with the column of the largest norm first; `a` becomes R, `order` the columns in their new order.
template <typename T>
Reflections<T> pivoted_qr(Matrix<T>& a, std::vector<std::int64_t>& order) {
  using Real = RealOf<T>;
  const std::int64_t m = a.rows(), n = a.columns();
  const auto norm_below = [&](std::int64_t c, std::int64_t row) {
    Real sum = 0;
    for (std::int64_t r = row; r < m; ++r) sum += std::norm(a(r, c));
    return std::sqrt(sum);
  };
  std::vector<Real> direct, updated;
  for (std::int64_t c = 0; c < n; ++c) {
    order.push_back(c);
    direct.push_back(norm_below(c, 0));
  }
  updated = direct;
  const Real threshold = std::sqrt(std::numeric_limits<Real>::epsilon());
  Reflections<T> all;
  for (std::int64_t k = 0; k < std::min(m, n); ++k) {
    const auto at_k = static_cast<std::size_t>(k);
    const auto most = static_cast<std::size_t>(std::max_element(updated.begin() + k, updated.end()) - updated.begin());
    if (most != at_k) {
      a.swap_columns(k, static_cast<std::int64_t>(most));
      std::swap(order[at_k], order[most]);
      std::swap(updated[at_k], updated[most]);
      std::swap(direct[at_k], direct[most]);
    }
    all.push_back(Reflection<T>::of(a.column(k) + k, m - k));
    all.back().apply(a, k, k + 1, all.back().tau);
    for (std::int64_t c = k + 1; c < n; ++c) {
      Real& norm = updated[static_cast<std::size_t>(c)];
      if (norm == 0) continue;
      const Real part = std::abs(a(k, c)) / norm, left = std::max(Real(0), (1 + part) * (1 - part));
      const Real ratio = norm / direct[static_cast<std::size_t>(c)];
      if (left * ratio * ratio <= threshold) {
        norm = direct[static_cast<std::size_t>(c)] = norm_below(c, k + 1);
      } else {
        norm *= std::sqrt(left);
      }
    }
  }
  return all;
}

// Two-sided Jacobi rotations of a square matrix, accumulated in u and v.
template <typename T>
class Rotations {
 public:
  using Real = RealOf<T>;
  static constexpr Real kNothing = std::numeric_limits<Real>::min(), kEpsilon = std::numeric_limits<Real>::epsilon();

  Rotations(Matrix<T>& w, Matrix<T>& u, Matrix<T>& v) : w_(w), u_(u), v_(v) {}

  std::vector<Real> run() {
    const std::int64_t n = w_.columns();
    for (std::int64_t i = 0; i < n; ++i) most_ = std::max(most_, std::abs(w_(i, i)));
    for (bool done = false; !done;) {
      done = true;
      for (std::int64_t p = 1; p < n; ++p) {
        for (std::int64_t q = 0; q < p; ++q) {
          if (!is_off(p, q, 2 * kEpsilon)) continue;
          done = false;
          if (becomes_real(p, q)) rotate(p, q);
        }
      }
    }
    std::vector<Real> s;
    for (std::int64_t i = 0; i < n; ++i) {
      const T x = w_(i, i);
      s.push_back(std::abs(x));
      if (std::abs(imaginary(x)) > kNothing) {
        u_.scale_column(i, x / s.back());
      } else if (std::real(x) < 0) {
        s.back() = -std::real(x);
        u_.scale_column(i, T(-1));
      }
    }
    return s;
  }

 private:
  bool is_off(std::int64_t p, std::int64_t q, Real precision) const {
    const Real threshold = std::max(kNothing, precision * most_);
    return std::abs(w_(p, q)) > threshold || std::abs(w_(q, p)) > threshold;
  }
  void see(std::int64_t p, std::int64_t q) { most_ = std::max({most_, std::abs(w_(p, p)), std::abs(w_(q, q))}); }
  // Row r is turned such that the entry at column c becomes real.
  void make_real(std::int64_t r, std::int64_t c) {
    if (std::abs(imaginary(w_(r, c))) <= kNothing) return;
    const T z = std::abs(w_(r, c)) / w_(r, c);
    w_.scale_row(r, z);
    u_.scale_column(r, conjugate(z));
  }

  // Makes the block of p and q real; whether it is still not diagonal.
  bool becomes_real(std::int64_t p, std::int64_t q) {
    if constexpr (std::is_same_v<T, Real>) return true;
    const Real length = std::sqrt(std::norm(w_(p, p)) + std::norm(w_(q, p)));
    if (length == 0) {
      w_(p, p) = w_(q, p) = 0;
      make_real(p, q);
    } else {
      const T c = conjugate(w_(p, p)) / length, s = w_(q, p) / length;
      w_.turn_rows(p, q, c, s);
      u_.turn_columns(p, q, conjugate(c), -s);
      if (std::abs(imaginary(w_(p, q))) > kNothing) {
        const T z = std::abs(w_(p, q)) / w_(p, q);
        w_.scale_column(q, z);
        v_.scale_column(q, z);
      }
    }
    make_real(q, q);
    see(p, q);
    return is_off(p, q, kEpsilon);
  }

  void rotate(std::int64_t p, std::int64_t q) {
    Real a = std::real(w_(p, p)), b = std::real(w_(p, q)), c = std::real(w_(q, p)), d = std::real(w_(q, q));
    // A rotation that makes the block symmetric …
    Real cosine = 1, sine = 0;
    if (const Real gap = c - b; std::abs(gap) >= kNothing) {
      const Real slope = (a + d) / gap, length = std::sqrt(1 + slope * slope);
      sine = 1 / length, cosine = slope / length;
    }
    const Real x = cosine * a + sine * c, y = cosine * b + sine * d, z = -sine * b + cosine * d;
    // … and one that makes it diagonal.
    Real right_cosine = 1, right_sine = 0;
    if (const Real twice = 2 * std::abs(y); twice >= kNothing) {
      const Real tau = (x - z) / twice, length = std::sqrt(tau * tau + 1);
      const Real t = tau > 0 ? 1 / (tau + length) : 1 / (tau - length), n = 1 / std::sqrt(t * t + 1);
      right_cosine = n;
      right_sine = (t > 0 ? -1 : 1) * (y / std::abs(y)) * std::abs(t) * n;
    }
    const Real left_cosine = cosine * right_cosine + sine * right_sine;
    const Real left_sine = sine * right_cosine - cosine * right_sine;
    w_.turn_rows(p, q, left_cosine, left_sine);
    u_.turn_columns(p, q, left_cosine, -left_sine);
    w_.turn_columns(p, q, right_cosine, right_sine);
    v_.turn_columns(p, q, right_cosine, right_sine);
    see(p, q);
  }

  Matrix<T>&w_, &u_, &v_;
  Real most_ = 0;  // the largest entry of the diagonal
};

template <typename T>
Decomposition<T> by_rotations(Matrix<T> a, bool full) {
  const std::int64_t m = a.rows(), n = a.columns(), k = std::min(m, n);
  const RealOf<T> most = a.largest(), scale = most == 0 ? 1 : most;
  a.divide(scale);
  Decomposition<T> out{Matrix<T>::identity(m, full ? m : k), Matrix<T>::identity(n, full ? n : k), {}};
  if (m != n) {  // the rotations run on the triangle of a QR decomposition
    Matrix<T> r = m > n ? std::move(a) : a.adjoint();
    std::vector<std::int64_t> order;
    const Reflections<T> all = pivoted_qr(r, order);
    apply_product(all, m > n ? out.u : out.v);
    a = Matrix<T>(k, k);
    for (std::int64_t c = 0; c < k; ++c) {
      for (std::int64_t i = 0; i <= c; ++i) (m > n ? a(i, c) : a(c, i)) = m > n ? r(i, c) : conjugate(r(i, c));
    }
    Matrix<T>& moved = m > n ? out.v : out.u;
    moved = Matrix<T>(k, k);
    for (std::int64_t c = 0; c < k; ++c) moved(order[static_cast<std::size_t>(c)], c) = 1;
  }
  out.s = Rotations<T>(a, out.u, out.v).run();
  for (std::int64_t i = 0; i < k; ++i) {
    const auto first = out.s.begin() + i, top = std::max_element(first, out.s.end());
    if (*top == 0) break;
    if (top == first) continue;
    std::swap(*first, *top);
    out.u.swap_columns(i, top - out.s.begin());
    out.v.swap_columns(i, top - out.s.begin());
  }
  for (auto& value : out.s) value *= scale;
  return out;
}

// Of a lower bidiagonal matrix [n + 1, n], given by its diagonal and the one below: u [n + 1, n + 1], v [n, n].
template <typename Real>
Decomposition<Real> conquer(const Real* diagonal, const Real* below, std::int64_t n) {
  if (n < kJacobiColumns) {
    Matrix<Real> whole(n + 1, n);
    for (std::int64_t i = 0; i < n; ++i) whole(i, i) = diagonal[i], whole(i + 1, i) = below[i];
    return by_rotations(std::move(whole), true);
  }
  const std::int64_t k = n / 2;
  Decomposition<Real> low = conquer(diagonal + k + 1, below + k + 1, n - k - 1), high = conquer(diagonal, below, k);
  const Real alpha = diagonal[k], beta = below[k];
  const Real x = alpha * high.u(k, k), y = beta * low.u(0, n - k - 1), length = std::sqrt(x * x + y * y);
  const bool nothing = length < std::numeric_limits<Real>::min();
  const Real c = nothing ? 1 : x / length, s = nothing ? 0 : y / length;
  Matrix<Real> u(n + 1, n + 1), v(n, n), middle(n, n);
  middle(0, 0) = length;
  v(k, 0) = 1;
  for (std::int64_t r = 0; r <= k; ++r) {
    u(r, 0) = c * high.u(r, k), u(r, n) = -s * high.u(r, k);
    for (std::int64_t i = 0; i < k; ++i) u(r, i + 1) = high.u(r, i);
  }
  for (std::int64_t r = 0; r < n - k; ++r) {
    u(k + 1 + r, 0) = s * low.u(r, n - k - 1), u(k + 1 + r, n) = c * low.u(r, n - k - 1);
    for (std::int64_t i = 0; i + 1 < n - k; ++i) u(k + 1 + r, k + 1 + i) = low.u(r, i);
  }
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t r = 0; r < k; ++r) v(r, i + 1) = high.v(r, i);
    middle(i + 1, 0) = alpha * high.u(k, i), middle(i + 1, i + 1) = high.s[static_cast<std::size_t>(i)];
  }
  for (std::int64_t i = 0; i + 1 < n - k; ++i) {
    for (std::int64_t r = 0; r + 1 < n - k; ++r) v(k + 1 + r, k + 1 + i) = low.v(r, i);
    middle(k + 1 + i, 0) = beta * low.u(0, i), middle(k + 1 + i, k + 1 + i) = low.s[static_cast<std::size_t>(i)];
  }
  auto [left, values, right] = at::linalg_svd(middle.tensor(), false);
  const at::Tensor signs = at::where(right.select(1, 0) > 0, -1, 1).to(values.scalar_type());
  Decomposition<Real> out{std::move(u), Matrix<Real>(n, n), std::vector<Real>(static_cast<std::size_t>(n))};
  const at::Tensor own = out.u.tensor().slice(1, 0, n);
  own.copy_(at::matmul(own, left * signs));
  out.v.tensor().copy_(at::matmul(v.tensor(), right.mT() * signs));
  std::copy_n(values.contiguous().template const_data_ptr<Real>(), n, out.s.begin());
  return out;
}

template <typename T>
Decomposition<T> by_halves(Matrix<T> a, bool full) {
  using Real = RealOf<T>;
  const std::int64_t m = a.rows(), n = a.columns();
  if (n > m) {
    Decomposition<T> turned = by_halves(a.adjoint(), full);
    return {std::move(turned.v), std::move(turned.u), std::move(turned.s)};
  }
  const Real most = a.largest(), scale = most == 0 ? 1 : most;
  a.divide(scale);
  Reflections<T> q;  // where there are many more rows, the triangle of a QR decomposition is made bidiagonal
  if (m > 4 * n) {
    for (std::int64_t i = 0; i < n; ++i) {
      q.push_back(Reflection<T>::of(a.column(i) + i, m - i));
      q.back().apply(a, i, i + 1, q.back().tau);
    }
    Matrix<T> triangle(n, n);
    for (std::int64_t c = 0; c < n; ++c) std::copy_n(a.column(c), c + 1, triangle.column(c));
    a = std::move(triangle);
  }
  Reflections<T> lefts, rights;
  std::vector<T> products(static_cast<std::size_t>(a.rows()));
  for (std::int64_t k = 0; k < n; ++k) {
    lefts.push_back(Reflection<T>::of(a.column(k) + k, a.rows() - k));
    lefts.back().apply(a, k, k + 1, lefts.back().tau);
    if (k + 1 == n) break;
    rights.push_back(Reflection<T>::of(&a(k, k + 1), n - k - 1, a.rows()));
    Reflection<T>& right = rights.back();
    std::fill(products.begin(), products.end(), T(0));
    for (std::int64_t c = k + 1; c < n; ++c) {
      const T factor = conjugate(right.v[static_cast<std::size_t>(c - k - 1)]);
      for (std::int64_t r = k + 1; r < a.rows(); ++r) products[static_cast<std::size_t>(r)] += a(r, c) * factor;
    }
    for (std::int64_t c = k + 1; c < n; ++c) {
      const T factor = right.tau * right.v[static_cast<std::size_t>(c - k - 1)];
      for (std::int64_t r = k + 1; r < a.rows(); ++r) a(r, c) -= products[static_cast<std::size_t>(r)] * factor;
    }
    for (T& x : right.v) x = conjugate(x);
    right.tau = conjugate(right.tau);
  }
  std::vector<Real> diagonal, below;  // of the transposed bidiagonal matrix, with a row of zeros below it
  for (std::int64_t i = 0; i < n; ++i) {
    diagonal.push_back(std::real(a(i, i)));
    below.push_back(i + 1 < n ? std::real(a(i, i + 1)) : 0);
  }
  Decomposition<Real> inner = conquer(diagonal.data(), below.data(), n);
  Decomposition<T> out{Matrix<T>::identity(m, full ? m : n), Matrix<T>::identity(n, n), std::move(inner.s)};
  for (std::int64_t c = 0; c < n; ++c) {
    for (std::int64_t r = 0; r < n; ++r) out.u(r, c) = inner.v(r, c), out.v(r, c) = inner.u(r, c);
  }
  apply_product(lefts, out.u);
  apply_product(q, out.u);
  apply_product(rights, out.v, 1);
  for (Real& value : out.s) value *= scale;
  return out;
}

template <typename T>
void decompose(const at::Tensor& x, at::Tensor& u, at::Tensor& s, at::Tensor& v, bool full) {
  const std::int64_t m = x.size(-2), n = x.size(-1);
  const at::Tensor all = x.reshape({-1, m, n}), lefts = u.view({-1, m, u.size(-1)});
  const at::Tensor values = s.view({-1, s.size(-1)}), rights = v.view({-1, n, v.size(-1)});
  for (std::int64_t i = 0; i < all.size(0); ++i) {
    Matrix<T> a(m, n);
    a.tensor().copy_(all[i]);
    Decomposition<T> made = n < kJacobiColumns ? by_rotations(std::move(a), full) : by_halves(std::move(a), full);
    lefts[i].copy_(made.u.tensor());
    rights[i].copy_(made.v.tensor());
    std::copy(made.s.begin(), made.s.end(), values[i].template mutable_data_ptr<RealOf<T>>());
  }
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> singular_vectors(const at::Tensor& x, bool full) {
  const std::int64_t m = x.size(-2), n = x.size(-1), k = std::min(m, n);
  const GradientsOff outside;
  if (x.numel() == 0 || double(m) * double(n) * double(full ? std::max(m, n) : k) > kMostSteps) {
    auto [u, s, vh] = at::linalg_svd(x.detach(), full);
    return {u, s, vh.mH()};
  }
  std::vector<std::int64_t> shape(x.sizes().begin(), x.sizes().end() - 1);
  const auto of_shape = [&](std::int64_t rows, std::int64_t columns) {
    shape.back() = rows;
    std::vector<std::int64_t> whole = shape;
    whole.push_back(columns);
    return at::empty(whole, x.options());
  };
  at::Tensor u = of_shape(m, full ? m : k), v = of_shape(n, full ? n : k);
  shape.back() = k;
  at::Tensor s = at::empty(shape, x.options().dtype(c10::toRealValueType(x.scalar_type())));
  switch (x.scalar_type()) {
    case at::kFloat: decompose<float>(x, u, s, v, full); break;
    case at::kDouble: decompose<double>(x, u, s, v, full); break;
    case at::kComplexFloat: decompose<std::complex<float>>(x, u, s, v, full); break;
    case at::kComplexDouble: decompose<std::complex<double>>(x, u, s, v, full); break;
    default: throw_invalid_argument(fmt::format("singular values of {}", c10::toString(x.scalar_type())));
  }
  return {u, s, v};
}

}  // namespace lockstep::ops
