// Special functions, and what makes and takes apart complex numbers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/gradients_internal.h"
#include "lockstep/ops/incomplete_gamma_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/precision_internal.h"

namespace lockstep::ops {
namespace {

using Elementwise = std::function<at::Tensor(const at::Tensor&)>;

// y = f(x) whose gradient is dy f'(x); 16-bit numbers are computed as float32.
void add_special(Table& table, const char* name, const Elementwise& f, const Elementwise& slope) {
  table.add(name, same_shape, [f, slope](const Call& call) -> Tensors {
    const at::Tensor& x = in(call, 0);
    const bool narrow = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
    const at::Tensor wide = narrow ? x.to(at::kFloat) : x;
    const Tensor y = wrap(f(wide.detach()));
    const Tensor tied =
        with_adjoint(wrap(wide), y, [wide, slope](const Tensor& dy) { return wrap(dense(dy) * slope(wide.detach())); });
    return one(narrow_to(dense(tied), x.scalar_type()));
  });
}

// A function with a fixed value at 0 and below it.
Elementwise from_zero(const Elementwise& f, double at_most_zero) {
  return [f, at_most_zero](const at::Tensor& x) {
    return at::where(x <= 0, at::full({}, at_most_zero, x.options()), f(x));
  };
}

at::Tensor over_x(const at::Tensor& y, const at::Tensor& x, double at_zero) {
  return at::where(x == 0, at::full({}, at_zero, x.options()), y / x);
}

// The regularized incomplete beta function, by the continued fraction of its tail (Lentz's method).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto nonzero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m <= 10000; ++m) {
    const double n = m;
    const double even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n));
    d = 1 / nonzero(1 + even * d), c = nonzero(1 + even / c), h *= d * c;
    const double odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1));
    d = 1 / nonzero(1 + odd * d), c = nonzero(1 + odd / c);
    const double step = d * c;
    h *= step;
    if (std::abs(step - 1) < 1e-16) break;
  }
  return h;
}

double beta_ratio(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return NAN;
  if (x == 0 || x == 1) return x;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

Tensors incomplete_beta(const Call& call) {
  const Shape* whole = nullptr;  // scalars go with any shape, other shapes must be equal
  for (const Tensor& x : call.inputs()) {
    if (x.rank() == 0) continue;
    if (whole && *whole != x.shape())
      throw_invalid_argument(fmt::format("shapes {} and {} differ", whole->to_string(), x.shape().to_string()));
    whole = &x.shape();
  }
  const auto inputs = at::broadcast_tensors({in(call, 0), in(call, 1), in(call, 2)});
  const at::Tensor a = inputs[0].detach().to(at::kDouble).contiguous(),
                   b = inputs[1].detach().to(at::kDouble).contiguous(),
                   x = inputs[2].detach().to(at::kDouble).contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    y.mutable_data_ptr<double>()[i] =
        beta_ratio(a.const_data_ptr<double>()[i], b.const_data_ptr<double>()[i], x.const_data_ptr<double>()[i]);
  }
  const at::ScalarType type = inputs[2].scalar_type();
  return {with_adjoint(wrap(inputs[2]), wrap(y.to(type)), [a, b, x, type](const Tensor& dy) {
    const at::Tensor log_beta = at::lgamma(a) + at::lgamma(b) - at::lgamma(a + b);
    const at::Tensor slope = at::exp(at::xlogy(a - 1, x) + at::special_xlog1py(b - 1, -x) - log_beta);
    return wrap(dense(dy) * slope.to(type));
  })};
}

