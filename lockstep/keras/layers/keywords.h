// Layers whose required numbers are given by name too: Dense({.units = 10}), Embedding(100, {.output_dim = 8}).
#pragma once

#include <concepts>

#include "lockstep/keras/layers/attention.h"
#include "lockstep/keras/layers/core.h"
#include "lockstep/keras/layers/images.h"
#include "lockstep/keras/layers/merging.h"
#include "lockstep/keras/layers/recurrent.h"
#include "lockstep/keras/layers/regularization.h"
#include "lockstep/keras/layers/reshaping.h"
#include "lockstep/keras/preprocessing/augmentation.h"
#include "lockstep/keras/preprocessing/categories.h"

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
LOCKSTEP_KEYWORD(Dropout, DropoutOptions, rate)
LOCKSTEP_KEYWORD(AlphaDropout, DropoutOptions, rate)
LOCKSTEP_KEYWORD(SpatialDropout1D, SpatialDropoutOptions, rate)
LOCKSTEP_KEYWORD(SpatialDropout2D, SpatialDropoutOptions, rate)
LOCKSTEP_KEYWORD(SpatialDropout3D, SpatialDropoutOptions, rate)
LOCKSTEP_KEYWORD(GaussianDropout, GaussianDropoutOptions, rate)
LOCKSTEP_KEYWORD(GaussianNoise, GaussianNoiseOptions, stddev)
LOCKSTEP_KEYWORD(RepeatVector, RepeatVectorOptions, n)
LOCKSTEP_KEYWORD(Hashing, HashingOptions, num_bins)
LOCKSTEP_KEYWORD(HashedCrossing, HashedCrossingOptions, num_bins)
LOCKSTEP_KEYWORDS(Resizing, ResizingOptions, height, width)
LOCKSTEP_KEYWORDS(CenterCrop, CenterCropOptions, height, width)
LOCKSTEP_KEYWORDS(RandomCrop, RandomCropOptions, height, width)
LOCKSTEP_KEYWORDS(Embedding, EmbeddingOptions, input_dim, output_dim)
LOCKSTEP_KEYWORD(LSTM, RNNOptions, units)
LOCKSTEP_KEYWORD(GRU, RNNOptions, units)
LOCKSTEP_KEYWORD(SimpleRNN, RNNOptions, units)
LOCKSTEP_KEYWORD(LSTMCell, RNNOptions, units)
LOCKSTEP_KEYWORD(GRUCell, RNNOptions, units)
LOCKSTEP_KEYWORD(SimpleRNNCell, RNNOptions, units)
LOCKSTEP_KEYWORDS(MultiHeadAttention, MultiHeadAttentionOptions, num_heads, key_dim)
#undef LOCKSTEP_KEYWORD
#undef LOCKSTEP_KEYWORDS
// Of the list of tensors that call() got: concatenate(inputs, {.axis = 1}).
#define LOCKSTEP_MERGE(function, Options)                            \
  template <std::same_as<keras::Structure> S>                        \
  Tensor function(const S& inputs, const Options& options = {}) {    \
    return function(std::vector<Tensor>(inputs.flatten()), options); \
  }
LOCKSTEP_MERGE(add, NamedOptions)
LOCKSTEP_MERGE(subtract, NamedOptions)
LOCKSTEP_MERGE(multiply, NamedOptions)
LOCKSTEP_MERGE(average, NamedOptions)
LOCKSTEP_MERGE(maximum, NamedOptions)
LOCKSTEP_MERGE(minimum, NamedOptions)
LOCKSTEP_MERGE(concatenate, ConcatenateOptions)
#undef LOCKSTEP_MERGE
inline LayerHandle EinsumDense(std::string equation, const EinsumDenseOptions& o) {
  std::vector<std::int64_t> shape;
  for (const Json& extent : o.output_shape.is_array() ? o.output_shape : Json{o.output_shape})
    shape.push_back(extent.is_null() ? kUnknownDim : extent.get<std::int64_t>());
  return EinsumDense(std::move(equation), std::move(shape), o);
}
inline LayerHandle EinsumDense(const EinsumDenseOptions& o) { return EinsumDense(o.equation, o); }
inline LayerHandle GroupQueryAttention(const GroupQueryAttentionOptions& o) {
  return GroupQueryAttention(o.head_dim, o.num_query_heads, o.num_key_value_heads, o);
}

}  // namespace lockstep::layers
