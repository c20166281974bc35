// The layers that keras.utils.FeatureSpace makes and Keras does not export.
#pragma once

#include <string>

#include "lockstep/keras/layers/layer_handle.h"

namespace lockstep::keras {

LayerHandle feature_identity(std::string name);  // TFDIdentity: a column as it is
LayerHandle feature_concat();                    // TFDConcat: encoded columns along the last axis

}  // namespace lockstep::keras
