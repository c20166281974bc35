// Layers where an activation function is expected, as in Dense(4, activation=ReLU()).
#pragma once

#include "lockstep/keras/activations.h"

namespace lockstep::activations {

// From a layer's config; defined with the activation layers. Throws InvalidArgument if it is not a layer's.
ActivationPtr layer_as_activation(const Json& object);

}  // namespace lockstep::activations
