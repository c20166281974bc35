#include "lockstep/ops/optimizer_kernels_internal.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/ops/optimizer_loops_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/slices_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::ops {
namespace {

using namespace optimizer_loops;  // NOLINT(google-build-using-namespace)

// A gradient with slices: the rows that slices belong to, the sums of each row's slices, added in their order, and the
// sums of their squares, which are not the squares of the sums.
struct GradientRows {
  std::int64_t columns = 0;
  std::vector<std::int64_t> rows;    // ascending
  std::vector<float> sums, squares;  // [rows, columns]
};

// Raw memory of one update.
struct Lane {
  float* w;
  const float* g;  // null with `rows`
  float* s[3];
  float decay;
  const GradientRows* rows = nullptr;
  bool rows_only = false;
};

float* memory_of(const Tensor& tensor) { return static_cast<float*>(aten(tensor).mutable_data_ptr()); }

// From element `begin` on, whose gradient `gradient` points to.
Lane lane_of(const FusedUpdate& update, std::int64_t begin, const float* gradient) {
  Lane lane{memory_of(update.value) + begin, gradient, {}, update.decay};
  for (int i = 0; i < 3; ++i) lane.s[i] = update.slots[i].defined() ? memory_of(update.slots[i]) + begin : nullptr;
  return lane;
}

#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")

void sgd_plain(float* w, const float* g, std::int64_t n, float rate, float decay) {
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi;
    load(w + i, wi), load(g + i, gi);
    wi = (wi - wi * decay) - gi * rate;
    store(w + i, wi);
  });
}

void sgd_momentum(float* w, const float* g, float* m, std::int64_t n, const SgdRule& rule, float decay) {
  const float rate = rule.learning_rate, momentum = rule.momentum;
  const bool nesterov = rule.nesterov;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, mi;
    load(w + i, wi), load(g + i, gi), load(m + i, mi);
    mi = mi * momentum - gi * rate;
    wi = wi - wi * decay;
    if (nesterov) {
      wi = wi + (mi * momentum - gi * rate);
    } else {
      wi = wi + mi;
    }
    store(m + i, mi), store(w + i, wi);
  });
}

// `top` is null without amsgrad.
void adam(float* w, const float* g, const float* squares, float* m, float* v, float* top, std::int64_t n,
          const AdamRule& rule, float decay) {
  const float a = rule.alpha, b1 = rule.one_minus_beta_1, b2 = rule.one_minus_beta_2, eps = rule.epsilon;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi;
    load(w + i, wi);
    const Moments<T> moments(g, squares, m, v, i, b1, b2);
    T vi = moments.v;
    if (top) {
      T ti;
      load(top + i, ti);
      vi = ti > vi ? ti : vi;
      store(top + i, vi);
    }
    wi = (wi - wi * decay) - (moments.m * a) / (root(vi) + eps);
    store(w + i, wi);
  });
}

// `squares` as for square_of(); `b` is null without momentum, `mean` unless centered.
void rmsprop(float* w, const float* g, const float* squares, float* v, float* b, float* mean, std::int64_t n,
             const RmspropRule& rule, float decay) {
  const float rate = rule.learning_rate, rho = rule.rho, rest = 1.0f - rule.rho;
  const float eps = rule.adds_to_root ? 0.0f : rule.epsilon, to_root = rule.adds_to_root ? rule.epsilon : 0.0f;
  const float momentum = rule.momentum;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, vi;
    load(w + i, wi), load(g + i, gi), load(v + i, vi);
    const T square = square_of(gi, squares, i);
    vi = vi * rho + square * rest;
    store(v + i, vi);
    T denominator = vi + eps;
    if (mean) {
      T ai;
      load(mean + i, ai);
      ai = ai * rho + gi * rest;
      store(mean + i, ai);
      denominator = vi - ai * ai + eps;
    }
    T step = gi * rate / (root(denominator) + to_root);
    if (b) {
      T bi;
      load(b + i, bi);
      step = bi * momentum + step;
      store(b + i, step);
    }
    wi = (wi - wi * decay) - step;
    store(w + i, wi);
  });
}

