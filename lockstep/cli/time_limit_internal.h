// A limit on the time that a Keras model takes.
#pragma once

#include <cstdint>
#include <thread>

#include "lockstep/cli/options_internal.h"

namespace lockstep::cli {

// The seconds that one run of a model may take: 5, and 1 for each megabyte of `held` (held_bytes).
double run_seconds(std::int64_t held);

// While one lives, the process ends with an error once it has both lived and computed (CPU time of all threads) for
// longer than --max-seconds, or than `otherwise` where that was not given: what a small file asks for is bounded, and a
// busy machine does not matter.
class TimeLimit {
 public:
  TimeLimit(const Arguments& arguments, double otherwise);

 private:
  std::jthread thread_;
};

}  // namespace lockstep::cli
