// Layers that prepare numbers: Rescaling and Normalization.
#pragma once

#include "lockstep/keras/layers/layer.h"

namespace lockstep::layers {

struct RescalingOptions {
  Json scale = 1.0;   // a number, or one for each channel
  Json offset = 0.0;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// x · scale + offset in the compute dtype.
keras::LayerHandle Rescaling(Json scale, Json offset = 0.0, RescalingOptions options = {});

struct NormalizationOptions {
  Json axis = -1;          // axes that keep statistics of their own: a number, a list, or null for none
  bool invert = false;     // back from normalized values
  Json mean = nullptr;     // given together: no variables
  Json variance = nullptr;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// (x - mean) / max(sqrt(variance), 1e-7).
keras::LayerHandle Normalization(NormalizationOptions options = {});
// Computes the statistics of a Normalization layer from all of `data` (population variance).
// Throws InvalidArgument for another layer, or one whose statistics were given.
void adapt(const keras::LayerHandle& normalization, const Tensor& data);

}  // namespace lockstep::layers
