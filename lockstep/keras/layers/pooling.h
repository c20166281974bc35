// keras.layers: pooling.
#pragma once

#include "lockstep/keras/layers/convolution.h"

namespace lockstep::layers {

struct PoolingOptions {
  FieldNamesOnly names_only = {};  // MaxPooling2D({2, 2}) is a window
  Window pool_size = 2;
  keras::OptionalWindow strides = std::nullopt;  // default: pool_size
  std::string padding = "valid";                 // or "same"
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle MaxPooling1D(PoolingOptions options = {});
LayerHandle MaxPooling2D(PoolingOptions options = {});
LayerHandle MaxPooling3D(PoolingOptions options = {});
// Padding cells do not count.
LayerHandle AveragePooling1D(PoolingOptions options = {});
LayerHandle AveragePooling2D(PoolingOptions options = {});
LayerHandle AveragePooling3D(PoolingOptions options = {});
LOCKSTEP_WINDOW_BY_POSITION(MaxPooling1D, PoolingOptions, pool_size)
LOCKSTEP_WINDOW_BY_POSITION(MaxPooling2D, PoolingOptions, pool_size)
LOCKSTEP_WINDOW_BY_POSITION(MaxPooling3D, PoolingOptions, pool_size)
LOCKSTEP_WINDOW_BY_POSITION(AveragePooling1D, PoolingOptions, pool_size)
LOCKSTEP_WINDOW_BY_POSITION(AveragePooling2D, PoolingOptions, pool_size)
LOCKSTEP_WINDOW_BY_POSITION(AveragePooling3D, PoolingOptions, pool_size)

struct GlobalPoolingOptions {
  std::string data_format = {};
  bool keepdims = false;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle GlobalMaxPooling1D(GlobalPoolingOptions options = {});
LayerHandle GlobalMaxPooling2D(GlobalPoolingOptions options = {});
LayerHandle GlobalMaxPooling3D(GlobalPoolingOptions options = {});
// With a mask: the mean of the steps that count.
LayerHandle GlobalAveragePooling1D(GlobalPoolingOptions options = {});
LayerHandle GlobalAveragePooling2D(GlobalPoolingOptions options = {});
LayerHandle GlobalAveragePooling3D(GlobalPoolingOptions options = {});

struct AdaptivePoolingOptions {
  FieldNamesOnly names_only = {};
  Window output_size = {};  // entries along each spatial axis; one number: along all
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Entry i along an axis of n pools the entries from floor(i·n/size) to before ceil((i+1)·n/size), whatever n is; the
// extents of the input must be known.
LayerHandle AdaptiveMaxPooling1D(AdaptivePoolingOptions options);
LayerHandle AdaptiveMaxPooling2D(AdaptivePoolingOptions options);
LayerHandle AdaptiveMaxPooling3D(AdaptivePoolingOptions options);
LayerHandle AdaptiveAveragePooling1D(AdaptivePoolingOptions options);
LayerHandle AdaptiveAveragePooling2D(AdaptivePoolingOptions options);
LayerHandle AdaptiveAveragePooling3D(AdaptivePoolingOptions options);
LOCKSTEP_BY_POSITION(AdaptiveMaxPooling1D, AdaptivePoolingOptions, Window, output_size)
LOCKSTEP_BY_POSITION(AdaptiveMaxPooling2D, AdaptivePoolingOptions, Window, output_size)
LOCKSTEP_BY_POSITION(AdaptiveMaxPooling3D, AdaptivePoolingOptions, Window, output_size)
LOCKSTEP_BY_POSITION(AdaptiveAveragePooling1D, AdaptivePoolingOptions, Window, output_size)
LOCKSTEP_BY_POSITION(AdaptiveAveragePooling2D, AdaptivePoolingOptions, Window, output_size)
LOCKSTEP_BY_POSITION(AdaptiveAveragePooling3D, AdaptivePoolingOptions, Window, output_size)

}  // namespace lockstep::layers
