// tf.nn's helpers for losses of custom training loops.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "lockstep/tensor/tensor.h"

namespace lockstep::nn {

struct AverageLossOptions {
  Tensor sample_weight = {};                                     // one for each row, or for each value
  std::optional<std::int64_t> global_batch_size = std::nullopt;  // default: the replica's rows × the replicas
};
// The sum of the per-example losses divided by the global batch size: a replica's contribution to the mean over the
// global batch. Throws FailedPrecondition across replicas, except outside of any strategy.
Tensor compute_average_loss(const Tensor& per_example_loss, const AverageLossOptions& options = {});
// compute_average_loss(loss, 64): the global batch size alone.
template <std::integral N>
Tensor compute_average_loss(const Tensor& per_example_loss, N global_batch_size) {
  return compute_average_loss(per_example_loss, {.global_batch_size = global_batch_size});
}
// The sum of the loss divided by the number of replicas, for weight penalties, which are equal on every replica.
// Throws as above.
Tensor scale_regularization_loss(const Tensor& regularization_loss);

}  // namespace lockstep::nn
