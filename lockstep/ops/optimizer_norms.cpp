// Optimizers whose steps depend on norms of whole variables.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lockstep/ops/optimizer_kernels_internal.h"
#include "lockstep/ops/optimizer_loops_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::ops {
namespace {

using namespace optimizer_loops;  // NOLINT(google-build-using-namespace)

struct NormLane {
  float* w;
  const float* g;
  float* s[3];
};
NormLane norm_lane_of(const FusedUpdate& update, const at::Tensor& gradient) {
  const auto memory = [](const Tensor& x) { return x.defined() ? aten(x).mutable_data_ptr<float>() : nullptr; };
  return {memory(update.value),
          gradient.const_data_ptr<float>(),
          {memory(update.slots[0]), memory(update.slots[1]), memory(update.slots[2])}};
}

#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")

// Sums of numbers of float32: a vector at a time within a few thousand, in float64 beyond.
struct Sum {
  Wide wide = {};
  float rest = 0;
  void add(const Wide& x) { wide += x; }
  void add(float x) { rest += x; }
  double total() const {
    double all = rest;
    for (int i = 0; i < 8; ++i) all += static_cast<double>(wide[i]);
    return all;
  }
};

template <typename T>
T lamb_direction(T m, T v, const LambRule& rule) {
  return (m / rule.correction_1) / (root(v / rule.correction_2) + rule.epsilon);
}

// The moments of a step; the squares of the values and of the step's direction are added up.
void lamb_moments(const float* w, const float* g, float* m, float* v, std::int64_t n, const LambRule& rule,
                  double* squares) {
  Sum of_w, of_step;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi;
    load(w + i, wi);
    const Moments<T> moments(g, nullptr, m, v, i, rule.one_minus_beta_1, rule.one_minus_beta_2);
    const T step = lamb_direction(moments.m, moments.v, rule);
    of_w.add(wi * wi), of_step.add(step * step);
  });
  squares[0] = of_w.total(), squares[1] = of_step.total();
}

void lamb_step(float* w, const float* m, const float* v, std::int64_t n, const LambRule& rule, float rate) {
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, mi, vi;
    load(w + i, wi), load(m + i, mi), load(v + i, vi);
    wi = wi - rate * lamb_direction(mi, vi, rule);
    store(w + i, wi);
  });
}

// A row of a gradient: the sum of its squares plus epsilon; both are also added to the sums of the columns.
double adafactor_squares(const float* g, float* columns, std::int64_t n, float epsilon) {
  Sum sum;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T gi, ci;
    load(g + i, gi), load(columns + i, ci);
    const T square = gi * gi + epsilon;
    sum.add(square);
    store(columns + i, ci + square);
  });
  return sum.total();
}

// The velocity of a row, and the sum of the squares of what its step is before it is clipped.
double adafactor_velocity(const float* g, const float* columns, float* v, std::int64_t n, float row) {
  Sum sum;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T gi, ci;
    load(g + i, gi), load(columns + i, ci);
    const T vi = ci * row, step = gi * (1.0f / root(vi));
    store(v + i, vi);
    sum.add(step * step);
  });
  return sum.total();
}

double sum_of_squares(const float* x, std::int64_t n) {
  Sum sum;
  sweep(n, [&]<typename T>(std::int64_t i) {
    T xi;
    load(x + i, xi);
    sum.add(xi * xi);
  });
  return sum.total();
}

void adafactor_step(float* w, const float* g, const float* v, std::int64_t n, float rate) {
  sweep(n, [&]<typename T>(std::int64_t i) {
    T wi, gi, vi;
    load(w + i, wi), load(g + i, gi), load(v + i, vi);
    wi = wi - rate * (gi * (1.0f / root(vi)));
    store(w + i, wi);
  });
}

#pragma GCC pop_options

constexpr std::int64_t kGroup = 4096;  // elements that are summed together, for any number of threads

// Calls work(begin, end, group) for groups of `size` of n elements.
template <typename Work>
void for_groups(std::int64_t n, std::int64_t size, std::int64_t cost, const Work& work) {
  const std::int64_t groups = (n + size - 1) / size;
  parallel_for(0, groups, std::max<std::int64_t>(1, kGrain / (size * cost)), [&](std::int64_t from, std::int64_t to) {
    const FlushedDenormals flushed;
    for (std::int64_t i = from; i < to; ++i) work(i * size, std::min(n, (i + 1) * size), static_cast<std::size_t>(i));
  });
}

double sum_of(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

// As TensorFlow's Maximum: NaN stays.
double at_least(double x, double least) { return x < least ? least : x; }

}  // namespace

