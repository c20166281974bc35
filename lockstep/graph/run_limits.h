// How much a loaded graph may use while it runs: a file of a few kilobytes can ask for any amount.
#pragma once

#include <cstdint>
#include <limits>

namespace lockstep::graph {

// Limits of one run. Beyond max_memory, max_iterations or max_depth a run throws ResourceExhausted, beyond max_seconds
// DeadlineExceeded; the message names the node. Operations are not interrupted: the time is checked between
// them. `lockstep predict` ends when one takes two seconds longer.
struct RunLimits {
  // Bytes of the tensors that exist at one time in host memory, without constants and variables. 0: 1.5 GiB and 64
  // times the bytes of the inputs and of the model's files.
  std::int64_t max_memory = 0;
  // Wall-clock time. 0: 5 s, and 1 s more for each megabyte of inputs and files, of CPU time of this process (or 12
  // times as much wall-clock time, for a run that waits).
  double max_seconds = 0;
  // Iterations of all loops of the run together.
  std::int64_t max_iterations = 1'000'000;
  // Functions that call functions, at most 1000.
  int max_depth = 64;

  // For graphs that the program has made itself; only max_depth stays.
  static RunLimits none() {
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
    return {kNone, std::numeric_limits<double>::infinity(), kNone, 64};
  }
};

// The limits of the SavedModels and frozen graphs that this process loads from now on; RunLimits{} at first.
// Thread-safe.
RunLimits run_limits();
// Throws InvalidArgument for limits that no run can have.
void set_run_limits(const RunLimits& limits);

}  // namespace lockstep::graph
