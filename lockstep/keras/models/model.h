// keras.Model and keras.Sequential as users hold them.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "lockstep/base/list.h"
#include "lockstep/base/text_arg.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/models/model_options.h"
#include "lockstep/keras/trainer/predictions.h"
#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::keras {

// A model: copies are the same model. Made from symbolic tensors,
//
//   auto x = layers::Input({28, 28, 1});
//   auto y = layers::Dense(10)(layers::Flatten()(x));
//   keras::Model model(x, y);
//
// or by deriving from it:
//
//   class Classifier : public keras::Model {
//    public:
//     Structure call(const Structure& x) override { return out(hidden(x)); }
//     keras::LayerHandle hidden = track("hidden", layers::Dense(64)), out = track("out", layers::Dense(10));
//   };
//
// A class may also derive from a functional model, to override its training step:
//
//   class CustomModel : public keras::Model {
//    public:
//     using Model::Model;
//     Results train_step(const Batch& batch) override { ... }
//   };
//   CustomModel model(x, y);
//
// Copies share layers, weights and training state. Overrides of a derived class are taken from the copy that was used
// last. An object of the derived class must exist while the model is used.
class Model {
 public:
  using KerasFamily = Layer;
  // For register_keras_serializable(): the layer behind the model, which keeps the model.
  static LayerPtr share(std::shared_ptr<Model> model);

  // Empty: using it throws FailedPrecondition. An object of a derived class that gives no name is a model of the
  // class's name.
  Model() = default;
  // A functional model. Errors: see FunctionalImpl.
  Model(const Structure& inputs, const Structure& outputs, const ModelOptions& options = {});
  // A template, because GCC would take {.name = "encoder"} for a string.
  template <std::convertible_to<std::string> Name>
  Model(const Structure& inputs, const Structure& outputs, const Name& name)
      : Model(inputs, outputs, ModelOptions{.name = name}) {}
  explicit Model(const ModelArguments& arguments) : Model(made_from(arguments)) {}
  explicit Model(ModelPtr impl);
  // The model that a layer is: Model(model.get_layer("encoder")). Throws InvalidArgument for other layers.
  template <std::derived_from<LayerHandle> L>
  explicit Model(const L& layer) : Model(behind(layer)) {}
  Model(const Model& other);
  Model& operator=(const Model& other);
  virtual ~Model();

  // ---- for derived classes ----
  // The computation of a subclassed model; a class overrides one of the two.
  // call(self, inputs) of Python. As in Keras 3, the steps of fit() call such a model without `training`: its Dropout
  // and BatchNormalization layers infer. Those of a model that is called with it, model(x, {.training = true}), inherit
  // it.
  virtual Structure call(const Structure& inputs);
  // call(self, inputs, training=None, mask=None): both are in `context`, and layers that the model calls inherit
  // `training`.
  virtual Structure call(const Structure& inputs, const CallContext& context);
  // Names of call()'s leading arguments. With several, `inputs` of call() are their list: encoder(x, hidden).
  virtual std::vector<std::string> argument_names() const { return {"inputs"}; }
  // Called for a model without layers that were built already; a class may override it. Of a model that has not been
  // built, the same as build_for().
  virtual void build(const Nested<Shape>& shapes);
  // The constructor's arguments, for classes registered with register_keras_serializable(); by default those that all
  // models have.
  virtual Json get_config() const;

  // A functional model from the result of get_config(). Throws as load_model does.
  static Model from_config(const Json& config);
  // The architecture, and the arguments of compile() where there are, as Keras writes them; keras::model_from_json()
  // reads it.
  std::string to_json() const;