// At its poles, q = 0, -1, …, the function is infinite for even x and has no value for others; nor has it one below 0
// for fractions.
at::Tensor zeta_of(const at::Tensor& x, const at::Tensor& q) {
  const at::Tensor none = at::full({}, NAN, x.options()), infinite = at::full({}, INFINITY, x.options());
  const at::Tensor pole = at::logical_and(at::logical_and(q <= 0, q == at::floor(q)), x > 1);
  const at::Tensor far = at::isposinf(x);
  const at::Tensor nothing = at::logical_or(at::logical_and(at::isposinf(q), x > 1), at::logical_and(far, q > 1));
  at::Tensor y = at::where(nothing, at::zeros_like(none), at::special_zeta(x, q));
  y = at::where(pole, at::where(at::logical_or(at::remainder(x, 2) == 0, far), infinite, none), y);
  return at::where(at::isnan(x), none, y);
}

// NaN at its poles, where LibTorch's is infinite at 0.
at::Tensor digamma_of(const at::Tensor& x) {
  return at::where(at::logical_and(x <= 0, x == at::floor(x)), at::full({}, NAN, x.options()), at::digamma(x));
}

at::Tensor polygamma_of(const at::Tensor& n, const at::Tensor& x) {
  const at::Tensor sign = 1 - 2 * at::remainder(n + 1, 2);
  const at::Tensor value = sign * at::exp(at::lgamma(n + 1)) * zeta_of(n + 1, x);
  const at::Tensor whole = at::where(n == 0, digamma_of(x), value);
  return at::where(at::logical_and(n >= 0, n == at::floor(n)), whole, at::full({}, NAN, x.options()));
}

Tensors polygamma(const Call& call) {
  const auto inputs = at::broadcast_tensors({in(call, 0), in(call, 1)});
  const at::Tensor n = inputs[0].detach(), x = inputs[1].detach();
  return {with_adjoint(wrap(inputs[1]), wrap(polygamma_of(n, x)),
                       [n, x](const Tensor& dy) { return wrap(dense(dy) * polygamma_of(n + 1, x)); })};
}

Tensors zeta(const Call& call) {
  const auto inputs = at::broadcast_tensors({in(call, 0), in(call, 1)});
  const at::Tensor x = inputs[0].detach(), q = inputs[1].detach();
  return {with_adjoint(wrap(inputs[1]), wrap(zeta_of(x, q)),
                       [x, q](const Tensor& dy) { return wrap(dense(dy) * -x * zeta_of(x + 1, q)); })};
}

Tensors incomplete_gamma(const Call& call, bool upper) {
  const at::Tensor &a = in(call, 0), &x = in(call, 1);
  const bool narrow = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
  const at::Tensor wide_a = narrow ? a.to(at::kFloat) : a, wide_x = narrow ? x.to(at::kFloat) : x;
  const at::Tensor held_a = wide_a.detach(), held_x = wide_x.detach();
  at::Tensor y = upper ? at::igammac(held_a, held_x) : at::igamma(held_a, held_x);
  const auto tie = [&](const at::Tensor& input, const std::function<at::Tensor()>& slope) {
    if (!input.requires_grad() || !grad_enabled()) return;
    y = y + dense(with_adjoint(wrap(input.expand_as(y)), wrap(at::zeros_like(y)),
                               [=](const Tensor& dy) { return wrap(dense(dy) * (upper ? -slope() : slope())); }));
  };
  const at::Tensor outside = at::logical_or(at::logical_or(x < 0, a <= 0), at::logical_or(at::isnan(x), at::isnan(a)));
  const at::Tensor none = at::full({}, NAN, y.options());
  y = at::where(upper ? outside : at::logical_and(outside, x != 0), none, y);
  if (!upper) y = at::where(x == 0, at::zeros({}, y.options()), y);
  tie(wide_a, [=] { return incomplete_gamma_by_a(held_a, held_x); });
  tie(wide_x, [=] { return at::exp((held_a - 1) * at::log(held_x) - held_x - at::lgamma(held_a)); });
  return one(narrow_to(y, a.scalar_type()));
}

