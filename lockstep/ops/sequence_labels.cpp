#include "lockstep/ops/sequence_labels.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/operators.h"

namespace lockstep::nn {

DecodedLabels ctc_greedy_decoder(const Tensor& inputs, const GreedyDecoderKeywords& o) {
  Tensors out = ops::call("CTCGreedyDecoder", {inputs, ops::cast(o.sequence_length, DType::kInt32)},
                          {{"merge_repeated", o.merge_repeated}, {"blank_index", o.blank_index}});
  DecodedLabels result{{}, std::move(out[3])};
  result.decoded.emplace_back(out[0], out[1], out[2]);
  return result;
}
DecodedLabels ctc_beam_search_decoder(const Tensor& inputs, const BeamSearchKeywords& o) {
  Tensors out = ops::call("CTCBeamSearchDecoder", {inputs, ops::cast(o.sequence_length, DType::kInt32)},
                          {{"beam_width", o.beam_width}, {"top_paths", o.top_paths}, {"merge_repeated", false}});
  DecodedLabels result{{}, std::move(out.back())};
  const auto paths = static_cast<std::size_t>(o.top_paths);
  for (std::size_t i = 0; i < paths; ++i) result.decoded.emplace_back(out[i], out[paths + i], out[2 * paths + i]);
  return result;
}

Tensor ctc_loss(const SparseTensor& labels, const Tensor& inputs, const Tensor& sequence_length,
                const SparseCtcLossKeywords& o) {
  return ops::call("CTCLoss",
                   {o.time_major ? inputs : ops::transpose(inputs, {1, 0, 2}), labels.indices(),
                    ops::cast(labels.values(), DType::kInt32), ops::cast(sequence_length, DType::kInt32)},
                   {{"preprocess_collapse_repeated", o.preprocess_collapse_repeated},
                    {"ctc_merge_repeated", o.ctc_merge_repeated},
                    {"ignore_longer_outputs_than_inputs", o.ignore_longer_outputs_than_inputs}})[0];
}

UniqueLabels ctc_unique_labels(const Tensor& labels) {
  if (labels.rank() != 2) {
    throw_invalid_argument(fmt::format("ctc_unique_labels: the labels must have the shape (batch, length), found {}",
                                       labels.shape().to_string()));
  }
  const std::int64_t length = labels.dim(1);
  Tensors values, places;
  for (const Tensor& row : labels) {
    const auto [y, idx] = ops::unique(row);
    values.push_back(ops::cast(ops::pad(y, ops::Paddings{{0, length - y.dim(0)}}), DType::kInt64));
    places.push_back(idx);
  }
  if (values.empty())
    return {Tensor::zeros(labels.shape(), DType::kInt64), Tensor::zeros(labels.shape(), DType::kInt32)};
  return {ops::stack(values), ops::stack(places)};
}

CollapsedLabels collapse_repeated(const Tensor& labels, const Tensor& seq_length) {
  if (labels.rank() != 2 || seq_length.rank() != 1 || labels.dim(0) != seq_length.dim(0)) {
    throw_invalid_argument(
        fmt::format("collapse_repeated: found labels of shape {} and lengths of shape {}, expected "
                    "(batch, length) and (batch,)",
                    labels.shape().to_string(), seq_length.shape().to_string()));
  }
  const auto values = ops::cast(labels, DType::kInt64).to_vector<std::int64_t>();
  const auto lengths = ops::cast(seq_length, DType::kInt64).to_vector<std::int64_t>();
  const auto width = static_cast<std::size_t>(labels.dim(1));
  std::vector<std::vector<std::int64_t>> rows;
  std::vector<std::int64_t> counts;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::vector<std::int64_t>& row = rows.emplace_back();
    const std::size_t length = std::min(static_cast<std::size_t>(std::max<std::int64_t>(lengths[i], 0)), width);
    for (std::size_t j = 0; j < length; ++j) {
      const std::int64_t label = values[i * width + j];
      if (j == 0 || label != values[i * width + j - 1]) row.push_back(label);
    }
    counts.push_back(static_cast<std::int64_t>(row.size()));
    longest = std::max(longest, row.size());
  }
  std::vector<std::int64_t> out;
  for (std::vector<std::int64_t>& row : rows) {
    row.resize(longest);
    out.insert(out.end(), row.begin(), row.end());
  }
  const Shape shape{labels.dim(0), static_cast<std::int64_t>(longest)};
  return {ops::cast(Tensor::from_vector(out, shape), labels.dtype()),
          ops::cast(Tensor::from_vector(counts), seq_length.dtype())};
}

