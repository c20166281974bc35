// Fault tolerance: interrupted training resumes from its backup, in the same process or in another.
#include <csignal>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "guide.h"

namespace {

class InterruptingCallback : public ls::keras::Callback {
 public:
  void on_epoch_begin(int epoch, const ls::keras::Logs&) override {
    if (epoch == 4) throw std::runtime_error("Interrupting!");
  }
};

class Recorder : public ls::keras::Callback {
 public:
  void on_epoch_end(int epoch, ls::keras::Logs& logs) override {
    report("epoch_" + std::to_string(epoch), logs["loss"]);
  }
};

ls::keras::Model make_model() {
  ls::keras::Sequential model(
      {ls::layers::Input({6}), ls::layers::Dense(8, {.activation = "relu"}), ls::layers::Dense(1)});
  model.compile({.optimizer = ls::optimizers::Adam(0.01), .loss = "mse"});
  return model;
}

class Preempted : public std::exception {};

void train_with_handler(const ls::data::Dataset& dataset, const std::string& checkpoint_dir,
                        std::optional<int> preempt_at = {}) {
  ls::random::set_random_seed(29);
  auto& strategy = ls::distribute::get_strategy();
  auto model = make_model();
  const auto loss_fn = ls::losses::MeanSquaredError();

  const auto train_step = [&](const ls::data::Element& batch) {
    const auto& [x, y] = batch;
    ls::GradientTape tape;
    const auto loss = loss_fn(y, model(x, {.training = true}));
    const auto grads = tape.gradient(loss, model.trainable_variables());
    model.optimizer().apply_gradients(zip(grads, model.trainable_variables()));
    return loss;
  };

  const ls::train::Checkpoint checkpoint({{"model", model}});
  ls::distribute::experimental::PreemptionCheckpointHandler handler(strategy, checkpoint, checkpoint_dir,
                                                                    {.exit_fn = [] { throw Preempted(); }});
  const int steps_per_epoch = 4;
  ls::Tensor loss;
  for (auto epoch = handler.total_run_calls() / steps_per_epoch; epoch < 3; ++epoch) {
    auto iterator = iter(dataset.skip(handler.total_run_calls() % steps_per_epoch));
    for (auto step = handler.total_run_calls() % steps_per_epoch; step < steps_per_epoch; ++step) {
      if (handler.total_run_calls() == preempt_at) std::raise(SIGTERM);
      loss = handler.run(train_step, next(iterator));
    }
  }
  report("loss_of_last_step", loss);
  report("iterations_of_loop", model.optimizer().iterations());
}

}  // namespace

void fault_tolerance(const std::string& folder) {
  ls::random::set_random_seed(28);
  const auto dataset = ls::data::Dataset::from_tensor_slices({waves({40, 6}, 0.37), waves({40, 1}, 0.53)}).batch(10);
  const std::string backup_dir = folder + "/backup";

  auto model = make_model();
  try {
    model.fit(dataset,
              {.epochs = 8,
               .verbose = 0,
               .callbacks = {ls::callbacks::BackupAndRestore(backup_dir), InterruptingCallback(), Recorder()}});
  } catch (const std::runtime_error& error) {
    report(error.what(), 1);
  }
  report("backup", std::filesystem::exists(backup_dir));

  // The same model continues with epoch 4; at the end of training the backup is removed.
  model.fit(dataset,
            {.epochs = 8, .verbose = 0, .callbacks = {ls::callbacks::BackupAndRestore(backup_dir), Recorder()}});
  report("backup", std::filesystem::exists(backup_dir));

  // As after the start of another process: a new model takes weights and optimizer from the backup.
  model = make_model();
  try {
    model.fit(dataset, {.epochs = 8,
                        .verbose = 0,
                        .callbacks = {ls::callbacks::BackupAndRestore(backup_dir, {.delete_checkpoint = false}),
                                      InterruptingCallback(), Recorder()}});
  } catch (const std::runtime_error& error) {
    report(error.what(), 2);
  }
  model = make_model();
  model.fit(dataset,
            {.epochs = 6,
             .verbose = 0,
             .callbacks = {ls::callbacks::BackupAndRestore(backup_dir, {.delete_checkpoint = false}), Recorder()}});
  report("iterations", model.optimizer().iterations());
  report("backup", std::filesystem::exists(backup_dir));

  // A custom loop: SIGTERM ends it with a checkpoint, with which it continues.
  try {
    train_with_handler(dataset, folder + "/preempted", 5);
  } catch (const Preempted&) {
    report("preempted", 1);
  }
  train_with_handler(dataset, folder + "/preempted");
  model.save(folder + "/model.keras");
}
