// Which layers a model may compute in one pass with the layer before.
#pragma once

#include <optional>
#include <string>

#include "lockstep/keras/layers/layer.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {

// The elementwise function of an activation layer, by its name in ops::try_unary.
struct ElementwiseActivation {
  std::string name;
  double alpha = 0;
};
// Nothing for other layers, and where the layer does more than that.
std::optional<ElementwiseActivation> elementwise_activation(const Layer& layer);

// The scale and offset of a batch normalization over the last axis when it is not training. Nothing for other layers.
std::optional<ops::FixedNorm> fixed_norm(const Layer& layer);

// A layer whose last operation may be a convolution of channels-last images, bias included, that can have a norm folded
// in.
class LastConvolution {
 public:
  virtual ~LastConvolution() = default;
  virtual bool is_last() const { return false; }
};
bool ends_with_convolution(const Layer& layer);

// A MaxPooling2D of channels-last images. Nothing for other layers.
std::optional<ops::FollowingPool> following_pool(const Layer& layer);

}  // namespace lockstep::keras
