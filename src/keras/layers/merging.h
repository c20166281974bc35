// Layers that join several inputs: Add, Subtract, Multiply, Average, Maximum, Minimum, Concatenate, Dot.
#pragma once

#include "lockstep/keras/layers/layer.h"

namespace lockstep::layers {

struct MergeOptions {
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};

// Element by element over a list of at least two inputs (Subtract: exactly two, the first minus the second). An input
// of lower rank gets axes of extent 1 after the batch axis; extents of 1 broadcast.
keras::LayerHandle Add(MergeOptions options = {});
keras::LayerHandle Subtract(MergeOptions options = {});
keras::LayerHandle Multiply(MergeOptions options = {});
keras::LayerHandle Average(MergeOptions options = {});
keras::LayerHandle Maximum(MergeOptions options = {});
keras::LayerHandle Minimum(MergeOptions options = {});

struct ConcatenateOptions {
  std::int64_t axis = -1;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// Joined along `axis`; all other extents must be equal.
keras::LayerHandle Concatenate(ConcatenateOptions options = {});

struct DotOptions {
  Json axes = -1;          // one axis for both inputs, or a pair
  bool normalize = false;  // each input scaled to length 1 along its axis first
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// Sums of products along an axis of each of two inputs, sample by sample.
keras::LayerHandle Dot(DotOptions options);

}  // namespace lockstep::layers
