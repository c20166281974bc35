// How TimeDistributed calls its layer.
#pragma once

namespace lockstep::keras {

// Keras 3 calls a layer that differs in training once for each step, so that BatchNormalization has statistics of each.
// Keras 1 and 2 call it once, with the steps as samples of a batch.
class StepsAsSamples {
 public:
  virtual ~StepsAsSamples() = default;
  void take_steps_as_samples() { as_samples_ = true; }

 protected:
  bool as_samples_ = false;
};

}  // namespace lockstep::keras
