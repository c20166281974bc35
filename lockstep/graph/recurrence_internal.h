// Recurrent layers in traces that become programs: one call computes all steps, and programs compute it by the loops of
// lockstep/ops.
#pragma once

#include <functional>

#include "lockstep/ops/fused_internal.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::graph {

// While it lives, the traces of this thread run as programs and are exported to no file.
class ScopedProgramTrace {
 public:
  ScopedProgramTrace();
  ~ScopedProgramTrace();
  ScopedProgramTrace(const ScopedProgramTrace&) = delete;
  ScopedProgramTrace& operator=(const ScopedProgramTrace&) = delete;
  // Whether operations of this thread are recorded in such a trace.
  static bool active();

 private:
  bool previous_;
};

struct Recurrence {
  ops::RecurrentOptions options;
  Tensor projected, kernel, bias, mask;  // as try_recurrent() takes them; bias and mask may be undefined
  Tensors states;
  bool gives_states = true;  // or the output alone
};
// The output and the states, or nothing if programs lack it. steps(projected, mask, states) are the plain operations.
using PlainSteps = std::function<Tensors(const Tensor& projected, const Tensor& mask, const Tensors& states)>;
Tensors try_record_recurrence(const Recurrence& layer, const PlainSteps& steps);

}  // namespace lockstep::graph
