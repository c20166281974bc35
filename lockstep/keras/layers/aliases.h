// The other names that Keras has for some layers, MaxPool2D, GlobalAvgPool2D, Convolution2D, and strides and
// padding by position: MaxPooling2D(3, 2, "same"), Conv2D(64, 3, 2, {.padding = "same"}). InputLayer is Input, for the
// first place in a Sequential.
#pragma once

#include <utility>

#include "lockstep/keras/layers/convolution.h"
#include "lockstep/keras/layers/pooling.h"

namespace lockstep::layers {

template <std::convertible_to<Shape> S = Shape>
Tensor InputLayer(const S& shape, const InputOptions& options = {}) {
  return Input(shape, options);
}
inline Tensor InputLayer(const InputKeywords& keywords) { return Input(keywords); }

#define LOCKSTEP_ALIAS(Alias, Class, Options) \
  inline LayerHandle Alias(Options options) { return Class(std::move(options)); }
#define LOCKSTEP_POOLING_ALIAS(Alias, Class)                                                  \
  inline LayerHandle Alias(PoolingOptions options = {}) { return Class(std::move(options)); } \
  LOCKSTEP_WINDOW_BY_POSITION(Alias, PoolingOptions, pool_size)
#define LOCKSTEP_GLOBAL_ALIAS(Alias, Class) \
  inline LayerHandle Alias(GlobalPoolingOptions options = {}) { return Class(std::move(options)); }
#define LOCKSTEP_CONVOLUTION_ALIAS(Alias, Class, Options) \
  LOCKSTEP_ALIAS(Alias, Class, Options)                   \
  LOCKSTEP_FILTERS_BY_POSITION(Alias, Options)
LOCKSTEP_POOLING_ALIAS(MaxPool1D, MaxPooling1D)
LOCKSTEP_POOLING_ALIAS(MaxPool2D, MaxPooling2D)
LOCKSTEP_POOLING_ALIAS(MaxPool3D, MaxPooling3D)
LOCKSTEP_POOLING_ALIAS(AvgPool1D, AveragePooling1D)
LOCKSTEP_POOLING_ALIAS(AvgPool2D, AveragePooling2D)
LOCKSTEP_POOLING_ALIAS(AvgPool3D, AveragePooling3D)
LOCKSTEP_GLOBAL_ALIAS(GlobalMaxPool1D, GlobalMaxPooling1D)
LOCKSTEP_GLOBAL_ALIAS(GlobalMaxPool2D, GlobalMaxPooling2D)
LOCKSTEP_GLOBAL_ALIAS(GlobalMaxPool3D, GlobalMaxPooling3D)
LOCKSTEP_GLOBAL_ALIAS(GlobalAvgPool1D, GlobalAveragePooling1D)
LOCKSTEP_GLOBAL_ALIAS(GlobalAvgPool2D, GlobalAveragePooling2D)
LOCKSTEP_GLOBAL_ALIAS(GlobalAvgPool3D, GlobalAveragePooling3D)
LOCKSTEP_CONVOLUTION_ALIAS(Convolution1D, Conv1D, ConvOptions)
LOCKSTEP_CONVOLUTION_ALIAS(Convolution2D, Conv2D, ConvOptions)
LOCKSTEP_CONVOLUTION_ALIAS(Convolution3D, Conv3D, ConvOptions)
LOCKSTEP_CONVOLUTION_ALIAS(Convolution1DTranspose, Conv1DTranspose, ConvTransposeOptions)
LOCKSTEP_CONVOLUTION_ALIAS(Convolution2DTranspose, Conv2DTranspose, ConvTransposeOptions)
LOCKSTEP_CONVOLUTION_ALIAS(Convolution3DTranspose, Conv3DTranspose, ConvTransposeOptions)
LOCKSTEP_CONVOLUTION_ALIAS(SeparableConvolution1D, SeparableConv1D, SeparableConvOptions)
LOCKSTEP_CONVOLUTION_ALIAS(SeparableConvolution2D, SeparableConv2D, SeparableConvOptions)

#define LOCKSTEP_POOLING_STRIDES(Class)                                                                     \
  template <std::convertible_to<Window> W, std::integral S>                                                 \
  LayerHandle Class(const W& pool_size, S strides, PoolingOptions options = {}) {                           \
    options.strides = strides;                                                                              \
    return Class(pool_size, std::move(options));                                                            \
  }                                                                                                         \
  template <std::convertible_to<Window> W, std::integral S, std::convertible_to<std::string> P>             \
  LayerHandle Class(const W& pool_size, S strides, const P& padding, PoolingOptions options = {}) {         \
    options.padding = padding;                                                                              \
    return Class(pool_size, strides, std::move(options));                                                   \
  }                                                                                                         \
  template <std::integral I>                                                                                \
  LayerHandle Class(std::initializer_list<I> pool_size, std::initializer_list<I> strides,                   \
                    PoolingOptions options = {}) {                                                          \
    options.strides = Window(strides.begin(), strides.end());                                               \
    return Class(Window(pool_size.begin(), pool_size.end()), std::move(options));                           \
  }                                                                                                         \
  template <std::integral I, std::convertible_to<std::string> P>                                            \
  LayerHandle Class(std::initializer_list<I> pool_size, std::initializer_list<I> strides, const P& padding, \
                    PoolingOptions options = {}) {                                                          \
    options.padding = padding;                                                                              \
    return Class(pool_size, strides, std::move(options));                                                   \
  }
#define LOCKSTEP_CONVOLUTION_STRIDES(Class, Options)                                                    \
  template <std::integral S>                                                                            \
  LayerHandle Class(std::int64_t filters, keras::Window kernel_size, S strides, Options options = {}) { \
    options.strides = strides;                                                                          \
    return Class(filters, std::move(kernel_size), std::move(options));                                  \
  }                                                                                                     \
  template <std::integral S, std::convertible_to<std::string> P>                                        \
  LayerHandle Class(std::int64_t filters, keras::Window kernel_size, S strides, const P& padding,       \
                    Options options = {}) {                                                             \
    options.padding = padding;                                                                          \
    return Class(filters, std::move(kernel_size), strides, std::move(options));                         \
  }                                                                                                     \
  template <std::integral S>                                                                            \
  LayerHandle Class(std::int64_t filters, keras::Window kernel_size, std::initializer_list<S> strides,  \
                    Options options = {}) {                                                             \
    options.strides = Window(strides.begin(), strides.end());                                           \
    return Class(filters, std::move(kernel_size), std::move(options));                                  \
  }                                                                                                     \
  template <std::integral S, std::convertible_to<std::string> P>                                        \
  LayerHandle Class(std::int64_t filters, keras::Window kernel_size, std::initializer_list<S> strides,  \
                    const P& padding, Options options = {}) {                                           \
    options.padding = padding;                                                                          \
    return Class(filters, std::move(kernel_size), strides, std::move(options));                         \
  }
LOCKSTEP_POOLING_STRIDES(MaxPooling1D)
LOCKSTEP_POOLING_STRIDES(MaxPooling2D)
LOCKSTEP_POOLING_STRIDES(MaxPooling3D)
LOCKSTEP_POOLING_STRIDES(AveragePooling1D)
LOCKSTEP_POOLING_STRIDES(AveragePooling2D)
LOCKSTEP_POOLING_STRIDES(AveragePooling3D)
LOCKSTEP_POOLING_STRIDES(AvgPool3D)
LOCKSTEP_POOLING_STRIDES(AvgPool2D)
LOCKSTEP_POOLING_STRIDES(AvgPool1D)
LOCKSTEP_POOLING_STRIDES(MaxPool3D)
LOCKSTEP_POOLING_STRIDES(MaxPool2D)
LOCKSTEP_POOLING_STRIDES(MaxPool1D)
LOCKSTEP_CONVOLUTION_STRIDES(Conv1D, ConvOptions)
LOCKSTEP_CONVOLUTION_STRIDES(Conv2D, ConvOptions)
LOCKSTEP_CONVOLUTION_STRIDES(Conv3D, ConvOptions)
LOCKSTEP_CONVOLUTION_STRIDES(Conv1DTranspose, ConvTransposeOptions)
LOCKSTEP_CONVOLUTION_STRIDES(Conv2DTranspose, ConvTransposeOptions)
LOCKSTEP_CONVOLUTION_STRIDES(Conv3DTranspose, ConvTransposeOptions)
LOCKSTEP_CONVOLUTION_STRIDES(SeparableConv1D, SeparableConvOptions)
LOCKSTEP_CONVOLUTION_STRIDES(SeparableConv2D, SeparableConvOptions)
#undef LOCKSTEP_POOLING_STRIDES
#undef LOCKSTEP_CONVOLUTION_STRIDES
#undef LOCKSTEP_ALIAS
#undef LOCKSTEP_POOLING_ALIAS
#undef LOCKSTEP_GLOBAL_ALIAS
#undef LOCKSTEP_CONVOLUTION_ALIAS

}  // namespace lockstep::layers
