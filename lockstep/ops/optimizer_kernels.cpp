#include "lockstep/ops/optimizer_kernels_internal.h"

#include <algorithm>
#include <memory>
#include <vector>

#ifdef __AVX__
#include <immintrin.h>
#endif

#include "lockstep/base/error.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/slices_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements for which a thread is worth waking

// The rows of a variable that more than one slice of its gradient belongs to, and the sums of these slices' squares,
// which are not the squares of the gradient.
struct RepeatedRows {
  std::int64_t columns = 0;
  std::vector<std::int64_t> rows;  // ascending
  std::vector<float> squares;      // [rows, columns]
};

// Raw memory of one update.
struct Lane {
  float* w;
  const float* g;
  float* s[3];
  float decay;
  const RepeatedRows* repeated = nullptr;
};

float* memory_of(const Tensor& tensor) { return static_cast<float*>(aten(tensor).mutable_data_ptr()); }

// From element `begin` on, whose gradient `gradient` points to.
Lane lane_of(const FusedUpdate& update, std::int64_t begin, const float* gradient) {
  Lane lane{memory_of(update.value) + begin, gradient, {}, update.decay};
  for (int i = 0; i < 3; ++i) lane.s[i] = update.slots[i].defined() ? memory_of(update.slots[i]) + begin : nullptr;
  return lane;
}

// While one lives, this thread takes numbers below the normal ones for zero, as TensorFlow's operations do. A momentum
// that nothing feeds any more would sink among them and stay, and the processor is slow at them.
class FlushedDenormals {
 public:
#ifdef __AVX__
  FlushedDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushedDenormals() { _mm_setcsr(before_); }
#else
  FlushedDenormals() {}
#endif
  FlushedDenormals(const FlushedDenormals&) = delete;
  FlushedDenormals& operator=(const FlushedDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  unsigned before_ = 0;
};

// Eight elements at a time, the rest one by one, both by the same body. Products and sums round on their own,
// so a share's borders, and with them the number of threads, do not show in the result.
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")

using Wide = float __attribute__((vector_size(32)));

inline float root(float x) { return __builtin_sqrtf(x); }
inline Wide root(const Wide& x) {
#ifdef __AVX__
  return _mm256_sqrt_ps(x);
#else
  Wide y;
  for (int i = 0; i < 8; ++i) y[i] = __builtin_sqrtf(x[i]);
  return y;
#endif
}

template <typename T>
inline void load(const float* from, T& value) {
  __builtin_memcpy(&value, from, sizeof(T));
}
template <typename T>
inline void store(float* to, const T& value) {
  __builtin_memcpy(to, &value, sizeof(T));
}

template <typename Body>
inline void sweep(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) body.template operator()<Wide>(i);
  for (; i < n; ++i) body.template operator()<float>(i);
}

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

// `squares`: those of the gradient, or null: g · g. `top` is null without amsgrad.
void adam(float* w, const float* g, const float* squares, float* m, float* v, float* top, std::int64_t n,
          const AdamRule& rule, float decay) {
  const float a = rule.alpha, b1 = rule.one_minus_beta_1, b2 = rule.one_minus_beta_2, eps = rule.epsilon;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, mi, vi;
    load(w + i, wi), load(g + i, gi), load(m + i, mi), load(v + i, vi);
    T square = gi * gi;
    if (squares) load(squares + i, square);
    mi = mi + (gi - mi) * b1;
    vi = vi + (square - vi) * b2;
    store(m + i, mi), store(v + i, vi);
    if (top) {
      T ti;
      load(top + i, ti);
      vi = ti > vi ? ti : vi;
      store(top + i, vi);
    }
    wi = (wi - wi * decay) - (mi * a) / (root(vi) + eps);
    store(w + i, wi);
  });
}

