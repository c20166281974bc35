// keras.layers.Pipeline.
#pragma once

#include <string>
#include <vector>

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

struct PipelineOptions {
  std::vector<LayerHandle> layers = {};
  std::string name = {};
};
// Layers one after the other, as one layer. Without a `training` argument they run as in training.
LayerHandle Pipeline(std::vector<LayerHandle> layers, PipelineOptions options = {});

}  // namespace lockstep::layers
