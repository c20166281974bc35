#include "lockstep/train/training_checkpoints.h"

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/together.h"
#include "lockstep/io/directory_lock_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{5};  // a job that was just killed ends within it
constexpr std::chrono::milliseconds kPoll{50};

std::shared_ptr<void> lock_within(const std::string& directory, Clock::duration patience) {
  io::make_directories(io::posix_file_system(), directory);
  for (const Clock::time_point end = Clock::now() + patience;;) {
    const io::DirectoryLock lock = io::lock_directory(directory);
    if (lock.held) return lock.held;
    if (Clock::now() >= end) {
      throw_failed_precondition(fmt::format(
          "{}: another job{} writes checkpoints to this folder; wait until it has ended, or give each job a folder "
          "of its own",
          directory, lock.holder ? fmt::format(" (process {})", *lock.holder) : ""));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(const keras::Model& model, const std::string& directory,
                                         TrainingCheckpointsOptions options)
    : options_(std::move(options)),
      frequency_(options_.every_batches ? callbacks::SaveFrequency(*options_.every_batches)
                                        : callbacks::SaveFrequency()),
      checkpoint_(model, model.optimizer()),
      manager_(checkpoint_, directory, {.max_to_keep = options_.max_to_keep, .workers = options_.workers}) {}

void TrainingCheckpoints::lock_folder() {
  collectives::run_on_chief(options_.workers.get(), "the checkpoints",
                            [this] { lock_ = lock_within(manager_.directory(), kPatience); });
}

void TrainingCheckpoints::on_train_end(const keras::Logs&) {
  manager_.wait();
  lock_.reset();
}

void TrainingCheckpoints::on_train_begin(const keras::Logs&) {
  due_ = false;
  lock_folder();
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
void TrainingCheckpoints::after_callbacks() {
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
