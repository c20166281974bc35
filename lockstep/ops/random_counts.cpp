// Poisson and binomial numbers from Philox, bit for bit as TensorFlow draws them: each number has its own stream of
// 256 blocks, or of 42 for a binomial number with a small mean. The methods for large means are those of W. Hörmann
// (1993).
#pragma GCC optimize("fp-contract=off")
#include <cmath>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/number_range_internal.h"
#include "lockstep/ops/random_draws_internal.h"

namespace lockstep::ops {
namespace {

// Uniform numbers in [0, 1): two of each block, the second one first.
class Uniforms {
 public:
  Uniforms(const PhiloxState& start, std::int64_t element, std::uint64_t blocks)
      : state_(start.skipped(static_cast<std::uint64_t>(element) * blocks)) {}
  double next() {
    if (left_ == 0) {
      philox_uniform(state_, 0, std::span<double>(pair_));
      state_ = state_.skipped(1);
      left_ = 2;
    }
    return pair_[--left_];
  }

 private:
  PhiloxState state_;
  double pair_[2] = {};
  int left_ = 0;
};

double draw_poisson(Uniforms uniforms, double rate, double most) {
  if (!(rate <= std::numeric_limits<double>::max())) return NAN;
  if (rate < 10) {  // Knuth's product; a negative rate gives 0
    const double limit = std::exp(-rate);
    double product = 1;
    for (double count = 0;; count += 1) {
      product *= uniforms.next();
      if (product <= limit && count <= most) return count;
    }
  }
  const double log_rate = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = uniforms.next() - 0.5, v = uniforms.next();
    const double shifted = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / shifted + b) * u + rate + 0.43);
    if (k > most) continue;
    if (shifted >= 0.07 && v <= v_r) return k;
    if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
    const double s = std::log(v * inverse_alpha / (a / (shifted * shifted) + b));
    if (s <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
  }
}

// What Stirling's formula leaves of log(k!).
double stirling_rest(double k) {
  static constexpr double kFirst[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                      0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                      0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return kFirst[static_cast<int>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

double draw_binomial(const PhiloxState& state, std::int64_t element, double count, double p) {
  Uniforms uniforms(state, element, count * p < 10 ? 42 : 256);
  if (count * p < 10) {  // gaps between successes
    double sum = 0;
    for (double successes = 0;; successes += 1) {
      sum += std::ceil(std::log(uniforms.next()) / std::log1p(-p));
      if (!(sum <= count)) return successes;
    }
  }
  const double deviation = std::sqrt(count * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5;
  const double v_r = 0.92 - 4.2 / b, r = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation;
  const double m = std::floor((count + 1) * p);
  for (;;) {
    const double u = uniforms.next() - 0.5;
    double v = uniforms.next();
    const double shifted = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / shifted + b) * u + c);
    if (shifted >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (shifted * shifted) + b));
    const double bound = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + stirling_rest(m) +
                         stirling_rest(count - m) - stirling_rest(k) - stirling_rest(count - k);
    if (v <= bound) return k;
  }
}

double binomial(const PhiloxState& state, std::int64_t element, double count, double p) {
  if (!std::isfinite(count) || !std::isfinite(p)) return NAN;
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  return p > 0.5 ? count - draw_binomial(state, element, count, 1 - p) : draw_binomial(state, element, count, p);
}

}  // namespace

at::Tensor draw_random_poisson(const PhiloxState& state, const Ints& shape, const at::Tensor& given, DType dtype) {
  const at::Tensor rates = given.to(at::kDouble).contiguous();
  const auto own = static_cast<std::size_t>(rates.dim());
  if (shape.size() < own || !std::equal(rates.sizes().rbegin(), rates.sizes().rend(), shape.rbegin()))
    throw_invalid_argument(fmt::format("the shape {} does not end with that of lam, {}", Shape(shape).to_string(),
                                       Shape(given.sizes().vec()).to_string()));
  const std::int64_t total = element_count(shape, sizeof(double));
  at::Tensor out = at::empty(shape, at::kDouble);
  const std::int64_t count = rates.numel(), each = count == 0 ? 0 : total / count;
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t s = 0; s < each; ++s) {
      out.mutable_data_ptr<double>()[s * count + r] = draw_poisson(
          Uniforms(state, r * each + s, 256), rates.const_data_ptr<double>()[r], number_range(dtype)->high);
    }
  }
  return out.to(to_scalar_type(dtype));
}

at::Tensor draw_random_binomial(const PhiloxState& state, const Ints& shape, const at::Tensor& counts,
                                const at::Tensor& probabilities, DType dtype) {
  const std::int64_t total = element_count(shape, sizeof(double));
  const auto both = at::broadcast_tensors({counts.to(at::kDouble), probabilities.to(at::kDouble)});
  const Ints inner = both[0].sizes().vec();
  if (shape.size() < inner.size() || !std::equal(inner.rbegin(), inner.rend(), shape.rbegin()))
    throw_invalid_argument("the shape must end with that of counts and probs");
  const at::Tensor n = both[0].contiguous(), p = both[1].contiguous();
  const std::int64_t groups = n.numel(), each = groups == 0 ? 0 : total / groups;
  at::Tensor out = at::empty(shape, at::kDouble);
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t s = 0; s < each; ++s) {
      out.mutable_data_ptr<double>()[s * groups + g] =
          binomial(state, g * each + s, n.const_data_ptr<double>()[g], p.const_data_ptr<double>()[g]);
    }
  }
  return out.to(to_scalar_type(dtype));
}

void register_random_counts(Table& table) {
  table.add("StatelessRandomPoisson", shape_of_input(0), [](const Call& call) {
    return one(
        draw_random_poisson(stateless_seed_in(call, 1), ints_in(call, 0), in(call, 2), call.attr<DType>("dtype")));
  });
  table.add("StatelessRandomBinomial", shape_of_input(0), [](const Call& call) {
    return one(draw_random_binomial(stateless_seed_in(call, 1), ints_in(call, 0), in(call, 2), in(call, 3),
                                    call.attr<DType>("dtype")));
  });
}

}  // namespace lockstep::ops
