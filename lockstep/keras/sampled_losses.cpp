#include "lockstep/keras/sampled_losses.h"

#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/keras/nn.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/operators.h"

namespace lockstep::nn {
namespace {

// Logits and labels of the true classes, then of the sampled ones: (batch, num_true + num_sampled).
template <typename Keywords>
std::pair<Tensor, Tensor> sampled_logits(const Keywords& o, std::optional<std::int64_t> seed) {
  if (!o.weights.defined() || !o.biases.defined() || !o.labels.defined() || !o.inputs.defined())
    throw_invalid_argument("a sampled loss requires weights, biases, labels and inputs");
  const Tensor labels = ops::cast(o.labels, DType::kInt64);
  const ops::random::CandidateSamples samples =
      o.sampled_values ? *o.sampled_values
                       : ops::random::log_uniform_candidate_sampler({.true_classes = labels,
                                                                     .num_true = o.num_true,
                                                                     .num_sampled = o.num_sampled,
                                                                     .unique = true,
                                                                     .range_max = o.num_classes,
                                                                     .seed = seed});
  const Tensor sampled = ops::cast(samples.sampled_candidates, DType::kInt64);
  const Tensor true_weights = ops::gather(o.weights, labels);  // (batch, num_true, dim)
  Tensor true_logits =
      ops::reduce_sum(ops::expand_dims(o.inputs, 1) * true_weights, -1) + ops::gather(o.biases, labels);
  Tensor others =
      ops::matmul(o.inputs, ops::gather(o.weights, sampled), {.transpose_b = true}) + ops::gather(o.biases, sampled);
  if (o.remove_accidental_hits) {
    const Tensors hits =
        ops::call("ComputeAccidentalHits", {labels, sampled}, {{"num_true", o.num_true}, {"seed", 0}, {"seed2", 0}});
    const Tensor places = ops::stack({ops::cast(hits[0], DType::kInt64), ops::cast(hits[1], DType::kInt64)}, 1);
    others = ops::tensor_scatter_nd_add(others, places, ops::cast(hits[2], others.dtype()));
  }
  true_logits = true_logits - ops::log(samples.true_expected_count);
  others = others - ops::log(samples.sampled_expected_count);
  const Tensor true_labels = ops::ones_like(true_logits) / static_cast<double>(o.num_true);
  return {ops::concat({true_logits, others}, 1), ops::concat({true_labels, ops::zeros_like(others)}, 1)};
}

}  // namespace

Tensor nce_loss(const NceLossKeywords& o) {
  const auto [logits, labels] = sampled_logits(o, std::nullopt);
  return ops::reduce_sum(sigmoid_cross_entropy_with_logits(labels, logits), 1);
}
Tensor sampled_softmax_loss(const SampledSoftmaxKeywords& o) {
  const auto [logits, labels] = sampled_logits(o, o.seed);
  return softmax_cross_entropy_with_logits(labels, logits);
}

}  // namespace lockstep::nn
