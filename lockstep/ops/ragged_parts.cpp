// Ragged tensors made of the parts of their axes, and their axes merged.
#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/ragged_rows_internal.h"
#include "lockstep/ops/ragged_tensor.h"

namespace lockstep {

using ops::Ints;

RaggedTensor RaggedTensor::from_uniform_row_length(const RaggedTensor& values, std::int64_t uniform_row_length,
                                                   std::optional<std::int64_t> nrows) {
  const std::int64_t count = values.ragged_rank() > 0 ? values.nrows() : values.values_.dim(0);
  if (uniform_row_length < 0 || (uniform_row_length == 0 && !nrows)) {
    throw_invalid_argument(fmt::format("RaggedTensor: invalid uniform_row_length: found {}, expected {}",
                                       uniform_row_length,
                                       uniform_row_length < 0 ? "0 or more" : "1 or more, or nrows"));
  }
  const std::int64_t rows = nrows.value_or(uniform_row_length > 0 ? count / uniform_row_length : 0);
  if (rows < 0 || (uniform_row_length > 0 && rows > count) || rows * uniform_row_length != count) {
    throw_invalid_argument(
        fmt::format("RaggedTensor: {} rows of {} values do not use all {} values", rows, uniform_row_length, count));
  }
  RaggedTensor out = from_row_lengths(values, ops::fill(Shape{rows}, Tensor::scalar(uniform_row_length)));
  out.uniform_[0] = uniform_row_length;
  return out;
}
RaggedTensor RaggedTensor::from_nested_row_lengths(const Tensor& flat_values, const Tensors& nested_row_lengths) {
  RaggedTensor out = flat_values;
  for (auto lengths = nested_row_lengths.rbegin(); lengths != nested_row_lengths.rend(); ++lengths)
    out = from_row_lengths(out, *lengths);
  return out;
}
RaggedTensor RaggedTensor::from_nested_value_rowids(const Tensor& flat_values, const Tensors& nested_value_rowids,
                                                    const std::vector<std::int64_t>& nested_nrows) {
  if (!nested_nrows.empty() && nested_nrows.size() != nested_value_rowids.size()) {
    throw_invalid_argument(fmt::format("RaggedTensor: invalid nested_nrows: found {} numbers, expected {}",
                                       nested_nrows.size(), nested_value_rowids.size()));
  }
  RaggedTensor out = flat_values;
  for (std::size_t level = nested_value_rowids.size(); level-- > 0;) {
    out = from_value_rowids(out, nested_value_rowids[level],
                            nested_nrows.empty() ? std::nullopt : std::optional(nested_nrows[level]));
  }
  return out;
}

std::optional<std::int64_t> RaggedTensor::uniform_row_length() const {
  return splits_.empty() || uniform(0) == kUnknownDim ? std::nullopt : std::optional(uniform(0));
}
Tensors RaggedTensor::nested_value_rowids() const {
  Tensors ids;
  for (const Tensor& splits : nested_row_splits()) ids.push_back(ragged::row_splits_to_segment_ids(splits));
  return ids;
}

RaggedRow RaggedTensor::merge_dims(int outer_axis, int inner_axis) const {
  const int ragged = ragged_rank(), rank = ragged + values_.rank();
  const int outer = outer_axis < 0 ? outer_axis + rank : outer_axis;
  int inner = inner_axis < 0 ? inner_axis + rank : inner_axis;
  if (outer < 0 || inner >= rank || outer > inner) {
    throw_invalid_argument(fmt::format("RaggedTensor.merge_dims: invalid axes {} and {} of a tensor of {} axes",
                                       outer_axis, inner_axis, rank));
  }
  if (outer == inner) return RaggedRow(*this);
  Tensor values = values_;
  Tensors splits = splits_;
  if (inner > ragged) {  // axes of the values; those of the innermost rows get longer
    Ints dims(values.shape().begin(), values.shape().end());
    const auto first = dims.begin() + std::max(outer - ragged, 0), last = dims.begin() + (inner - ragged) + 1;
    const std::int64_t merged = std::accumulate(first + 1, last, std::int64_t{1}, std::multiplies<>());
    *first *= merged;
    dims.erase(first + 1, last);
    values = ops::reshape(values, Shape(dims));
    if (outer <= ragged && ragged > 0) splits.back() = splits.back() * merged;
    inner = ragged;
  }
  if (outer >= ragged) return RaggedRow(RaggedTensor({}, values, splits));
  // Axis i + 1 has the rows of splits[i]. The rows of the merged axis end where those within them end.
  Tensors out(splits.begin(), splits.begin() + std::max(outer - 1, 0));
  if (outer > 0) {
    Tensor ends = splits[static_cast<std::size_t>(outer - 1)];
    for (int level = outer; level < inner; ++level) ends = ops::gather(splits[static_cast<std::size_t>(level)], ends);
    out.push_back(ends);
  }
  out.insert(out.end(), splits.begin() + inner, splits.end());
  return RaggedRow(RaggedTensor({}, values, std::move(out)));
}

namespace ragged {

RaggedTensor stack_dynamic_partitions(const RaggedTensor& data, const Tensor& partitions, std::int64_t num_partitions) {
  RaggedTensor rows = data;
  for (int axis = 1; axis < partitions.rank(); ++axis) rows = rows.merge_dims(0, 1);
  const Ints of_row = read(ops::reshape(partitions, Shape{kUnknownDim}));
  Ints order(of_row.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return of_row[static_cast<std::size_t>(a)] < of_row[static_cast<std::size_t>(b)];
  });
  Ints sorted = of_row;
  std::sort(sorted.begin(), sorted.end());
  return RaggedTensor::from_value_rowids(rows.rows(order), ints(sorted), num_partitions);
}
Tensor row_splits_to_segment_ids(const Tensor& splits) {
  const Ints ends = read(splits);
  Ints ids;
  for (std::size_t row = 0; row + 1 < ends.size(); ++row) {
    if (ends[row + 1] < ends[row]) throw_invalid_argument("row_splits_to_segment_ids: the splits must not decrease");
    ids.insert(ids.end(), static_cast<std::size_t>(ends[row + 1] - ends[row]), static_cast<std::int64_t>(row));
  }
  return ints(ids);
}
Tensor segment_ids_to_row_splits(const Tensor& segment_ids, std::optional<std::int64_t> num_segments) {
  return RaggedTensor::from_value_rowids(RaggedTensor(segment_ids), segment_ids, num_segments).row_splits();
}

}  // namespace ragged
}  // namespace lockstep
