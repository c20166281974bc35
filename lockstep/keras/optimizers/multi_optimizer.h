// keras.optimizers.MultiOptimizer and OptimizerMap: another optimizer for each group of variables.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/optimizers/optimizer.h"

namespace lockstep::optimizers {

// Which optimizer a variable has: that of the entry whose key is the variable's path, such as "encoder/dense/kernel",
// else that of the only key that matches the whole path as a regular expression (RE2), else the default.
struct OptimizerMap {
  OptimizerPtr default_optimizer;
  std::vector<std::pair<std::string, OptimizerPtr>> optimizer_map = {};
};
struct MultiOptimizerOptions {
  // Replaces that of the optimizers in the map.
  std::optional<double> loss_scale_factor = std::nullopt;
  std::string name = {};
};
// Applies each gradient by the optimizer of its variable. It has no learning rate: learning_rate() throws
// FailedPrecondition. Throws InvalidArgument for a map that contains a LossScaleOptimizer or a MultiOptimizer, for a
// key that is not a regular expression, and, when it is built, for a variable that two keys match. Not for parameter
// servers.
OptimizerPtr MultiOptimizer(OptimizerMap optimizer_map, MultiOptimizerOptions options = {});

}  // namespace lockstep::optimizers
