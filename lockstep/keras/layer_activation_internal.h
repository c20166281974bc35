// Layers where an activation function is expected, as in Dense(4, activation=ReLU()).
#pragma once

#include "lockstep/keras/activations.h"

namespace lockstep::activations {

// From a layer's config; defined with the activation layers. Throws InvalidArgument if it is not a layer's.
ActivationPtr layer_as_activation(const Json& object);

// Whether the config is that of the layers which represent the hard_sigmoid of Keras 1 and 2, clip(0.2 · x + 0.5, 0,
// 1), in files of Keras 3.
bool is_hard_sigmoid_of_keras2(const Json& object);

}  // namespace lockstep::activations
