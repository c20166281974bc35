// Pools whose windows have uneven sizes, drawn at random (B. Graham, "Fractional Max-Pooling", 2014).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/philox_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

// Where each window begins, and the end. TensorFlow draws also where all windows have the same size.
Ints draw_edges(std::int64_t input, std::int64_t output, bool pseudo_random, PhiloxState& state) {
  PhiloxStream stream(state);
  Ints sizes(static_cast<std::size_t>(output), input / output);
  if (pseudo_random) {
    const double alpha = static_cast<double>(input) / static_cast<double>(output);
    const auto k = static_cast<double>(input / output), last = static_cast<double>(output - 1);
    const double most = std::min((k + 2) / alpha - 1, (static_cast<double>(input) + 1 - k) / alpha - last);
    const double u = stream.next_double() * most;
    std::int64_t before = 1;
    for (std::int64_t i = 1; i <= output; ++i) {
      const std::int64_t edge =
          i == output ? input + 1 : static_cast<std::int64_t>(std::ceil(alpha * (static_cast<double>(i) + u)));
      sizes[static_cast<std::size_t>(i - 1)] = edge - before;
      before = edge;
    }
  } else {
    for (std::int64_t i = 0; i < input % output; ++i) ++sizes[static_cast<std::size_t>(i)];
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
      std::swap(sizes[i], sizes[i + stream.next() % (sizes.size() - i)]);
  }
  // Whole blocks of random words are used up.
  state = state.skipped(pseudo_random ? 1 : static_cast<std::uint64_t>(output + 3) / 4);
  Ints edges = {0};
  for (const std::int64_t size : sizes) edges.push_back(edges.back() + size);
  return edges;
}

struct Window {
  std::int64_t begin = 0, end = 0;
};

std::vector<Window> windows_of(const Ints& edges, bool overlapping, std::int64_t size) {
  std::vector<Window> windows;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    const std::int64_t end = std::min(edges[i + 1] + (overlapping ? 1 : 0), size);
    if (edges[i] < 0 || edges[i] >= end)
      throw_invalid_argument(fmt::format("invalid pooling sequence: {} to {} of {}", edges[i], end, size));
    windows.push_back({edges[i], end});
  }
  return windows;
}

template <typename Pool>
at::Tensor pooled(const at::Tensor& x, const std::vector<Window>& rows, const std::vector<Window>& columns,
                  const Pool& pool) {
  std::vector<at::Tensor> lines;
  for (const Window& row : rows) {
    const at::Tensor band = x.slice(1, row.begin, row.end);
    std::vector<at::Tensor> cells;
    for (const Window& column : columns) cells.push_back(pool(band.slice(2, column.begin, column.end)));
    lines.push_back(at::stack(cells, 1));
  }
  return at::stack(lines, 1);
}

at::Tensor largest(const at::Tensor& window) { return at::amax(window, {1, 2}); }
at::Tensor average(const at::Tensor& window) {
  if (is_float(window)) return at::mean(window, {1, 2});
  const std::int64_t count = window.size(1) * window.size(2);
  return at::div(at::sum(window, {1, 2}), count, "trunc").to(window.scalar_type());
}

Tensors fractional_pool(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const auto& ratio = call.attr<std::vector<float>>("pooling_ratio");
  if (x.dim() != 4 || ratio.size() != 4) throw_invalid_argument("value must have rank 4, and pooling_ratio 4 numbers");
  if (ratio[0] != 1 || ratio[3] != 1) throw_unimplemented("pooling_ratio of images and channels must be 1");
  Ints output(4);
  for (int axis = 0; axis < 4; ++axis) {
    const float part = ratio[static_cast<std::size_t>(axis)];
    if (!(part >= 1)) throw_invalid_argument(fmt::format("pooling_ratio is {}, expected at least 1", part));
    output[static_cast<std::size_t>(axis)] =
        static_cast<std::int64_t>(std::floor(static_cast<float>(x.size(axis)) / part));
    if (output[static_cast<std::size_t>(axis)] <= 0) throw_invalid_argument("the output of the pool is empty");
  }
  const auto seed = call.attr<std::int64_t>("seed"), seed2 = call.attr<std::int64_t>("seed2");
  if (!call.attr<bool>("deterministic") && (seed != 0 || seed2 != 0))
    throw_invalid_argument("a seed requires deterministic");
  PhiloxState state = philox_from_seeds(seed, seed2);
  const bool pseudo_random = call.attr<bool>("pseudo_random"), overlapping = call.attr<bool>("overlapping");
  const Ints rows = draw_edges(x.size(1), output[1], pseudo_random, state);
  const Ints columns = draw_edges(x.size(2), output[2], pseudo_random, state);
  const auto pool = call.name() == "FractionalMaxPool" ? largest : average;
  return {wrap(pooled(x, windows_of(rows, overlapping, x.size(1)), windows_of(columns, overlapping, x.size(2)), pool)),
          wrap(int64_tensor(rows)), wrap(int64_tensor(columns))};
}

