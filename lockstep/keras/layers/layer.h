// Base of all layers (keras.layers.Layer).
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/distribute/variable.h"
#include "lockstep/keras/constraints/constraints.h"
#include "lockstep/keras/dtype_arg.h"
#include "lockstep/keras/initializers/initializers.h"
#include "lockstep/keras/layers/dtype_policy.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/layers/layer_handle.h"
#include "lockstep/keras/metrics/metric.h"
#include "lockstep/keras/nested.h"
#include "lockstep/keras/quantizers/quantizers.h"
#include "lockstep/keras/regularizers/regularizers.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/random/seed_generator.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor_dict.h"

namespace lockstep::optimizers {
class Optimizer;
}
namespace lockstep::data {
class Dataset;
}

namespace lockstep::keras {

using distribute::Variable;
using distribute::VariablePtr;

class BuildObservers;
using LayerPtr = LayerHandle;
template <typename L>
class CustomLayer;
// A layer, or a list or dict of layers, kept in one attribute.
using LayerTree = Nested<LayerPtr>;

// The arguments of a call other than its inputs.
struct CallContext {
  bool training = false;
  // Of the inputs, in their structure, with undefined leaves for inputs without a mask. A call whose only tensors are
  // the inputs gets the masks attached to them (in classes with uses_mask(), and in own classes with
  // supports_masking()); any other call gets the mask it was given.
  Structure mask;
  // All arguments bound to their names: args holds those of argument_names(), kwargs the others.
  const CallArguments* arguments = nullptr;

  // A tensor given under this keyword; undefined when absent or null.
  Tensor tensor(std::string_view keyword) const;
  // Plain data given under this keyword; null when absent.
  Json value(std::string_view keyword) const;
};

// The required shape of an input; absent entries are not checked.
struct InputSpec {
  std::optional<int> ndim, min_ndim, max_ndim;
  std::vector<std::pair<int, std::int64_t>> axes = {};  // extents of axes
};

struct WeightOptions {
  Shape shape = {};
  initializers::InitializerArg initializer = {};  // empty: glorot_uniform for floating dtypes, else zeros
  DTypeArg dtype = {};                            // default: the policy's variable dtype
  bool trainable = true;
  bool autocast = true;  // read in the compute dtype
  regularizers::RegularizerArg regularizer = {};
  constraints::ConstraintArg constraint = {};
  distribute::VariableAggregation aggregation = distribute::VariableAggregation::kNone;
  std::string name = {};  // default: variable, variable_1, … of the layer
};

// A variable of a layer with its arguments.
struct Weight {
  VariablePtr variable;
  regularizers::RegularizerPtr regularizer;
  constraints::ConstraintPtr constraint;
  bool trainable = true;  // by creation, not by the current trainable flag
  bool autocast = true;
};

// What save_own_variables() gives to a file: values by name.
class VariableStore : public TensorDict {
 public:
  using TensorDict::TensorDict;
  using TensorDict::operator[];
  Tensor& operator[](const std::string& name) { return try_emplace(name).first->second; }
};

// A layer's own state in Keras's files .keras and .weights.h5, as save_own_variables() and load_own_variables() of
// Keras define it.
struct OwnState {
  struct Entry {
    VariablePtr variable;                // gets the value that is read
    std::function<Tensor()> value = {};  // the saved value, where it is not the variable's
  };
  std::vector<Entry> entries = {};       // vars/0, vars/1, …
  std::vector<VariablePtr> zeroed = {};  // set to zero when the others are read
};

// Arguments of every layer's constructor.
struct LayerOptions {
  std::string name = {};  // default: the snake-case class name, numbered per process
  bool trainable = true;
  DTypePolicy dtype = {};
  regularizers::RegularizerArg activity_regularizer = {};
  // Without the batch. A Sequential whose first layer has one begins with an Input of this shape.
  Shape input_shape = Shape::unknown_rank();
};

// A layer: configuration, variables, and a computation written with ops only, so that the same call()
// runs on values, builds functional models and is traced into graphs. A class derives from it and
// overrides build() and call(); sublayers are announced with track(), variables with add_weight().
class Layer : public Operation {
 public:
  using Options = LayerOptions;
  using KerasFamily = Layer;
  ~Layer() override;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  std::string class_name() const override;
  Json module() const override { return nullptr; }
  // "Package>Name" of a registered class; the class's name of a user-defined class that is not registered.
  Json registered_name() const override;
  // The C++ class that the objects of this class are registered by.
  virtual std::type_index registered_type() const { return typeid(*this); }
  // name, trainable, dtype and, when set, activity_regularizer; classes add their own keys.
  Json get_config() const override;
  // {"input_shape": …} as Keras writes it; null when the class has none.
  virtual Json get_build_config() const;
  virtual void build_from_config(const Json& config);

