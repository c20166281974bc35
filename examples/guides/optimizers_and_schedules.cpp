// Optimizers with their options, learning rate schedules, a custom schedule, averaged weights.
#include <algorithm>

#include "guide.h"

namespace {

class WarmUp : public ls::schedules::LearningRateSchedule {
 public:
  WarmUp(double initial_learning_rate, int warmup_steps)
      : initial_learning_rate_(initial_learning_rate), warmup_steps_(warmup_steps) {}
  explicit WarmUp(const ls::Json& config)
      : WarmUp(config.at("initial_learning_rate").get<double>(), config.at("warmup_steps").get<int>()) {}

  float operator()(std::int64_t step) const override {
    const auto now = static_cast<float>(step);
    return static_cast<float>(initial_learning_rate_) * std::min(1.0f, (now + 1) / static_cast<float>(warmup_steps_));
  }

  ls::Json get_config() const override {
    return {{"initial_learning_rate", initial_learning_rate_}, {"warmup_steps", warmup_steps_}};
  }

 private:
  double initial_learning_rate_;
  int warmup_steps_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(WarmUp, "Guides")

}  // namespace

void optimizers_and_schedules(const std::string& folder) {
  namespace keras = ls::keras;
  namespace optimizers = ls::optimizers;
  ls::random::set_random_seed(30);
  const auto x = waves({48, 6}, 0.41), y = waves({48, 2}, 0.67);

  const auto make_model = [] {
    return keras::Sequential(
        {ls::layers::Input({6}), ls::layers::Dense(8, {.activation = "tanh"}), ls::layers::Dense(2)});
  };

  const auto train = [&](const std::string& name, const optimizers::OptimizerPtr& optimizer) {
    const auto model = make_model();
    model.compile({.optimizer = optimizer, .loss = "mse"});
    const auto history = model.fit(x, y, {.batch_size = 16, .epochs = 2, .verbose = 0});
    for (const auto& value : history["loss"]) report(name, value);
    return model;
  };

  namespace schedules = ls::optimizers::schedules;
  train("sgd", optimizers::SGD({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .clipnorm = 1.0}));
  train("sgd_schedule", optimizers::SGD(schedules::ExponentialDecay(0.1, 2, 0.9)));
  train("rmsprop", optimizers::RMSprop({.learning_rate = 0.01, .momentum = 0.5, .centered = true, .clipvalue = 0.5}));
  train("adam", optimizers::Adam({.learning_rate = schedules::PiecewiseConstantDecay({2, 4}, {0.03, 0.01, 0.003}),
                                  .amsgrad = true}));
  train("adamw",
        optimizers::AdamW({.learning_rate = schedules::CosineDecay(0.02, 6, {.alpha = 0.1}), .weight_decay = 0.1}));
  train("adagrad", optimizers::Adagrad(schedules::PolynomialDecay(0.1, 5, {.end_learning_rate = 0.01})));
  train("nadam", optimizers::Nadam({.learning_rate = 0.01, .global_clipnorm = 0.5}));
  train("lion", optimizers::Lion({.learning_rate = schedules::CosineDecayRestarts(0.01, 2), .weight_decay = 0.05}));
  train("ftrl", optimizers::Ftrl({.learning_rate = 0.05, .l1_regularization_strength = 0.001}));
  train("accumulated", optimizers::Adam({.learning_rate = 0.02, .gradient_accumulation_steps = 2}));

  // Biases do not decay.
  auto model = make_model();
  auto optimizer = optimizers::AdamW({.learning_rate = 0.01, .weight_decay = 0.2});
  optimizer.exclude_from_weight_decay({}, {"bias"});
  model.compile({.optimizer = optimizer, .loss = "mse"});
  model.fit(x, y, {.batch_size = 16, .epochs = 2, .verbose = 0});
  report("excluded", ls::ops::reduce_sum(model.get_weights()[1]));

  // Averages of the weights, which fit puts into the model at its end.
  const auto averaged =
      train("averaged", optimizers::SGD({.learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.9}));
  report("evaluate", averaged.evaluate(x, y, {.verbose = 0})["loss"]);

  // A learning rate that is a number can be changed; a custom schedule is saved with the model.
  optimizer = optimizers::Adam(0.1);
  optimizer.set_learning_rate(0.05);
  report("rate", optimizer.learning_rate());
  const ls::schedules::SchedulePtr schedule = std::make_shared<WarmUp>(0.05, 4);
  for (const int step : {0, 1, 5}) report("warm_up", schedule(step));
  model = train("warm_up_loss", optimizers::Adam(schedule));
  model.save(folder + "/model.keras");
  const auto loaded = keras::load_model(folder + "/model.keras");
  report("loaded", loaded.fit(x, y, {.batch_size = 16, .verbose = 0})["loss"][0]);
  loaded.save(folder + "/model.keras");
}
