#include "lockstep/data/replay_limit_internal.h"

#include <ctime>

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/run_limits.h"

namespace lockstep::data {
namespace {

constexpr double kSeconds = 60;
// Between two looks at the clock.
constexpr int kElements = 64;

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

thread_local ReplayLimit* ReplayLimit::t_current = nullptr;

ReplayLimit::ReplayLimit() : before_(t_current) {
  const double given = graph::run_limits().max_seconds;
  clock_ = given != 0 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
  seconds_ = given != 0 ? given : kSeconds;
  end_ = seconds_of(clock_) + seconds_;
  if (before_ == nullptr) t_current = this;
}

ReplayLimit::~ReplayLimit() { t_current = before_; }

void ReplayLimit::count() {
  if (++elements_ % kElements != 0 || seconds_of(clock_) < end_) return;
  throw_error(
      Code::kDeadlineExceeded,
      fmt::format("restoring a dataset's iterator took more than {:g} s: its state counts more elements than can be "
                  "computed again in that time; raise max_seconds of set_run_limits() if it needs more",
                  seconds_));
}

}  // namespace lockstep::data
