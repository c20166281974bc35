// A recurrent layer over all its steps as one step of a program.
#pragma once

#include "lockstep/inference/step_internal.h"
#include "lockstep/ops/recurrent_internal.h"

namespace lockstep::inference {

struct Recurrence {
  ops::RecurrentPass pass;  // without its memory
  std::int64_t batch = 0;
  Constant kernel, bias;   // the recurrent weights, and the bias of their product where a GRU has one
  bool sequences = false;  // the outputs of all steps instead of the last
  bool masked = false;
  bool gives_states = false;  // h and c (floats each: aligned(batch · units)) follow the aligned output in the result
};
std::int64_t floats_of(const Recurrence& layer);  // of the result

// Reads the input's part of the gates, h, c of an LSTM, and the mask if there is one.
StepPtr recurrent(std::vector<int> reads, int result, Dims dims, Recurrence layer);

}  // namespace lockstep::inference