Tensors population_count(const Call& call) {
  const at::Tensor x = in(call, 0).contiguous();
  at::Tensor y = at::empty(x.sizes(), at::kByte);
  const auto count = [&]<typename T>(T) {
    const T* from = static_cast<const T*>(x.const_data_ptr());
    for (std::int64_t i = 0; i < x.numel(); ++i)
      y.mutable_data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(std::popcount(from[i]));
  };
  switch (x.element_size()) {
    case 1: count(std::uint8_t{}); break;
    case 2: count(std::uint16_t{}); break;
    case 4: count(std::uint32_t{}); break;
    default: count(std::uint64_t{});
  }
  return one(y);
}

void register_complex(Table& table) {
  const auto check = [](const Call& call) { require_one_precision(call.input(0).dtype(), call.attr<DType>("Tout")); };
  table.add("Complex", broadcast_rule, [check](const Call& call) {
    check(call);
    return one(at::complex(in(call, 0), in(call, 1)));
  });
  const auto part = [&](const char* name, const Elementwise& f) {
    table.add(name, same_shape, [f, check](const Call& call) {
      check(call);
      return one(f(in(call, 0)).contiguous());
    });
  };
  part("Real", [](const at::Tensor& x) { return at::real(x); });
  part("Imag", [](const at::Tensor& x) { return at::imag(x); });
  part("ComplexAbs", [](const at::Tensor& x) { return at::abs(x); });
  part("Angle", [](const at::Tensor& x) { return at::angle(x); });
}

// ---- integrals without a function of LibTorch, in double precision ------------------------------------------------
// exp(-x^2) times the integral of exp(t^2) from 0 to x, as a sum of Gaussians (G. B. Rybicki, 1989): the error of this
// step is below that of double.
double dawson(double x) {
  if (!std::isfinite(x) || x == 0) return std::isnan(x) ? x : 0;
  if (std::abs(x) > 1e4) return 0.5 / x;
  constexpr double kStep = 0.2;
  const double middle = 2 * std::round(0.5 * x / kStep);  // the nearest even multiple
  const double rest = x - middle * kStep;
  double sum = 0;
  for (int k = -61; k <= 61; k += 2) {
    const double gap = rest - k * kStep;
    sum += std::exp(-gap * gap) / (middle + k);
  }
  return sum / std::sqrt(M_PI);
}

double exponential_integral(double x) {
  if (std::isnan(x) || x < 0) return NAN;  // TensorFlow's function ends at 0
  if (x == 0) return -INFINITY;
  if (std::isinf(x)) return NAN;
  if (x > 700 + 20) return INFINITY;
  if (x > 40) {  // asymptotic
    double sum = 1, term = 1;
    for (int k = 1; k < 60; ++k) {
      const double next = term * k / x;
      if (next >= term || next < 1e-18) break;
      sum += term = next;
    }
    return std::exp(x) / x * sum;
  }
  double sum = 0, term = 1;
  for (int k = 1; k < 500; ++k) {
    term *= x / k;
    sum += term / k;
    if (term / k < 1e-18 * std::abs(sum)) break;
  }
  return 0.57721566490153286061 + std::log(x) + sum;
}

// The integral of log(t) / (1 - t) from 1 to x, which is the dilogarithm of 1 - x.
double dilogarithm(double z) {  // of z in [-1, 0.5]
  double sum = 0, power = 1;
  for (int k = 1; k < 2000; ++k) {
    power *= z;
    const double term = power / k / k;
    sum += term;
    if (std::abs(term) < 1e-18 * std::abs(sum)) break;
  }
  return sum;
}
double spence(double x) {
  if (std::isnan(x) || x < 0 || std::isinf(x)) return NAN;
  if (x == 0) return M_PI * M_PI / 6;
  const double z = 1 - x;
  if (z > 0.5) return M_PI * M_PI / 6 - std::log(z) * std::log(x) - dilogarithm(x);
  if (z >= -0.5) return dilogarithm(z);
  const double log_x = std::log(x), rest = 1 / x;  // z / (z - 1) is 1 - rest, in [0, 1)
  const double inner =
      rest < 0.5 ? M_PI * M_PI / 6 + std::log1p(-rest) * log_x - dilogarithm(rest) : dilogarithm(1 - rest);
  return -inner - 0.5 * log_x * log_x;
}

