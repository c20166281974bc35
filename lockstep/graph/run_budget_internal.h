// The remaining RunLimits of one run. Internal to lockstep/graph.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "lockstep/graph/run_limits.h"
#include "lockstep/ops/memory_limit_internal.h"

namespace lockstep::graph {

class RunBudget {
 public:
  // `held`: bytes of the inputs and of the model's files. Tensors that this thread makes count while the object lives,
  // unless an outer run counts them already. Throws InvalidArgument for limits that are not positive.
  RunBudget(const RunLimits& limits, std::int64_t held);
  ~RunBudget();
  RunBudget(const RunBudget&) = delete;
  RunBudget& operator=(const RunBudget&) = delete;

  // Called before each operation, with the name of its node, which must outlive the run. Throws DeadlineExceeded when
  // the time is over.
  void begin_step(const std::string& node) {
    node_.store(&node, std::memory_order_release);
    check_time();
  }
  // Called for each iteration of a loop: throws ResourceExhausted when there were too many, and checks the time.
  void count_iteration() {
    if (++iterations_ > max_iterations_) throw_too_many_iterations();
    check_time();
  }

  // Whether a run of `wall` seconds, in which the process used `cpu` seconds, is over its time. A time that was `given`
  // is wall-clock time. The default is time of the CPU, so that a busy machine ends no run; one that waits is over its
  // time after 12 times as long.
  static bool is_over(double seconds, bool given, double wall, double cpu);
  // The error of a run that is `grace` seconds over its time.
  std::optional<std::string> overdue(double grace) const;

  // While one lives, one more function is being run. Throws ResourceExhausted when there are too many.
  class Call {
   public:
    Call(RunBudget& budget, std::string_view what);
    ~Call() { --budget_.depth_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    RunBudget& budget_;
  };

 private:
  static double now();  // seconds, exact to some milliseconds
  void check_time() {
    if (timed_ && now() > next_check_) check_clocks();
  }
  void check_clocks();
  bool is_over(double grace) const;
  std::string late() const;
  [[noreturn]] void throw_too_many_iterations() const;

  bool timed_ = false, given_ = false;
  double seconds_ = 0, begin_ = 0, begin_cpu_ = 0;
  double next_check_ = 0;
  std::atomic<const std::string*> node_ = nullptr;
  std::int64_t iterations_ = 0, max_iterations_ = 0;
  int depth_ = 0, max_depth_ = 0;
  std::optional<ops::MemoryLimit> memory_;
};

// Calls `on_overdue`, once, with the message of a run of this process that is `grace` seconds over its max_seconds:
// operations are not interrupted, and one alone can take minutes. That run does not end before `on_overdue` returns.
class RunWatchdog {
 public:
  RunWatchdog(double grace, std::function<void(const std::string&)> on_overdue);

 private:
  std::jthread thread_;
};

}  // namespace lockstep::graph