Tensors average_gradient(const Call& call) {
  const Ints shape = ints_in(call, 0);
  const at::Tensor& dy = in(call, 1);
  if (shape.size() != 4 || dy.dim() != 4) throw_invalid_argument("the input and the gradient must have rank 4");
  element_count(shape, dy.element_size());
  const bool overlapping = call.attr<bool>("overlapping");
  const auto rows = windows_of(ints_in(call, 2), overlapping, shape[1]),
             columns = windows_of(ints_in(call, 3), overlapping, shape[2]);
  if (dy.size(0) != shape[0] || dy.size(3) != shape[3] || dy.size(1) != static_cast<std::int64_t>(rows.size()) ||
      dy.size(2) != static_cast<std::int64_t>(columns.size()))
    throw_invalid_argument("the gradient does not fit the pooling sequences");
  const at::Tensor dx = at::zeros(shape, at::kDouble);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) {
      const std::int64_t count = (rows[i].end - rows[i].begin) * (columns[j].end - columns[j].begin);
      const at::Tensor part = dy.select(1, static_cast<std::int64_t>(i)).select(1, static_cast<std::int64_t>(j));
      dx.slice(1, rows[i].begin, rows[i].end)
          .slice(2, columns[j].begin, columns[j].end)
          .add_(part.to(at::kDouble).unsqueeze(1).unsqueeze(1) / static_cast<double>(count));
    }
  }
  return one(dx.to(dy.scalar_type()));
}

// To the first largest number of each window.
Tensors max_gradient(const Call& call) {
  const at::Tensor x = in(call, 0).contiguous(), dy = in(call, 2).contiguous();
  const at::Tensor& given = in(call, 1);
  if (x.dim() != 4 || dy.dim() != 4) throw_invalid_argument("the input and the gradient must have rank 4");
  const bool overlapping = call.attr<bool>("overlapping");
  const auto rows = windows_of(ints_in(call, 3), overlapping, x.size(1)),
             columns = windows_of(ints_in(call, 4), overlapping, x.size(2));
  if (dy.size(0) != x.size(0) || dy.size(3) != x.size(3) || dy.size(1) != static_cast<std::int64_t>(rows.size()) ||
      dy.size(2) != static_cast<std::int64_t>(columns.size()))
    throw_invalid_argument("the gradient does not fit the pooling sequences");
  if (given.sizes() != dy.sizes()) throw_invalid_argument("orig_output and the gradient must have the same shape");
  const at::Tensor dx = at::zeros_like(x);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) {
      const Window &row = rows[i], &column = columns[j];
      const at::Tensor window = x.slice(1, row.begin, row.end).slice(2, column.begin, column.end);
      const std::int64_t height = window.size(1), width = window.size(2);
      const at::Tensor elements = window.reshape({x.size(0), height * width, x.size(3)});
      if (!at::equal(elements.amax(1),
                     given.select(1, static_cast<std::int64_t>(i)).select(1, static_cast<std::int64_t>(j))))
        throw_invalid_argument("orig_output has other values than the maxima of the windows");
      const at::Tensor place = at::argmax(elements, 1, true);
      const at::Tensor part = dy.select(1, static_cast<std::int64_t>(i)).select(1, static_cast<std::int64_t>(j));
      at::Tensor spread = at::zeros({x.size(0), height * width, x.size(3)}, x.options());
      spread.scatter_(1, place, part.unsqueeze(1));
      dx.slice(1, row.begin, row.end)
          .slice(2, column.begin, column.end)
          .add_(spread.reshape({x.size(0), height, width, x.size(3)}));
    }
  }
  return one(dx);
}

}  // namespace

void register_fractional_pool(Table& table) {
  table.add("FractionalMaxPool", nullptr, fractional_pool);
  table.add("FractionalAvgPool", nullptr, fractional_pool);
  table.add("FractionalAvgPoolGrad", shape_of_input(0), average_gradient);
  table.add("FractionalMaxPoolGrad", same_shape, max_gradient);
}

}  // namespace lockstep::ops
