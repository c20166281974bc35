// Fault tolerance: interrupted training resumes from its backup, in the same process or in another.
#include <filesystem>
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
  model.save(folder + "/model.keras");
}
