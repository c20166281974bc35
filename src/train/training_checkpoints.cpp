#include "lockstep/train/training_checkpoints.h"

#include <utility>

#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::train {

TrainingCheckpoints::TrainingCheckpoints(const keras::Model& model, const std::string& directory, TrainingCheckpointsOptions options)
    : options_(std::move(options)),
      frequency_(options_.every_batches ? callbacks::SaveFrequency(*options_.every_batches) : callbacks::SaveFrequency()),
      checkpoint_(model, model.optimizer()),
      manager_(checkpoint_, directory, {.max_to_keep = options_.max_to_keep, .workers = options_.workers}) {}

void TrainingCheckpoints::on_train_begin(const keras::Logs&) {
  due_ = false;
  manager_.remove_leftovers();
  const auto restored = manager_.restore_or_initialize();
  if (!restored) return;
  const auto& whole = manager_.restore_status()->training_state();
  keras::TrainingState state;
  if (whole) {
    state = *whole;
  } else {
    state.values["epoch"] = checkpoint_.save_counter()->numpy().item<std::int64_t>();
  }
  if (options_.on_resume) options_.on_resume(*restored, state);
  trainer_->resume(std::move(state));
}

void TrainingCheckpoints::on_train_batch_end(std::int64_t batch, const keras::Logs&) { due_ = frequency_.due(batch); }
void TrainingCheckpoints::on_epoch_end(int, keras::Logs&) { due_ = true; }
void TrainingCheckpoints::on_settled() {
  if (std::exchange(due_, false) || trainer_->preempted()) save();
}

keras::CallbackState TrainingCheckpoints::save_state() const { return {frequency_.save_state(), {}}; }
void TrainingCheckpoints::restore_state(const keras::CallbackState& state) { frequency_.restore_state(state.values); }

void TrainingCheckpoints::save() {
  const keras::TrainingState state = trainer_->training_state();
  manager_.save({}, false, {.enable_async = options_.enable_async, .training_state = &state});
  if (trainer_->preempted()) manager_.wait();
}

}  // namespace lockstep::train
