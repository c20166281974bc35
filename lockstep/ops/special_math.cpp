// Special functions, and what makes and takes apart complex numbers.
#include <bit>
#include <cmath>
#include <functional>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/kernels_internal.h"

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

at::Tensor polygamma_of(const at::Tensor& n, const at::Tensor& x) {
  const at::Tensor sign = 1 - 2 * at::remainder(n + 1, 2);
  const at::Tensor value = sign * at::exp(at::lgamma(n + 1)) * at::special_zeta(n + 1, x);
  const at::Tensor whole = at::where(n == 0, at::digamma(x), value);
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
  return {with_adjoint(wrap(inputs[1]), wrap(at::special_zeta(x, q)),
                       [x, q](const Tensor& dy) { return wrap(dense(dy) * -x * at::special_zeta(x + 1, q)); })};
}

Tensors incomplete_gamma(const Call& call, bool upper) {
  const at::Tensor &a = in(call, 0), &x = in(call, 1);
  const bool narrow = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
  const at::Tensor wide_a = narrow ? a.to(at::kFloat) : a, wide_x = narrow ? x.to(at::kFloat) : x;
  return one(
      narrow_to(upper ? at::igammac(wide_a.detach(), wide_x) : at::igamma(wide_a.detach(), wide_x), a.scalar_type()));
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
  table.add("Complex", broadcast_rule, [](const Call& call) {
    return one(at::complex(in(call, 0), in(call, 1)).to(to_scalar_type(call.attr<DType>("Tout"))));
  });
  const auto part = [&](const char* name, const Elementwise& f) {
    table.add(name, same_shape, [f](const Call& call) {
      return one(f(in(call, 0)).to(to_scalar_type(call.attr<DType>("Tout"))).contiguous());
    });
  };
  part("Real", [](const at::Tensor& x) { return at::real(x); });
  part("Imag", [](const at::Tensor& x) { return at::imag(x); });
  part("ComplexAbs", [](const at::Tensor& x) { return at::abs(x); });
  part("Angle", [](const at::Tensor& x) { return at::angle(x); });
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
  add_special(table, "BesselK0", k0, [=](const at::Tensor& x) { return -k1(x); });
  add_special(table, "BesselK0e", k0e, [=](const at::Tensor& x) { return k0e(x) - k1e(x); });
  add_special(table, "BesselK1", k1, [=](const at::Tensor& x) { return -k0(x) - k1(x) / x; });
  add_special(table, "BesselK1e", k1e, [=](const at::Tensor& x) { return k1e(x) * (1 - 1 / x) - k0e(x); });
  add_special(table, "BesselY0", y0, [=](const at::Tensor& x) { return -y1(x); });
  add_special(table, "BesselY1", y1, [=](const at::Tensor& x) { return y0(x) - y1(x) / x; });
}

}  // namespace

void register_special_math(Table& table) {
  register_bessel(table);
  register_complex(table);
  table.add("Igamma", broadcast_rule, [](const Call& call) { return incomplete_gamma(call, false); });
  table.add("Igammac", broadcast_rule, [](const Call& call) { return incomplete_gamma(call, true); });
  table.add("Betainc", broadcast_all_rule, incomplete_beta);
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
      if (y.sizes() != in(call, 1).sizes()) throw_invalid_argument("y and dy differ in their shapes");
      return one(-in(call, 1) * y * y);
    });
  }
}

}  // namespace lockstep::ops
