// Callbacks: custom ones that record, stop and change the learning rate, and those of Keras.
#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

#include "guide.h"

namespace {

namespace keras = ls::keras;

class CustomCallback : public keras::Callback {
 public:
  std::map<std::string, int> hooks;

  void on_train_begin(const keras::Logs&) override { ++hooks["train_begin"]; }
  void on_train_end(const keras::Logs& logs) override {
    ++hooks["train_end"];
    report("final_loss", logs["loss"]);
  }
  void on_epoch_begin(int, const keras::Logs&) override { ++hooks["epoch_begin"]; }
  void on_epoch_end(int epoch, keras::Logs& logs) override {
    ++hooks["epoch_end"];
    report("epoch_" + std::to_string(epoch) + "_mae", logs["mean_absolute_error"]);
  }
  void on_train_batch_end(std::int64_t, const keras::Logs& logs) override {
    ++hooks["train_batch_end"];
    report("batch_loss", logs["loss"]);
  }
  void on_test_begin(const keras::Logs&) override { ++hooks["test_begin"]; }
  void on_test_batch_end(std::int64_t, const keras::Logs&) override { ++hooks["test_batch_end"]; }
  void on_predict_batch_end(std::int64_t, const keras::Logs&) override { ++hooks["predict_batch_end"]; }
};

class EarlyStoppingAtMinLoss : public keras::Callback {
 public:
  explicit EarlyStoppingAtMinLoss(int patience = 0) : patience_(patience) {}
  int stopped_epoch = 0;
  double best = 0;

  void on_train_begin(const keras::Logs&) override {
    wait_ = 0;
    stopped_epoch = 0;
    best = std::numeric_limits<double>::infinity();
  }

  void on_epoch_end(int epoch, keras::Logs& logs) override {
    const double current = logs["loss"];
    if (current < best) {
      best = current;
      wait_ = 0;
      best_weights_ = model().get_weights();
    } else {
      ++wait_;
      if (wait_ >= patience_) {
        stopped_epoch = epoch;
        model().stop_training = true;
        model().set_weights(best_weights_);
      }
    }
  }

 private:
  int patience_, wait_ = 0;
  ls::Tensors best_weights_;
};

class CustomLearningRateScheduler : public keras::Callback {
 public:
  void on_epoch_begin(int epoch, const keras::Logs&) override {
    const double lr = optimizer().learning_rate();
    if (epoch == 1 || epoch == 3) optimizer().set_learning_rate(lr * 0.5);
    report("rate", optimizer().learning_rate());
  }
};

keras::Model get_model() {
  keras::Sequential model({ls::layers::Input({5}), ls::layers::Dense(4, {.activation = "tanh"}), ls::layers::Dense(1)});
  model.compile({.optimizer = ls::optimizers::RMSprop({.learning_rate = 0.1}),
                 .loss = "mean_squared_error",
                 .metrics = {"mean_absolute_error"}});
  return model;
}

}  // namespace

void callbacks(const std::string& folder) {
  ls::random::set_random_seed(16);
  const auto x_train = waves({60, 5}, 0.29), y_train = waves({60, 1}, 0.71);
  const auto x_test = waves({20, 5}, 0.33), y_test = waves({20, 1}, 0.77);

  CustomCallback custom;
  auto model = get_model();
  model.fit(x_train, y_train,
            {.batch_size = 20, .epochs = 2, .verbose = 0, .callbacks = {custom}, .validation_split = 0.5});
  model.evaluate(x_test, y_test, {.batch_size = 10, .verbose = 0, .callbacks = {custom}});
  model.predict(x_test, {.batch_size = 5, .verbose = 0, .callbacks = {custom}});
  for (const auto& [hook, count] : custom.hooks) report(hook, count);

  EarlyStoppingAtMinLoss early_stopping(1);
  model = get_model();
  model.fit(x_train, y_train, {.batch_size = 20, .epochs = 20, .verbose = 0, .callbacks = {early_stopping}});
  report("stopped_epoch", early_stopping.stopped_epoch);
  report("best", early_stopping.best);
  report("evaluate", model.evaluate(x_test, y_test, {.verbose = 0})["loss"]);

  model = get_model();
  model.fit(x_train, y_train,
            {.batch_size = 20, .epochs = 5, .verbose = 0, .callbacks = {CustomLearningRateScheduler()}});

  // Those of Keras, several at a time.
  model = get_model();
  const auto stopping =
      ls::callbacks::EarlyStopping({.monitor = "val_loss", .patience = 3, .restore_best_weights = true});
  const auto history =
      model.fit(x_train, y_train,
                {.batch_size = 20,
                 .epochs = 12,
                 .verbose = 0,
                 .callbacks = {ls::callbacks::LearningRateScheduler(
                                   [](int epoch, double lr) { return epoch < 4 ? lr * 0.9 : lr; }),
                               ls::callbacks::ReduceLROnPlateau({.monitor = "val_loss", .factor = 0.5, .patience = 2}),
                               stopping, ls::callbacks::TerminateOnNaN(),
                               ls::callbacks::ModelCheckpoint(folder + "/best.keras", {.save_best_only = true}),
                               ls::callbacks::CSVLogger(folder + "/log.csv")},
                 .validation_data = {x_test, y_test}});
  report("stopped", stopping->stopped_epoch());
  for (const auto& [name, values] : history.history)
    for (const auto& value : values) report(name, value);
  std::ifstream file(folder + "/log.csv");
  for (std::string row; std::getline(file, row);)
    report("columns", static_cast<double>(std::count(row.begin(), row.end(), ',') + 1));
  const auto best = keras::load_model(folder + "/best.keras");
  report("best", best.evaluate(x_test, y_test, {.verbose = 0})["loss"]);
  model.save(folder + "/model.keras");
}