void update_by_norms(const FusedUpdate& update, const LambRule& rule) {
  const at::Tensor gradient = aten(update.gradient).contiguous();
  const NormLane lane = norm_lane_of(update, gradient);
  const std::int64_t n = aten(update.value).numel();
  std::vector<double> of_groups(static_cast<std::size_t>((n + kGroup - 1) / kGroup) * 2);
  for_groups(n, kGroup, 1, [&](std::int64_t begin, std::int64_t end, std::size_t group) {
    lamb_moments(lane.w + begin, lane.g + begin, lane.s[0] + begin, lane.s[1] + begin, end - begin, rule,
                 of_groups.data() + 2 * group);
  });
  double squares[2] = {0, 0};
  for (std::size_t i = 0; i < of_groups.size(); ++i) squares[i % 2] += of_groups[i];
  const bool scales = squares[0] > 0 && squares[1] > 0;
  const float ratio = scales ? static_cast<float>(std::sqrt(squares[0]) / std::sqrt(squares[1])) : 1.0f;
  for_groups(n, kGroup, 1, [&](std::int64_t begin, std::int64_t end, std::size_t) {
    lamb_step(lane.w + begin, lane.s[0] + begin, lane.s[1] + begin, end - begin, rule, ratio * rule.learning_rate);
  });
}

void update_by_norms(const FusedUpdate& update, const AdafactorRule& rule) {
  const at::Tensor gradient = aten(update.gradient).contiguous();
  const NormLane lane = norm_lane_of(update, gradient);
  const std::int64_t n = gradient.numel(), columns = gradient.size(-1), rows = gradient.size(-2);
  if (n == 0) return;
  const std::int64_t size = std::max<std::int64_t>(1, kGroup / columns), groups = (rows + size - 1) / size;
  std::vector<double> of_values(static_cast<std::size_t>((n + kGroup - 1) / kGroup)), of_steps;
  for_groups(n, kGroup, 1, [&](std::int64_t begin, std::int64_t end, std::size_t group) {
    of_values[group] = sum_of_squares(lane.w + begin, end - begin);
  });
  const float left = 1.0f - rule.beta_2;
  std::vector<float> sums(static_cast<std::size_t>(groups * columns));
  for (std::int64_t matrix = 0; matrix < n / (rows * columns); ++matrix) {
    const float* const g = lane.g + matrix * rows * columns;
    float *const of_rows = lane.s[0] + matrix * rows, *const of_columns = lane.s[1] + matrix * columns;
    std::fill(sums.begin(), sums.end(), 0.0f);
    for_groups(rows, size, columns, [&](std::int64_t begin, std::int64_t end, std::size_t group) {
      float* const own = sums.data() + static_cast<std::int64_t>(group) * columns;
      for (std::int64_t i = begin; i < end; ++i) {
        const double sum = adafactor_squares(g + i * columns, own, columns, rule.epsilon_1);
        of_rows[i] = of_rows[i] * rule.beta_2 + static_cast<float>(sum / static_cast<double>(columns)) * left;
      }
    });
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t group = 0; group < groups; ++group) sum += sums[static_cast<std::size_t>(group * columns + j)];
      of_columns[j] = of_columns[j] * rule.beta_2 + static_cast<float>(sum / static_cast<double>(rows)) * left;
    }
    const auto mean = static_cast<float>(std::accumulate(of_rows, of_rows + rows, 0.0) / static_cast<double>(rows));
    const std::size_t before = of_steps.size();
    of_steps.resize(before + static_cast<std::size_t>(groups));
    for_groups(rows, size, columns, [&](std::int64_t begin, std::int64_t end, std::size_t group) {
      for (std::int64_t i = begin; i < end; ++i) {
        of_steps[before + group] += adafactor_velocity(
            g + i * columns, of_columns, lane.s[2] + (matrix * rows + i) * columns, columns, of_rows[i] / mean);
      }
    });
  }
  const double of_all = static_cast<double>(n), size_of_values = std::sqrt(sum_of(of_values) / of_all);
  const double alpha = at_least(size_of_values, rule.epsilon_2) * rule.rho;
  const double clip = at_least(std::sqrt(sum_of(of_steps) / of_all) / rule.clip_threshold, 1.0);
  for_groups(n, kGroup, 1, [&](std::int64_t begin, std::int64_t end, std::size_t) {
    adafactor_step(lane.w + begin, lane.g + begin, lane.s[2] + begin, end - begin, static_cast<float>(alpha / clip));
  });
}

}  // namespace lockstep::ops
