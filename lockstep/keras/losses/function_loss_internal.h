// Losses that are functions, as Keras takes them.
#pragma once

#include "lockstep/keras/losses/loss.h"

namespace lockstep::losses {

// Whether it was given as a function of (y_true, y_pred). Model::loss() calls it as it is then, without reduction.
bool is_function(const Loss& loss);

// While an object of it exists, this thread computes crossentropies as Keras 2 does, which adds epsilon to the
// probabilities of two classes before their logarithms.
class Keras2Logarithms {
 public:
  explicit Keras2Logarithms(bool active);
  ~Keras2Logarithms();
  Keras2Logarithms(const Keras2Logarithms&) = delete;
  Keras2Logarithms& operator=(const Keras2Logarithms&) = delete;

 private:
  bool previous_;
};

}  // namespace lockstep::losses