void nadam(float* w, const float* g, const float* squares, float* m, float* v, std::int64_t n, const NadamRule& rule,
           float decay) {
  const float rate = rule.learning_rate, b1 = rule.one_minus_beta_1, b2 = rule.one_minus_beta_2, eps = rule.epsilon;
  const float of_m = rule.of_momentum, of_g = rule.of_gradient, of_v = rule.of_velocity;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi;
    load(w + i, wi);
    const Moments<T> moments(g, squares, m, v, i, b1, b2);
    const T moved = moments.m * of_m + moments.g * of_g;
    wi = (wi - wi * decay) - (moved * rate) / (root(moments.v * of_v) + eps);
    store(w + i, wi);
  });
}

void adamax(float* w, const float* g, float* m, float* u, std::int64_t n, const AdamaxRule& rule, float decay) {
  const float rate = rule.learning_rate, b1 = rule.one_minus_beta_1, b2 = rule.beta_2, eps = rule.epsilon;
  const float correction = rule.correction;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, mi, ui;
    load(w + i, wi), load(g + i, gi), load(m + i, mi), load(u + i, ui);
    mi = mi + (gi - mi) * b1;
    const T size = gi < 0.0f ? -gi : gi, before = ui * b2;
    ui = before > size ? before : size;
    store(m + i, mi), store(u + i, ui);
    wi = (wi - wi * decay) - (mi * rate) / ((ui + eps) * correction);
    store(w + i, wi);
  });
}

void adagrad(float* w, const float* g, const float* squares, float* a, std::int64_t n, const AdagradRule& rule,
             float decay) {
  const float rate = rule.learning_rate;
  const float eps = rule.adds_to_root ? 0.0f : rule.epsilon, to_root = rule.adds_to_root ? rule.epsilon : 0.0f;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, ai;
    load(w + i, wi), load(g + i, gi), load(a + i, ai);
    const T square = square_of(gi, squares, i);
    ai = ai + square;
    store(a + i, ai);
    wi = (wi - wi * decay) - (gi * rate) / (root(ai + eps) + to_root);
    store(w + i, wi);
  });
}

void adadelta(float* w, const float* g, const float* squares, float* a, float* d, std::int64_t n,
              const AdadeltaRule& rule, float decay) {
  const float rate = rule.learning_rate, rho = rule.rho, rest = 1.0f - rule.rho, eps = rule.epsilon;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, ai, di;
    load(w + i, wi), load(g + i, gi), load(a + i, ai), load(d + i, di);
    const T square = square_of(gi, squares, i);
    ai = ai * rho + square * rest;
    const T factor = root(di + eps) / root(ai + eps);
    di = di * rho + factor * factor * square * rest;
    store(a + i, ai), store(d + i, di);
    wi = (wi - wi * decay) - gi * factor * rate;
    store(w + i, wi);
  });
}

void lion(float* w, const float* g, float* m, std::int64_t n, const LionRule& rule, float decay) {
  const float rate = rule.learning_rate, b1 = rule.beta_1, b2 = rule.beta_2, r1 = 1.0f - b1, r2 = 1.0f - b2;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, mi;
    load(w + i, wi), load(g + i, gi), load(m + i, mi);
    const T direction = mi * b1 + gi * r1, none = direction * 0.0f;  // NaN stays NaN
    const T up = none + rate, down = none - rate;
    wi = (wi - wi * decay) - (direction > 0.0f ? up : direction < 0.0f ? down : none);
    mi = mi * b2 + gi * r2;
    store(m + i, mi), store(w + i, wi);
  });
}

inline float power_of(float x, float exponent) { return std::pow(x, exponent); }
inline Wide power_of(Wide x, float exponent) {
  for (int i = 0; i < 8; ++i) x[i] = std::pow(x[i], exponent);
  return x;
}

