#pragma once

#include "lockstep/keras/class_table_internal.h"

namespace lockstep::keras {

// Highway, MaxoutDense and SReLU, which Keras 1 had and later versions do not.
void register_keras_1_layers(ClassTable& registry);

}  // namespace lockstep::keras
