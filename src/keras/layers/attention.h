// keras.layers: attention.
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

struct MultiHeadAttentionOptions {
  std::int64_t num_heads = 0;
  std::int64_t key_dim = 0;
  std::optional<std::int64_t> value_dim = std::nullopt;  // default: key_dim
  keras::Number dropout = 0.0;
  bool use_bias = true;
  Json output_shape = nullptr;  // default: the query's last axis
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};
// softmax(Q Kᵀ / √key_dim) V for each head. Called on {query, value} or {query, value, key}, each
// (batch, steps, features).
LayerHandle MultiHeadAttention(std::int64_t num_heads, std::int64_t key_dim, MultiHeadAttentionOptions options = {});

struct AttentionOptions {
  bool use_scale = false;
  std::string score_mode = "dot";  // or "concat"
  keras::Number dropout = 0.0;
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};
// Luong's attention on a list {query, value} or {query, value, key}.
LayerHandle Attention(AttentionOptions options = {});

struct AdditiveAttentionOptions {
  bool use_scale = true;
  keras::Number dropout = 0.0;
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};
// Bahdanau's attention: scores are sums of scale · tanh(query + key). Called as Attention is.
LayerHandle AdditiveAttention(AdditiveAttentionOptions options = {});

}  // namespace lockstep::layers
