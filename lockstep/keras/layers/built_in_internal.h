// Access to the layer behind an object of a class that derives from one of Keras's (bases.h).
#pragma once

#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

// The layer of Keras's class that such an object holds; any other layer itself.
Layer& built_in_of(Layer& layer);
inline const Layer& built_in_of(const Layer& layer) { return built_in_of(const_cast<Layer&>(layer)); }

}  // namespace lockstep::keras
