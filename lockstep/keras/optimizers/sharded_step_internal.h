// Updates that the workers of one machine share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/keras/optimizers/optimizer.h"

namespace lockstep::optimizers {

// A step's update that the workers of one machine share: each updates a shard of every large variable. `updates` are
// passed, by gradient, to the sum of the gradients; commit() ends the step: it takes the sums of the gradients without
// an update, and the shards that other workers still update. If the sum fails, variables and slots are in a state
// between two steps.
struct ShardedStep {
  std::vector<collectives::ShardedUpdate> updates;
  std::function<void(const Tensors& sums, std::shared_ptr<collectives::Pending> others)> commit;
};

// How other parts of the library use an optimizer, in addition to its public functions.
struct StepAccess {
  // The same as apply_aggregated() for workers that share memory, before the sum of the gradients is known: `gradients`
  // are those of this worker, `sum` adds them. Every worker calls it. Empty, and nothing is done, if the update needs
  // all gradients (clipping, accumulation), the rule has no fused kernel, no variable is large, or no shared memory is
  // available: then apply_aggregated() must be called with the sums.
  static std::optional<ShardedStep> shard(Optimizer& optimizer, const collectives::CommunicatorPtr& workers,
                                          const collectives::GradientSum& sum, const Tensors& gradients,
                                          const Variables& variables) {
    return optimizer.shard(workers, sum, gradients, variables);
  }
  // As it was given.
  static LearningRate& learning_rate(Optimizer& optimizer) { return optimizer.options_.learning_rate; }
  // The description for parameter servers; the optimizer must be built. Throws Unimplemented for variables with
  // constraints.
  static const distribute::RemoteOptimizer& remote(const Optimizer& optimizer) { return optimizer.remote(); }
};

}  // namespace lockstep::optimizers
