// The clocks of POSIX in seconds.
#pragma once

#include <ctime>

namespace lockstep {

// CLOCK_MONOTONIC_COARSE is exact to some milliseconds, and the cheapest to read.
inline double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace lockstep
