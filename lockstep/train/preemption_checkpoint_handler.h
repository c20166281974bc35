// Custom training loops that save and end when the job is preempted
// (tf.distribute.experimental.PreemptionCheckpointHandler).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/text_arg.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/train/checkpoint_manager.h"

namespace lockstep::train {

// How a preemption is noticed and how the program ends.
struct TerminationConfig {
  FieldNamesOnly names_only = {};
  // Whether this worker will be terminated soon; asked at most once a second. Empty: SIGTERM is the notice, unless the
  // process ignores it.
  std::function<bool()> termination_watcher_fn = {};
  // Called on every worker when the checkpoint is saved. Empty: std::exit(42), the status that TensorFlow's handler and
  // `lockstep fit` end with. If it returns, training continues.
  std::function<void()> exit_fn = {};
  // Seconds between the notice and the end of the process. If positive, training continues after the first checkpoint,
  // and a second one is saved before the end.
  double grace_period = 0;
  // Saves, in place of CheckpointManager::save().
  std::function<void()> save_fn = {};
};

struct PreemptionCheckpointOptions {
  FieldNamesOnly names_only = {};
  std::string checkpoint_dir = {};
  TerminationConfig termination_config = {};
};

// Runs the steps of a custom loop. When a worker of the job has got a notice of its termination, all workers save one
// checkpoint before the same step, then end. A new handler restores the newest checkpoint, so that the program, started
// again, continues:
//
//   distribute::experimental::PreemptionCheckpointHandler handler(strategy, checkpoint, "checkpoints");
//   for (auto epoch = handler.total_run_calls() / steps; epoch < epochs; ++epoch)
//     for (auto step = handler.total_run_calls() % steps; step < steps; ++step) handler.run(train_step,
//     next(iterator));
//
// Where TensorFlow takes the strategy's cluster resolver, it takes the strategy. Workers agree in each call of run(),
// which they make alike. There may be one handler at a time that waits for SIGTERM; the action of the signal is as
// before when it is destroyed.
class PreemptionCheckpointHandler {
 public:
  // Keeps one checkpoint in checkpoint_dir, which all workers see, and restores it if there is one. Throws
  // InvalidArgument without a folder, Unimplemented under a ParameterServerStrategy, FailedPrecondition for a second
  // handler that waits for SIGTERM.
  PreemptionCheckpointHandler(distribute::Strategy& strategy, const Checkpoint& checkpoint,
                              const PreemptionCheckpointOptions& options);
  PreemptionCheckpointHandler(distribute::Strategy& strategy, const Checkpoint& checkpoint,
                              const TextArg& checkpoint_dir, const TerminationConfig& termination_config = {});
  // With a manager that the program also saves with. It must live as long as the handler.
  PreemptionCheckpointHandler(distribute::Strategy& strategy, CheckpointManager& manager,
                              const PreemptionCheckpointOptions& options = {});
  ~PreemptionCheckpointHandler();
  PreemptionCheckpointHandler(const PreemptionCheckpointHandler&) = delete;
  PreemptionCheckpointHandler& operator=(const PreemptionCheckpointHandler&) = delete;

  // Saves and ends if the job is preempted; else the result of fn(args...).
  template <typename Fn, typename... Args>
  auto run(Fn&& fn, const Args&... args) {
    end_if_preempted();
    const auto start = Clock::now();
    if constexpr (std::is_void_v<decltype(fn(args...))>) {
      fn(args...);
      count_run(start);
    } else {
      auto result = fn(args...);
      count_run(start);
      return result;
    }
  }
  // Between the steps of a loop that calls them itself. Counts as a call of run().
  void save_checkpoint_if_preempted();
  // The number of complete calls of run(), with those before the restart.
  std::int64_t total_run_calls() const { return run_calls_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct SignalWatch;

  void start(const TerminationConfig& config);
  void end_if_preempted();
  void count_run(Clock::time_point start);
  bool noticed();
  bool any_worker(bool here) const;
  void save();

  distribute::Strategy& strategy_;
  const std::unique_ptr<CheckpointManager> own_manager_;  // null: the program's
  CheckpointManager& manager_;
  TerminationConfig config_;
  distribute::Variable checkpointed_runs_;
  std::int64_t run_calls_ = 0;
  double mean_seconds_ = 0;  // of a call
  std::unique_ptr<SignalWatch> signal_;
  Clock::time_point next_question_;       // to the termination_watcher_fn
  std::optional<Clock::time_point> end_;  // of the grace period that has begun
};

}  // namespace lockstep::train

namespace lockstep::distribute::experimental {
using train::PreemptionCheckpointHandler;
using train::TerminationConfig;
}  // namespace lockstep::distribute::experimental
