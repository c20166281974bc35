// Rules that take one variable after the other, written with operations.
#pragma once

#include "lockstep/keras/optimizers/rule_internal.h"

namespace lockstep::optimizers {

class PerVariableOptimizer : public Optimizer {
 protected:
  using Optimizer::Optimizer;
  // w: the decayed value, to be replaced; g: its gradient.
  virtual void update_one(std::size_t index, Tensor& w, const Tensor& g, const Step& step) = 0;
  // Once a step, before the first variable.
  virtual void begin_step(const Step&) {}

  void update(Step& step) override {
    decay_weights(step);
    begin_step(step);
    for (std::size_t i = 0; i < step.indices.size(); ++i) {
      update_one(step.indices[i], trainable_[step.indices[i]]->shared_value(), step.gradients[i], step);
    }
  }
};

// β^t in float32, as Keras computes it.
inline double power_of(double beta, std::int64_t t) {
  return std::pow(static_cast<float>(beta), static_cast<float>(t));
}

}  // namespace lockstep::optimizers