  Structure operator()(const Structure& inputs, const CallOptions& options = {}) const;
  // Numbers or strings in braces are a tensor: model({{0.5, -1.0}}).
  Structure operator()(std::initializer_list<Values> values, const CallOptions& options = {}) const {
    return (*this)(Tensor(values), options);
  }
  // A string is a tensor too.
  template <std::convertible_to<std::string> Text>
  Structure operator()(const Text& text, const CallOptions& options = {}) const {
    return (*this)(Tensor::strings({std::string(text)}, {}), options);
  }
  // Arguments of call() by position.
  template <PositionalArgument T>
  Structure operator()(const Structure& first, const T& second, const CallOptions& options = {}) const {
    return (*impl())(first, second, options);
  }
  template <PositionalArgument T, PositionalArgument U>
  Structure operator()(const Structure& first, const T& second, const U& third, const CallOptions& options = {}) const {
    return (*impl())(first, second, third, options);
  }

  // Whether it is a model: false for an empty one, as None is in Python.
  explicit operator bool() const { return impl_ != nullptr; }
  friend bool operator==(const Model& model, NoneType) { return !model; }

  std::string name() const;
  std::string class_name() const;  // "Sequential": model.__class__.__name__ in Python
  // The object of a user-defined class, for its members: load_model(path).as<Encoder>().sizes. It lives as long as the
  // model. Throws InvalidArgument for a model of another class.
  template <std::derived_from<Model> M>
  M& as() const {
    if (M* const found = dynamic_cast<M*>(own_object())) return *found;
    throw_other_class(typeid(M));
  }
  bool built() const;
  // Makes the variables for inputs of this shape (the batch included, kUnknownDim for None).
  void build_for(const Nested<Shape>& shapes) const;
  // Lists have Python's indices: layers()[-1] is the last one.
  List<LayerPtr> layers() const;
  // Throw NotFound, naming the nearest layer, and OutOfRange.
  // Templates, because GCC would take {.index = 0} for a string.
  template <std::convertible_to<std::string> Name>
  LayerPtr get_layer(const Name& name) const {
    return layer_named(name);
  }
  LayerPtr get_layer(int index) const;
  LayerPtr get_layer(const GetLayerArguments& o) const { return o.index ? get_layer(*o.index) : layer_named(o.name); }
  // A layer of the custom class L; -> accesses its members. Throws InvalidArgument for a layer of another class.
  template <std::derived_from<Layer> L, typename NameOrIndex>
  CustomLayer<L> get_layer(const NameOrIndex& layer) const {
    return get_layer(layer).template as<L>();
  }
  template <std::derived_from<Layer> L>
  CustomLayer<L> get_layer(const GetLayerArguments& o) const {
    return get_layer(o).template as<L>();
  }
  // Lists, also of one tensor; of subclassed models undefined.
  Structure inputs() const;
  Structure outputs() const;
  // In the structure in which they were given: of one tensor the tensor.
  Structure input() const;
  Structure output() const;
  Nested<Shape> input_shape() const;
  Nested<Shape> output_shape() const;
  Nested<Shape> compute_output_shape(const Nested<Shape>& input_shape) const;
  // The names of the layers of inputs and outputs, of functional models.
  List<std::string> input_names() const;
  List<std::string> output_names() const;
  DTypePolicy dtype_policy() const;
  DType compute_dtype() const;
  DType variable_dtype() const;
  DType dtype() const { return variable_dtype(); }
  List<VariablePtr> weights() const;
  List<VariablePtr> trainable_weights() const;
  List<VariablePtr> non_trainable_weights() const;
  // With the states of random layers, which are not weights.
  List<VariablePtr> variables() const;
  List<VariablePtr> trainable_variables() const { return trainable_weights(); }
  List<VariablePtr> non_trainable_variables() const;
  // add_loss terms and activity penalties of the last call on this thread, then weight penalties.
  List<Tensor> losses() const;
  // A term of the training loss, to be called inside call().
  void add_loss(const Tensor& loss) const;
  List<Tensor> get_weights() const;
  void set_weights(const std::vector<Tensor>& values) const;
  std::int64_t count_params() const;
  bool trainable() const;
  void set_trainable(bool trainable) const;
  // The shapes a subclassed model was first called with; empty before.
  std::optional<Nested<TensorInfo>> save_spec() const;

  // Quantizes all layers that can be (see Layer::quantize()): model.quantize("int8"). Compile it after that. Throws
  // FailedPrecondition for a layer that has not been built or is quantized already.
  void quantize(const quantizers::QuantizationConfig& config, const QuantizeOptions& options = {}) const;