// C(x) + i S(x) with the argument pi t^2 / 2: a series near 0, else a continued fraction of erfc (Lentz's method).
std::complex<double> fresnel(double x) {
  const double size = std::abs(x);
  std::complex<double> value;
  if (std::isnan(x)) return {x, x};
  if (size < 1.6) {
    const double square = 0.5 * M_PI * size * size;
    double cosine = 0, sine = 0, term = size;
    for (int k = 0; k < 200; ++k) {
      (k % 2 == 0 ? cosine : sine) += (k % 4 < 2 ? 1 : -1) * term / (2 * k + 1);
      term *= square / (k + 1);
      if (term < 1e-20) break;
    }
    value = {cosine, sine};
  } else if (size > 1e7) {
    value = {0.5, 0.5};
  } else {
    const double square = M_PI * size * size;
    std::complex<double> b(1, -square), c(1e300, 0), d = 1.0 / b, h = d;
    for (int k = 2; k < 1000; ++k) {
      const double n = 2.0 * k - 3, a = -n * (n + 1);
      b += 4.0;
      d = 1.0 / (a * d + b);
      c = b + a / c;
      const std::complex<double> step = c * d;
      h *= step;
      if (std::abs(step - 1.0) < 1e-16) break;
    }
    h *= std::complex<double>(size, -size);
    value = std::complex<double>(0.5, 0.5) *
            (1.0 - std::complex<double>(std::cos(0.5 * square), std::sin(0.5 * square)) * h);
  }
  return x < 0 ? -value : value;
}

template <typename F>
Elementwise in_double(F f) {
  return [f](const at::Tensor& x) {
    const at::Tensor wide = x.to(at::kDouble).contiguous();
    at::Tensor y = at::empty(wide.sizes(), wide.options());
    std::transform(wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel(),
                   y.mutable_data_ptr<double>(), f);
    return y.to(x.scalar_type());
  };
}

void register_integrals(Table& table) {
  const Elementwise dawsn = in_double(dawson);
  add_special(table, "Dawsn", dawsn, [dawsn](const at::Tensor& x) { return 1 - 2 * x * dawsn(x); });
  add_special(table, "Expint", in_double(exponential_integral), [](const at::Tensor& x) { return at::exp(x) / x; });
  add_special(table, "Spence", in_double(spence), [](const at::Tensor& x) {
    return at::where(x == 1, at::full({}, -1.0, x.options()), at::log(x) / (1 - x));
  });
  add_special(table, "FresnelCos", in_double([](double x) { return fresnel(x).real(); }),
              [](const at::Tensor& x) { return at::cos(x * x * (M_PI / 2)); });
  add_special(table, "FresnelSin", in_double([](double x) { return fresnel(x).imag(); }),
              [](const at::Tensor& x) { return at::sin(x * x * (M_PI / 2)); });
}