  // ---- to override ----
  // The specification of each input; checked before every call. Empty: any input.
  virtual std::vector<InputSpec> input_spec() const { return {}; }
  // Makes the variables. `shapes` has the structure of the inputs.
  virtual void build(const Nested<Shape>& shapes);
  // The computation; a class overrides one of the two. The first is call(self, inputs) of Python, the second
  // call(self, inputs, training=None, mask=None): both are in `context`.
  virtual Structure call(const Structure& inputs);
  virtual Structure call(const Structure& inputs, const CallContext& context);
  // The masks of the outputs. By default: the input's mask where supports_masking() and there is one
  // input and one output.
  virtual Structure compute_mask(const Structure& inputs, const Structure& mask, const Structure& outputs);
  virtual bool supports_masking() const { return false; }
  // Whether call() uses `context.mask` (functional models then keep the mask as an argument).
  virtual bool uses_mask() const { return false; }
  // How call() takes `training`: not at all, with the default None, False or True.
  enum class TrainingArgument { kNone, kOptional, kDefaultFalse, kDefaultTrue };
  virtual TrainingArgument training_argument() const { return TrainingArgument::kNone; }
  // Whether floating inputs are cast to the compute dtype before the call.
  virtual bool casts_inputs() const { return true; }
  // Names of call()'s leading arguments. With one, it is the inputs; with several, inputs are their list.
  virtual std::vector<std::string> argument_names() const { return {"inputs"}; }
  // Names of all of call()'s arguments in Python's order: arguments given by position bind to them, other keywords are
  // rejected. By default: argument_names(), mask (where uses_mask()), training (where it has one).
  virtual std::vector<std::string> call_parameters() const;
  // Whether call() also takes keywords that call_parameters() does not list; so do user-defined classes by default.
  virtual bool takes_any_keyword() const { return module().is_null(); }
  // Drops values carried from batch to batch.
  virtual void reset_states() {}
  // Puts another activation function in the place of the layer's. Throws InvalidArgument for classes other than
  // Activation and those of dense layers and convolutions.
  virtual void set_activation(const activations::ActivationPtr& activation);
  // The states with which a recurrent layer begins. Throws InvalidArgument for other classes.
  virtual Structure get_initial_state(const Extent& batch_size) const;
  // Learns the layer's state from data, before fit: from an array of all samples, or from a dataset of batches (of
  // which, where its elements are tuples, the first part counts). Throws InvalidArgument for classes without state to
  // learn.
  virtual void adapt(const Structure& data);
  virtual void adapt(const data::Dataset& batches);

  // Freezes the kernel and adds trainable matrices of low rank to it; see lora.h. The layer has to be built, and a
  // model to be compiled after it. Throws InvalidArgument for classes other than Dense, EinsumDense, Embedding,
  // ReversibleEmbedding, Conv1D, Conv2D and Conv3D.
  virtual void enable_lora(const LoraOptions& options);
  // Replaces the kernel by integers, whose products with the inputs are those of Keras. The layer has to be built and
  // not quantized yet (FailedPrecondition), and to be a Dense, EinsumDense, Embedding or ReversibleEmbedding
  // (Unimplemented).
  void quantize(const quantizers::QuantizationConfig& config);
  virtual bool can_be_quantized() const { return false; }

