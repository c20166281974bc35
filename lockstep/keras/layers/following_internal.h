// Which layers a model may compute in one pass with the layer before.
#pragma once

#include <optional>
#include <string>

#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

// What an activation layer applies to each element, as ops::try_unary names it.
struct ElementwiseActivation {
  std::string name;
  double alpha = 0;
};
// Nothing for other layers, and where the layer does more than that.
std::optional<ElementwiseActivation> elementwise_activation(const Layer& layer);

}  // namespace lockstep::keras
