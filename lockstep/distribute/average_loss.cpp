#include "lockstep/distribute/average_loss.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/ops/functions.h"

namespace lockstep::nn {
namespace {

void require_replica(const char* function) {
  if (!distribute::has_strategy() || !distribute::in_cross_replica_context()) return;
  throw_failed_precondition(
      fmt::format("{} was called across replicas; call it in the function that strategy.run() runs", function));
}

}  // namespace

Tensor compute_average_loss(const Tensor& per_example_loss, const AverageLossOptions& options) {
  require_replica("compute_average_loss");
  if (per_example_loss.rank() == 0) {
    throw_invalid_argument(
        "compute_average_loss: found a scalar, expected one loss for each row; give the loss reduction = \"none\"");
  }
  Tensor losses = per_example_loss;
  if (options.sample_weight.defined()) {
    Tensor weight = ops::cast(options.sample_weight, losses.dtype());
    while (weight.rank() < losses.rank()) weight = ops::expand_dims(weight, -1);
    losses = losses * weight;
  }
  const std::int64_t rows =
      options.global_batch_size.value_or(per_example_loss.dim(0) * distribute::get_strategy().num_replicas_in_sync());
  return ops::reduce_sum(losses) / rows;
}

Tensor scale_regularization_loss(const Tensor& regularization_loss) {
  require_replica("scale_regularization_loss");
  return ops::reduce_sum(regularization_loss) / distribute::get_strategy().num_replicas_in_sync();
}

}  // namespace lockstep::nn
