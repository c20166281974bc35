// Classes that derive from Keras's own, registered functions, and what a class saves of itself.
#include "guide.h"

#include <algorithm>
#include <memory>

#include <lockstep/bases.h>

namespace {

namespace keras = ls::keras;
namespace kops = ls::keras::ops;
using ls::Tensor;

Tensor squared(const Tensor& x) { return kops::square(x); }
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(squared, "Guides")

Tensor absolute_error(const Tensor& y_true, const Tensor& y_pred) {
  return kops::mean(kops::abs(y_true - y_pred), {.axis = -1});
}
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(absolute_error, "Guides")

class Wrapper : public keras::layers::Layer {
 public:
  explicit Wrapper(const keras::LayerHandle& sublayer, const std::string& name = {})
      : Layer({.name = name}), sublayer(track("sublayer", sublayer)) {}

  keras::Structure call(const keras::Structure& x) override { return sublayer(x); }

  ls::Json get_config() const override {
    auto config = Layer::get_config();
    config.update({{"sublayer", keras::saving::serialize_keras_object(sublayer)}});
    return config;
  }

  static std::unique_ptr<Wrapper> from_config(ls::Json config) {
    const keras::LayerHandle sublayer = keras::saving::deserialize_keras_object(config.pop("sublayer"));
    return std::make_unique<Wrapper>(sublayer);
  }

  keras::LayerHandle sublayer;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Wrapper, "Guides")

class DenseWithOffset : public keras::layers::Dense {
 public:
  explicit DenseWithOffset(std::int64_t units)
      : Dense(units), offset(track("offset", keras::Variable(waves({units}, 0.7), {.name = "offset"}))) {}
  explicit DenseWithOffset(const ls::Json& config) : DenseWithOffset(config.at("units").get<std::int64_t>()) {}

  void save_own_variables(keras::VariableStore& store) const override {
    Dense::save_own_variables(store);
    store["offset"] = offset.numpy();
  }

  void load_own_variables(const keras::VariableStore& store) override {
    offset.assign(store.at("offset"));
    kernel().assign(store.at("0"));
    bias().assign(store.at("1"));
  }

  keras::Structure call(const keras::Structure& inputs) override { return Dense::call(inputs) + offset; }

  keras::Variable offset;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(DenseWithOffset, "Guides")

class ScaledNormalization : public keras::layers::LayerNormalization {
 public:
  using LayerNormalization::LayerNormalization;

  void build(const keras::Nested<ls::Shape>& input_shape) override {
    LayerNormalization::build(input_shape);
    scale_of_all = add_weight({.shape = {input_shape[-1]}, .initializer = "ones", .name = "scale_of_all"});
  }

  keras::Structure call(const keras::Structure& inputs) override {
    return LayerNormalization::call(inputs) * scale_of_all;
  }

