// The time of a restore, in which elements are computed again whose number is one of a file.
#pragma once

#include <ctime>

#include <cstdint>

namespace lockstep::data {

// While one lives, restores of this thread end with DeadlineExceeded after max_seconds of graph::run_limits(), by
// default after 60 s of CPU time.
class ReplayLimit {
 public:
  ReplayLimit();
  ~ReplayLimit();
  ReplayLimit(const ReplayLimit&) = delete;
  ReplayLimit& operator=(const ReplayLimit&) = delete;
  // Called for each element or pass that is left out.
  static void check() {
    if (t_current != nullptr) t_current->count();
  }

 private:
  void count();
  static thread_local ReplayLimit* t_current;

  ReplayLimit* const before_;
  clockid_t clock_;
  double seconds_, end_;
  std::int64_t elements_ = 0;
};

}  // namespace lockstep::data
