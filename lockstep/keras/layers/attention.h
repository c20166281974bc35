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
  Json output_shape = nullptr;  // the last axis, or several; default: the query's last axis
  OptionalList<std::int64_t> attention_axes = std::nullopt;   // default: all but the batch and the last
  std::optional<std::int64_t> sliding_window = std::nullopt;  // steps further apart do not see each other
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  bool use_gate = false;  // heads are multiplied by a sigmoid of a projection of the query
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// softmax(Q Kᵀ / √key_dim) V for each head. Called on {query, value} or {query, value, key}, each
// (batch, steps…, features). Throws InvalidArgument for sizes below 1 and for axes that are not there.
LayerHandle MultiHeadAttention(std::int64_t num_heads, std::int64_t key_dim, MultiHeadAttentionOptions options = {});

struct GroupQueryAttentionOptions {
  std::int64_t head_dim = 0;
  std::int64_t num_query_heads = 0;
  std::int64_t num_key_value_heads = 0;
  keras::Number dropout = 0.0;
  bool use_bias = true;
  std::optional<std::int64_t> sliding_window = std::nullopt;
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  bool use_gate = false;
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// As MultiHeadAttention, with a key and a value shared by num_query_heads / num_key_value_heads heads, which must
// divide. Inputs are (batch, steps, features).
LayerHandle GroupQueryAttention(std::int64_t head_dim, std::int64_t num_query_heads, std::int64_t num_key_value_heads,
                                GroupQueryAttentionOptions options = {});

struct AttentionOptions {
  bool use_scale = false;
  std::string score_mode = "dot";  // or "concat"
  keras::Number dropout = 0.0;
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
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
  Shape input_shape = Shape::unknown_rank();
};
// Bahdanau's attention: scores are sums of scale · tanh(query + key). Called as Attention is.
LayerHandle AdditiveAttention(AdditiveAttentionOptions options = {});

}  // namespace lockstep::layers
