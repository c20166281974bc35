// A layer as programs hold it, and the arguments of its calls.
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/list.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/keras/activations.h"
#include "lockstep/keras/handle.h"
#include "lockstep/keras/layers/dtype_policy.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/layers/lora.h"
#include "lockstep/keras/nested.h"
#include "lockstep/keras/quantizers/quantizers.h"
#include "lockstep/tensor/shape_arg.h"

namespace lockstep::data {
class Dataset;
}

namespace lockstep::keras {

template <typename L>
class CustomLayer;

// The keyword arguments of a call, as of call() in Keras's layers. Of Keras's two orders of mask and training, the more
// common one. A keyword that the layer does not have is an InvalidArgument.
struct CallOptions {
  FieldNamesOnly names_only = {};
  Structure inputs = {};                    // where they are not given by position
  Tensor query = {}, value = {}, key = {};  // attention layers
  Structure initial_state = {};             // recurrent layers
  Structure states = {};                    // their cells
  Structure mask = {};
  Tensor query_mask = {}, value_mask = {}, key_mask = {};  // multi-head attention
  Tensor attention_mask = {};
  std::optional<bool> return_attention_scores = std::nullopt;
  std::optional<bool> training = std::nullopt;
  std::optional<bool> use_causal_mask = std::nullopt;
  Tensor count_weights = {};  // CategoryEncoding
  // Any other keyword, for user-defined classes: {{"state", tensor}, {"return_state", true}}.
  std::vector<KeywordArgument> arguments = {};
};

// Of get_initial_state().
struct InitialStateKeywords {
  FieldNamesOnly names_only = {};
  Extent batch_size = 0;
};

template <typename T>
concept PositionalArgument =
    std::is_convertible_v<const T&, Structure> && !std::is_convertible_v<const T&, CallOptions>;

// A list of one or two arguments in braces. Aggregates, because GCC takes {.training = true} for an initializer list.
struct InBraces {
  template <PositionalArgument T>
  InBraces(const T& value) : value(value) {}
  Structure value;
};
struct OneInBraces {
  InBraces first;
};
struct TwoInBraces {
  InBraces first, second;
};

// A handle of a layer, such as the result of layers::Dense(10), which is called on tensors. Copies are the same layer.
// The functions are those of class Layer (layer.h), which has more: layer->get_config(). Using an empty one throws
// FailedPrecondition.
class LayerHandle : public Handle<Layer> {
 public:
  using Handle::Handle;

  // A template, because GCC would take {.query = x} for a list of tensors.
  template <typename = void>
  Structure operator()(const Structure& inputs, const CallOptions& options = {}) const {
    return call(inputs, options);
  }
  // Numbers or strings in braces are a tensor: lookup({{"a", "b"}, {"c", "d"}}).
  Structure operator()(std::initializer_list<Values> values, const CallOptions& options = {}) const {
    return (*this)(Tensor(values), options);
  }
  // A string is a tensor too: lookup("word").
  template <std::convertible_to<std::string> Text>
  Structure operator()(const Text& text, const CallOptions& options = {}) const {
    return (*this)(Tensor::strings({std::string(text)}, {}), options);
  }
  // All arguments by name: attention({.query = x, .value = x, .attention_mask = mask}).
  Structure operator()(const CallOptions& options) const { return call_with({}, options); }
  // Arguments by position, as in Python: attention(query, value), lstm(x, initial_state).
  template <PositionalArgument T>
  Structure operator()(const Structure& first, const T& second, const CallOptions& options = {}) const {
    return call_with({first, Structure(second)}, options);
  }
  // cell(x, {h, c}), cell(x, {h}).
  Structure operator()(const Structure& first, const TwoInBraces& second, const CallOptions& options = {}) const {
    return call_with({first, Structure::list({second.first.value, second.second.value})}, options);
  }
  Structure operator()(const Structure& first, const OneInBraces& second, const CallOptions& options = {}) const {
    return call_with({first, Structure::list({second.first.value})}, options);
  }
  template <PositionalArgument T, PositionalArgument U>
  Structure operator()(const Structure& first, const T& second, const U& third, const CallOptions& options = {}) const {
    return call_with({first, Structure(second), Structure(third)}, options);
  }