void register_bessel(Table& table) {
  const auto i0 = [](const at::Tensor& x) { return at::special_i0(x); };
  const auto i0e = [](const at::Tensor& x) { return at::special_i0e(x); };
  const auto i1 = [](const at::Tensor& x) { return at::special_i1(x); };
  const auto i1e = [](const at::Tensor& x) { return at::special_i1e(x); };
  const auto j0 = [](const at::Tensor& x) { return at::special_bessel_j0(x); };
  const auto j1 = [](const at::Tensor& x) { return at::special_bessel_j1(x); };
  const auto k0 = [](const at::Tensor& x) { return at::special_modified_bessel_k0(x); };
  const auto k1 = [](const at::Tensor& x) { return at::special_modified_bessel_k1(x); };
  const auto k0e = [](const at::Tensor& x) { return at::special_scaled_modified_bessel_k0(x); };
  const auto k1e = [](const at::Tensor& x) { return at::special_scaled_modified_bessel_k1(x); };
  const auto y0 = [](const at::Tensor& x) { return at::special_bessel_y0(x); };
  const auto y1 = [](const at::Tensor& x) { return at::special_bessel_y1(x); };
  add_special(table, "BesselI0", i0, i1);
  add_special(table, "BesselI0e", i0e, [=](const at::Tensor& x) { return i1e(x) - at::sign(x) * i0e(x); });
  add_special(table, "BesselI1", i1, [=](const at::Tensor& x) { return i0(x) - over_x(i1(x), x, 0.5); });
  add_special(table, "BesselI1e", i1e,
              [=](const at::Tensor& x) { return i0e(x) - at::sign(x) * i1e(x) - over_x(i1e(x), x, 0.5); });
  add_special(table, "BesselJ0", j0, [=](const at::Tensor& x) { return -j1(x); });
  add_special(table, "BesselJ1", j1, [=](const at::Tensor& x) { return j0(x) - over_x(j1(x), x, 0.5); });
  add_special(table, "BesselK0", from_zero(k0, INFINITY), [=](const at::Tensor& x) { return -k1(x); });
  add_special(table, "BesselK0e", from_zero(k0e, INFINITY), [=](const at::Tensor& x) { return k0e(x) - k1e(x); });
  add_special(table, "BesselK1", from_zero(k1, INFINITY), [=](const at::Tensor& x) { return -k0(x) - k1(x) / x; });
  add_special(table, "BesselK1e", from_zero(k1e, INFINITY),
              [=](const at::Tensor& x) { return k1e(x) * (1 - 1 / x) - k0e(x); });
  add_special(table, "BesselY0", from_zero(y0, -INFINITY), [=](const at::Tensor& x) { return -y1(x); });
  // TensorFlow's function of float32 has no value from 0 to the smallest normal number.
  const auto y1_like_tf = [=](const at::Tensor& x) {
    const at::Tensor y = from_zero(y1, -INFINITY)(x);
    if (x.scalar_type() == at::kDouble) return y;
    return at::where(at::logical_and(x >= 0, x < std::numeric_limits<float>::min()), at::full({}, NAN, x.options()), y);
  };
  add_special(table, "BesselY1", y1_like_tf, [=](const at::Tensor& x) { return y0(x) - y1(x) / x; });
}

}  // namespace

void register_special_math(Table& table) {
  register_bessel(table);
  register_integrals(table);
  register_complex(table);
  table.add("Igamma", broadcast_rule, [](const Call& call) { return incomplete_gamma(call, false); });
  table.add("Igammac", broadcast_rule, [](const Call& call) { return incomplete_gamma(call, true); });
  table.add("Betainc", broadcast_all_rule, incomplete_beta);
  add_special(table, "Digamma", digamma_of, [](const at::Tensor& x) { return zeta_of(at::full_like(x, 2), x); });
  table.add("Polygamma", broadcast_rule, polygamma);
  table.add("Zeta", broadcast_rule, zeta);
  table.add("PopulationCount", same_shape, population_count);
  table.add("AccumulateNV2", same_shape, [](const Call& call) { return Tensors{call1("AddN", call.inputs())}; });
  table.add("ApproximateEqual", same_shape, [](const Call& call) {
    const at::Tensor gap = at::abs(widen(in(call, 0)) - widen(in(call, 1)));
    return one(gap.lt(static_cast<double>(call.attr<float>("tolerance"))));
  });
  for (auto name : {"InvGrad", "ReciprocalGrad"}) {
    table.add(name, same_shape, [](const Call& call) {
      const at::Tensor y = at::conj(in(call, 0)).resolve_conj();
      if (y.numel() != in(call, 1).numel()) throw_invalid_argument("y and dy must have the same number of elements");
      const at::Tensor dy = in(call, 1).reshape(y.sizes());
      return one(zero_where_dy_is(dy, -dy * (y * y)));
    });
  }
}

}  // namespace lockstep::ops