  // Keras's table, and the same on standard output.
  std::string summary_text(const SummaryOptions& options = {}) const;
  void summary(const SummaryOptions& options = {}) const;

  // ---- saving; see saving/keras_saving.h for formats and errors ----
  void save(const TextArg& path, bool overwrite = true) const;
  void save(const TextArg& path, const SaveOptions& options) const;
  void save(const SaveKeywords& o) const { save(o.filepath, {{}, o.overwrite, o.include_optimizer}); }
  void save_weights(const TextArg& path, bool overwrite = true) const;
  void save_weights(const TextArg& path, const OverwriteOptions& options) const {
    save_weights(path, options.overwrite);
  }
  void save_weights(const SaveWeightsKeywords& o) const { save_weights(o.filepath, o.overwrite); }
  void load_weights(const TextArg& path, bool skip_mismatch = false) const;
  void load_weights(const TextArg& path, const LoadWeightsOptions& options) const;
  void load_weights(const LoadWeightsKeywords& o) const { load_weights(o.filepath, {{}, o.skip_mismatch, o.by_name}); }
  // model.export(filepath), which is a keyword of C++: a SavedModel with the endpoint `serve`, which is the signature
  // "serving_default" too. See saving/keras_export.h.
  void export_(const TextArg& filepath, const ExportOptions& options = {}) const;

