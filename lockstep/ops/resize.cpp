// Resizing of float32 images to the nearest pixel or between two: one pass each way on the threads of parallel_for.
#include "lockstep/ops/resize_internal.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kResizeGrain = 32768;  // elements of a piece

// The results that a source belongs to, and its weight in each: entries begin[i] … begin[i + 1] of source i.
struct Readers {
  std::vector<std::int64_t> begin, result;
  std::vector<float> weight;

  Readers(const AxisPixels& axis, std::int64_t sources) : begin(static_cast<std::size_t>(sources) + 1, 0) {
    std::vector<std::vector<std::pair<std::int64_t, float>>> of(static_cast<std::size_t>(sources));
    for (std::size_t i = 0; i < axis.below.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const float share = axis.share.empty() ? 0.0f : axis.share[i];
      const auto low = static_cast<std::size_t>(axis.below[i]), high = static_cast<std::size_t>(axis.above[i]);
      if (low == high) {
        of[low].emplace_back(at, 1.0f);
      } else {
        of[low].emplace_back(at, 1.0f - share), of[high].emplace_back(at, share);
      }
    }
    for (std::size_t s = 0; s < of.size(); ++s) {
      for (const auto& [at, share] : of[s]) result.push_back(at), weight.push_back(share);
      begin[s + 1] = static_cast<std::int64_t>(result.size());
    }
  }
};

// Calls f with the number of channels, a constant where it is small: loops over so few are unrolled.
template <typename F>
void with_channels(std::int64_t channels, const F& f) {
  switch (channels) {
    case 1: return f(std::integral_constant<std::int64_t, 1>());
    case 2: return f(std::integral_constant<std::int64_t, 2>());
    case 3: return f(std::integral_constant<std::int64_t, 3>());
    case 4: return f(std::integral_constant<std::int64_t, 4>());
    case 8: return f(std::integral_constant<std::int64_t, 8>());
    default: return f(channels);
  }
}

#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")  // as TensorFlow rounds

// Between two rows.
void between(const float* low, const float* high, float share, std::int64_t count, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = low[i] + (high[i] - low[i]) * share;
}

// Between two neighbours in a row, each of a few channels.
template <typename Depth>
void between_columns(const AxisPixels& columns, Depth depth, const float* x, float* y) {
  for (std::size_t j = 0; j < columns.below.size(); ++j) {
    const float *const low = x + columns.below[j] * depth, *const high = x + columns.above[j] * depth;
    const float share = columns.share[j];
    float* const to = y + static_cast<std::int64_t>(j) * depth;
    for (std::int64_t c = 0; c < depth; ++c) to[c] = low[c] + (high[c] - low[c]) * share;
  }
}

#pragma GCC pop_options

// A row of pixels by the columns' pixels.
void resize_row(const AxisPixels& columns, std::int64_t channels, const float* x, float* y) {
  const auto count = static_cast<std::int64_t>(columns.below.size());
  with_channels(channels, [&](auto depth) {
    if (columns.share.empty()) {
      for (std::int64_t j = 0; j < count; ++j) {
        const float* const from = x + columns.below[static_cast<std::size_t>(j)] * depth;
        for (std::int64_t c = 0; c < depth; ++c) y[j * depth + c] = from[c];
      }
      return;
    }
    between_columns(columns, depth, x, y);
  });
}

// dx of a row of `sources` pixels: the weighted sums of dy.
void resize_row_gradient(const Readers& columns, std::int64_t sources, std::int64_t channels, const float* dy,
                         float* dx) {
  with_channels(channels, [&](auto depth) {
    for (std::int64_t s = 0; s < sources; ++s) {
      const auto source = static_cast<std::size_t>(s);
      float* const to = dx + s * depth;
      for (std::int64_t c = 0; c < depth; ++c) to[c] = 0.0f;
      for (std::int64_t i = columns.begin[source]; i < columns.begin[source + 1]; ++i) {
        const float* const from = dy + columns.result[static_cast<std::size_t>(i)] * depth;
        const float weight = columns.weight[static_cast<std::size_t>(i)];
        for (std::int64_t c = 0; c < depth; ++c) to[c] += from[c] * weight;
      }
    }
  });
}

