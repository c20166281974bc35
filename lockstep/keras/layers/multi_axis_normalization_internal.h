// BatchNormalization of Keras 2 over several axes.
#pragma once

#include "lockstep/keras/layers/configured_layer_internal.h"

namespace lockstep::keras {

// The row of BatchNormalization, which makes another layer where the axis is a list of several.
ClassRow with_several_axes(ClassRow row);

}  // namespace lockstep::keras