  // ---- training; see keras/trainer/trainer.h for their contracts and errors ----
  void compile(CompileOptions options = {}) const;
  // By position, as in Python: compile("adam", "mse", {.metrics = {"mae"}}).
  template <std::convertible_to<optimizers::OptimizerArg> O>
  void compile(O&& optimizer, CompileOptions options = {}) const {
    options.optimizer = std::forward<O>(optimizer);
    compile(std::move(options));
  }
  template <std::convertible_to<optimizers::OptimizerArg> O, std::convertible_to<LossTree> L = LossTree>
  void compile(O&& optimizer, const L& loss, CompileOptions options = {}) const {
    options.loss = loss;
    compile(std::forward<O>(optimizer), std::move(options));
  }
  bool compiled() const;
  History fit(const Structure& x, const Structure& y, FitOptions options) const;
  template <int = 0>  // as {.verbose = 0} would be targets
  History fit(const Structure& x, const Structure& y) const {
    return fit(x, y, FitOptions());
  }
  // Numbers or strings in braces are a tensor: fit(x, {{1.0}, {0.0}}, {.epochs = 2}),
  // fit({{0.5}, {2.0}}, {{1.0}, {0.0}}, {.epochs = 2}).
  History fit(const Structure& x, std::initializer_list<Values> y, FitOptions options) const {
    return fit(x, in_braces(y), std::move(options));
  }
  History fit(std::initializer_list<Values> x, const Structure& y, FitOptions options) const {
    return fit(in_braces(x), y, std::move(options));
  }
  History fit(std::initializer_list<Values> x, std::initializer_list<Values> y, FitOptions options) const {
    return fit(in_braces(x), in_braces(y), std::move(options));
  }
  History fit(const BatchedData& data, FitOptions options = {}) const;
  // Without targets: for models whose losses are their own.
  History fit(const Structure& x, FitOptions options) const { return fit(x, {}, std::move(options)); }
  // Templates, because GCC would take {.x = x, .y = y} for a list of tensors.
  template <std::convertible_to<Structure> X>
  History fit(const X& x) const {
    return fit(Structure(x), Structure());
  }
  History fit(FitOptions options) const {
    const Inputs x = std::move(options.x);
    const Structure y = std::move(options.y);
    return x.data() ? fit(*x.data(), std::move(options)) : fit(x, y, std::move(options));
  }
  // By position, as in Python: fit(x, y, 32, 5), evaluate(x, y, 128), predict(x, 128).
  template <std::integral Size>
  History fit(const Structure& x, const Structure& y, Size batch_size, FitOptions options = {}) const {
    options.batch_size = static_cast<std::int64_t>(batch_size);
    return fit(x, y, std::move(options));
  }
  template <std::integral Size, std::integral Epochs>
  History fit(const Structure& x, const Structure& y, Size batch_size, Epochs epochs, FitOptions options = {}) const {
    options.epochs = static_cast<int>(epochs);
    return fit(x, y, batch_size, std::move(options));
  }
  template <std::integral Size, std::integral Epochs>
  History fit(const Structure& x, const Structure& y, Size batch_size, Epochs epochs, Verbose verbose,
              FitOptions options = {}) const {
    options.verbose = verbose;
    return fit(x, y, batch_size, epochs, std::move(options));
  }
  template <std::integral Size>
  Results evaluate(const Structure& x, const Structure& y, Size batch_size, EvaluateOptions options = {}) const {
    options.batch_size = static_cast<std::int64_t>(batch_size);
    return evaluate(x, y, std::move(options));
  }
  template <std::integral Size>
  Results evaluate(const Structure& x, const Structure& y, Size batch_size, Verbose verbose,
                   EvaluateOptions options = {}) const {
    options.verbose = verbose;
    return evaluate(x, y, batch_size, std::move(options));
  }
  template <std::integral Size>
  Predictions predict(const Structure& x, Size batch_size, PredictOptions options = {}) const {
    options.batch_size = static_cast<std::int64_t>(batch_size);
    return predict(x, std::move(options));
  }
  template <std::integral Size>
  Predictions predict(const Structure& x, Size batch_size, Verbose verbose, PredictOptions options = {}) const {
    options.verbose = verbose;
    return predict(x, batch_size, std::move(options));
  }
  Results evaluate(const Structure& x, const Structure& y, EvaluateOptions options = {}) const;
  Results evaluate(const Structure& x, std::initializer_list<Values> y, EvaluateOptions options) const {
    return evaluate(x, in_braces(y), std::move(options));
  }
  Results evaluate(std::initializer_list<Values> x, const Structure& y, EvaluateOptions options) const {
    return evaluate(in_braces(x), y, std::move(options));
  }
  Results evaluate(std::initializer_list<Values> x, std::initializer_list<Values> y, EvaluateOptions options) const {
    return evaluate(in_braces(x), in_braces(y), std::move(options));
  }
  Results evaluate(const BatchedData& data, EvaluateOptions options = {}) const;
  Results evaluate(EvaluateOptions options) const {
    const Inputs x = std::move(options.x);
    const Structure y = std::move(options.y);
    return x.data() ? evaluate(*x.data(), std::move(options)) : evaluate(x, y, std::move(options));
  }
  Predictions predict(const Structure& x, PredictOptions options) const;
  template <std::convertible_to<Structure> X>
  Predictions predict(const X& x) const {
    return predict(Structure(x), PredictOptions());
  }
  // Numbers in braces are a tensor: model.predict({{0.5, -1.0}}).
  Predictions predict(std::initializer_list<Values> values, PredictOptions options = {}) const {
    return predict(Structure(Tensor(values)), std::move(options));
  }
  Predictions predict(PredictOptions options) const {
    const Inputs x = std::move(options.x);
    return x.data() ? predict(*x.data(), std::move(options)) : predict(x, std::move(options));
  }
  Predictions predict(const BatchedData& data, PredictOptions options = {}) const;
  Results train_on_batch(const Structure& x, const Structure& y, const BatchOptions& options) const;
  Results test_on_batch(const Structure& x, const Structure& y, const BatchOptions& options) const;
  template <int = 0>
  Results train_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight = {},
                         const std::map<std::int64_t, double>& class_weight = {}) const {
    return train_on_batch(x, y, BatchOptions{{}, sample_weight, class_weight});
  }
  template <int = 0>
  Results test_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight = {}) const {
    return test_on_batch(x, y, BatchOptions{{}, sample_weight});
  }
  Predictions predict_on_batch(const Structure& x) const;
  const optimizers::OptimizerPtr optimizer() const;  // const, so that an assignment to it does not compile
  Trainer& trainer() const;
  // model.stop_training = true, as in Keras: fit ends after the batch at hand, or after the epoch where no batch is.
  class StopTraining {
   public:
    explicit StopTraining(const Model* model) : model_(model) {}
    StopTraining(const StopTraining&) = default;
    StopTraining& operator=(bool stop);
    StopTraining& operator=(const StopTraining& other) { return *this = static_cast<bool>(other); }
    operator bool() const;

   private:
    const Model* model_;
  };
  StopTraining stop_training{this};
  // The steps of fit, evaluate and predict, and the loss and the metrics of these, which derived classes may override.
  // As in Keras an override runs in each replica of each worker, with the replica's rows of the batch: it calls the
  // model under a GradientTape, applies gradients (the optimizer adds them up over the replicas), updates metrics and
  // returns their results. The results of the replicas are averaged for callbacks; where they have the names of
  // metrics(), an epoch ends with the results of these over all replicas. Called across replicas, the methods of Model
  // itself do the step of the whole batch under the model's strategy.
  virtual Results train_step(const Batch& batch);
  virtual Results test_step(const Batch& batch);
  virtual Structure predict_step(const Batch& batch);
  // The same of data as Keras gives them to steps: x, or a list of x and y, or of x, y and sample_weight:
  // const auto& [x, y] = data. A class overrides one of the two.
  virtual Results train_step(const Structure& data);
  virtual Results test_step(const Structure& data);
  virtual Structure predict_step(const Structure& data);
  Results train_step(std::initializer_list<Structure> data) { return train_step(Structure(data)); }
  Results test_step(std::initializer_list<Structure> data) { return test_step(Structure(data)); }
  Structure predict_step(std::initializer_list<Structure> data) { return predict_step(Structure(data)); }
  // Metrics that fit resets before each epoch and evaluate before it begins: those of compile, then those in attributes
  // of the model and of its layers, unless overridden.
  virtual std::vector<metrics::MetricPtr> metrics() const;
  // "loss", "compile_metrics", those of outputs ("a_loss", after the first batch), those of layers.
  List<std::string> metrics_names() const;
  // The names and results of metrics(), for custom steps; none before compile().
  Results get_metrics_result() const;
  void reset_metrics() const;
  // The arguments of compile as files contain them; an empty object before it.
  // A class may override both.
  virtual Json get_compile_config() const;
  virtual void compile_from_config(const Json& config);
  // self.loss(y, y_pred) of custom steps: the loss that compile() was given. Throws FailedPrecondition where it was
  // given none, or several.
  Tensor loss(const Tensor& y, const Tensor& y_pred, const Tensor& sample_weight = {}) const;
  // The compiled losses and the model's own; in a replica its share of them, so that replicas' losses add up.
  virtual Tensor compute_loss(const Structure& x, const Structure& y, const Structure& y_pred,
                              const Structure& sample_weight = {}) const;
  // By name: compute_loss({.y = y, .y_pred = y_pred}).
  Tensor compute_loss(const LossArguments& arguments) const {
    return compute_loss(arguments.x, arguments.y, arguments.y_pred, arguments.sample_weight);
  }
  // Deprecated in Keras: compiled_loss(y, y_pred) is compute_loss(), and compiled_metrics().update_state(y, y_pred)
  // updates all of metrics(), a Mean such as that of the loss by y_pred.
  class CompiledMetrics {
   public:
    void update_state(const Structure& y, const Structure& y_pred, const Structure& sample_weight = {}) const;

   private:
    friend class Model;
    explicit CompiledMetrics(const Model& model) : model_(model) {}
    const Model& model_;
  };
  CompiledMetrics compiled_metrics() const { return CompiledMetrics(*this); }
  Tensor compiled_loss(const Structure& y, const Structure& y_pred, const Structure& sample_weight = {}) const {
    return compute_loss({}, y, y_pred, sample_weight);
  }
  // Updates the metrics of compile and returns the results, "loss" first.
  virtual Results compute_metrics(const Structure& x, const Structure& y, const Structure& y_pred,
                                  const Structure& sample_weight = {}) const;
  // By name: compute_metrics({.y = y, .y_pred = y_pred}).
  Results compute_metrics(const LossArguments& arguments) const {
    return compute_metrics(arguments.x, arguments.y, arguments.y_pred, arguments.sample_weight);
  }

  // The shared implementation, which is a layer: a model is called inside other models through it.
  const ModelPtr& impl() const;
  operator LayerPtr() const { return impl(); }

 protected:
  // For derived classes with another name in files than in C++.
  template <std::convertible_to<std::string> Name>
  explicit Model(const Name& class_name, Layer::Options options = {})
      : Model(subclassed(class_name, std::move(options))) {}
  // A template, so that {.name = "mine"} is ModelArguments.
  template <std::same_as<Layer::Options> Options>
  explicit Model(const Options& options) : Model(subclassed({}, options)) {}
  LayerHandle track(const std::string& attribute, LayerHandle layer);
  // A keras.Variable that becomes a weight of the model, as in an attribute in Python.
  Variable track(const std::string& attribute, const Variable& variable);
  random::SeedGenerator track(const std::string& attribute, const random::SeedGenerator& generator);
  // A metric that is reset and reported with those of compile().
  metrics::MetricPtr track(const std::string& attribute, const metrics::MetricPtr& metric);
  template <std::derived_from<metrics::Metric> M>
  std::shared_ptr<M> track(const std::string& attribute, std::shared_ptr<M> metric) {
    track(attribute, metrics::MetricPtr(metric));
    return metric;
  }
  // An optimizer, which is saved with the weights: see Layer::own_optimizers().
  template <typename O>
  requires std::is_base_of_v<optimizers::Optimizer, typename O::element_type> O track(const std::string& attribute,
                                                                                      const O& optimizer) {
    track_optimizer(attribute, optimizer);
    return optimizer;
  }
  void track_optimizer(const std::string& attribute, std::shared_ptr<optimizers::Optimizer> optimizer);
  Variable add_weight(WeightOptions options);
  template <typename L>
  CustomLayer<L> track(const std::string& attribute, const CustomLayer<L>& layer) {
    track(attribute, LayerHandle(layer));
    return layer;
  }
  template <std::derived_from<LayerHandle> H>
  std::vector<H> track(const std::string& attribute, const std::vector<H>& layers) {
    track(attribute, LayerTree::list({layers.begin(), layers.end()}));
    return layers;
  }
  template <std::derived_from<Model> M>
  M track(const std::string& attribute, const M& model) {
    track(attribute, LayerHandle(model.impl()));
    return model;
  }
  // Several layers in one attribute.
  LayerTree track(const std::string& attribute, LayerTree layers);
  template <std::derived_from<Model> M>
  std::vector<M> track(const std::string& attribute, const std::vector<M>& models) {
    LayerTree::List parts;
    for (const M& model : models) parts.push_back(LayerHandle(model.impl()));
    track(attribute, LayerTree::list(std::move(parts)));
    return models;
  }
  // A layer of a user-defined class, or several of them.
  template <std::derived_from<Layer> L>
  std::shared_ptr<L> track(const std::string& attribute, const std::shared_ptr<L>& layer) {
    track(attribute, LayerHandle(layer));
    return layer;
  }
  template <std::derived_from<Layer> L>
  std::vector<std::shared_ptr<L>> track(const std::string& attribute, const std::vector<std::shared_ptr<L>>& layers) {
    track(attribute, LayerTree::list({layers.begin(), layers.end()}));
    return layers;
  }

  mutable ModelPtr impl_;

 private:
  Model* own_object() const;
  [[noreturn]] void throw_other_class(std::type_index wanted) const;
  // The tensor of values in braces; of none, nothing.
  static Structure in_braces(std::initializer_list<Values> values) {
    return values.size() == 0 ? Structure() : Structure(Tensor(values));
  }
  static ModelPtr behind(const LayerHandle& layer);
  LayerPtr layer_named(const std::string& name) const;
  // Throws FailedPrecondition for a functional model.
  SubclassedImpl& with_attributes(const std::string& attribute) const;
  // The implementation, which an object of a derived class gets when it is first used or copied.
  const ModelPtr& made() const;
  static ModelPtr made_from(const ModelArguments& arguments);
  static ModelPtr subclassed(std::string class_name, Layer::Options options);
};