void ftrl(float* w, const float* g, const float* squares, float* a, float* z, std::int64_t n, const FtrlRule& rule,
          float decay) {
  const float rate = rule.learning_rate, l1 = rule.l1, l2 = rule.twice_l2, shrinkage = rule.twice_shrinkage;
  const bool is_root = rule.power == 0.5f;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, ai, zi;
    load(w + i, wi), load(g + i, gi), load(a + i, ai), load(z + i, zi);
    wi = wi - wi * decay;
    const T grown = ai + square_of(gi, squares, i);
    const T before = is_root ? root(ai) : power_of(ai, rule.power);
    const T after = is_root ? root(grown) : power_of(grown, rule.power);
    zi = zi + (gi + wi * shrinkage) - (after - before) / rate * wi;
    const T low = zi < -l1 ? T{} - l1 : zi, clipped = low > l1 ? T{} + l1 : low;
    wi = (clipped - zi) / (after / rate + l2);
    store(a + i, grown), store(z + i, zi), store(w + i, wi);
  });
}

GradientRows gradient_rows(const RowSlices& slices) {
  const at::Tensor indices = aten(slices.indices).to(at::kLong).contiguous(), values = aten(slices.values).contiguous();
  const std::int64_t count = indices.numel();
  const auto* const row_of = indices.const_data_ptr<std::int64_t>();
  const auto* const value = values.const_data_ptr<float>();
  GradientRows out;
  if (count == 0) return out;
  out.columns = values.numel() / count;
  out.rows.assign(row_of, row_of + count);
  std::sort(out.rows.begin(), out.rows.end());
  out.rows.erase(std::unique(out.rows.begin(), out.rows.end()), out.rows.end());
  out.sums.resize(out.rows.size() * static_cast<std::size_t>(out.columns));
  out.squares.resize(out.sums.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = std::lower_bound(out.rows.begin(), out.rows.end(), row_of[i]) - out.rows.begin();
    const float* const from = value + i * out.columns;
    float* const sums = out.sums.data() + at * out.columns;
    float* const squares = out.squares.data() + at * out.columns;
    for (std::int64_t j = 0; j < out.columns; ++j) {
      sums[j] += from[j];
      squares[j] += from[j] * from[j];
    }
  }
  return out;
}

#pragma GCC pop_options

// `g` and `squares` are those of element `from`.
void run(const SgdRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g, const float*) {
  if (lane.s[0]) {
    sgd_momentum(lane.w + from, g, lane.s[0] + from, to - from, rule, lane.decay);
  } else {
    sgd_plain(lane.w + from, g, to - from, rule.learning_rate, lane.decay);
  }
}

void run(const AdamRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g,
         const float* squares) {
  adam(lane.w + from, g, squares, lane.s[0] + from, lane.s[1] + from, rule.amsgrad ? lane.s[2] + from : nullptr,
       to - from, rule, lane.decay);
}

void run(const RmspropRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g,
         const float* squares) {
  rmsprop(lane.w + from, g, squares, lane.s[0] + from, lane.s[1] ? lane.s[1] + from : nullptr,
          lane.s[2] ? lane.s[2] + from : nullptr, to - from, rule, lane.decay);
}

void run(const NadamRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g,
         const float* squares) {
  nadam(lane.w + from, g, squares, lane.s[0] + from, lane.s[1] + from, to - from, rule, lane.decay);
}

void run(const AdamaxRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g, const float*) {
  adamax(lane.w + from, g, lane.s[0] + from, lane.s[1] + from, to - from, rule, lane.decay);
}

void run(const AdagradRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g,
         const float* squares) {
  adagrad(lane.w + from, g, squares, lane.s[0] + from, to - from, rule, lane.decay);
}

void run(const AdadeltaRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g,
         const float* squares) {
  adadelta(lane.w + from, g, squares, lane.s[0] + from, lane.s[1] + from, to - from, rule, lane.decay);
}

void run(const LionRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g, const float*) {
  lion(lane.w + from, g, lane.s[0] + from, to - from, rule, lane.decay);
}

void run(const FtrlRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* g,
         const float* squares) {
  ftrl(lane.w + from, g, squares, lane.s[0] + from, lane.s[1] + from, to - from, rule, lane.decay);
}

// Whether an update leaves elements as they are whose gradient is zero.
bool skips_zeros(const FusedRule& rule, const Lane& lane) {
  if (lane.rows_only) return !std::holds_alternative<NadamRule>(rule);
  const auto* const adagrad = std::get_if<AdagradRule>(&rule);
  const bool only_steps = (adagrad && adagrad->epsilon > 0) || (std::holds_alternative<SgdRule>(rule) && !lane.s[0]);
  return only_steps && lane.decay == 0;
}

