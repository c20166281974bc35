// keras.layers: core layers. Options carry Keras's keyword names and defaults. Fields stand in the order of Keras's
// signature, except that `activation` stands directly behind the arguments that have no default.
#pragma once

#include <optional>
#include <string>

#include "lockstep/keras/activations.h"
#include "lockstep/keras/layers/input_layer.h"
#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/numbers.h"
#include "lockstep/tensor/optional_list.h"

namespace lockstep::layers {

using activations::ActivationArg;
using constraints::ConstraintArg;
using initializers::InitializerArg;
using keras::DTypePolicy;
using keras::LayerHandle;
using regularizers::RegularizerArg;

struct DenseOptions {
  std::int64_t units = 0;
  ActivationArg activation = {};
  bool use_bias = true;
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  std::optional<std::int64_t> lora_rank = std::nullopt;  // LoRA from the start: see layer.enable_lora()
  // Default: lora_rank. Keras ignores it in a Dense that is made with LoRA.
  std::optional<keras::Number> lora_alpha = std::nullopt;
  // Of a layer whose dtype is a quantized policy, such as "int8_from_float32". Default: that of the policy.
  std::optional<quantizers::QuantizationConfig> quantization_config = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
  std::optional<std::int64_t> input_dim = std::nullopt;  // of Keras 2: input_shape (input_dim,)
};
// activation(x · kernel + bias) over the last axis; kernel (in, units), bias (units).
LayerHandle Dense(std::int64_t units, DenseOptions options = {});

struct EinsumDenseOptions {
  std::string equation = {};
  Json output_shape = nullptr;
  ActivationArg activation = {};
  std::optional<std::string> bias_axes = std::nullopt;
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  std::optional<std::int64_t> lora_rank = std::nullopt;    // LoRA from the start: see layer.enable_lora()
  std::optional<keras::Number> lora_alpha = std::nullopt;  // default: lora_rank
  // Of a layer whose dtype is a quantized policy, such as "int8_from_float32". Default: that of the policy.
  std::optional<quantizers::QuantizationConfig> quantization_config = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// einsum(equation, x, kernel) + bias. `output_shape` is without the batch, kUnknownDim where inferred.
LayerHandle EinsumDense(std::string equation, std::vector<std::int64_t> output_shape, EinsumDenseOptions options = {});

struct EmbeddingOptions {
  std::int64_t input_dim = 0;
  std::int64_t output_dim = 0;
  InitializerArg embeddings_initializer = "uniform";
  RegularizerArg embeddings_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg embeddings_constraint = {};
  bool mask_zero = false;
  std::optional<std::int64_t> input_length = std::nullopt;  // Keras 3 ignores it
  std::optional<std::int64_t> lora_rank = std::nullopt;     // LoRA from the start: see layer.enable_lora()
  std::optional<keras::Number> lora_alpha = std::nullopt;   // default: lora_rank; ignored as in Dense
  // Of a layer whose dtype is a quantized policy, such as "int8_from_float32". Default: that of the policy.
  std::optional<quantizers::QuantizationConfig> quantization_config = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Rows of a table (input_dim, output_dim); with mask_zero, index 0 is masked. An index out of range is an
// InvalidArgument error.
LayerHandle Embedding(std::int64_t input_dim, std::int64_t output_dim, EmbeddingOptions options = {});

struct ReversibleEmbeddingOptions {
  std::int64_t input_dim = 0;
  std::int64_t output_dim = 0;
  bool tie_weights = true;  // false: a second variable, (output_dim, input_dim), for reverse calls
  InitializerArg embeddings_initializer = "uniform";
  RegularizerArg embeddings_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg embeddings_constraint = {};
  bool mask_zero = false;
  std::optional<std::string> reverse_dtype = std::nullopt;     // of reverse calls; default: the compute dtype
  std::optional<keras::Number> logit_soft_cap = std::nullopt;  // c: reverse calls give c · tanh(x / c)
  std::optional<std::int64_t> lora_rank = std::nullopt;        // LoRA from the start: see layer.enable_lora()
  std::optional<keras::Number> lora_alpha = std::nullopt;      // default: lora_rank; ignored as in Dense
  // Of a layer whose dtype is a quantized policy, such as "int8_from_float32". Default: that of the policy.
  std::optional<quantizers::QuantizationConfig> quantization_config = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// An Embedding that also maps (…, output_dim) to (…, input_dim), with the transposed table:
// layer(x, {.arguments = {{"reverse", keras::ArgValue(Json(true))}}}).
LayerHandle ReversibleEmbedding(std::int64_t input_dim, std::int64_t output_dim,
                                ReversibleEmbeddingOptions options = {});

struct MaskingOptions {
  keras::Number mask_value = 0.0;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Masks the time steps whose values all equal mask_value, and sets them to zero.
LayerHandle Masking(MaskingOptions options = {});
template <typename T>
requires std::is_arithmetic_v<T> LayerHandle Masking(T mask_value, MaskingOptions options = {}) {
  options.mask_value = mask_value;
  return Masking(std::move(options));
}

struct NamedOptions {
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Identity(NamedOptions options = {});

}  // namespace lockstep::layers
