// Random calls of the operations of the op table, made from their signatures.
#pragma once

#include <string>
#include <vector>

#include "fuzz/execution/isolated.h"
#include "lockstep/ops/op.h"

namespace lockstep::fuzz {

struct OpCall {
  const ops::Op* op = nullptr;
  Tensors inputs;
  ops::Attrs attrs;
};

// The call of case `seed`, of one of `names`.
OpCall make_op_call(std::uint64_t seed, const std::vector<std::string>& names);
std::string describe(const OpCall& call);

// Runs a call as a program does, and with shapes only, and computes its gradients. Each must end with a result or an
// Error (InvalidArgument, Unimplemented, ResourceExhausted, OutOfRange, FailedPrecondition) that names the operation;
// results must have the dtypes of the signature and the shapes of the shape rule.
Outcome run_op_call(const OpCall& call);

// All operations that have a kernel.
Target op_calls_target(std::vector<std::string> names);

}  // namespace lockstep::fuzz
