// Loops whose test and body are programs on small tensors. Internal to lockstep.
#pragma once

#include <functional>
#include <vector>

#include "lockstep/ops/small_program_internal.h"

namespace lockstep::ops {

// The test or the body of a loop as a program.
struct SmallLoopPart {
  const SmallProgram* program = nullptr;
  std::vector<int> variables;  // by input of the program: the loop's variable
  std::vector<int> results;    // the value of the test, or of each variable: an output of the program, or ~variable
};

// Runs iterations, `next` before each, until the test gives false or something is not small; `variables` are then those
// after the last complete iteration. The caller continues with the test.
void run_small_loop(const SmallLoopPart& test, const SmallLoopPart& body, Tensors& variables,
                    const std::function<void()>& next);

}  // namespace lockstep::ops
