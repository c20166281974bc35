// keras.layers: LSTM layers whose products are convolutions, called on (batch, time, spatial axes, channels).
#pragma once

#include "lockstep/keras/layers/recurrent.h"

namespace lockstep::layers {

// Windows: one number for all spatial axes, or one for each. "channels_first" is (batch, time, channels, spatial axes).
struct ConvLSTMOptions {
  FieldNamesOnly names_only = {};
  std::int64_t filters = 0;
  keras::Window kernel_size = {};
  ActivationArg activation = "tanh";
  keras::Window strides = 1;
  std::string padding = "valid";  // or "same"; the convolution of the states is always "same"
  std::string data_format = {};
  keras::Window dilation_rate = 1;
  ActivationArg recurrent_activation = "sigmoid";
  bool use_bias = true;
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg recurrent_initializer = "orthogonal";
  InitializerArg bias_initializer = "zeros";
  bool unit_forget_bias = true;
  RegularizerArg kernel_regularizer = {};
  RegularizerArg recurrent_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg recurrent_constraint = {};
  ConstraintArg bias_constraint = {};
  keras::Number dropout = 0.0;
  keras::Number recurrent_dropout = 0.0;
  std::optional<std::int64_t> seed = std::nullopt;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool unroll = false;
  bool zero_output_for_mask = false;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};

// Kernel (window, channels, 4 filters), recurrent kernel (window, filters, 4 filters), bias (4 filters), in the order
// input, forget, cell, output. The spatial extents must be known. Output: the last step's, (batch, new spatial axes,
// filters), or all of them with return_sequences; with return_state also both states.
LayerHandle ConvLSTM1D(ConvLSTMOptions options);
LayerHandle ConvLSTM2D(ConvLSTMOptions options);
LayerHandle ConvLSTM3D(ConvLSTMOptions options);
LOCKSTEP_FILTERS_BY_POSITION(ConvLSTM1D, ConvLSTMOptions)
LOCKSTEP_FILTERS_BY_POSITION(ConvLSTM2D, ConvLSTMOptions)
LOCKSTEP_FILTERS_BY_POSITION(ConvLSTM3D, ConvLSTMOptions)

}  // namespace lockstep::layers
