// A limit on the time that a command takes to load and run a model.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/cli/options_internal.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::cli {

// A generous estimate of the seconds that a model takes for all rows of its inputs once: 1 for each megabyte of its
// weights, 8 for each megabyte of the inputs, and 60 for each product of the two: every number of the inputs may meet
// every weight, with 2 operations, at 2 GFLOP/s.
double most_seconds(const keras::Model& model, const std::vector<Tensor>& inputs);

// Ends the process with an error as soon as the CPU time of all threads since its construction exceeds --max-seconds,
// or what was allowed if that was not given, and half of that has passed: so the time that a small file can take is
// bounded, a busy machine does not matter, and many cores may wait for work. At first as much is allowed as files of
// the size of the command's may take to be loaded: 8 s, and 1 for each 10 MB.
class TimeLimit {
 public:
  explicit TimeLimit(const Arguments& arguments);
  // Adds the seconds of a computation.
  void allow(double seconds);
  // Begins again, with the time for loading.
  void restart();

 private:
  void watch(const std::stop_token& stop);

  std::optional<double> given_;
  const double loading_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  double allowed_, wall_, cpu_;
  std::jthread thread_;
};

}  // namespace lockstep::cli