// The layers of a Sequential.
class SequentialItem {
 public:
  SequentialItem(LayerHandle layer) : layer_(std::move(layer)) {}
  template <std::derived_from<Layer> L>
  SequentialItem(std::shared_ptr<L> layer) : layer_(std::move(layer)) {}
  // Explains that layers cannot be moved: see Handle.
  template <typename L>
  requires std::derived_from<std::remove_cvref_t<L>, Layer> SequentialItem(L&& layer)
      : SequentialItem(LayerHandle(std::forward<L>(layer))) {}
  SequentialItem(const Model& model) : layer_(model.impl()) {}
  // A tensor of layers::Input.
  SequentialItem(const Tensor& input);
  const LayerPtr& layer() const { return layer_; }

 private:
  LayerPtr layer_;
};

struct SequentialArguments {
  FieldNamesOnly names_only = {};
  std::string name = {};
};

// A stack of layers:
//   keras::Sequential model({layers::Input({4}), layers::Dense(8, {.activation = "relu"}), layers::Dense(1)});
class Sequential : public Model {
 public:
  // Layers are added later, or another one is assigned: it takes its name when it is used first.
  Sequential() : Model(ModelPtr()) {}
  // Layers are added later: Sequential({.name = "stack"}).
  explicit Sequential(const SequentialArguments& o)
      : Sequential(std::vector<SequentialItem>{}, ModelOptions{.name = o.name}) {}
  Sequential(std::initializer_list<SequentialItem> layers, const ModelOptions& options = {})
      : Sequential(std::vector<SequentialItem>(layers), options) {}
  explicit Sequential(const std::vector<SequentialItem>& layers, const ModelOptions& options = {});
  // Of vectors of layers.
  template <std::convertible_to<SequentialItem> L>
  explicit Sequential(const std::vector<L>& layers, const ModelOptions& options = {})
      : Sequential(std::vector<SequentialItem>(layers.begin(), layers.end()), options) {}
  template <std::convertible_to<std::string> Name>
  Sequential(std::initializer_list<SequentialItem> layers, const Name& name)
      : Sequential(layers, ModelOptions{.name = name}) {}
  template <std::convertible_to<SequentialItem> L, std::convertible_to<std::string> Name>
  Sequential(const std::vector<L>& layers, const Name& name) : Sequential(layers, ModelOptions{.name = name}) {}

  void add(const SequentialItem& item) const;
  void pop() const;
  static Sequential from_config(const Json& config);

 private:
  explicit Sequential(std::shared_ptr<SequentialImpl> impl);
};

struct CloneOptions {
  // Makes the layer that stands for a layer of the model; default: from its config, with new weights.
  std::function<LayerHandle(const LayerHandle& layer)> clone_function = {};
};
// keras.models.clone_model: the same architecture with new layers and new weights. Throws InvalidArgument for a
// clone_function of a subclassed model, Errors as for models from files where a config cannot be read again.
Model clone_model(const Model& model, const CloneOptions& options = {});

// A model of an impl that came out of a registry or a file.
Model as_model(const LayerPtr& layer);

// A model of a class derived from Model, whose object lives as long as the model or a model that has it as a part:
//   const keras::Model forest = keras::make_model<DecisionForest>(10);
//   return keras::Model(inputs, forest(inputs));
template <std::derived_from<Model> M, typename... Arguments>
Model make_model(Arguments&&... arguments) {
  return as_model(Model::share(std::make_shared<M>(std::forward<Arguments>(arguments)...)));
}

// <Sequential name=sequential, built=True>.
std::ostream& operator<<(std::ostream& out, const Model& model);

}  // namespace lockstep::keras