  keras::Variable scale_of_all;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(ScaledNormalization, "Guides")

class MCDropout : public keras::layers::Dropout {
 public:
  using Dropout::Dropout;
  keras::Structure call(const keras::Structure& inputs) override { return Dropout::call(inputs, {.training = true}); }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(MCDropout, "Guides")

class FrozenBatchNormalization : public keras::layers::BatchNormalization {
 public:
  using BatchNormalization::BatchNormalization;
  keras::Structure call(const keras::Structure& inputs, const keras::CallContext& context) override {
    return BatchNormalization::call(inputs, {.training = false, .mask = context.mask});
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(FrozenBatchNormalization, "Guides")

class BinaryTruePositives : public keras::metrics::Mean {
 public:
  using Mean::Mean;
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) override {
    const auto values =
        kops::cast(kops::greater(y_true, 0), "float32") * kops::cast(kops::greater(y_pred, 0.0), "float32");
    Mean::update_state(values, sample_weight);
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(BinaryTruePositives, "Guides")

class WeightedMSE : public keras::losses::MeanSquaredError {
 public:
  using MeanSquaredError::MeanSquaredError;
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override {
    return 3.0 * MeanSquaredError::call(y_true, y_pred);
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(WeightedMSE, "Guides")

class CosineWarmUp : public keras::optimizers::schedules::CosineDecay {
 public:
  using CosineDecay::CosineDecay;
  float operator()(std::int64_t step) const override {
    return CosineDecay::operator()(step) * std::min(1.0f, (static_cast<float>(step) + 1) / 5);
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(CosineWarmUp, "Guides")

class CentralizedAdam : public keras::optimizers::Adam {
 public:
  using Adam::Adam;
  void update_step(const Tensor& gradient, const ls::distribute::VariablePtr& variable,
                   const Tensor& learning_rate) override {
    Adam::update_step(gradient - kops::mean(gradient), variable, learning_rate);
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(CentralizedAdam, "Guides")

class HalvedL2 : public keras::regularizers::L2 {
 public:
  using L2::L2;
  Tensor operator()(const Tensor& x) const override { return L2::operator()(x) / 2; }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(HalvedL2, "Guides")

class SmallGlorot : public keras::initializers::GlorotUniform {
 public:
  using GlorotUniform::GlorotUniform;
  Tensor operator()(const ls::Shape& shape, ls::DType dtype) const override {
    return GlorotUniform::operator()(shape, dtype) * 0.5;
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(SmallGlorot, "Guides")

class Recorder : public keras::callbacks::EarlyStopping {
 public:
  using EarlyStopping::EarlyStopping;
  void on_epoch_end(int epoch, const keras::Logs& logs) override {
    EarlyStopping::on_epoch_end(epoch, logs);
    report("recorded", logs["loss"]);
  }
};

class Batches : public keras::callbacks::Callback {
 public:
  void on_batch_end(std::int64_t batch, const keras::Logs&) override { report("batch", static_cast<double>(batch)); }
};

class Factor : public keras::layers::Layer {
 public:
  explicit Factor(double factor = 1.0) : factor(factor) {}
  explicit Factor(const ls::Json& config) : Factor(config.at("factor").get<double>()) {}

  keras::Structure call(const keras::Structure& x) override { return x * factor; }

  ls::Json get_config() const override {
    auto config = Layer::get_config();
    config.update({{"factor", factor}});
    return config;
  }

  double factor;
};

Tensor bounded(const Tensor& x) { return kops::tanh(x); }

// In a custom train_step the metrics of compile({.metrics = ...}) are not weighted; those of weighted_metrics are.
class WeightedStep : public keras::Model {
 public:
  using Model::Model;

  keras::Results train_step(const keras::Batch& data) override {
    const auto& [x, y, sample_weight] = data;
    ls::GradientTape tape;
    const auto y_pred = (*this)(x, {.training = true});
    const auto loss = compute_loss(x, y, y_pred, sample_weight);
    const auto gradients = tape.gradient(loss, trainable_variables());
    optimizer().apply(gradients, trainable_variables());
    keras::Results results;
    for (const auto& metric : metrics()) {
      if (metric.name() == "loss")
        metric.update_state(loss);
      else
        metric.update_state(y, y_pred, sample_weight);
      results[metric.name()] = metric.result();
    }
    return results;
  }
};

void report_sorted(const std::string& name, const keras::History& history) {
  std::vector<std::string> keys;
  for (const auto& [key, values] : history.history) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  for (const auto& key : keys) {
    for (const double value : history[key]) report(name + " " + key, value);
  }
}

}  // namespace

void own_classes(const std::string& folder) {
  ls::utils::set_random_seed(21);
  const auto x = waves({32, 4}, 0.37), y = waves({32, 1}, 0.11);

  const auto inputs = keras::Input({4});
  auto h = keras::make_layer<Wrapper>(keras::layers::Dense(6, {.activation = squared}), "wrapper")(inputs);
  h = keras::make_layer<DenseWithOffset>(5)(h);
  h = keras::make_layer<MCDropout>(0.3, ls::layers::DropoutOptions{.seed = 3})(h);
  h = keras::make_layer<FrozenBatchNormalization>()(h);
  h = keras::make_layer<ScaledNormalization>()(h);
  h = keras::layers::Dense(
      5,
      {.activation = "tanh", .kernel_initializer = SmallGlorot({.seed = 5}), .kernel_regularizer = HalvedL2(0.01)})(h);
  keras::Model model(inputs, keras::layers::Dense(1)(h));
  report("weights", static_cast<double>(model.weights().size()));

  model.compile({.optimizer = std::make_shared<CentralizedAdam>(CosineWarmUp(0.01, 100)),
                 .loss = WeightedMSE(),
                 .metrics = {std::make_shared<BinaryTruePositives>(), absolute_error}});
  Recorder recorder({.monitor = "loss", .patience = 2});
  report_sorted("fit", model.fit({.x = x,
                                  .y = y,
                                  .batch_size = 16,
                                  .epochs = 3,
                                  .verbose = 0,
                                  .callbacks = {recorder, Batches()},
                                  .shuffle = false}));
  model.save(folder + "/model.keras");
  auto restored = keras::models::load_model(folder + "/model.keras");
  report_sorted("restored", restored.fit(x, y, {.batch_size = 16, .verbose = 0, .shuffle = false}));
  report("deviation", restored.predict(x, {.verbose = 0}).std());

  // Functions in files.
  model.compile({.optimizer = "sgd", .loss = absolute_error, .metrics = {"mae"}});
  report_sorted("function", model.fit(x, y, {.batch_size = 16, .verbose = 0, .shuffle = false}));
  model.save(folder + "/function.keras");
  for (const auto& [name, value] :
       keras::models::load_model(folder + "/function.keras").evaluate(x, y, {.verbose = 0, .return_dict = true})) {
    report("evaluated " + name, value);
  }

  // Classes and functions that are not registered.
  keras::Sequential small(
      {keras::Input({4}), keras::make_layer<Factor>(2.0), keras::layers::Dense(2, {.activation = bounded})});
  report("small", small.predict(x, {.verbose = 0}).sum());
  const keras::CustomObjects custom_objects = {{"Factor", keras::custom_object<Factor>()},
                                               {"bounded", keras::custom_object<bounded>()}};
  {
    const keras::saving::custom_object_scope scope(custom_objects);
    small.save(folder + "/small.keras");
  }
  auto again = keras::models::load_model(folder + "/small.keras", {.custom_objects = custom_objects});
  report("again", again.predict(x, {.verbose = 0}).sum());
  {
    const keras::saving::custom_object_scope scope(custom_objects);
    report("scope", keras::models::load_model(folder + "/small.keras").predict(x, {.verbose = 0}).sum());
  }

  // Losses and metrics of functions leave out masked steps.
  const auto embedding = keras::layers::Embedding(5, 1, {.embeddings_initializer = "ones", .mask_zero = true});
  const auto masked = embedding({{1, 2, 0}, {3, 0, 0}});
  const auto steps = waves({2, 3, 1}, 0.7);
  const Tensor weight = {{1.0, 2.0, 3.0}, {0.5, 1.0, 2.0}};
  report("masked loss", keras::losses::MeanSquaredError()(steps, masked));
  report("masked loss, weighted", keras::losses::MeanAbsoluteError({.reduction = "sum"})(steps, masked, weight));
  for (const auto& metric : {keras::metrics::MeanSquaredError(), keras::metrics::CosineSimilarity(),
                             keras::metrics::RootMeanSquaredError()}) {
    metric.update_state(steps, masked);
    report("masked " + metric.name(), metric.result());
    metric.reset_state();
    metric.update_state(steps, masked, weight);
    report("masked " + metric.name() + ", weighted", metric.result());
  }
  const auto total = keras::metrics::Sum();
  total.update_state(steps.index({ls::all, ls::all, 0}));
  report("sum", total.result());
  total.update_state(steps, weight);
  report("sum, weighted", total.result());

  const auto in = keras::Input({4});
  WeightedStep weighted(in, keras::layers::Dense(1)(in));
  weighted.compile({.optimizer = "adam", .loss = "mse", .metrics = {"mae"}, .weighted_metrics = {"mse"}});
  report_sorted(
      "weighted",
      weighted.fit(x, y, {.epochs = 2, .verbose = 0, .shuffle = false, .sample_weight = kops::abs(waves({32}, 0.3))}));
}
