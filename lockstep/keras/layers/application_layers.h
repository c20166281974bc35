// Layers of keras.applications, which Keras does not export: ConvNeXt's and InceptionResNetV2's.
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

struct LayerScaleOptions {
  keras::Number init_values = 1e-6;
  std::int64_t projection_dim = 1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// x · gamma, a factor for each of the projection_dim channels, which starts at init_values.
LayerHandle LayerScale(double init_values, std::int64_t projection_dim, LayerScaleOptions options = {});

struct StochasticDepthOptions {
  keras::Number drop_path_rate = 0.0;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// In training, sets whole samples to zero with probability drop_path_rate and scales the others by 1 / (1 - rate).
LayerHandle StochasticDepth(double drop_path_rate, StochasticDepthOptions options = {});

struct CustomScaleLayerOptions {
  keras::Number scale = 1.0;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Called on a list of two: a + b · scale.
LayerHandle CustomScaleLayer(double scale, CustomScaleLayerOptions options = {});

}  // namespace lockstep::layers
