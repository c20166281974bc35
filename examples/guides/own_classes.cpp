// Classes that derive from Keras's own, registered functions, and what a class saves of itself.
#include "guide.h"

#include <fstream>
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

void report_history(const std::string& name, const keras::History& history) {
  for (const auto& [key, values] : history.history) {
    for (const double value : values) report(name + " " + key, value);
  }
}

// Cells, recurrent layers, lookup layers and files of a layer.
class LouderCell : public keras::layers::LSTMCell {
 public:
  using LSTMCell::LSTMCell;

  keras::Structure call(const keras::Structure& inputs, const keras::Structure& states) override {
    const auto [output, next] = LSTMCell::call(inputs, states);
    return {output * 1.5, next};
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(LouderCell, "Guides")

class NamedGRU : public keras::layers::GRU {
 public:
  using GRU::GRU;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(NamedGRU, "Guides")

class ShiftedLookup : public keras::layers::StringLookup {
 public:
  using StringLookup::StringLookup;
  keras::Structure call(const keras::Structure& inputs) override { return StringLookup::call(inputs) + 1; }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(ShiftedLookup, "Guides")

class Noted : public keras::layers::Layer {
 public:
  using Layer::Layer;
  double factor = 1;

  keras::Structure call(const keras::Structure& x) override { return x * factor; }
  void save_assets(const std::string& directory) override { std::ofstream(directory + "/factor.txt") << factor; }
  void load_assets(const std::string& directory) override { std::ifstream(directory + "/factor.txt") >> factor; }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Noted, "Guides")

class SignSGD : public keras::optimizers::SGD {
 public:
  using SGD::SGD;

  void apply(const ls::Tensors& gradients, const std::vector<ls::Variable>& variables) override {
    ls::Tensors signs;
    for (const auto& gradient : gradients) signs.push_back(kops::sign(gradient));
    SGD::apply(signs, variables);
  }
};

void recurrent_and_lookup(const std::string& folder) {
  ls::utils::set_random_seed(22);
  const auto x = waves({4, 6, 3}, 0.31);
  const auto inputs = keras::Input({6, 3});
  auto h = keras::layers::Bidirectional(
      keras::make_layer<NamedGRU>(4, ls::layers::GRUOptions{.dropout = 0.2, .return_sequences = true}))(inputs);
  h = keras::layers::RNN(
      {keras::make_layer<LouderCell>(3, ls::layers::LSTMOptions{.dropout = 0.3, .recurrent_dropout = 0.1}),
       keras::layers::GRUCell(2)})(h);
  const auto noted = keras::make_layer<Noted>();
  noted->factor = 2.5;
  keras::Model model(inputs, keras::layers::Dense(1)(noted(h)));
  model.compile({.optimizer = std::make_shared<SignSGD>(0.01), .loss = "mse"});
  report_history("recurrent",
                 model.fit(x, waves({4, 1}, 0.5), {.batch_size = 2, .epochs = 2, .verbose = 0, .shuffle = false}));
  report("recurrent", model.predict(x, {.verbose = 0}).sum());
  model.save(folder + "/recurrent.keras");
  const keras::CustomObjects optimizers = {{"SignSGD", keras::custom_object<SignSGD>()}};
  const auto again = keras::models::load_model(folder + "/recurrent.keras", {.custom_objects = optimizers});
  report("recurrent again", again.predict(x, {.verbose = 0}).sum());

  const auto lookup = keras::make_layer<ShiftedLookup>();
  lookup.adapt({"a", "b", "a", "c", "b", "a"});
  keras::Sequential words({keras::Input({.shape = {1}, .dtype = ls::string}), lookup, keras::layers::Embedding(8, 2)});
  const Tensor texts = {{"c"}, {"a"}, {"other"}};
  report("words", kops::sum(words(texts)));
  words.save(folder + "/words.keras");
  report("words again", kops::sum(keras::models::load_model(folder + "/words.keras")(texts)));
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
  report_history("fit", model.fit({.x = x,
                                   .y = y,
                                   .batch_size = 16,
                                   .epochs = 3,
                                   .verbose = 0,
                                   .callbacks = {recorder, Batches()},
                                   .shuffle = false}));
  model.save(folder + "/model.keras");
  auto restored = keras::models::load_model(folder + "/model.keras");
  report_history("restored", restored.fit(x, y, {.batch_size = 16, .verbose = 0, .shuffle = false}));
  report("deviation", restored.predict(x, {.verbose = 0}).std());

  // Functions in files.
  model.compile({.optimizer = "sgd", .loss = absolute_error, .metrics = {"mae"}});
  report_history("function", model.fit(x, y, {.batch_size = 16, .verbose = 0, .shuffle = false}));
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
  report_history(
      "weighted",
      weighted.fit(x, y, {.epochs = 2, .verbose = 0, .shuffle = false, .sample_weight = kops::abs(waves({32}, 0.3))}));
  recurrent_and_lookup(folder);
}
