// Derivatives of the incomplete gamma function and of gamma samples with respect to the shape parameter.
#include "lockstep/ops/incomplete_gamma_internal.h"

#include <cmath>
#include <limits>

#include <ATen/ops/digamma.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

constexpr int kMostTerms = 2000;
constexpr double kEpsilon = 1.1e-16;

// The derivative by a of log(s), where the function is x^a e^-x / Gamma(a + 1) times the series s, and s itself.
struct Value {
  double value, by_a;
};

Value power_series(double a, double x) {
  double r = a, c = 1, dc = 0;
  Value sum{1, 0};
  for (int i = 0; i < kMostTerms; ++i) {
    r += 1;
    dc = x / r * dc - x / (r * r) * c;
    sum.by_a += dc;
    c *= x / r;
    sum.value += c;
    if (std::abs(dc) <= kEpsilon * std::abs(sum.by_a)) break;
  }
  return sum;
}

// The continued fraction of the upper function, in the form of Cephes, and its derivative.
Value continued_fraction(double a, double x) {
  constexpr double kBig = 4503599627370496.0;
  double y = 1 - a, z = x + y + 1, c = 0;
  double p2 = 1, q2 = x, p1 = x + 1, q1 = z * x;
  double dp2 = 0, dq2 = 0, dp1 = 0, dq1 = -x;
  Value ratio{p1 / q1, (dp1 - p1 / q1 * dq1) / q1};
  for (int i = 0; i < kMostTerms; ++i) {
    c += 1, y += 1, z += 2;
    const double yc = y * c, p = p1 * z - p2 * yc, q = q1 * z - q2 * yc;
    const double dp = dp1 * z - p1 - dp2 * yc + p2 * c, dq = dq1 * z - q1 - dq2 * yc + q2 * c;
    bool done = false;
    if (q != 0) {
      const double before = ratio.by_a;
      ratio.value = p / q;
      ratio.by_a = (dp - ratio.value * dq) / q;
      done = std::abs(ratio.by_a - before) <= kEpsilon;
    }
    if (done) break;
    p2 = p1, p1 = p, q2 = q1, q1 = q, dp2 = dp1, dp1 = dp, dq2 = dq1, dq1 = dq;
    if (std::abs(p) > kBig) {
      for (double* const each : {&p2, &p1, &q2, &q1, &dp2, &dp1, &dq2, &dq1}) *each /= kBig;
    }
  }
  return ratio;
}

double digamma(double x) { return at::digamma(at::scalar_tensor(x, at::kDouble)).item<double>(); }

bool takes_fraction(double a, double x) { return x > 1 && x > a; }

// The exponent of x^a e^-x / Gamma(a); where it is below that of the type's smallest numbers, `least`, TensorFlow gives
// zero.
bool vanishes(double a, double x, double least) {
  return std::isinf(a) || std::isinf(x) || a * std::log(x) - x - std::lgamma(a) < least;
}

double igamma_by_a(double a, double x, double least) {
  if (x == 0) return 0;
  if (std::isnan(a) || std::isnan(x) || x < 0 || a <= 0) return NAN;
  if (vanishes(a, x, least)) return 0;
  if (takes_fraction(a, x)) {
    const Value f = continued_fraction(a, x);
    return -std::exp(a * std::log(x) - x - std::lgamma(a)) * (f.value * (std::log(x) - digamma(a)) + f.by_a);
  }
  const Value s = power_series(a, x);
  return std::exp(a * std::log(x) - x - std::lgamma(a + 1)) * (s.value * (std::log(x) - digamma(a + 1)) + s.by_a);
}

double sample_by_alpha(double a, double x, double least) {
  if (x == 0) return 0;
  if (std::isnan(a) || std::isnan(x) || x < 0 || a <= 0) return NAN;
  if (vanishes(a, x, least)) return 0;
  if (takes_fraction(a, x)) {
    const Value f = continued_fraction(a, x);
    return (f.by_a + f.value * (std::log(x) - digamma(a))) * x;
  }
  const Value s = power_series(a, x);
  return -(s.by_a + s.value * (std::log(x) - digamma(a + 1))) * x / a;
}

at::Tensor of_elements(const at::Tensor& a, const at::Tensor& x, double (*function)(double, double, double)) {
  const double least = a.scalar_type() == at::kDouble ? -std::log(std::numeric_limits<double>::max())
                                                      : -std::log(std::numeric_limits<float>::max());
  const auto both = at::broadcast_tensors({a.detach().to(at::kDouble), x.detach().to(at::kDouble)});
  const at::Tensor first = both[0].contiguous(), second = both[1].contiguous();
  at::Tensor out = at::empty(first.sizes(), at::kDouble);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.mutable_data_ptr<double>()[i] =
        function(first.const_data_ptr<double>()[i], second.const_data_ptr<double>()[i], least);
  }
  return out.to(a.scalar_type());
}

}  // namespace

at::Tensor incomplete_gamma_by_a(const at::Tensor& a, const at::Tensor& x) { return of_elements(a, x, igamma_by_a); }

at::Tensor gamma_sample_by_alpha(const at::Tensor& alpha, const at::Tensor& sample) {
  return of_elements(alpha, sample, sample_by_alpha);
}

void register_incomplete_gamma(Table& table) {
  table.add("IgammaGradA", broadcast_rule,
            [](const Call& call) { return one(incomplete_gamma_by_a(in(call, 0), in(call, 1))); });
  table.add("RandomGammaGrad", broadcast_rule,
            [](const Call& call) { return one(gamma_sample_by_alpha(in(call, 0), in(call, 1))); });
}

}  // namespace lockstep::ops
