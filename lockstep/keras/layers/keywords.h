// Layers whose required arguments are given by name too: Dense({.units = 10}), Conv2D(32, {.kernel_size = 3}).
#pragma once

#include <concepts>

#include "lockstep/keras/layers/attention.h"
#include "lockstep/keras/layers/convolution.h"
#include "lockstep/keras/layers/core.h"
#include "lockstep/keras/layers/recurrent.h"

namespace lockstep::layers {

#define LOCKSTEP_KEYWORD(Layer, Options, first) \
  inline LayerHandle Layer(const Options& options) { return Layer(options.first, options); }
// With the first one by position it is a template, so that it fits better than the function that takes a list, for
// which GCC would take {.kernel_size = 3}.
#define LOCKSTEP_KEYWORDS(Layer, Options, first, second)                                                     \
  inline LayerHandle Layer(const Options& options) { return Layer(options.first, options.second, options); } \
  template <std::integral I>                                                                                 \
  LayerHandle Layer(I first, const Options& options) {                                                       \
    return Layer(static_cast<std::int64_t>(first), options.second, options);                                 \
  }

LOCKSTEP_KEYWORD(Dense, DenseOptions, units)
LOCKSTEP_KEYWORDS(Embedding, EmbeddingOptions, input_dim, output_dim)
LOCKSTEP_KEYWORDS(Conv1D, ConvOptions, filters, kernel_size)
LOCKSTEP_KEYWORDS(Conv2D, ConvOptions, filters, kernel_size)
LOCKSTEP_KEYWORDS(Conv3D, ConvOptions, filters, kernel_size)
LOCKSTEP_KEYWORDS(Conv1DTranspose, ConvTransposeOptions, filters, kernel_size)
LOCKSTEP_KEYWORDS(Conv2DTranspose, ConvTransposeOptions, filters, kernel_size)
LOCKSTEP_KEYWORDS(Conv3DTranspose, ConvTransposeOptions, filters, kernel_size)
LOCKSTEP_KEYWORDS(SeparableConv1D, SeparableConvOptions, filters, kernel_size)
LOCKSTEP_KEYWORDS(SeparableConv2D, SeparableConvOptions, filters, kernel_size)
LOCKSTEP_KEYWORD(LSTM, RNNOptions, units)
LOCKSTEP_KEYWORD(GRU, RNNOptions, units)
LOCKSTEP_KEYWORD(SimpleRNN, RNNOptions, units)
LOCKSTEP_KEYWORDS(MultiHeadAttention, MultiHeadAttentionOptions, num_heads, key_dim)
#undef LOCKSTEP_KEYWORD
#undef LOCKSTEP_KEYWORDS

}  // namespace lockstep::layers
