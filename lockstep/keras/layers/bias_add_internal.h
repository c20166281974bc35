// How Keras adds a bias.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

// x + y as keras.ops.add(x, y) of Keras 3 on TensorFlow. A `y` with one extent above 1 is taken for a bias: it is added
// along the last axis of x if that has the same extent, else along axis 1 if that has, whatever its own axis is.
Tensor add_as_keras(const Tensor& x, const Tensor& y);

// A layer whose bias is added so. Keras 1 and 2 add it along its own axis.
class BiasAdder {
 public:
  virtual ~BiasAdder() = default;
  void add_bias_along_its_axis() { by_axis_ = true; }

 protected:
  Tensor biased(const Tensor& y, const Tensor& bias) const;

 private:
  bool by_axis_ = false;
};

}  // namespace lockstep::keras
