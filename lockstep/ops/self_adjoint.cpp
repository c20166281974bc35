// Eigenvectors of self-adjoint matrices by the symmetric QR algorithm: Householder reflections make the matrix
// tridiagonal, implicit steps with Wilkinson's shift make it diagonal (Golub and Van Loan, Matrix Computations,
// section 8.3). LAPACK is not used because its vectors differ from TensorFlow's in their signs, and wherever values
// are equal.
#include "lockstep/ops/self_adjoint_internal.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

template <typename T>
class SelfAdjointEigen {
 public:
  using Real = decltype(std::abs(T()));

  // `matrix`: [n, n] by rows; its lower triangle is read, and the vectors are written over it.
  SelfAdjointEigen(T* matrix, Real* values, std::int64_t n)
      : a_(matrix), values_(values), n_(n), below_(static_cast<std::size_t>(n)), tau_(static_cast<std::size_t>(n)) {}

  bool run() {
    Real scale = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) scale = std::max(scale, std::abs(at(i, j)));
    }
    if (scale == 0) scale = 1;
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = 0; j < i; ++j) at(i, j) /= scale;
      at(i, i) = std::real(at(i, i)) / scale;  // that of a self-adjoint matrix is real
    }
    for (std::int64_t i = 0; i + 1 < n_; ++i) reflect(i);
    for (std::int64_t i = 0; i < n_; ++i) {
      values_[i] = std::real(at(i, i));
      if (i + 1 < n_) below(i) = std::real(at(i + 1, i));
    }
    form_vectors();
    if (!iterate()) return false;
    sort();
    for (std::int64_t i = 0; i < n_; ++i) values_[i] *= scale;
    return true;
  }

 private:
  static T conjugate(const T& x) {
    if constexpr (std::is_same_v<T, Real>) {
      return x;
    } else {
      return std::conj(x);
    }
  }
  static Real imaginary(const T& x) {
    if constexpr (std::is_same_v<T, Real>) {
      return 0;
    } else {
      return x.imag();
    }
  }
  T& at(std::int64_t row, std::int64_t column) { return a_[row * n_ + column]; }
  Real& below(std::int64_t i) { return below_[static_cast<std::size_t>(i)]; }

  // Column i below the diagonal becomes (beta, 0, …); column i keeps the vector of the reflection, whose first entry,
  // 1, is not stored.
  void reflect(std::int64_t i) {
    const std::int64_t first = i + 1;
    const T head = at(first, i);
    Real rest = 0, beta = std::real(head);
    for (std::int64_t r = first + 1; r < n_; ++r) rest += std::norm(at(r, i));
    T tau = 0;
    constexpr Real kNothing = std::numeric_limits<Real>::min();
    const bool nothing = rest <= kNothing && imaginary(head) * imaginary(head) <= kNothing;
    if (!nothing) {
      beta = std::sqrt(std::norm(head) + rest);
      if (std::real(head) >= 0) beta = -beta;
      tau = conjugate((beta - head) / beta);
    }
    for (std::int64_t r = first + 1; r < n_; ++r) at(r, i) = nothing ? T(0) : at(r, i) / (head - beta);
    at(first, i) = 1;

    // The rest of the matrix, B, becomes H B H* = B - v w* - w v*.
    std::vector<T> w(static_cast<std::size_t>(n_ - first));
    T product = 0;
    for (std::int64_t r = first; r < n_; ++r) {
      T sum = 0;
      for (std::int64_t c = first; c < n_; ++c) sum += (c <= r ? at(r, c) : conjugate(at(c, r))) * at(c, i);
      w[static_cast<std::size_t>(r - first)] = conjugate(tau) * sum;
      product += conjugate(w[static_cast<std::size_t>(r - first)]) * at(r, i);
    }
    const T share = conjugate(tau) * Real(-0.5) * product;
    for (std::int64_t r = first; r < n_; ++r) w[static_cast<std::size_t>(r - first)] += share * at(r, i);
    for (std::int64_t r = first; r < n_; ++r) {
      for (std::int64_t c = first; c <= r; ++c) {
        at(r, c) -= at(r, i) * conjugate(w[static_cast<std::size_t>(c - first)]) +
                    w[static_cast<std::size_t>(r - first)] * conjugate(at(c, i));
      }
    }
    at(first, i) = beta;
    tau_[static_cast<std::size_t>(i)] = tau;
  }

  // The product of all reflections, over the matrix.
  void form_vectors() {
    std::vector<T> q(static_cast<std::size_t>(n_ * n_));
    const auto entry = [&](std::int64_t r, std::int64_t c) -> T& { return q[static_cast<std::size_t>(r * n_ + c)]; };
    for (std::int64_t i = 0; i < n_; ++i) entry(i, i) = 1;
    for (std::int64_t i = n_ - 2; i >= 0; --i) {
      const auto v = [&](std::int64_t r) { return r == i + 1 ? T(1) : at(r, i); };
      for (std::int64_t c = i + 1; c < n_; ++c) {
        T sum = 0;
        for (std::int64_t r = i + 1; r < n_; ++r) sum += conjugate(v(r)) * entry(r, c);
        sum *= conjugate(tau_[static_cast<std::size_t>(i)]);
        for (std::int64_t r = i + 1; r < n_; ++r) entry(r, c) -= v(r) * sum;
      }
    }
    std::copy(q.begin(), q.end(), a_);
  }

  bool iterate() {
    constexpr Real kNothing = std::numeric_limits<Real>::min(), kInverse = 1 / std::numeric_limits<Real>::epsilon();
    std::int64_t start = 0, end = n_ - 1, steps = 0;
    while (end > 0) {
      for (std::int64_t i = start; i < end; ++i) {
        const Real scaled = kInverse * below(i);
        if (std::abs(below(i)) < kNothing || scaled * scaled <= std::abs(values_[i]) + std::abs(values_[i + 1]))
          below(i) = 0;
      }
      while (end > 0 && below(end - 1) == 0) --end;
      if (end <= 0) break;
      if (++steps > 30 * n_) return false;
      start = end - 1;
      while (start > 0 && below(start - 1) != 0) --start;
      step(start, end);
    }
    return true;
  }

  // One implicit step on the block from `start` to `end`, whose entries below the diagonal are not 0.
  void step(std::int64_t start, std::int64_t end) {
    const Real half = (values_[end - 1] - values_[end]) / 2, e = below(end - 1);
    Real shift = values_[end];
    if (half == 0) {
      shift -= std::abs(e);
    } else if (e != 0) {
      const Real length = std::hypot(half, e), sum = half + (half > 0 ? length : -length);
      shift -= e * e == 0 ? e / (sum / e) : e * e / sum;
    }
    Real x = values_[start] - shift, z = below(start);
    for (std::int64_t k = start; k < end && z != 0; ++k) {
      const auto [c, s] = rotation(x, z);
      const Real d = values_[k], next = values_[k + 1], off = below(k);
      const Real lower = s * d + c * off, right = s * off + c * next;
      values_[k] = c * (c * d - s * off) - s * (c * off - s * next);
      values_[k + 1] = s * lower + c * right;
      below(k) = c * lower - s * right;
      if (k > start) below(k - 1) = c * below(k - 1) - s * z;
      x = below(k);
      if (k < end - 1) {
        z = -s * below(k + 1);
        below(k + 1) *= c;
      }
      for (std::int64_t r = 0; r < n_; ++r) {
        const T left = at(r, k), other = at(r, k + 1);
        at(r, k) = c * left - s * other;
        at(r, k + 1) = s * left + c * other;
      }
    }
  }

  // Cosine and sine of the rotation that takes (x, z) to (r, 0).
  static std::pair<Real, Real> rotation(Real x, Real z) {
    if (z == 0) return {x < 0 ? Real(-1) : Real(1), Real(0)};
    if (x == 0) return {Real(0), z < 0 ? Real(1) : Real(-1)};
    if (std::abs(x) > std::abs(z)) {
      const Real t = z / x, u = std::copysign(std::sqrt(1 + t * t), x);
      return {1 / u, -t / u};
    }
    const Real t = x / z, u = std::copysign(std::sqrt(1 + t * t), z);
    return {t / u, -1 / u};
  }

  void sort() {
    for (std::int64_t i = 0; i + 1 < n_; ++i) {
      std::int64_t least = i;
      for (std::int64_t j = i + 1; j < n_; ++j) {
        if (values_[j] < values_[least]) least = j;
      }
      if (least == i) continue;
      std::swap(values_[i], values_[least]);
      for (std::int64_t r = 0; r < n_; ++r) std::swap(at(r, i), at(r, least));
    }
  }

  T* a_;
  Real* values_;
  std::int64_t n_;
  std::vector<Real> below_;  // the diagonal below the main one
  std::vector<T> tau_;       // factors of the reflections
};

