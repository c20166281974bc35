// What initializers of TensorFlow have in common in configs.
#pragma once

#include "lockstep/keras/initializers/initializers.h"

namespace lockstep::initializers {

// Configs name the class with TensorFlow's module, as Keras writes it.
class TensorFlowInitializer : public Initializer {
 public:
  static constexpr const char* kModule = "tensorflow.python.ops.init_ops_v2";
};

}  // namespace lockstep::initializers
