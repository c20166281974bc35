// Custom losses and metrics: functions, classes, losses of layers, class weights and sample weights.
#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace ops = ls::ops;

ls::Tensor custom_mean_squared_error(const ls::Tensor& y_true, const ls::Tensor& y_pred) {
  return ops::reduce_mean(ops::square(y_true - y_pred), -1);
}

class CustomMSE : public ls::losses::Loss {
 public:
  explicit CustomMSE(double regularization_factor = 0.1, const std::string& reduction = "sum_over_batch_size")
      : Loss("custom_mse", reduction), regularization_factor_(regularization_factor) {}
  explicit CustomMSE(const ls::Json& config) : CustomMSE(config.at("regularization_factor").get<double>()) {}

  ls::Tensor call(const ls::Tensor& y_true, const ls::Tensor& y_pred) const override {
    const auto mse = ops::reduce_mean(ops::square(y_true - y_pred), -1);
    const auto reg = ops::reduce_mean(ops::square(0.5 - y_pred), -1);
    return mse + reg * regularization_factor_;
  }

  ls::Json get_config() const override { return {{"regularization_factor", regularization_factor_}}; }

 private:
  double regularization_factor_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(CustomMSE, "Guides")

class CategoricalTruePositives : public ls::metrics::Metric {
 public:
  CategoricalTruePositives() : Metric("categorical_true_positives") { true_positives_ = add_variable({}, "ctp"); }

  void update_state(const ls::Tensor& y_true, const ls::Tensor& y_pred, const ls::Tensor& sample_weight,
                    const ls::Tensor&) override {
    const auto found = ops::argmax(y_pred, 1, ls::DType::kInt32);
    auto values =
        ops::cast(ops::equal(ops::cast(ops::reshape(y_true, {-1}), ls::DType::kInt32), found), ls::DType::kFloat32);
    if (sample_weight.defined()) values = values * ops::cast(ops::reshape(sample_weight, {-1}), ls::DType::kFloat32);
    true_positives_.assign_add(ops::reduce_sum(values));
  }

  ls::Tensor result() const override { return true_positives_ + 0.0; }

 private:
  ls::Variable true_positives_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(CategoricalTruePositives, "Guides")

// A layer at the end of a model, which gets the targets, too.
class LogisticEndpoint : public keras::Layer {
 public:
  explicit LogisticEndpoint(const std::string& name) : Layer({.name = name}) {}
  std::vector<std::string> argument_names() const override { return {"targets", "logits"}; }

  keras::Structure call(const keras::Structure& inputs) override {
    const auto& [targets, logits] = inputs;
    add_loss(loss_fn_(targets, logits));
    return ops::softmax(logits);
  }

 private:
  ls::losses::LossPtr loss_fn_ = ls::losses::BinaryCrossentropy({.from_logits = true});
};

}  // namespace

void losses_and_metrics(const std::string& folder) {
  ls::random::set_random_seed(12);
  const auto x_train = waves({64, 6}, 0.43), y_train = labels(64, 5, 3);

  const auto get_uncompiled_model = [] {
    const auto inputs = ls::layers::Input({6}, {.name = "digits"});
    auto x = ls::layers::Dense(8, {.activation = "relu", .name = "dense_1"})(inputs);
    x = ls::layers::Dense(8, {.activation = "relu", .name = "dense_2"})(x);
    const auto outputs = ls::layers::Dense(5, {.activation = "softmax", .name = "predictions"})(x);
    return keras::Model(inputs, outputs);
  };

  const auto report_history = [](const std::string& prefix, const keras::History& history) {
    for (const auto& [name, values] : history.history)
      for (const auto& value : values) report(prefix + "_" + name, value);
  };

  const auto y_train_one_hot = ops::one_hot(y_train, 5);
  auto model = get_uncompiled_model();
  model.compile({.optimizer = ls::optimizers::Adam(0.01), .loss = custom_mean_squared_error});
  report_history("function", model.fit(x_train, y_train_one_hot, {.batch_size = 16, .epochs = 2, .verbose = 0}));

  model = get_uncompiled_model();
  model.compile({.optimizer = ls::optimizers::Adam(0.01), .loss = CustomMSE()});
  report_history("class", model.fit(x_train, y_train_one_hot, {.batch_size = 16, .epochs = 2, .verbose = 0}));

  const auto inputs = ls::layers::Input({6}, {.name = "inputs"});
  const auto targets = ls::layers::Input({1}, {.name = "targets"});
  const auto logits = ls::layers::Dense(1)(inputs);
  const auto predictions = keras::make_layer<LogisticEndpoint>("predictions")(targets, logits);
  keras::Model endpoint({inputs, targets}, predictions);
  endpoint.compile({.optimizer = "adam"});
  const auto binary = ops::cast(ops::reshape(labels(64, 2), {64, 1}), ls::DType::kFloat32);
  report_history("endpoint", endpoint.fit({x_train, binary}, {}, {.batch_size = 16, .epochs = 2, .verbose = 0}));

  // The third class counts twice; then each sample has a weight; then both, with a custom metric.
  const std::map<std::int64_t, double> class_weight = {{0, 1.0}, {1, 1.0}, {2, 2.0}, {3, 1.0}, {4, 1.0}};
  model = get_uncompiled_model();
  model.compile(
      {.optimizer = ls::optimizers::RMSprop(0.01), .loss = "sparse_categorical_crossentropy", .metrics = {"accuracy"}});
  report_history(
      "class_weight",
      model.fit(x_train, y_train, {.batch_size = 16, .epochs = 1, .verbose = 0, .class_weight = class_weight}));

  const auto sample_weight = ops::where(ops::equal(y_train, 2), ls::Tensor::scalar(2.0f), ls::Tensor::scalar(1.0f));
  model = get_uncompiled_model();
  model.compile({.optimizer = ls::optimizers::RMSprop(0.01),
                 .loss = CustomMSE(0.2, "sum"),
                 .metrics = {"mae"},
                 .weighted_metrics = {ls::metrics::CategoricalAccuracy()}});
  report_history("sample_weight",
                 model.fit(x_train, y_train_one_hot,
                           {.batch_size = 16, .epochs = 2, .verbose = 0, .sample_weight = sample_weight}));

  model = get_uncompiled_model();
  model.compile({.optimizer = ls::optimizers::RMSprop(0.01),
                 .loss = ls::losses::SparseCategoricalCrossentropy(),
                 .metrics = {std::make_shared<CategoricalTruePositives>()}});
  const auto train_dataset = ls::data::Dataset::from_tensor_slices({x_train, y_train, sample_weight}).batch(16);
  report_history("true_positives", model.fit(train_dataset, {.epochs = 3, .verbose = 0}));
  model.save(folder + "/model.keras");
}