void run(const FusedRule& rule, const Lane& lane, std::int64_t from, std::int64_t to) {
  const auto part = [&](const FusedRule& of, std::int64_t begin, std::int64_t end, const float* g,
                        const float* squares) {
    if (begin < end) std::visit([&](const auto& each) { run(each, lane, begin, end, g, squares); }, of);
  };
  if (!lane.rows) {
    part(rule, from, to, lane.g + from, nullptr);
    return;
  }
  FusedRule idle = rule;
  if (auto* const nadam = std::get_if<NadamRule>(&idle); nadam && lane.rows_only) nadam->learning_rate = 0;
  static constexpr std::int64_t kZeros = 1024;
  static constexpr float zeros[kZeros] = {};
  const bool skip = skips_zeros(rule, lane);
  const auto without_gradient = [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end && !skip; begin += kZeros) part(idle, begin, std::min(end, begin + kZeros), zeros, nullptr);
  };
  const std::int64_t columns = lane.rows->columns;
  const auto& rows = lane.rows->rows;
  auto row = columns > 0 ? std::lower_bound(rows.begin(), rows.end(), from / columns) : rows.end();
  for (; row != rows.end() && *row * columns < to; ++row) {
    const std::int64_t start = *row * columns, begin = std::max(from, start), end = std::min(to, start + columns);
    without_gradient(from, begin);
    const std::int64_t at = (row - rows.begin()) * columns + (begin - start);
    part(rule, begin, end, lane.rows->sums.data() + at, lane.rows->squares.data() + at);
    from = end;
  }
  without_gradient(from, to);
}

}  // namespace

bool fusable(const Tensor& value, const Tensor& gradient) {
  if (value.dtype() != DType::kFloat32 || gradient.dtype() != DType::kFloat32 || !value.is_value() ||
      !gradient.is_value() || !(value.shape() == gradient.shape()) || !aten(value).is_cpu())
    return false;
  const auto& slices = slices_of(gradient);
  return aten(slices ? slices->values : gradient).is_cpu();
}

// All elements of all variables, cut into equal shares for the threads.
void update_fused(std::span<const FusedUpdate> updates, const FusedRule& rule) {
  std::vector<at::Tensor> gradients;  // contiguous copies live as long as the pass
  std::deque<GradientRows> rows;
  std::vector<Lane> lanes;
  std::vector<std::int64_t> starts{0};
  for (const FusedUpdate& update : updates) {
    const std::int64_t elements = aten(update.value).numel();
    if (const auto& slices = slices_of(update.gradient)) {
      lanes.push_back(lane_of(update, 0, nullptr));
      lanes.back().rows = &rows.emplace_back(gradient_rows(*slices));
      lanes.back().rows_only = update.rows_only;
      if (skips_zeros(rule, lanes.back())) {  // work for its rows, not for its elements
        const FlushedDenormals flushed;
        run(rule, lanes.back(), 0, elements);
        lanes.pop_back();
        continue;
      }
    } else {
      gradients.push_back(aten(update.gradient).contiguous());
      lanes.push_back(lane_of(update, 0, static_cast<const float*>(gradients.back().const_data_ptr())));
    }
    starts.push_back(starts.back() + elements);
  }
  parallel_for(0, starts.back(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const FlushedDenormals flushed;
    auto index = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin()) - 1;
    for (; index < lanes.size() && starts[index] < end; ++index) {
      const std::int64_t from = std::max(begin, starts[index]), to = std::min(end, starts[index + 1]);
      if (from < to) run(rule, lanes[index], from - starts[index], to - starts[index]);
    }
  });
}

void update_piece(const FusedUpdate& update, const FusedRule& rule, std::int64_t begin, std::int64_t count,
                  const float* gradient) {
  const Lane lane = lane_of(update, begin, gradient);
  parallel_for(0, count, kGrain, [&](std::int64_t from, std::int64_t to) {
    const FlushedDenormals flushed;
    run(rule, lane, from, to);
  });
}

}  // namespace lockstep::ops
