// keras.optimizers.ScheduleFreeAdamW.
#pragma once

#include "lockstep/keras/optimizers/optimizer.h"

namespace lockstep::optimizers {

// Adam without a schedule (Defazio et al. 2024). With lr warmed up over warmup_steps: v += (g² - v)(1 - β2);
// z -= lr·g/(√(v/(1 - β2^t)) + ε); x = (w - (1 - β1)·z)/β1; x += (z - x)/t; w = (1 - β1)·z + β1·x.
struct ScheduleFreeAdamWOptions {
  LearningRate learning_rate = 0.0025;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-8;
  std::int64_t warmup_steps = 0;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
OptimizerPtr ScheduleFreeAdamW(ScheduleFreeAdamWOptions options = {});

}  // namespace lockstep::optimizers
