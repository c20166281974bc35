// The largest or smallest values along neighbouring axes of float32 tensors, as in global max-pooling: one pass each
// way.
#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

class Extremum : public Composite {
 public:
  Extremum(std::vector<std::int64_t> axes, bool keep, bool highest)
      : axes_(std::move(axes)), keep_(keep), highest_(highest) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    const AxisExtents e(x, axes_);
    at::Tensor y = at::empty(reduced_shape(x, axes_, keep_), x.options());
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    const float sign = highest_ ? 1.0f : -1.0f;
    parallel_for(0, e.outer, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const float* row = from + n * e.steps * e.columns;
        float* const best = to + n * e.columns;
        std::copy_n(row, e.columns, best);
        for (std::int64_t s = 1; s < e.steps; ++s) {
          row += e.columns;
          for (std::int64_t c = 0; c < e.columns; ++c) {
            const float value = row[c];  // NaN wins
            best[c] = (sign * value > sign * best[c]) | (value != value) ? value : best[c];
          }
        }
      }
    });
    return {{y}, {}};
  }

  // Equal ones share the gradient; where NaN has won, it is NaN.
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), y = recorded.outputs[0].contiguous(),
                     dy = dys[0].contiguous();
    const AxisExtents e(x, axes_);
    at::Tensor dx = at::empty_like(x);
    const float *const from = x.const_data_ptr<float>(), *const best = y.const_data_ptr<float>(),
                       *const d = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, e.outer, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> share(static_cast<std::size_t>(e.columns)), rest(share.size());
      for (std::int64_t n = begin; n < end; ++n) {
        const float* const rows = from + n * e.steps * e.columns;
        const float* const of = best + n * e.columns;
        std::fill(share.begin(), share.end(), 0.0f);
        for (std::int64_t s = 0; s < e.steps; ++s) {
          const float* const row = rows + s * e.columns;
          for (std::int64_t c = 0; c < e.columns; ++c)
            share[static_cast<std::size_t>(c)] += row[c] == of[c] ? 1.0f : 0.0f;
        }
        for (std::int64_t c = 0; c < e.columns; ++c) {
          const auto at = static_cast<std::size_t>(c);
          rest[at] = share[at] > 0 ? 0.0f : std::numeric_limits<float>::quiet_NaN();
          share[at] = d[n * e.columns + c] / share[at];
        }
        float* const made = to + n * e.steps * e.columns;
        for (std::int64_t s = 0; s < e.steps; ++s) {
          const float* const row = rows + s * e.columns;
          float* const out = made + s * e.columns;
          for (std::int64_t c = 0; c < e.columns; ++c) {
            const auto at = static_cast<std::size_t>(c);
            out[c] = row[c] == of[c] ? share[at] : rest[at];
          }
        }
      }
    });
    return {dx};
  }

  Values plain(const Values& inputs) const override {
    return {highest_ ? inputs[0].amax(axes_, keep_) : inputs[0].amin(axes_, keep_)};
  }

 private:
  std::vector<std::int64_t> axes_;  // neighbours, in order
  bool keep_, highest_;
};

}  // namespace

AxisExtents::AxisExtents(const at::Tensor& x, const std::vector<std::int64_t>& axes) {
  for (std::int64_t i = 0; i < x.dim(); ++i)
    (i < axes.front() ? outer : i <= axes.back() ? steps : columns) *= x.size(i);
}
bool AxisExtents::fits(const at::Tensor& x, const std::vector<std::int64_t>& axes) {
  return !axes.empty() && axes.back() - axes.front() == static_cast<std::int64_t>(axes.size()) - 1 &&
         AxisExtents(x, axes).columns >= kFewestColumns;
}
std::vector<std::int64_t> reduced_shape(const at::Tensor& x, const std::vector<std::int64_t>& axes, bool keep) {
  std::vector<std::int64_t> shape;
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    const bool reduced = i >= axes.front() && i <= axes.back();
    if (!reduced || keep) shape.push_back(reduced ? 1 : x.size(i));
  }
  return shape;
}

std::optional<at::Tensor> try_extremum(const at::Tensor& x, std::vector<std::int64_t> axes, bool keep, bool highest) {
  std::sort(axes.begin(), axes.end());
  if (!is_large_float(x) || !AxisExtents::fits(x, axes)) return std::nullopt;
  return run(std::make_shared<Extremum>(std::move(axes), keep, highest), {x})[0];
}

}  // namespace lockstep::ops