  // ---- calling ----
  template <typename = void>
  Structure operator()(const Structure& inputs, const CallOptions& options = {}) {
    return call_given(inputs, options);
  }
  // All arguments by name: attention({.query = x, .value = x}).
  Structure operator()(const CallOptions& options) { return call_with({}, options); }
  // Arguments by position, as in Python: attention(query, value), lstm(x, initial_state).
  template <PositionalArgument T>
  Structure operator()(const Structure& first, const T& second, const CallOptions& options = {}) {
    return call_with({first, Structure(second)}, options);
  }
  template <PositionalArgument T, PositionalArgument U>
  Structure operator()(const Structure& first, const T& second, const U& third, const CallOptions& options = {}) {
    return call_with({first, Structure(second), Structure(third)}, options);
  }
  Structure call_given(const Structure& inputs, const CallOptions& options);
  Structure call_with(const std::vector<Structure>& arguments, const CallOptions& options);
  Structure invoke(CallArguments arguments, std::optional<bool> training = std::nullopt);
  Structure run(const CallArguments& arguments, std::optional<bool> training) override;
  // The symbolic tensors of the first call: layer.input and layer.output of Keras. Throw FailedPrecondition when the
  // layer was not called on symbolic tensors.
  Structure input();
  Structure output();
  // The outputs' dtypes and shapes, without computing and without a node.
  Nested<TensorInfo> compute_output_spec(const CallArguments& arguments);
  // A class may override it, for callers of its own; models find the shapes by call().
  virtual Nested<Shape> compute_output_shape(const Nested<Shape>& shapes);
  // The layer this call runs in resolved `training` from; see keras's call context.
  static bool current_training();

  // ---- state ----
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable);  // sublayers too
  const DTypePolicy& dtype_policy() const { return policy_; }
  DType compute_dtype() const { return policy_.compute_dtype(); }
  bool built() const { return built_; }
  void set_built() { built_ = true; }
  bool built_in_constructor() const { return built_in_constructor_; }
  const std::optional<Nested<Shape>>& build_shapes() const { return build_shapes_; }
  // Builds once for inputs of these shapes, variables named within this layer's scope.
  void ensure_built(const Nested<Shape>& shapes);

  // This layer's own variables in creation order, without sublayers'.
  const std::vector<Weight>& own_weights() const { return own_weights_; }
  // In the order of Keras's files: trainable by creation, then the others.
  virtual std::vector<VariablePtr> own_variables() const;
  virtual OwnState own_state() const;
  // The values of this layer, without its sublayers, in .keras and .weights.h5 files; a class may override both. By
  // default those of own_state(), named "0", "1", ….
  virtual void save_own_variables(VariableStore& store) const;
  virtual void load_own_variables(const VariableStore& store);
  // Files of this layer in .keras archives: a class writes them into the folder, and reads them there after its
  // variables have been loaded.
  virtual void save_assets(const std::string& directory);
  virtual void load_assets(const std::string& directory);
  // Attributes that hold layers, by name in order of announcement; without a name those that were replaced.
  const std::vector<std::pair<std::string, LayerTree>>& children() const { return children_; }
  // Sublayers, flat and each once. Of a model: its layers.
  virtual std::vector<LayerPtr> sublayers() const;
  // This layer and all below, each once.
  std::vector<Layer*> flatten_layers();

  // As Keras orders them: per layer trainable by creation, then non-trainable, then sublayers.
  std::vector<VariablePtr> weights() const;
  std::vector<VariablePtr> variables() const;  // weights and random states
  std::vector<VariablePtr> trainable_weights() const;
  std::vector<VariablePtr> non_trainable_weights() const;
  std::vector<VariablePtr> non_trainable_variables() const;  // with random states
  // The statistics of a Normalization layer; of others the variables of these names.
  virtual Tensor mean() const { return weight("mean"); }
  virtual Tensor variance() const { return weight("variance"); }
  // The variable of that name: this layer's own, or the only one below it. Throws NotFound, naming those that exist,
  // and FailedPrecondition for a layer that has not been built.
  VariablePtr weight(std::string_view name) const;
  VariablePtr kernel() const { return weight("kernel"); }
  VariablePtr bias() const { return weight("bias"); }
  std::vector<Tensor> get_weights() const;
  // Throws InvalidArgument when the number or a shape differs; nothing is changed then.
  void set_weights(const std::vector<Tensor>& values);
  std::int64_t count_params() const;
  const std::vector<random::SeedGeneratorPtr>& seed_generators() const { return seed_generators_; }
  // The constraint of a variable of this layer or below; null when it has none.
  constraints::ConstraintPtr constraint_of(const distribute::VariableImpl* variable) const;
  regularizers::RegularizerPtr regularizer_of(const distribute::VariableImpl* variable) const;

