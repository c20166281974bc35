// Checkpoints of a fit from which it resumes exactly.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/callbacks/reads_together.h"
#include "lockstep/keras/callbacks/save_frequency.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/train/checkpoint_manager.h"

namespace lockstep::train {

struct TrainingCheckpointsOptions {
  std::optional<int> every_batches = {};  // in addition to the checkpoints at the end of each epoch
  std::int64_t max_to_keep = 5;
  bool enable_async = false;
  // The workers of the job, each with a callback like this; see CheckpointOptions::workers.
  collectives::CommunicatorPtr workers = nullptr;
  // Called when the fit has been brought to where a checkpoint was made.
  std::function<void(const std::string& path, const keras::TrainingState& state)> on_resume = {};
};

// A callback that keeps DIRECTORY/ckpt-N of model and optimizer, each with where the fit stood. When a fit begins it
// resumes from the newest one, so that weights, history and all other state end as without the interruption. From
// checkpoints without such a state (of TensorFlow, of Checkpoint::save) it takes the weights, and save_counter for the
// number of epochs that are done. Damaged checkpoints are named in a warning and the next older one is used. While it
// trains no other process may train into the folder: a fit that begins there waits five seconds for the one before to
// end, then throws FailedPrecondition.
// Throws InvalidArgument for every_batches < 1 and max_to_keep < 1.
class TrainingCheckpoints : public keras::Callback, public keras::ReadsTogether {
 public:
  TrainingCheckpoints(const keras::Model& model, const std::string& directory, TrainingCheckpointsOptions options = {});

  void on_train_begin(const keras::Logs&) override;
  void on_train_batch_end(std::int64_t batch, const keras::Logs&) override;
  void on_epoch_end(int epoch, keras::Logs&) override;
  void after_callbacks() override;
  void on_train_end(const keras::Logs&) override;
  std::string class_name() const override { return "TrainingCheckpoints"; }
  keras::CallbackState save_state() const override;
  void restore_state(const keras::CallbackState& state) override;

  // Saves where the fit stands now; to be called when all callbacks have seen the last batch or epoch
  // (after_callbacks).
  void save();
  CheckpointManager& manager() { return manager_; }

 private:
  void lock_folder();

  TrainingCheckpointsOptions options_;
  callbacks::SaveFrequency frequency_;
  Checkpoint checkpoint_;
  std::shared_ptr<void> lock_;  // of the folder; the chief's
  CheckpointManager manager_;   // goes first, as it may still write
  bool due_ = false;
};

}  // namespace lockstep::train
