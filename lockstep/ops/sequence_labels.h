// tf.nn: labels of sequences that connectionist temporal classification finds, and rows of tables for sparse indices.
// Names, order of arguments and defaults are TensorFlow's.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/list.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/sparse_tensor.h"
#include "lockstep/tensor/none.h"

namespace lockstep::nn {

// Sequences of classes, the best one first, and (batch, sequences): of the greedy decoder the sum of the largest
// logits, negative; else logarithms of probabilities.
struct DecodedLabels {
  List<SparseTensor> decoded;  // int64 (batch, longest)
  Tensor log_probability;
};
struct GreedyDecoderKeywords {
  FieldNamesOnly names_only = {};
  Tensor sequence_length = {};  // where it is not given by position
  bool merge_repeated = true;
  std::int64_t blank_index = -1;  // default: the last class
};
struct GreedyDecoderArguments {
  FieldNamesOnly names_only = {};
  Tensor inputs = {};
  Tensor sequence_length = {};
  bool merge_repeated = true;
  std::int64_t blank_index = -1;
};
// inputs (steps, batch, classes).
DecodedLabels ctc_greedy_decoder(const Tensor& inputs, const GreedyDecoderKeywords& o);
template <std::convertible_to<Tensor> T = Tensor>
DecodedLabels ctc_greedy_decoder(const Tensor& inputs, const T& sequence_length, GreedyDecoderKeywords o = {}) {
  o.sequence_length = sequence_length;
  return ctc_greedy_decoder(inputs, o);
}
inline DecodedLabels ctc_greedy_decoder(const GreedyDecoderArguments& o) {
  return ctc_greedy_decoder(o.inputs, {{}, o.sequence_length, o.merge_repeated, o.blank_index});
}
struct BeamSearchKeywords {
  FieldNamesOnly names_only = {};
  Tensor sequence_length = {};  // where it is not given by position
  std::int64_t beam_width = 100;
  std::int64_t top_paths = 1;
};
struct BeamSearchArguments {
  FieldNamesOnly names_only = {};
  Tensor inputs = {};
  Tensor sequence_length = {};
  std::int64_t beam_width = 100;
  std::int64_t top_paths = 1;
};
DecodedLabels ctc_beam_search_decoder(const Tensor& inputs, const BeamSearchKeywords& o);
inline DecodedLabels ctc_beam_search_decoder(const BeamSearchArguments& o) {
  return ctc_beam_search_decoder(o.inputs, {{}, o.sequence_length, o.beam_width, o.top_paths});
}
template <std::convertible_to<Tensor> T = Tensor>
DecodedLabels ctc_beam_search_decoder(const Tensor& inputs, const T& sequence_length, BeamSearchKeywords o = {}) {
  o.sequence_length = sequence_length;
  return ctc_beam_search_decoder(inputs, o);
}
// tf.compat.v1.nn.ctc_loss: one loss for each row; the last class stands for no label. inputs (steps, batch, classes),
// or with batch first.
struct SparseCtcLossKeywords {
  FieldNamesOnly names_only = {};
  bool preprocess_collapse_repeated = false;
  bool ctc_merge_repeated = true;
  bool ignore_longer_outputs_than_inputs = false;
  bool time_major = true;
};
Tensor ctc_loss(const SparseTensor& labels, const Tensor& inputs, const Tensor& sequence_length,
                const SparseCtcLossKeywords& o = {});
struct SparseCtcLossArguments {
  FieldNamesOnly names_only = {};
  SparseTensor labels;
  Tensor inputs = {};
  Tensor sequence_length = {};
  bool preprocess_collapse_repeated = false;
  bool ctc_merge_repeated = true;
  bool ignore_longer_outputs_than_inputs = false;
  bool time_major = true;
};
inline Tensor ctc_loss(const SparseCtcLossArguments& o) {
  return ctc_loss(
      o.labels, o.inputs, o.sequence_length,
      {{}, o.preprocess_collapse_repeated, o.ctc_merge_repeated, o.ignore_longer_outputs_than_inputs, o.time_major});
}
// The different labels of each row with zeros behind them, int64, and the index of each label among them, int32.
struct UniqueLabels {
  Tensor labels, indices;
};
UniqueLabels ctc_unique_labels(const Tensor& labels);
// Rows in which equal labels behind each other are one, with zeros behind them, and their new lengths.
struct CollapsedLabels {
  Tensor labels, seq_length;
};
CollapsedLabels collapse_repeated(const Tensor& labels, const Tensor& seq_length);

// The rows of a table, each with a Euclidean length of at most max_norm.
struct LookupKeywords {
  FieldNamesOnly names_only = {};
  Tensor ids = {};  // where they are not given by position
  std::optional<double> max_norm = std::nullopt;
};
Tensor embedding_lookup(const Tensor& params, const LookupKeywords& o);
inline Tensor embedding_lookup(const Tensor& params, const Tensor& ids, LookupKeywords o) {
  o.ids = ids;
  return embedding_lookup(params, o);
}
// The rows of a table for the ids in each row of a sparse matrix, combined: their sum, weighted by sp_weights, "mean"
// over the sum of the weights, "sqrtn" over the square root of the sum of their squares. None stands for weights of
// one. Throws InvalidArgument for another combiner.
struct SparseLookupKeywords {
  FieldNamesOnly names_only = {};
  std::string_view combiner = "mean";
  std::optional<double> max_norm = std::nullopt;
  bool allow_fast_lookup = false;  // changes nothing here
};
Tensor embedding_lookup_sparse(const Tensor& params, const SparseTensor& sp_ids, const SparseTensor& sp_weights,
                               const SparseLookupKeywords& o = {});
Tensor embedding_lookup_sparse(const Tensor& params, const SparseTensor& sp_ids, NoneType sp_weights,
                               const SparseLookupKeywords& o = {});
// Of ids of any rank, without those below zero and, unless the combiner is "sum", those whose weights are not positive;
// rows without ids get the row default_id, or zeros.
struct SafeLookupKeywords {
  FieldNamesOnly names_only = {};
  std::optional<SparseTensor> sparse_weights = std::nullopt;
  std::string_view combiner = "mean";
  std::optional<std::int64_t> default_id = std::nullopt;
  std::optional<double> max_norm = std::nullopt;
  bool allow_fast_lookup = false;
};
Tensor safe_embedding_lookup_sparse(const Tensor& embedding_weights, const SparseTensor& sparse_ids,
                                    const SafeLookupKeywords& o = {});
inline Tensor safe_embedding_lookup_sparse(const Tensor& embedding_weights, const SparseTensor& sparse_ids,
                                           const SparseTensor& sparse_weights, SafeLookupKeywords o = {}) {
  o.sparse_weights = sparse_weights;
  return safe_embedding_lookup_sparse(embedding_weights, sparse_ids, o);
}

}  // namespace lockstep::nn
