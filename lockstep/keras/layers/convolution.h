// keras.layers: convolutions. Windows take one number for all axes or one for each; data_format is
// "channels_last" by default. Kernels have TensorFlow's layout for every data format.
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

using keras::Window;

struct ConvOptions {
  FieldNamesOnly names_only = {};
  std::int64_t filters = 0;
  Window kernel_size = {};
  ActivationArg activation = {};
  Window strides = 1;
  std::string padding = "valid";  // "valid", "same"; Conv1D also "causal"
  std::string data_format = {};
  Window dilation_rate = 1;
  std::int64_t groups = 1;
  bool use_bias = true;
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  std::optional<std::int64_t> lora_rank = std::nullopt;    // LoRA from the start: see layer.enable_lora()
  std::optional<keras::Number> lora_alpha = std::nullopt;  // default: lora_rank
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
using Conv1DOptions = ConvOptions;
using Conv2DOptions = ConvOptions;
using Conv3DOptions = ConvOptions;
LayerHandle Conv1D(ConvOptions options);
LayerHandle Conv2D(ConvOptions options);
LayerHandle Conv3D(ConvOptions options);
LOCKSTEP_FILTERS_BY_POSITION(Conv1D, ConvOptions)
LOCKSTEP_FILTERS_BY_POSITION(Conv2D, ConvOptions)
LOCKSTEP_FILTERS_BY_POSITION(Conv3D, ConvOptions)

struct ConvTransposeOptions {
  FieldNamesOnly names_only = {};
  std::int64_t filters = 0;
  Window kernel_size = {};
  ActivationArg activation = {};
  Window strides = 1;
  std::string padding = "valid";
  keras::OptionalWindow output_padding = std::nullopt;
  std::string data_format = {};
  Window dilation_rate = 1;
  bool use_bias = true;
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Conv1DTranspose(ConvTransposeOptions options);
LayerHandle Conv2DTranspose(ConvTransposeOptions options);
LayerHandle Conv3DTranspose(ConvTransposeOptions options);
LOCKSTEP_FILTERS_BY_POSITION(Conv1DTranspose, ConvTransposeOptions)
LOCKSTEP_FILTERS_BY_POSITION(Conv2DTranspose, ConvTransposeOptions)
LOCKSTEP_FILTERS_BY_POSITION(Conv3DTranspose, ConvTransposeOptions)

struct DepthwiseConvOptions {
  FieldNamesOnly names_only = {};
  Window kernel_size = {};
  ActivationArg activation = {};
  Window strides = 1;
  std::string padding = "valid";
  std::int64_t depth_multiplier = 1;
  std::string data_format = {};
  Window dilation_rate = 1;
  bool use_bias = true;
  InitializerArg depthwise_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg depthwise_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg depthwise_constraint = {};
  ConstraintArg bias_constraint = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle DepthwiseConv1D(DepthwiseConvOptions options);
LayerHandle DepthwiseConv2D(DepthwiseConvOptions options);
LOCKSTEP_BY_POSITION(DepthwiseConv1D, DepthwiseConvOptions, Window, kernel_size)
LOCKSTEP_BY_POSITION(DepthwiseConv2D, DepthwiseConvOptions, Window, kernel_size)

struct SeparableConvOptions {
  FieldNamesOnly names_only = {};
  std::int64_t filters = 0;
  Window kernel_size = {};
  ActivationArg activation = {};
  Window strides = 1;
  std::string padding = "valid";
  std::string data_format = {};
  Window dilation_rate = 1;
  std::int64_t depth_multiplier = 1;
  bool use_bias = true;
  InitializerArg depthwise_initializer = "glorot_uniform";
  InitializerArg pointwise_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg depthwise_regularizer = {};
  RegularizerArg pointwise_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg depthwise_constraint = {};
  ConstraintArg pointwise_constraint = {};
  ConstraintArg bias_constraint = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle SeparableConv1D(SeparableConvOptions options);
LayerHandle SeparableConv2D(SeparableConvOptions options);
LOCKSTEP_FILTERS_BY_POSITION(SeparableConv1D, SeparableConvOptions)
LOCKSTEP_FILTERS_BY_POSITION(SeparableConv2D, SeparableConvOptions)

}  // namespace lockstep::layers