  // ---- losses ----
  // A term of the training loss, to be called inside call().
  void add_loss(const Tensor& loss);
  // add_loss terms and activity penalties of the last call on this thread, then weight penalties. A call that is not
  // made by another layer's call() clears those of the layer and of its sublayers first.
  std::vector<Tensor> losses();
  // Clears the terms of earlier calls.
  void clear_losses();

  // The mask of the outputs for inputs with this mask, as compute_mask() of Keras's layers: embedding.compute_mask(x).
  Structure compute_mask(const Structure& inputs, const Structure& mask = {});

  // Metrics in attributes of the layer, by name in order of announcement. call() updates them; the model that is
  // trained resets and reports them with its own.
  const std::vector<std::pair<std::string, metrics::MetricPtr>>& own_metrics() const { return own_metrics_; }
  void track_metric(const std::string& attribute, metrics::MetricPtr metric);
  // Optimizers in attributes of the layer, likewise. As in Keras they are saved with the weights, under the attribute's
  // name, and loaded where they have as many variables: build() them before.
  const std::vector<std::pair<std::string, std::shared_ptr<optimizers::Optimizer>>>& own_optimizers() const {
    return own_optimizers_;
  }
  void track_optimizer(const std::string& attribute, std::shared_ptr<optimizers::Optimizer> optimizer);

  // As track(), for several layers in one attribute.
  void track_tree(const std::string& attribute, LayerTree layers);

  // The constructor's argument; of unknown rank if it was not given.
  const Shape& input_shape() const { return input_shape_; }
  // Makes another object as make_layer() made this one; empty where the layer was made otherwise, or from a layer or a
  // model. clone_model() uses it for classes that are not registered.
  const std::function<LayerHandle()>& maker() const { return maker_; }
  void set_maker(std::function<LayerHandle()> maker) { maker_ = std::move(maker); }
  const regularizers::RegularizerPtr& activity_regularizer() const { return activity_regularizer_; }

  // Public for classes with `using Layer::Layer;`. `class_name` names the class in files and, in snake case, its
  // objects; by default the name of the C++ class. (A template, because GCC would take the options in braces for the
  // arguments of a string.)
  Layer() = default;
  explicit Layer(Options options) : Layer(std::string(), std::move(options)) {}
  template <std::convertible_to<std::string> Name>
  explicit Layer(const Name& class_name, Options options = {}) {
    configure(class_name, std::move(options));
  }

