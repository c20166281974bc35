// tf.nn's losses of many classes, which compare the true ones with a sample of the others.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/base/field_names_only.h"
#include "lockstep/random/candidate_samplers.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::nn {

// Arguments in TensorFlow's order, all by name.
struct NceLossKeywords {
  FieldNamesOnly names_only = {};
  Tensor weights = {};  // (num_classes, dim)
  Tensor biases = {};   // (num_classes)
  Tensor labels = {};   // integers (batch, num_true)
  Tensor inputs = {};   // (batch, dim)
  std::int64_t num_sampled = 0;
  std::int64_t num_classes = 0;
  std::int64_t num_true = 1;
  std::optional<ops::random::CandidateSamples> sampled_values = std::nullopt;  // default: a log-uniform sample
  bool remove_accidental_hits = false;
};
struct SampledSoftmaxKeywords {
  FieldNamesOnly names_only = {};
  Tensor weights = {};
  Tensor biases = {};
  Tensor labels = {};
  Tensor inputs = {};
  std::int64_t num_sampled = 0;
  std::int64_t num_classes = 0;
  std::int64_t num_true = 1;
  std::optional<ops::random::CandidateSamples> sampled_values = std::nullopt;
  bool remove_accidental_hits = true;
  std::optional<std::int64_t> seed = std::nullopt;
};
// One loss for each row, (batch,). Throw InvalidArgument where weights, biases, labels or inputs are missing.
Tensor nce_loss(const NceLossKeywords& o);
Tensor sampled_softmax_loss(const SampledSoftmaxKeywords& o);

}  // namespace lockstep::nn
