// A limit on the time that a Keras model takes.
#pragma once

#include <thread>
#include <vector>

#include "lockstep/cli/options_internal.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::cli {

// A generous estimate of the seconds that a model takes for all rows of its inputs once: 1 for each megabyte of its
// weights, 8 for each megabyte of the inputs, and 60 for each product of the two: every number of the inputs may meet
// every weight, with 2 operations, at 2 GFLOP/s.
double most_seconds(const keras::Model& model, const std::vector<Tensor>& inputs);

// Ends the process with an error as soon as both the time and the CPU time of all threads since its construction exceed
// --max-seconds, or `otherwise` if that was not given. So the time that a small file can take is bounded, and a busy
// machine does not matter.
class TimeLimit {
 public:
  TimeLimit(const Arguments& arguments, double otherwise);

 private:
  std::jthread thread_;
};

}  // namespace lockstep::cli
