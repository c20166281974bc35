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
// pool_size by position: 2, {2, 2}, or a window. Lists are template arguments, because GCC would take {.pool_size = 2}
// for a list of numbers.
template <std::convertible_to<Window> W>
LayerHandle MaxPooling1D(const W& pool_size, PoolingOptions options = {}) {
  options.pool_size = pool_size;
  return MaxPooling1D(std::move(options));
}
template <std::integral I>
LayerHandle MaxPooling1D(std::initializer_list<I> pool_size, PoolingOptions options = {}) {
  return MaxPooling1D(Window(pool_size.begin(), pool_size.end()), std::move(options));
}
template <std::convertible_to<Window> W>
LayerHandle MaxPooling2D(const W& pool_size, PoolingOptions options = {}) {
  options.pool_size = pool_size;
  return MaxPooling2D(std::move(options));
}
template <std::integral I>
LayerHandle MaxPooling2D(std::initializer_list<I> pool_size, PoolingOptions options = {}) {
  return MaxPooling2D(Window(pool_size.begin(), pool_size.end()), std::move(options));
}
template <std::convertible_to<Window> W>
LayerHandle MaxPooling3D(const W& pool_size, PoolingOptions options = {}) {
  options.pool_size = pool_size;
  return MaxPooling3D(std::move(options));
}
template <std::integral I>
LayerHandle MaxPooling3D(std::initializer_list<I> pool_size, PoolingOptions options = {}) {
  return MaxPooling3D(Window(pool_size.begin(), pool_size.end()), std::move(options));
}
template <std::convertible_to<Window> W>
LayerHandle AveragePooling1D(const W& pool_size, PoolingOptions options = {}) {
  options.pool_size = pool_size;
  return AveragePooling1D(std::move(options));
}
template <std::integral I>
LayerHandle AveragePooling1D(std::initializer_list<I> pool_size, PoolingOptions options = {}) {
  return AveragePooling1D(Window(pool_size.begin(), pool_size.end()), std::move(options));
}
template <std::convertible_to<Window> W>
LayerHandle AveragePooling2D(const W& pool_size, PoolingOptions options = {}) {
  options.pool_size = pool_size;
  return AveragePooling2D(std::move(options));
}
template <std::integral I>
LayerHandle AveragePooling2D(std::initializer_list<I> pool_size, PoolingOptions options = {}) {
  return AveragePooling2D(Window(pool_size.begin(), pool_size.end()), std::move(options));
}
template <std::convertible_to<Window> W>
LayerHandle AveragePooling3D(const W& pool_size, PoolingOptions options = {}) {
  options.pool_size = pool_size;
  return AveragePooling3D(std::move(options));
}
template <std::integral I>
LayerHandle AveragePooling3D(std::initializer_list<I> pool_size, PoolingOptions options = {}) {
  return AveragePooling3D(Window(pool_size.begin(), pool_size.end()), std::move(options));
}

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
  Window output_size = {};  // entries along each spatial axis; one number: along all
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Entry i along an axis of n pools the entries from floor(i·n/size) to before ceil((i+1)·n/size), whatever n is; the
// extents of the input must be known.
LayerHandle AdaptiveMaxPooling1D(Window output_size, AdaptivePoolingOptions options = {});
LayerHandle AdaptiveMaxPooling2D(Window output_size, AdaptivePoolingOptions options = {});
LayerHandle AdaptiveMaxPooling3D(Window output_size, AdaptivePoolingOptions options = {});
LayerHandle AdaptiveAveragePooling1D(Window output_size, AdaptivePoolingOptions options = {});
LayerHandle AdaptiveAveragePooling2D(Window output_size, AdaptivePoolingOptions options = {});
LayerHandle AdaptiveAveragePooling3D(Window output_size, AdaptivePoolingOptions options = {});

}  // namespace lockstep::layers
