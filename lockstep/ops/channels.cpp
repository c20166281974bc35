// Means over the positions of images, and products with one number for each image and channel (squeeze-excite): one
// pass each way on the threads of parallel_for.
#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kSummedRows = 64;  // added up by themselves first, which keeps rounding errors small

// sums[c] = sum of value(row, c) over the rows.
template <typename Value>
void sum_rows(std::int64_t rows, std::int64_t columns, std::vector<float>& part, float* sums, const Value& value) {
  std::fill_n(sums, columns, 0.0f);
  part.resize(static_cast<std::size_t>(columns));
  for (std::int64_t first = 0; first < rows; first += kSummedRows) {
    std::fill(part.begin(), part.end(), 0.0f);
    float* const to = part.data();
    for (std::int64_t r = first; r < std::min(rows, first + kSummedRows); ++r) value(r, to);
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += to[c];
  }
}

class PositionMean : public Composite {
 public:
  PositionMean(std::vector<std::int64_t> axes, bool keep) : axes_(std::move(axes)), keep_(keep) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    const AxisExtents e(x, axes_);
    at::Tensor y = at::empty(reduced_shape(x, axes_, keep_), x.options());
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel_for(0, e.outer, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> part;
      for (std::int64_t n = begin; n < end; ++n) {
        const float* const rows = from + n * e.steps * e.columns;
        float* const mean = to + n * e.columns;
        sum_rows(e.steps, e.columns, part, mean, [&](std::int64_t r, float* sums) {
          for (std::int64_t c = 0; c < e.columns; ++c) sums[c] += rows[r * e.columns + c];
        });
        for (std::int64_t c = 0; c < e.columns; ++c) mean[c] /= static_cast<float>(e.steps);
      }
    });
    return {{y}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor &x = recorded.inputs[0], dy = dys[0].contiguous();
    const AxisExtents e(x, axes_);
    at::Tensor dx = at::empty(x.sizes(), x.options());
    const float* const d = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, e.outer, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> share(static_cast<std::size_t>(e.columns));
      for (std::int64_t n = begin; n < end; ++n) {
        for (std::size_t c = 0; c < share.size(); ++c)
          share[c] = d[n * e.columns + static_cast<std::int64_t>(c)] / static_cast<float>(e.steps);
        for (std::int64_t s = 0; s < e.steps; ++s)
          std::copy(share.begin(), share.end(), to + (n * e.steps + s) * e.columns);
      }
    });
    return {dx};
  }
  Values plain(const Values& inputs) const override { return {inputs[0].mean(axes_, keep_)}; }

 private:
  std::vector<std::int64_t> axes_;  // neighbours, in order
  bool keep_;
};

// Inputs: images [n, positions…, channels] and factors [n, 1…, channels].
class ChannelProduct : public Composite {
 public:
  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous(), factors = inputs[1].contiguous();
    const Extents e(x);
    at::Tensor y = at::empty_like(x);
    const float *const from = x.const_data_ptr<float>(), *const by = factors.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel_for(0, e.images, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin * e.positions; row < end * e.positions; ++row)
        row_kernels().multiply(e.channels, from + row * e.channels, by + row / e.positions * e.channels,
                               to + row * e.channels);
    });
    return {{y}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), factors = recorded.inputs[1].contiguous(),
                     dy = dys[0].contiguous();
    const Extents e(x);
    const at::Tensor dx = recorded.wanted[0] ? at::empty_like(x) : at::Tensor(),
                     df = recorded.wanted[1] ? at::empty_like(factors) : at::Tensor();
    const float *const from = x.const_data_ptr<float>(), *const by = factors.const_data_ptr<float>(),
                       *const d = dy.const_data_ptr<float>();
    float* const to = dx.defined() ? dx.mutable_data_ptr<float>() : nullptr;
    float* const sums = df.defined() ? df.mutable_data_ptr<float>() : nullptr;
    parallel_for(0, e.images, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> part;
      for (std::int64_t n = begin; n < end; ++n) {
        const float* const factor = by + n * e.channels;
        const auto gradient = [&](std::int64_t r) {
          const std::int64_t at = (n * e.positions + r) * e.channels;
          if (to) row_kernels().multiply(e.channels, d + at, factor, to + at);
        };
        if (!sums) {
          for (std::int64_t r = 0; r < e.positions; ++r) gradient(r);
          continue;
        }
        sum_rows(e.positions, e.channels, part, sums + n * e.channels, [&](std::int64_t r, float* sum) {
          const std::int64_t at = (n * e.positions + r) * e.channels;
          for (std::int64_t c = 0; c < e.channels; ++c) sum[c] += d[at + c] * from[at + c];
          gradient(r);
        });
      }
    });
    return {dx, df};
  }
  Values plain(const Values& inputs) const override { return {inputs[0] * inputs[1]}; }

 private:
  struct Extents {
    std::int64_t images, channels, positions;
    explicit Extents(const at::Tensor& x)
        : images(x.size(0)), channels(x.size(-1)), positions(x.numel() / (images * channels)) {}
  };
};

// Whether `factors` has one number for each image and channel of x.
bool scales_channels(const at::Tensor& x, const at::Tensor& factors) {
  if (!is_large_float(x) || factors.scalar_type() != at::kFloat || !factors.is_cpu() || x.dim() < 3 ||
      factors.dim() != x.dim() || x.size(-1) < kFewestColumns)
    return false;
  return factors.size(0) == x.size(0) && factors.size(-1) == x.size(-1) && factors.numel() == x.size(0) * x.size(-1) &&
         factors.numel() < x.numel();
}

}  // namespace

std::optional<at::Tensor> try_position_mean(const at::Tensor& x, std::vector<std::int64_t> axes, bool keep) {
  std::sort(axes.begin(), axes.end());
  if (!is_large_float(x) || !AxisExtents::fits(x, axes)) return std::nullopt;
  return run(std::make_shared<PositionMean>(std::move(axes), keep), {x})[0];
}

std::optional<at::Tensor> try_channel_product(const at::Tensor& a, const at::Tensor& b) {
  if (scales_channels(a, b)) return run(std::make_shared<ChannelProduct>(), {a, b})[0];
  if (scales_channels(b, a)) return run(std::make_shared<ChannelProduct>(), {b, a})[0];
  return std::nullopt;
}

}  // namespace lockstep::ops
