// keras.layers: layers with several inputs, called on a list.
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

// Elementwise; inputs of lower rank get axes after the batch.
LayerHandle Add(NamedOptions options = {});
LayerHandle Subtract(NamedOptions options = {});  // two inputs
LayerHandle Multiply(NamedOptions options = {});
LayerHandle Average(NamedOptions options = {});
LayerHandle Maximum(NamedOptions options = {});
LayerHandle Minimum(NamedOptions options = {});

struct ConcatenateOptions {
  std::int64_t axis = -1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};
LayerHandle Concatenate(ConcatenateOptions options = {});

struct DotOptions {
  std::vector<std::int64_t> axes = {};
  bool normalize = false;  // to unit length first
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};
// Products over one axis of each input, for each sample.
LayerHandle Dot(std::vector<std::int64_t> axes, DotOptions options = {});

}  // namespace lockstep::layers
