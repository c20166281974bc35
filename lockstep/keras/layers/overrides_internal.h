// Whether a layer's class overrides a member function of Layer.
#pragma once

#include "lockstep/base/overrides_internal.h"
#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

template <typename... Member>
bool overrides_layer(const Layer& layer, Member... member) {
  class PlainLayer : public Layer {};
  static const Layer* const plain = new PlainLayer();
  return overrides(layer, *plain, member...);
}

}  // namespace lockstep::keras