class Resize : public Composite {
 public:
  Resize(AxisPixels rows, AxisPixels columns) : rows_(std::move(rows)), columns_(std::move(columns)) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    const std::int64_t channels = x.size(3), height = x.size(1), wide = x.size(2) * channels;
    const auto high = static_cast<std::int64_t>(rows_.below.size()),
               row = static_cast<std::int64_t>(columns_.below.size()) * channels;
    at::Tensor y = at::empty({x.size(0), high, row / channels, channels}, x.options());
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel_for(0, x.size(0) * high, std::max<std::int64_t>(1, kResizeGrain / row),
                 [&](std::int64_t begin, std::int64_t end) {
                   ResizedRows sources(columns_, channels, wide, row);
                   for (std::int64_t r = begin; r < end; ++r) {
                     const auto at = static_cast<std::size_t>(r % high);
                     const std::int64_t image = r / high * height;
                     const float* const low = sources.at(from, image + rows_.below[at], image + rows_.above[at]);
                     const float* const up = sources.at(from, image + rows_.above[at], image + rows_.below[at]);
                     const float share = rows_.share.empty() ? 0.0f : rows_.share[at];
                     float* const out = to + r * row;
                     if (low == up || rows_.share.empty()) {
                       std::copy_n(low, row, out);
                     } else {
                       between(low, up, share, row, out);
                     }
                   }
                 });
    return {{y}, {}};
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor &x = recorded.inputs[0], dy = dys[0].contiguous();
    const std::int64_t channels = x.size(3), height = x.size(1), width = x.size(2);
    const std::int64_t high = dy.size(1), row = dy.size(2) * channels;
    const Readers rows(rows_, height), columns(columns_, width);
    at::Tensor dx = at::empty(x.sizes(), x.options());
    const float* const from = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, x.size(0) * height, std::max<std::int64_t>(1, kResizeGrain / (width * channels)),
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<float> sum(static_cast<std::size_t>(row));
                   for (std::int64_t r = begin; r < end; ++r) {
                     const auto source = static_cast<std::size_t>(r % height);
                     float* const total = sum.data();
                     std::fill_n(total, row, 0.0f);
                     for (std::int64_t i = rows.begin[source]; i < rows.begin[source + 1]; ++i) {
                       const float* const d =
                           from + (r / height * high + rows.result[static_cast<std::size_t>(i)]) * row;
                       const float weight = rows.weight[static_cast<std::size_t>(i)];
                       for (std::int64_t k = 0; k < row; ++k) total[k] += d[k] * weight;
                     }
                     resize_row_gradient(columns, width, channels, total, to + r * width * channels);
                   }
                 });
    return {dx};
  }

  Values plain(const Values& inputs) const override {
    return {plain_axis(plain_axis(inputs[0], 2, columns_), 1, rows_)};
  }

  static at::Tensor plain_axis(const at::Tensor& x, std::int64_t axis, const AxisPixels& pixels) {
    const at::Tensor low = x.index_select(axis, at::tensor(at::IntArrayRef(pixels.below), at::kLong));
    if (pixels.share.empty()) return low;
    const at::Tensor high = x.index_select(axis, at::tensor(at::IntArrayRef(pixels.above), at::kLong));
    std::vector<std::int64_t> view(static_cast<std::size_t>(x.dim()), 1);
    view[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(pixels.below.size());
    return low + (high - low) * at::tensor(at::ArrayRef<float>(pixels.share), at::kFloat).view(view);
  }

 private:
  // Source rows, resized along the columns; two at a time are kept.
  class ResizedRows {
   public:
    ResizedRows(const AxisPixels& columns, std::int64_t channels, std::int64_t wide, std::int64_t row)
        : columns_(columns), channels_(channels), wide_(wide), as_they_are_(columns.share.empty() && row == wide) {
      if (as_they_are_) return;
      for (auto& each : rows_) each.resize(static_cast<std::size_t>(row));
    }
    // Row `number` of x; that of `other` stays valid.
    const float* at(const float* x, std::int64_t number, std::int64_t other) {
      if (as_they_are_) return x + number * wide_;
      for (std::size_t i = 0; i < 2; ++i) {
        if (numbers_[i] == number) return rows_[i].data();
      }
      const std::size_t place = numbers_[0] == other ? 1 : 0;
      resize_row(columns_, channels_, x + number * wide_, rows_[place].data());
      numbers_[place] = number;
      return rows_[place].data();
    }

   private:
    const AxisPixels& columns_;
    std::int64_t channels_, wide_;
    bool as_they_are_;  // as many columns as before, each the nearest to itself
    std::vector<float> rows_[2];
    std::int64_t numbers_[2] = {-1, -1};
  };

  AxisPixels rows_, columns_;
};

AxisPixels repeated(std::int64_t size, std::int64_t times) {
  AxisPixels axis;
  for (std::int64_t i = 0; i < size * times; ++i) axis.below.push_back(i / times);
  axis.above = axis.below;
  return axis;
}

}  // namespace

at::Tensor resized(const at::Tensor& x, AxisPixels rows, AxisPixels columns) {
  if (x.scalar_type() != at::kFloat || !x.is_cpu() || x.numel() == 0)
    return Resize::plain_axis(Resize::plain_axis(x, 2, columns), 1, rows);
  return run(std::make_shared<Resize>(std::move(rows), std::move(columns)), {x})[0];
}

std::optional<Tensor> try_repeat(const Tensor& x, int first_axis, std::span<const std::int64_t> times) {
  if (!x.is_value() || x.dtype() != DType::kFloat32 || !aten(x).is_cpu() || aten(x).numel() == 0) return std::nullopt;
  const Ints& dims = x.shape().dims();
  const auto product = [&](std::size_t begin, std::size_t end) {
    std::int64_t count = 1;
    for (std::size_t i = begin; i < end; ++i) count *= dims[i];
    return count;
  };
  const auto first = static_cast<std::size_t>(first_axis), last = first + times.size();
  const std::int64_t outer = product(0, first), inner = product(last, dims.size());
  // The last two axes at once, then those before them, of which the others are parts.
  const std::size_t pair = times.size() >= 2 ? 2 : 1;
  const std::size_t row = last - pair;
  const std::int64_t rows = pair == 2 ? dims[row] : 1, columns = dims[last - 1],
                     by_rows = pair == 2 ? times[times.size() - 2] : 1, by_columns = times.back();
  at::Tensor y = resized(aten(x).reshape({outer * product(first, row), rows, columns, inner}), repeated(rows, by_rows),
                         repeated(columns, by_columns));
  std::int64_t done = rows * by_rows * columns * by_columns * inner;
  for (std::size_t i = times.size() - pair; i-- > 0;) {
    y = resized(y.reshape({outer * product(first, first + i), dims[first + i], 1, done}),
                repeated(dims[first + i], times[i]), repeated(1, 1));
    done *= dims[first + i] * times[i];
  }
  Ints shape = dims;
  for (std::size_t i = 0; i < times.size(); ++i) shape[first + i] *= times[i];
  return wrap(y.reshape(shape));
}

}  // namespace lockstep::ops
