// Normal numbers between two bounds, with TensorFlow's choice of methods (J. Geweke 1991, C. Robert 1995) and the same
// words of Philox.
#pragma GCC optimize("fp-contract=off")
#include <array>
#include <cmath>
#include <limits>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/random_draws_internal.h"

namespace lockstep::ops {
namespace {

constexpr int kMostTries = 1000;

// Numbers of one distribution, a block of words at a time.
template <typename T>
class Blocks {
 public:
  static constexpr std::size_t kSize = sizeof(T) == 8 ? 2 : 4;
  using Block = std::array<T, kSize>;

  explicit Blocks(PhiloxState state) : state_(state) {}
  Block uniform() {
    return next([this](auto span) {
      if constexpr (std::is_same_v<T, c10::Half>) return philox_uniform16(state_, 0, 10, span);
      if constexpr (std::is_same_v<T, c10::BFloat16>) return philox_uniform16(state_, 0, 7, span);
      if constexpr (!std::is_class_v<T>) philox_uniform(state_, 0, span);
    });
  }
  Block normal() {
    return next([this](auto span) { philox_normal(state_, 0, span); });
  }

 private:
  template <typename Draw>
  Block next(const Draw& draw) {
    using Drawn = std::conditional_t<sizeof(T) == 8, double, float>;
    std::array<Drawn, kSize> drawn;
    draw(std::span<Drawn>(drawn));
    state_ = state_.skipped(1);
    Block out;
    std::transform(drawn.begin(), drawn.end(), out.begin(), [](Drawn x) { return static_cast<T>(x); });
    return out;
  }
  PhiloxState state_;
};

template <typename T>
struct Bounded {
  T mean, deviation, low, high;
};

template <typename T>
T exp_of(T x) {
  return static_cast<T>(std::exp(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(x)));
}
template <typename T>
T log_of(T x) {
  return static_cast<T>(std::log(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(x)));
}
template <typename T>
T root_of(T x) {
  return static_cast<T>(std::sqrt(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(x)));
}

// `count` numbers, given to `put` one by one.
template <typename T, typename Put>
void draw_bounded(Blocks<T>& blocks, Bounded<T> p, std::int64_t count, const Put& put) {
  const auto is_finite = [](T x) { return std::isfinite(static_cast<double>(x)); };
  if (!(p.deviation > T(0)) || !(p.low < p.high) || (!is_finite(p.low) && !is_finite(p.high)))
    throw_invalid_argument(
        "Invalid parameters: stddevs must be positive, minvals less than maxvals, one of them finite");
  if ((!is_finite(p.low) && p.low < T(0)) || p.high < p.mean) {  // mirrored, so that the lower bound is the near one
    std::swap(p.low, p.high);
    p.deviation = -p.deviation;
  }
  const T low = (p.low - p.mean) / p.deviation, high = (p.high - p.mean) / p.deviation;
  const T root = root_of(low * low + T(4));
  const T cutoff = T(2) * exp_of(T(0.5) + (low * (low - root)) / T(4)) / (low + root);
  const T width = high - low;
  const T inside(1.3);
  std::int64_t drawn = 0;
  int tries = 0;
  // Whether all numbers are there.
  const auto take = [&](T z, bool accepted) {
    if (!accepted) {
      ++tries;
      return false;
    }
    put(drawn++, z * p.deviation + p.mean);
    tries = 0;
    return drawn >= count;
  };
  if (count == 0) return;
  if ((low < -inside && high >= T(0)) || (high > inside && low <= T(0))) {
    for (;;) {
      for (const T z : blocks.normal()) {
        if (take(z, z >= low && z <= high)) return;
        if (tries > kMostTries) throw_error(Code::kInternal, "no normal number is between the bounds");
      }
    }
  }
  if (width < cutoff) {
    const T plus = low < T(0) ? T(0) : low * low;
    for (;;) {
      const auto places = blocks.uniform(), limits = blocks.uniform();
      for (std::size_t i = 0; i < places.size(); ++i) {
        const T z = places[i] * width + low, g = (plus - z * z) / T(2);
        if (take(z, limits[i] <= exp_of(g) || tries + 1 >= kMostTries)) return;
      }
    }
  }
  const T alpha = (low + root_of(low * low + T(4))) / T(2);
  for (;;) {
    const auto words = blocks.uniform();
    for (std::size_t i = 0; i < words.size(); i += 2) {
      const T z = -log_of(words[i]) / alpha + low, x = low < alpha ? alpha - z : low - alpha;
      const T g = exp_of(-x * x / T(2));
      if (take(z, (words[i + 1] <= g && z < high) || tries + 1 >= kMostTries)) return;
    }
  }
}

template <typename F>
at::Tensor with_type(const at::Tensor& like, const F& f) {
  switch (like.scalar_type()) {
    case at::kFloat: return f(float{});
    case at::kDouble: return f(double{});
    case at::kHalf: return f(c10::Half{});
    case at::kBFloat16: return f(c10::BFloat16{});
    default: throw_invalid_argument("means must be of a floating-point type");
  }
}

// The first axis of the shape numbers the distributions; numbers for all of them are drawn in parts of 100.
Tensors parameterized(const Call& call) {
  const Ints shape = ints_in(call, 0);
  if (shape.empty()) throw_invalid_argument("shape must have at least one axis");
  const std::int64_t total = element_count(shape, sizeof(double));
  std::vector<at::Tensor> parameters;
  bool all_scalars = true;
  for (int i = 1; i < 5; ++i) {
    const at::Tensor& x = in(call, i);
    if (x.dim() > 1 || (x.dim() == 1 && x.numel() != 1 && x.numel() != shape[0]))
      throw_invalid_argument(
          fmt::format("parameters must be numbers or vectors of {} numbers, input {} is not", shape[0], i));
    all_scalars = all_scalars && x.dim() == 0;
    parameters.push_back(x.contiguous());
  }
  std::int64_t batches = shape[0], each = batches == 0 ? 0 : total / batches;
  if (all_scalars) each = 100, batches = (total + each - 1) / each;
  const PhiloxState start =
      advance_stateful(call, static_cast<std::uint64_t>(batches * 2 * kMostTries * (each + 3) / 4));
  return one(with_type(parameters[0], [&](auto zero) {
    using T = decltype(zero);
    at::Tensor out = at::empty(shape, parameters[0].scalar_type());
    T* const data = out.mutable_data_ptr<T>();
    for (std::int64_t b = 0; b < batches; ++b) {
      const auto of = [&](std::size_t i) {
        return parameters[i].const_data_ptr<T>()[parameters[i].numel() == 1 ? 0 : b];
      };
      Blocks<T> blocks(start.skipped(static_cast<std::uint64_t>(b * 2 * kMostTries * (each + 3) / 4)));
      draw_bounded<T>(blocks, {of(0), of(1), of(2), of(3)}, std::min(each, total - b * each),
                      [&](std::int64_t i, T value) { data[b * each + i] = value; });
    }
    return out;
  }));
}

// The shape ends with the common shape of the parameters; all numbers of one distribution are drawn after each other.
Tensors stateless_parameterized(const Call& call) {
  const Ints shape = ints_in(call, 0);
  const std::int64_t total = element_count(shape, sizeof(double));
  std::vector<at::Tensor> parameters = at::broadcast_tensors({in(call, 2), in(call, 3), in(call, 4), in(call, 5)});
  const Ints inner = parameters[0].sizes().vec();
  if (shape.size() < inner.size() || !std::equal(inner.rbegin(), inner.rend(), shape.rbegin()))
    throw_invalid_argument(fmt::format("Shape passed in must end with broadcasted shape {}, found {}",
                                       Shape(inner).to_string(), Shape(shape).to_string()));
  for (at::Tensor& x : parameters) x = x.contiguous();
  const std::int64_t groups = parameters[0].numel(), each = groups == 0 ? 0 : total / groups;
  const PhiloxState start = stateless_seed_in(call, 1);
  return one(with_type(parameters[0], [&](auto zero) {
    using T = decltype(zero);
    at::Tensor out = at::empty(shape, parameters[0].scalar_type());
    T* const data = out.mutable_data_ptr<T>();
    Blocks<T> blocks(start);
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto of = [&](std::size_t i) { return parameters[i].const_data_ptr<T>()[g]; };
      draw_bounded<T>(blocks, {of(0), of(1), of(2), of(3)}, each,
                      [&](std::int64_t i, T value) { data[i * groups + g] = value; });
    }
    return out;
  }));
}

}  // namespace

void register_truncated_normal(Table& table) {
  table.add("ParameterizedTruncatedNormal", shape_of_input(0), parameterized);
  table.add("StatelessParameterizedTruncatedNormal", shape_of_input(0), stateless_parameterized);
}

}  // namespace lockstep::ops
