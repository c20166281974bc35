#pragma once

#include "lockstep/keras/class_table_internal.h"

namespace lockstep::keras {

void register_conv_lstm_layers(ClassTable& registry);  // ConvLSTM1D, ConvLSTM2D, ConvLSTM3D

}  // namespace lockstep::keras
