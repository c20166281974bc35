#include "lockstep/train/preemption_checkpoint_handler.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr const char* kRunsName = "checkpointed_runs";  // as in TensorFlow's checkpoints
constexpr int kRestartStatus = 42;

std::atomic<bool> watching = false;    // a handler waits for SIGTERM
std::atomic<bool> terminated = false;  // it came
static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers set it");

distribute::Variable runs_variable(const Checkpoint& checkpoint) {
  if (checkpoint.contains(kRunsName)) return checkpoint[kRunsName];
  distribute::Variable runs(Tensor::scalar(std::int64_t{0}), {.trainable = false, .name = kRunsName});
  checkpoint.track(kRunsName, runs);
  return runs;
}

std::unique_ptr<CheckpointManager> manager_in(const distribute::Strategy& strategy, const Checkpoint& checkpoint,
                                              const std::string& directory) {
  if (directory.empty()) {
    throw_invalid_argument("a PreemptionCheckpointHandler of a Checkpoint requires checkpoint_dir");
  }
  CheckpointManagerOptions options;
  options.max_to_keep = 1;
  options.workers = strategy.workers();
  return std::make_unique<CheckpointManager>(checkpoint, directory, std::move(options));
}

}  // namespace

// SIGTERM sets `terminated` for as long as this lives.
struct PreemptionCheckpointHandler::SignalWatch {
  SignalWatch() {
    if (watching.exchange(true)) {
      throw_failed_precondition("another PreemptionCheckpointHandler already waits for SIGTERM");
    }
    terminated = false;
    sigaction(SIGTERM, nullptr, &before);
    if (before.sa_handler == SIG_IGN) return;  // as nohup leaves it
    struct sigaction action {};
    action.sa_handler = [](int) { terminated = true; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
  }
  ~SignalWatch() {
    sigaction(SIGTERM, &before, nullptr);
    watching = false;
  }

  struct sigaction before {};
};

PreemptionCheckpointHandler::PreemptionCheckpointHandler(distribute::Strategy& strategy, const Checkpoint& checkpoint,
                                                         const PreemptionCheckpointOptions& options)
    : strategy_(strategy),
      own_manager_(manager_in(strategy, checkpoint, options.checkpoint_dir)),
      manager_(*own_manager_) {
  start(options.termination_config);
}

PreemptionCheckpointHandler::PreemptionCheckpointHandler(distribute::Strategy& strategy, const Checkpoint& checkpoint,
                                                         const TextArg& checkpoint_dir,
                                                         const TerminationConfig& termination_config)
    : PreemptionCheckpointHandler(strategy, checkpoint,
                                  {.checkpoint_dir = checkpoint_dir, .termination_config = termination_config}) {}

PreemptionCheckpointHandler::PreemptionCheckpointHandler(distribute::Strategy& strategy, CheckpointManager& manager,
                                                         const PreemptionCheckpointOptions& options)
    : strategy_(strategy), manager_(manager) {
  start(options.termination_config);
}

PreemptionCheckpointHandler::~PreemptionCheckpointHandler() = default;

void PreemptionCheckpointHandler::start(const TerminationConfig& config) {
  if (strategy_.name() == "ParameterServerStrategy") {
    throw_unimplemented("PreemptionCheckpointHandler does not support ParameterServerStrategy");
  }
  config_ = config;
  if (!config_.termination_watcher_fn) signal_ = std::make_unique<SignalWatch>();
  checkpointed_runs_ = runs_variable(manager_.checkpoint());
  manager_.restore_or_initialize();
  run_calls_ = checkpointed_runs_.value().item<std::int64_t>();
}

void PreemptionCheckpointHandler::save_checkpoint_if_preempted() {
  end_if_preempted();
  ++run_calls_;
}

void PreemptionCheckpointHandler::count_run(Clock::time_point start) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  mean_seconds_ += (seconds - mean_seconds_) / static_cast<double>(++run_calls_);
}

bool PreemptionCheckpointHandler::noticed() {
  if (signal_) return terminated;
  const auto now = Clock::now();
  if (now < next_question_) return false;
  next_question_ = now + std::chrono::seconds(1);
  return config_.termination_watcher_fn();
}

bool PreemptionCheckpointHandler::any_worker(bool here) const {
  collectives::Communicator* const workers = strategy_.communicator();
  if (!workers) return here;
  const Tensor count = Tensor::scalar(here ? 1.0F : 0.0F);
  workers->all_reduce(count);
  return count.item<float>() > 0;
}

void PreemptionCheckpointHandler::end_if_preempted() {
  if (!any_worker(end_ ? Clock::now() >= *end_ : noticed())) return;
  save();
  if (config_.grace_period > 0 && !end_) {
    // TensorFlow's margin: six calls before the end.
    const double seconds = std::max(config_.grace_period - 6 * mean_seconds_, 0.0);
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    return;
  }
  end_.reset();
  if (signal_) terminated = false;
  if (!config_.exit_fn) std::exit(kRestartStatus);
  config_.exit_fn();
}

void PreemptionCheckpointHandler::save() {
  checkpointed_runs_.assign(Tensor::scalar(run_calls_));
  if (config_.save_fn) {
    config_.save_fn();
  } else {
    manager_.save({}, false);
    manager_.wait();
  }
}

}  // namespace lockstep::train