Tensor embedding_lookup(const Tensor& params, const LookupKeywords& o) {
  const Tensor rows = ops::gather(params, o.ids);
  if (!o.max_norm) return rows;
  ops::Ints axes;
  for (int axis = o.ids.rank(); axis < rows.rank(); ++axis) axes.push_back(axis);
  return ops::clip_by_norm(rows, *o.max_norm, axes);
}

namespace {

Tensor combined_rows(const Tensor& params, const SparseTensor& sp_ids, const std::optional<SparseTensor>& sp_weights,
                     const SparseLookupKeywords& o) {
  if (o.combiner != "mean" && o.combiner != "sqrtn" && o.combiner != "sum") {
    throw_invalid_argument(
        fmt::format("embedding_lookup_sparse: invalid combiner: found \"{}\", expected \"mean\", \"sqrtn\" or \"sum\"",
                    o.combiner));
  }
  const Tensor rows = embedding_lookup(params, sp_ids.values(), {.max_norm = o.max_norm});
  const Tensor segments = ops::cast(ops::gather(sp_ids.indices(), Tensor::scalar(std::int64_t{0}), 1), DType::kInt32);
  Tensor weights =
      sp_weights ? ops::cast(sp_weights->values(), rows.dtype()) : ops::ones(sp_ids.values().shape(), rows.dtype());
  for (int axis = 1; axis < rows.rank(); ++axis) weights = ops::expand_dims(weights, -1);
  const Tensor sum = ops::segment_sum(sp_weights ? rows * weights : rows, segments);
  if (o.combiner == "sum") return sum;
  if (o.combiner == "mean") return ops::div_no_nan(sum, ops::segment_sum(weights, segments));
  return ops::div_no_nan(sum, ops::sqrt(ops::segment_sum(ops::square(weights), segments)));
}

}  // namespace

Tensor embedding_lookup_sparse(const Tensor& params, const SparseTensor& sp_ids, const SparseTensor& sp_weights,
                               const SparseLookupKeywords& o) {
  return combined_rows(params, sp_ids, sp_weights, o);
}
Tensor embedding_lookup_sparse(const Tensor& params, const SparseTensor& sp_ids, NoneType,
                               const SparseLookupKeywords& o) {
  return combined_rows(params, sp_ids, std::nullopt, o);
}

Tensor safe_embedding_lookup_sparse(const Tensor& embedding_weights, const SparseTensor& sparse_ids,
                                    const SafeLookupKeywords& o) {
  const std::vector<std::int64_t> dims = sparse_ids.shape().dims();
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
  SparseTensor ids = sparse::reshape(sparse_ids, {rows, dims.back()});
  std::optional<SparseTensor> weights;
  if (o.sparse_weights) weights = ids.with_values(o.sparse_weights->values());
  Tensor kept = ids.values() >= 0;
  if (weights && o.combiner != "sum") kept = ops::logical_and(kept, weights->values() > 0);
  ids = sparse::retain(ids, kept);
  if (weights) weights = sparse::retain(*weights, kept);
  const auto [filled, is_empty] =
      sparse::fill_empty_rows(ids, ops::cast(Tensor::scalar(o.default_id.value_or(0)), ids.dtype()));
  if (weights) weights = sparse::fill_empty_rows(*weights, ops::constant(1.0, weights->dtype())).first;
  Tensor found = combined_rows(embedding_weights, filled, weights, {.combiner = o.combiner, .max_norm = o.max_norm});
  if (!o.default_id) {
    Tensor empty = is_empty;
    for (int axis = 1; axis < found.rank(); ++axis) empty = ops::expand_dims(empty, -1);
    found = ops::where(empty, ops::zeros_like(found), found);
  }
  std::vector<std::int64_t> shape(dims.begin(), dims.end() - 1);
  shape.insert(shape.end(), found.shape().dims().begin() + 1, found.shape().dims().end());
  return ops::reshape(found, Shape(shape));
}

}  // namespace lockstep::nn