 protected:
  VariablePtr add_weight(WeightOptions options);
  void remove_weight(const VariablePtr& variable);
  // The part of quantize() that a class does: it replaces the variables.
  virtual void quantize_weights(const quantizers::QuantizationConfig&) {}
  // Takes a variable that exists already as one of this layer's own.
  void adopt_weight(VariablePtr variable, bool trainable);
  // The variable's value as call() uses it: cast to the compute dtype where autocast is on.
  Tensor value(const VariablePtr& variable) const;
  // Announces a sublayer (or several) under an attribute name, which decides where it is saved. As in Keras 3, the
  // layers that another call announced under that name stay sublayers, which are trained; files have them only as
  // `layers` of a model. Layers of a loop are announced at once, as a vector.
  template <std::derived_from<Layer> L>
  std::shared_ptr<L> track(const std::string& attribute, std::shared_ptr<L> layer) {
    track_tree(attribute, LayerTree(LayerPtr(layer)));
    return layer;
  }
  template <typename L>
  CustomLayer<L> track(const std::string& attribute, const CustomLayer<L>& layer) {
    track_tree(attribute, LayerTree(LayerHandle(layer)));
    return layer;
  }
  LayerHandle track(const std::string& attribute, const LayerHandle& layer) {
    track_tree(attribute, LayerTree(layer));
    return layer;
  }
  // A model as a sublayer; a class's own functions are kept with it.
  template <typename M>
  requires std::is_convertible_v<const M&, LayerHandle> &&(!std::is_base_of_v<std::shared_ptr<Layer>, M>)M
      track(const std::string& attribute, const M& model) {
    track_tree(attribute, LayerTree(LayerHandle(model)));
    return model;
  }
  // Several layers or models in one attribute.
  template <std::convertible_to<LayerHandle> L>
  std::vector<L> track(const std::string& attribute, const std::vector<L>& layers) {
    LayerTree::List parts;
    for (const L& layer : layers) parts.push_back(LayerHandle(layer));
    track_tree(attribute, LayerTree::list(std::move(parts)));
    return layers;
  }
  // A keras.Variable that becomes a weight of the layer, as in an attribute in Python.
  Variable track(const std::string& attribute, const Variable& variable) {
    static_cast<void>(attribute);
    adopt_weight(variable, variable.trainable());
    return variable;
  }
  // A metric that call() updates: see own_metrics().
  metrics::MetricPtr track(const std::string& attribute, const metrics::MetricPtr& metric) {
    track_metric(attribute, metric);
    return metric;
  }
  template <std::derived_from<metrics::Metric> M>
  std::shared_ptr<M> track(const std::string& attribute, std::shared_ptr<M> metric) {
    track_metric(attribute, metric);
    return metric;
  }
  // An optimizer, which is saved with the weights: see own_optimizers().
  template <typename O>
  requires std::is_base_of_v<optimizers::Optimizer, typename O::element_type> O track(const std::string& attribute,
                                                                                      const O& optimizer) {
    track_optimizer(attribute, optimizer);
    return optimizer;
  }
  // A generator of a class that draws random numbers, as in an attribute in Python: its state is among variables().
  random::SeedGenerator track(const std::string& attribute, const random::SeedGenerator& generator) {
    static_cast<void>(attribute);
    track(std::make_shared<random::SeedGenerator>(generator));
    return generator;
  }
  // Makes and announces the generator of a layer that draws random numbers.
  random::SeedGeneratorPtr add_seed_generator(std::optional<std::int64_t> seed);
  random::SeedGeneratorPtr track(random::SeedGeneratorPtr generator);
  void set_built_in_constructor() { built_ = built_in_constructor_ = true; }
  void set_unbuilt() {
    built_ = false;
    build_shapes_.reset();
  }

 private:
  void configure(std::string class_name, Options options);
  virtual void trainable_changed() {}
  friend class BuiltInLayer;
  friend LayerPtr deserialize_layer(const Json& object);
  friend LayerPtr remade_layer(const Layer& layer);
  friend struct BuildAccess;
  // Sets the keys of Layer::get_config().
  void set_base_config(const Json& config);
  void require_called(const char* what) const;
  void bind_arguments(CallArguments& arguments) const;
  bool given_by_position(const CallArguments& arguments, std::string_view parameter) const;
  Structure first_arguments(const CallArguments& arguments) const;
  CallArguments cast_arguments(const CallArguments& arguments) const;
  void fill_masks(CallArguments& arguments) const;
  Structure previous_mask(const CallArguments& arguments, const Structure& inputs) const;
  void check_inputs(const Structure& inputs) const;
  CallContext make_context(const CallArguments& arguments, const Structure& inputs, bool training) const;
  Structure call_symbolically(const CallArguments& full, CallArguments given, const Structure& inputs);
  Structure call_now(const CallArguments& arguments, const Structure& inputs, bool training);
  void attach_masks(const Structure& inputs, const Structure& mask, const Structure& outputs);
  void add_activity_losses(const Structure& outputs);
  void collect_weights(std::vector<VariablePtr>& out, bool with_seeds, std::vector<const Layer*>& seen) const;

