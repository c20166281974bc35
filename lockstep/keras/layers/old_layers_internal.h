#pragma once

#include "lockstep/keras/class_table_internal.h"

namespace lockstep::keras {

// The class of a BatchNormalization of Keras 1 with mode 1 or 2.
inline constexpr const char* kBatchNormalizationWithMode = "BatchNormalizationWithMode";

// Layers that Keras 1 had and later versions do not.
void register_keras_1_layers(ClassTable& registry);

}  // namespace lockstep::keras