// `squares` as for adam(); `b` is null without momentum, `mean` unless centered.
void rmsprop(float* w, const float* g, const float* squares, float* v, float* b, float* mean, std::int64_t n,
             const RmspropRule& rule, float decay) {
  const float rate = rule.learning_rate, rho = rule.rho, rest = 1.0f - rule.rho, eps = rule.epsilon;
  const float momentum = rule.momentum;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, vi;
    load(w + i, wi), load(g + i, gi), load(v + i, vi);
    T square = gi * gi;
    if (squares) load(squares + i, square);
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
    T step = gi * rate / root(denominator);
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

std::shared_ptr<const RepeatedRows> repeated_rows(const Tensor& gradient) {
  const auto& slices = slices_of(gradient);
  if (!slices) return nullptr;
  const at::Tensor indices = aten(slices->indices).to(at::kLong).contiguous(),
                   values = aten(slices->values).contiguous();
  const std::int64_t count = indices.numel(), rows = gradient.dim(0);
  const auto* const row_of = indices.const_data_ptr<std::int64_t>();
  const auto* const value = values.const_data_ptr<float>();
  std::vector<std::int32_t> place(static_cast<std::size_t>(rows), 0);  // how many slices; then where the squares lie
  auto repeated = std::make_shared<RepeatedRows>();
  for (std::int64_t i = 0; i < count; ++i) ++place[static_cast<std::size_t>(row_of[i])];
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int32_t& at = place[static_cast<std::size_t>(row)];
    if (at > 1) repeated->rows.push_back(row);
    at = at > 1 ? static_cast<std::int32_t>(repeated->rows.size()) - 1 : -1;
  }
  if (repeated->rows.empty()) return nullptr;
  const std::int64_t columns = repeated->columns = values.numel() / count;
  repeated->squares.resize(repeated->rows.size() * static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t at = place[static_cast<std::size_t>(row_of[i])];
    if (at < 0) continue;
    const float* const from = value + i * columns;
    float* const to = repeated->squares.data() + at * columns;
    for (std::int64_t j = 0; j < columns; ++j) to[j] += from[j] * from[j];
  }
  return repeated;
}

#pragma GCC pop_options

void run(const SgdRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float*) {
  if (lane.s[0]) {
    sgd_momentum(lane.w + from, lane.g + from, lane.s[0] + from, to - from, rule, lane.decay);
  } else {
    sgd_plain(lane.w + from, lane.g + from, to - from, rule.learning_rate, lane.decay);
  }
}

void run(const AdamRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* squares) {
  adam(lane.w + from, lane.g + from, squares, lane.s[0] + from, lane.s[1] + from,
       rule.amsgrad ? lane.s[2] + from : nullptr, to - from, rule, lane.decay);
}

void run(const RmspropRule& rule, const Lane& lane, std::int64_t from, std::int64_t to, const float* squares) {
  rmsprop(lane.w + from, lane.g + from, squares, lane.s[0] + from, lane.s[1] ? lane.s[1] + from : nullptr,
          lane.s[2] ? lane.s[2] + from : nullptr, to - from, rule, lane.decay);
}

void run(const FusedRule& rule, const Lane& lane, std::int64_t from, std::int64_t to) {
  const auto part = [&](std::int64_t begin, std::int64_t end, const float* squares) {
    if (begin < end) std::visit([&](const auto& each) { run(each, lane, begin, end, squares); }, rule);
  };
  if (const RepeatedRows* const repeated = lane.repeated) {
    const std::int64_t columns = repeated->columns;
    auto row = std::lower_bound(repeated->rows.begin(), repeated->rows.end(), from / columns);
    for (; row != repeated->rows.end() && *row * columns < to; ++row) {
      const std::int64_t start = *row * columns, begin = std::max(from, start), end = std::min(to, start + columns);
      part(from, begin, nullptr);
      part(begin, end, repeated->squares.data() + (row - repeated->rows.begin()) * columns + (begin - start));
      from = end;
    }
  }
  part(from, to, nullptr);
}

}  // namespace

bool fusable(const Tensor& value, const Tensor& gradient) {
  return value.dtype() == DType::kFloat32 && gradient.dtype() == DType::kFloat32 && value.is_value() &&
         gradient.is_value() && aten(value).is_cpu() && aten(gradient).is_cpu() &&
         aten(value).sizes() == aten(gradient).sizes();
}

// All elements of all variables, cut into equal shares for the threads.
void update_fused(std::span<const FusedUpdate> updates, const FusedRule& rule) {
  std::vector<at::Tensor> gradients;  // contiguous copies live as long as the pass
  std::vector<std::shared_ptr<const RepeatedRows>> repeated;
  std::vector<Lane> lanes;
  std::vector<std::int64_t> starts{0};
  for (const FusedUpdate& update : updates) {
    gradients.push_back(aten(update.gradient).contiguous());
    lanes.push_back(lane_of(update, 0, static_cast<const float*>(gradients.back().const_data_ptr())));
    if (!std::holds_alternative<SgdRule>(rule)) repeated.push_back(repeated_rows(update.gradient));
    lanes.back().repeated = repeated.empty() ? nullptr : repeated.back().get();
    starts.push_back(starts.back() + gradients.back().numel());
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