  std::string name() const;
  std::string class_name() const;  // "Dense": layer.__class__.__name__ in Python
  DTypePolicy dtype_policy() const;
  DType compute_dtype() const;
  DType variable_dtype() const;
  DType dtype() const { return variable_dtype(); }
  bool trainable() const;
  void set_trainable(bool trainable) const;
  // layer.activation = keras.activations.relu: of a layer that is in a model, too; None is "linear". Throws
  // InvalidArgument for classes other than Activation and those of dense layers and convolutions.
  void set_activation(const activations::ActivationArg& activation) const;
  bool built() const;
  // Makes the variables for inputs of this shape (the batch included, kUnknownDim for None).
  void build(const Nested<Shape>& shapes) const;
  Structure input() const;
  Structure output() const;
  // Arguments of the constructor. Throw NotFound for classes without them.
  std::int64_t units() const;
  std::int64_t filters() const;
  std::vector<std::int64_t> kernel_size() const;
  std::vector<std::int64_t> strides() const;
  std::string padding() const;
  double rate() const;  // of Dropout and its like
  bool use_bias() const;
  activations::ActivationPtr activation() const;
  bool return_sequences() const;
  bool return_state() const;
  bool stateful() const;
  bool supports_masking() const;
  distribute::Variable weight(std::string_view name) const;
  distribute::Variable kernel() const;
  distribute::Variable bias() const;
  distribute::Variable gamma() const { return weight("gamma"); }
  distribute::Variable beta() const { return weight("beta"); }
  distribute::Variable moving_mean() const { return weight("moving_mean"); }
  distribute::Variable moving_variance() const { return weight("moving_variance"); }
  distribute::Variable depthwise_kernel() const { return weight("depthwise_kernel"); }
  distribute::Variable pointwise_kernel() const { return weight("pointwise_kernel"); }
  distribute::Variable recurrent_kernel() const { return weight("recurrent_kernel"); }
  distribute::Variable embeddings() const { return weight("embeddings"); }
  // The layers of others: of recurrent layers, of Bidirectional, of wrappers. Throw NotFound for layers without it.
  LayerHandle cell() const { return attribute("cell"); }
  LayerHandle forward_layer() const { return attribute("forward_layer"); }
  LayerHandle backward_layer() const { return attribute("backward_layer"); }
  LayerHandle layer() const { return attribute("layer"); }
  // Of Normalization, in a shape that broadcasts with its inputs; of other layers, their variables of these names.
  Tensor mean() const;
  Tensor variance() const;
  List<distribute::Variable> weights() const;
  List<distribute::Variable> trainable_weights() const;
  List<distribute::Variable> non_trainable_weights() const;
  List<distribute::Variable> trainable_variables() const { return trainable_weights(); }
  List<distribute::Variable> non_trainable_variables() const;  // with random states
  List<distribute::Variable> variables() const;
  List<Tensor> get_weights() const;
  void set_weights(const std::vector<Tensor>& values) const;
  std::int64_t count_params() const;
  List<Tensor> losses() const;
  Json get_config() const;
  // A new layer of the same class: layer.__class__.from_config(config) in Python.
  LayerHandle from_config(const Json& config) const;
  Nested<Shape> compute_output_shape(const Nested<Shape>& shapes) const;
  // The mask of the outputs for these inputs and their mask: an undefined tensor if there is no mask.
  Structure compute_mask(const Structure& inputs, const Structure& mask = {}) const;
  // Drops the states that a stateful recurrent layer carries from batch to batch.
  void reset_states() const;
  // The values that a stateful recurrent layer carries from batch to batch, of other layers none:
  // lstm(x, {.initial_state = other.states()}).
  std::vector<Tensor> states() const;
  void reset_state() const { reset_states(); }
  // The states with which a recurrent layer or a cell begins: zeros, (batch_size, units), of several cells a list for
  // each. Throws InvalidArgument for others.
  Structure get_initial_state(const Extent& batch_size) const;
  Structure get_initial_state(const InitialStateKeywords& o) const { return get_initial_state(o.batch_size); }
  // Of a cell: the sizes of its states.
  std::vector<std::int64_t> state_size() const;
  // Of Discretization: the boundaries that were given, or that adapt() found. Throws InvalidArgument for others.
  std::vector<double> bin_boundaries() const;
  // Learns the layer's state from an array of all samples or from a dataset of batches: normalization.adapt(x). Throws
  // InvalidArgument for layers without state to learn.
  void adapt(const Structure& data) const;
  void adapt(std::initializer_list<Values> data) const { adapt(Structure(Tensor(data))); }
  void adapt(const data::Dataset& batches) const;
  // Freezes the kernel and adds trainable matrices of low rank to it: dense.enable_lora({.rank = 4}). See
  // Layer::enable_lora().
  void enable_lora(const LoraOptions& options) const;
  void enable_lora(std::int64_t rank) const { enable_lora({.rank = rank}); }
  // Replaces the kernel by integers: dense.quantize("int8"). See Layer::quantize().
  void quantize(const quantizers::QuantizationConfig& config) const;

  // Of StringLookup, IntegerLookup and TextVectorization: see preprocessing/lookup.h. Throw InvalidArgument for others.
  Tensor get_vocabulary(bool include_special_tokens = true) const;
  void set_vocabulary(const Tensor& vocabulary, const std::vector<double>& idf_weights = {}) const;
  std::int64_t vocabulary_size() const;

  // The layer as an object of the user-defined class L, for its members. Throws InvalidArgument for one of another
  // class.
  template <typename L>
  CustomLayer<L> as() const;

  const LayerHandle& ptr() const { return *this; }

 private:
  [[noreturn]] void throw_other_class(std::type_index wanted) const;
  LayerHandle attribute(std::string_view name) const;
  Json argument(const char* name) const;
  Structure call(const Structure& inputs, const CallOptions& options) const;
  Structure call_with(const std::vector<Structure>& arguments, const CallOptions& options) const;
};

// <Dense name=dense, built=True>.
std::ostream& operator<<(std::ostream& out, const LayerHandle& layer);

}  // namespace lockstep::keras
