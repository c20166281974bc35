// Customizing fit and evaluate: custom train_step and test_step, with compile's metrics or without.
#include <map>

#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace ops = ls::ops;

class CustomModel : public keras::Model {
 public:
  using Model::Model;

  keras::Results train_step(const keras::Structure& data) override {
    const auto& [x, y] = data;
    ls::GradientTape tape;
    const auto y_pred = (*this)(x, {.training = true});
    const auto loss = compute_loss({.y = y, .y_pred = y_pred});
    const auto trainable_vars = trainable_variables();
    const auto gradients = tape.gradient(loss, trainable_vars);
    optimizer().apply(gradients, trainable_vars);
    return update(loss, y, y_pred);
  }

  keras::Results test_step(const keras::Structure& data) override {
    const auto& [x, y] = data;
    const auto y_pred = (*this)(x, {.training = false});
    const auto loss = compute_loss({.y = y, .y_pred = y_pred});
    return update(loss, y, y_pred);
  }

 private:
  keras::Results update(const ls::Tensor& loss, const ls::Tensor& y, const ls::Tensor& y_pred) {
    keras::Results results;
    for (const auto& metric : metrics()) {
      if (metric.name() == "loss")
        metric.update_state(loss);
      else
        metric.update_state(y, y_pred);
      results.emplace_back(metric.name(), metric.result());
    }
    return results;
  }
};

// A level lower: nothing of compile but the optimizer.
class OwnMetrics : public keras::Model {
 public:
  using Model::Model;

  keras::Results train_step(const keras::Batch& data) override {
    const auto& [x, y, sample_weight] = data;
    ls::GradientTape tape;
    const auto y_pred = (*this)(x, {.training = true});
    const auto loss = loss_fn_(y, y_pred);
    const auto trainable_vars = trainable_variables();
    const auto gradients = tape.gradient(loss, trainable_vars);
    optimizer().apply(gradients, trainable_vars);
    loss_tracker_.update_state(loss);
    mae_metric_.update_state(y, y_pred);
    return {{"loss", loss_tracker_.result()}, {"mae", mae_metric_.result()}};
  }

  std::vector<ls::metrics::MetricPtr> metrics() const override { return {loss_tracker_, mae_metric_}; }

 private:
  ls::metrics::MetricPtr loss_tracker_ = ls::metrics::Mean({.name = "loss"});
  ls::metrics::MetricPtr mae_metric_ = ls::metrics::MeanAbsoluteError({.name = "mae"});
  ls::losses::LossPtr loss_fn_ = ls::losses::MeanSquaredError();
};

// Two models in one, each with its optimizer.
class GAN : public keras::Model {
 public:
  GAN(const keras::Model& discriminator, const keras::Model& generator, const ls::Tensor& latent)
      : discriminator_(discriminator), generator_(generator), latent_(latent) {
    track("discriminator", discriminator.impl());
    track("generator", generator.impl());
    impl()->set_built();
  }

  void compile(ls::optimizers::OptimizerPtr d_optimizer, ls::optimizers::OptimizerPtr g_optimizer,
               ls::losses::LossPtr loss_fn) {
    Model::compile();
    d_optimizer_ = d_optimizer;
    g_optimizer_ = g_optimizer;
    loss_fn_ = loss_fn;
  }

  std::vector<ls::metrics::MetricPtr> metrics() const override { return {d_loss_tracker_, g_loss_tracker_}; }

  keras::Results train_step(const keras::Batch& data) override {
    const ls::Tensor real = data.x;
    const ls::Tensor fake = generator_(latent_);
    const auto combined = ops::concat({fake, real}, 0);
    const auto targets = ops::concat({ops::ones({8, 1}), ops::zeros({8, 1})}, 0);
    ls::GradientTape d_tape;
    const auto d_loss = loss_fn_(targets, discriminator_(combined));
    auto grads = d_tape.gradient(d_loss, discriminator_.trainable_weights());
    d_optimizer_.apply(grads, discriminator_.trainable_weights());

    const auto misleading = ops::zeros({8, 1});
    ls::GradientTape g_tape;
    const auto g_loss = loss_fn_(misleading, discriminator_(generator_(latent_)));
    grads = g_tape.gradient(g_loss, generator_.trainable_weights());
    g_optimizer_.apply(grads, generator_.trainable_weights());

    d_loss_tracker_.update_state(d_loss);
    g_loss_tracker_.update_state(g_loss);
    return {{"d_loss", d_loss_tracker_.result()}, {"g_loss", g_loss_tracker_.result()}};
  }

 private:
  keras::Model discriminator_, generator_;
  ls::Tensor latent_;
  ls::metrics::MetricPtr d_loss_tracker_ = ls::metrics::Mean({.name = "d_loss"});
  ls::metrics::MetricPtr g_loss_tracker_ = ls::metrics::Mean({.name = "g_loss"});
  ls::optimizers::OptimizerPtr d_optimizer_, g_optimizer_;
  ls::losses::LossPtr loss_fn_;
};

}  // namespace

void custom_fit(const std::string& folder) {
  const auto report_history = [](const std::string& prefix, const keras::History& history) {
    for (const auto& [name, values] : history.history)
      for (const auto& value : values) report(prefix + "_" + name, value);
  };

  ls::random::set_random_seed(14);
  const auto x = waves({48, 4}, 0.61), y = waves({48, 1}, 0.27);

  auto inputs = ls::layers::Input({4});
  const auto outputs = ls::layers::Dense(1)(ls::layers::Dense(8, {.activation = "relu"})(inputs));
  CustomModel model(inputs, outputs);
  model.compile({.optimizer = "adam", .loss = "mse", .metrics = {"mae"}});
  report_history("custom", model.fit(x, y, {.batch_size = 16, .epochs = 3, .verbose = 0}));
  const auto results = model.evaluate(x, y, {.verbose = 0});
  report("evaluate_loss", results["loss"]);
  report("evaluate_mae", results["mae"]);

  inputs = ls::layers::Input({4});
  OwnMetrics own(inputs, ls::layers::Dense(1)(inputs));
  own.compile({.optimizer = "adam"});
  report_history("own", own.fit(x, y, {.batch_size = 16, .epochs = 3, .verbose = 0}));

  keras::Sequential discriminator(
      {ls::layers::Input({4}), ls::layers::Dense(8), ls::layers::LeakyReLU(), ls::layers::Dense(1)});
  keras::Sequential generator({ls::layers::Input({2}), ls::layers::Dense(8, {.activation = "relu"}),
                               ls::layers::Dense(4, {.activation = "tanh"})});
  GAN gan(discriminator, generator, waves({8, 2}, 1.1));
  gan.compile(ls::optimizers::Adam(0.003), ls::optimizers::Adam(0.003),
              ls::losses::BinaryCrossentropy({.from_logits = true}));
  report_history("gan", gan.fit(ls::data::Dataset::from_tensor_slices(x).batch(8), {.epochs = 2, .verbose = 0}));
  generator.save(folder + "/model.keras");
}
