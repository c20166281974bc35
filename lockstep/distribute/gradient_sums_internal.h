// The sums of gradients that a strategy makes over its workers.
#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/strategy.h"

namespace lockstep::distribute {

struct GradientSums {
  // Begins a step's sum of `count` gradients over all workers, to which an idle one adds zeros; null for one worker.
  static std::unique_ptr<collectives::GradientSum> begin(Strategy& strategy, std::size_t count, bool idle) {
    return strategy.gradient_sum(count, idle);
  }
};

}  // namespace lockstep::distribute
