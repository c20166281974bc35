#include "lockstep/ops/optimizer_kernels.h"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/aten.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements for which a thread is worth waking

// Raw memory of one update.
struct Lane {
  float* w;
  const float* g;
  float* s[3];
  float decay;
  std::int64_t size;
  at::Tensor gradient;  // keeps a contiguous copy alive
};

std::vector<Lane> lanes_of(std::span<FusedUpdate> updates) {
  std::vector<Lane> lanes;
  lanes.reserve(updates.size());
  for (FusedUpdate& update : updates) {
    Lane lane;
    lane.gradient = aten(update.gradient).contiguous();
    lane.w = static_cast<float*>(aten(update.value).mutable_data_ptr());
    lane.g = static_cast<const float*>(lane.gradient.const_data_ptr());
    for (int i = 0; i < 3; ++i) {
      lane.s[i] = update.slots[i].defined() ? static_cast<float*>(aten(update.slots[i]).mutable_data_ptr()) : nullptr;
    }
    lane.decay = update.decay;
    lane.size = lane.gradient.numel();
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

// Runs body(lane, begin, end) over all elements of all lanes, cut into equal shares for the threads.
template <typename Body>
void for_each_share(const std::vector<Lane>& lanes, const Body& body) {
  std::vector<std::int64_t> starts;
  std::int64_t total = 0;
  for (const Lane& lane : lanes) {
    starts.push_back(total);
    total += lane.size;
  }
  at::parallel_for(0, total, kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto index = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin()) - 1;
    for (; index < lanes.size() && starts[index] < end; ++index) {
      const std::int64_t from = std::max(begin - starts[index], std::int64_t{0});
      const std::int64_t to = std::min(end - starts[index], lanes[index].size);
      if (from < to) body(lanes[index], from, to);
    }
  });
}

// Square roots become vector instructions only when nobody asks for errno.
#pragma GCC push_options
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")

void sgd_plain(float* __restrict w, const float* __restrict g, std::int64_t n, float rate, float decay) {
  for (std::int64_t i = 0; i < n; ++i) w[i] = (w[i] - w[i] * decay) - g[i] * rate;
}

void sgd_momentum(float* __restrict w, const float* __restrict g, float* __restrict m, std::int64_t n,
                  const SgdRule& rule, float decay) {
  const float rate = rule.learning_rate, momentum = rule.momentum;
  if (rule.nesterov) {
    for (std::int64_t i = 0; i < n; ++i) {
      m[i] = m[i] * momentum - g[i] * rate;
      w[i] = (w[i] - w[i] * decay) + (m[i] * momentum - g[i] * rate);
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      m[i] = m[i] * momentum - g[i] * rate;
      w[i] = (w[i] - w[i] * decay) + m[i];
    }
  }
}

void adam_plain(float* __restrict w, const float* __restrict g, float* __restrict m, float* __restrict v,
                std::int64_t n, const AdamRule& rule, float decay) {
  const float a = rule.alpha, b1 = rule.one_minus_beta_1, b2 = rule.one_minus_beta_2, eps = rule.epsilon;
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] += (g[i] - m[i]) * b1;
    v[i] += (g[i] * g[i] - v[i]) * b2;
    w[i] = (w[i] - w[i] * decay) - (m[i] * a) / (__builtin_sqrtf(v[i]) + eps);
  }
}

void adam_amsgrad(float* __restrict w, const float* __restrict g, float* __restrict m, float* __restrict v,
                  float* __restrict top, std::int64_t n, const AdamRule& rule, float decay) {
  const float a = rule.alpha, b1 = rule.one_minus_beta_1, b2 = rule.one_minus_beta_2, eps = rule.epsilon;
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] += (g[i] - m[i]) * b1;
    v[i] += (g[i] * g[i] - v[i]) * b2;
    top[i] = top[i] > v[i] ? top[i] : v[i];
    w[i] = (w[i] - w[i] * decay) - (m[i] * a) / (__builtin_sqrtf(top[i]) + eps);
  }
}

void rmsprop(float* __restrict w, const float* __restrict g, float* __restrict v, float* __restrict b,
             float* __restrict mean, std::int64_t n, const RmspropRule& rule, float decay) {
  const float rate = rule.learning_rate, rho = rule.rho, rest = 1.0f - rule.rho, eps = rule.epsilon;
  for (std::int64_t i = 0; i < n; ++i) {
    v[i] = rho * v[i] + rest * (g[i] * g[i]);
    float denominator = v[i] + eps;
    if (mean) {
      mean[i] = rho * mean[i] + rest * g[i];
      denominator = v[i] - mean[i] * mean[i] + eps;
    }
    float step = rate * g[i] / __builtin_sqrtf(denominator);
    if (b) step = b[i] = rule.momentum * b[i] + step;
    w[i] = (w[i] - w[i] * decay) - step;
  }
}

#pragma GCC pop_options

}  // namespace

bool fusable(const Tensor& value, const Tensor& gradient) {
  return value.dtype() == DType::kFloat32 && gradient.dtype() == DType::kFloat32 && value.is_value() &&
         gradient.is_value() && aten(value).is_cpu() && aten(gradient).is_cpu() &&
         aten(value).sizes() == aten(gradient).sizes();
}

void fused_sgd(std::span<FusedUpdate> updates, const SgdRule& rule) {
  for_each_share(lanes_of(updates), [&](const Lane& lane, std::int64_t from, std::int64_t to) {
    if (lane.s[0]) {
      sgd_momentum(lane.w + from, lane.g + from, lane.s[0] + from, to - from, rule, lane.decay);
    } else {
      sgd_plain(lane.w + from, lane.g + from, to - from, rule.learning_rate, lane.decay);
    }
  });
}

void fused_adam(std::span<FusedUpdate> updates, const AdamRule& rule) {
  for_each_share(lanes_of(updates), [&](const Lane& lane, std::int64_t from, std::int64_t to) {
    if (rule.amsgrad) {
      adam_amsgrad(lane.w + from, lane.g + from, lane.s[0] + from, lane.s[1] + from, lane.s[2] + from, to - from, rule,
                   lane.decay);
    } else {
      adam_plain(lane.w + from, lane.g + from, lane.s[0] + from, lane.s[1] + from, to - from, rule, lane.decay);
    }
  });
}

void fused_rmsprop(std::span<FusedUpdate> updates, const RmspropRule& rule) {
  for_each_share(lanes_of(updates), [&](const Lane& lane, std::int64_t from, std::int64_t to) {
    rmsprop(lane.w + from, lane.g + from, lane.s[0] + from, lane.s[1] ? lane.s[1] + from : nullptr,
            lane.s[2] ? lane.s[2] + from : nullptr, to - from, rule, lane.decay);
  });
}

}  // namespace lockstep::ops