  std::string class_name_;
  std::function<LayerHandle()> maker_;
  bool trainable_ = true;
  DTypePolicy policy_;
  Shape input_shape_ = Shape::unknown_rank();
  regularizers::RegularizerPtr activity_regularizer_;
  bool built_ = false;
  bool built_in_constructor_ = false;
  std::optional<Nested<Shape>> build_shapes_;
  std::vector<Weight> own_weights_;
  std::vector<std::pair<std::string, LayerTree>> children_;
  std::vector<std::pair<std::string, metrics::MetricPtr>> own_metrics_;
  std::vector<std::pair<std::string, std::shared_ptr<optimizers::Optimizer>>> own_optimizers_;
  std::vector<random::SeedGeneratorPtr> seed_generators_;
  std::shared_ptr<BuildObservers> build_observers_;
};

// Shapes as JSON: null for an unknown entry. The readers throw InvalidArgument, naming `what`.
Json shape_to_json(const Shape& shape);
Json shapes_to_json(const Nested<Shape>& shapes);
Shape shape_from_json(const Json& json, std::string_view what);
Nested<Shape> shapes_from_json(const Json& json, std::string_view what);

// A layer whose class is known: -> reaches the members of L.
template <typename L>
class CustomLayer : public LayerHandle {
 public:
  CustomLayer() = default;
  explicit CustomLayer(std::shared_ptr<L> layer) : LayerHandle(std::move(layer)) {}
  L* operator->() const { return static_cast<L*>(LayerHandle::operator->()); }
  L& operator*() const { return static_cast<L&>(LayerHandle::operator*()); }
  operator std::shared_ptr<L>() const { return std::static_pointer_cast<L>(*this); }
};

// A layer that was found in a model: model.layers()[0].as<MyLayer>()->vocabulary.
template <typename L>
CustomLayer<L> LayerHandle::as() const {
  auto layer = std::dynamic_pointer_cast<L>(static_cast<const LayerPtr&>(*this));
  if (!layer) throw_other_class(typeid(L));
  return CustomLayer<L>(std::move(layer));
}

// A user-defined layer class: make_layer<MyLayer>(args…).
template <typename L, typename... Args>
CustomLayer<L> make_layer(Args&&... args) {
  static_assert(
      std::is_base_of_v<Layer, L>,
      "make_layer<L>: L must derive from keras::Layer; an object of a class that derives from keras::Model is "
      "made by its constructor or by keras::make_model<M>(...), and is a layer too");
  std::function<LayerHandle()> maker;
  if constexpr (((std::is_copy_constructible_v<std::decay_t<Args>> &&
                  !std::is_convertible_v<const std::decay_t<Args>&, LayerHandle>)&&...)) {
    maker = [copies = std::make_tuple(args...)] {
      return std::apply([](const auto&... copy) { return LayerHandle(std::make_shared<L>(copy...)); }, copies);
    };
  }
  CustomLayer<L> layer(std::make_shared<L>(std::forward<Args>(args)...));
  layer->set_maker(std::move(maker));
  static_cast<void>(layer->name());  // numbered in the order of construction
  return layer;
}

// Variables made while an object of it exists are named "outer/inner/kernel".
class NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  static std::string current();  // "" or "outer/inner"

 private:
  std::size_t previous_;
};

// While an object of it exists, this thread builds layers whose values are about to be read from a file: variables
// start at zero instead of running their initializers, and together they may not hold more than
// `max_bytes` (ResourceExhausted otherwise), so that no number in a config can exhaust the memory.
class LoadScope {
 public:
  explicit LoadScope(std::int64_t max_bytes);
  ~LoadScope();
  LoadScope(const LoadScope&) = delete;
  LoadScope& operator=(const LoadScope&) = delete;
  static LoadScope* current();
  void take(std::int64_t bytes, const std::string& what);

 private:
  std::int64_t left_;
  LoadScope* previous_;
  distribute::ScopedOwnInitialValues own_values_;
};

}  // namespace lockstep::keras

extern template class lockstep::Nested<lockstep::keras::LayerPtr>;
