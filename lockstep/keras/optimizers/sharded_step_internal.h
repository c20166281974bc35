// Updates that the workers of one machine share.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/collectives/tensors_internal.h"

namespace lockstep::optimizers {

// A step's update that the workers of one machine share, each making a part of every large variable. `updates` go, by
// gradient, to the sum of the gradients; commit() ends the step: it takes the sums of the gradients that have no
// update, and what the others are still making of those that have one. When the sum fails, variables and slots are left
// between two steps.
struct ShardedStep {
  std::vector<collectives::ShardedUpdate> updates;
  std::function<void(const Tensors& sums, std::shared_ptr<collectives::Pending> others)> commit;
};

}  // namespace lockstep::optimizers