template <typename T>
void decompose(at::Tensor& vectors, at::Tensor& values) {
  using Real = typename SelfAdjointEigen<T>::Real;
  const std::int64_t n = vectors.size(-1), count = n == 0 ? 0 : vectors.numel() / (n * n);
  auto* matrix = static_cast<T*>(vectors.mutable_data_ptr());
  auto* row = static_cast<Real*>(values.mutable_data_ptr());
  for (std::int64_t i = 0; i < count; ++i) {
    if (!SelfAdjointEigen<T>(matrix + i * n * n, row + i * n, n).run())
      throw_invalid_argument("the eigenvalues do not converge");
  }
}

}  // namespace

std::pair<at::Tensor, at::Tensor> self_adjoint_eigen(const at::Tensor& x) {
  at::Tensor vectors = x.detach().resolve_conj().contiguous().clone();
  at::Tensor values = at::empty(x.sizes().slice(0, static_cast<std::size_t>(x.dim()) - 1),
                                x.options().dtype(c10::toRealValueType(x.scalar_type())));
  switch (x.scalar_type()) {
    case at::kFloat: decompose<float>(vectors, values); break;
    case at::kDouble: decompose<double>(vectors, values); break;
    case at::kComplexFloat: decompose<std::complex<float>>(vectors, values); break;
    case at::kComplexDouble: decompose<std::complex<double>>(vectors, values); break;
    default: throw_invalid_argument(fmt::format("eigenvalues of {}", c10::toString(x.scalar_type())));
  }
  return {values.to(x.scalar_type()), vectors};
}

}  // namespace lockstep::ops
