#include "lockstep/graph/run_budget_internal.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/clock_internal.h"
#include "lockstep/base/error.h"
#include "lockstep/graph/default_memory_internal.h"

namespace lockstep::graph {
namespace {

constexpr std::int64_t kMemory = std::int64_t{3} << 29, kMemoryOfByte = 64;
constexpr double kSeconds = 5, kSecondsOfByte = 1e-6;
constexpr double kWaiting = 12;         // how many times longer a run may wait than compute
constexpr double kCheckInterval = 0.1;  // seconds between two looks at the CPU's time
constexpr int kMaxDepth = 1000;         // the stack of a thread holds some thousand

void check(const RunLimits& limits) {
  if (limits.max_memory < 0 || !(limits.max_seconds >= 0) || limits.max_iterations < 0 || limits.max_depth < 1 ||
      limits.max_depth > kMaxDepth) {
    throw_invalid_argument(
        fmt::format("invalid RunLimits: found max_memory {}, max_seconds {}, max_iterations {}, max_depth {}; expected "
                    "numbers that "
                    "are not negative and a max_depth of 1 to {}",
                    limits.max_memory, limits.max_seconds, limits.max_iterations, limits.max_depth, kMaxDepth));
  }
}

std::mutex& limits_mutex() {
  static std::mutex mutex;
  return mutex;
}
RunLimits& limits_of_process() {
  static RunLimits limits;
  return limits;
}

// The timed runs of this process.
struct Runs {
  std::mutex mutex;
  std::set<const RunBudget*> budgets;
};
Runs& runs() {
  static auto* const runs = new Runs();  // outlives the threads that run graphs while the process exits
  return *runs;
}

}  // namespace

RunLimits run_limits() {
  const std::lock_guard lock(limits_mutex());
  return limits_of_process();
}

void set_run_limits(const RunLimits& limits) {
  check(limits);
  const std::lock_guard lock(limits_mutex());
  limits_of_process() = limits;
}

std::int64_t default_memory(std::int64_t held) {
  std::int64_t bytes = 0;
  return __builtin_mul_overflow(held, kMemoryOfByte, &bytes) || __builtin_add_overflow(bytes, kMemory, &bytes)
             ? std::numeric_limits<std::int64_t>::max()
             : bytes;
}

RunBudget::RunBudget(const RunLimits& limits, std::int64_t held)
    : max_iterations_(limits.max_iterations), max_depth_(limits.max_depth) {
  check(limits);
  given_ = limits.max_seconds != 0;
  seconds_ = given_ ? limits.max_seconds : kSeconds + kSecondsOfByte * static_cast<double>(held);
  timed_ = std::isfinite(seconds_);
  if (timed_) {
    begin_ = now();
    next_check_ = begin_ + seconds_;
    if (!given_) begin_cpu_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  }
  const std::int64_t bytes = limits.max_memory != 0 ? limits.max_memory : default_memory(held);
  if (bytes != std::numeric_limits<std::int64_t>::max() && !ops::MemoryLimit::active()) memory_.emplace(bytes);
  if (timed_) {
    const std::lock_guard lock(runs().mutex);
    runs().budgets.insert(this);
  }
}

RunBudget::~RunBudget() {
  if (!timed_) return;
  const std::lock_guard lock(runs().mutex);
  runs().budgets.erase(this);
}

double RunBudget::now() { return seconds_of(CLOCK_MONOTONIC_COARSE); }

bool RunBudget::is_over(double seconds, bool given, double wall, double cpu) {
  return wall > seconds && (given || cpu > seconds || wall > kWaiting * seconds);
}

bool RunBudget::is_over(double grace) const {
  const double cpu = given_ ? 0 : seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_;
  return is_over(seconds_ + grace, given_, now() - begin_, cpu);
}

void RunBudget::check_clocks() {
  if (is_over(0)) throw_error(Code::kDeadlineExceeded, late());
  next_check_ = now() + kCheckInterval;
}

std::string RunBudget::late() const {
  return fmt::format("the run took more than {:g} s; raise max_seconds (--max-seconds) if it needs more", seconds_);
}

std::optional<std::string> RunBudget::overdue(double grace) const {
  const std::string* node = node_.load(std::memory_order_acquire);
  if (node == nullptr || !is_over(grace)) return std::nullopt;
  return fmt::format("{} [node '{}']", late(), *node);
}

void RunBudget::throw_too_many_iterations() const {
  throw_resource_exhausted(fmt::format(
      "the loops of the run made more than {} iterations; raise max_iterations (--max-iterations) if it needs more",
      max_iterations_));
}

RunBudget::Call::Call(RunBudget& budget, std::string_view what) : budget_(budget) {
  if (budget.depth_ >= budget.max_depth_) {
    throw_resource_exhausted(
        fmt::format("{}: functions call each other more than {} deep; raise max_depth (--max-depth) "
                    "if they need to",
                    what, budget.max_depth_));
  }
  ++budget.depth_;
}

RunWatchdog::RunWatchdog(double grace, std::function<void(const std::string&)> on_overdue)
    : thread_([grace, on_overdue = std::move(on_overdue)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        while (!stop.stop_requested()) {
          {
            const std::lock_guard lock(runs().mutex);
            for (const RunBudget* budget : runs().budgets) {
              if (const auto message = budget->overdue(grace)) return on_overdue(*message);
            }
          }
          std::unique_lock lock(mutex);
          stopped.wait_for(lock, stop, std::chrono::milliseconds(100), [] { return false; });
        }
      }) {}

}  // namespace lockstep::graph
