// Variables in memory that other workers write to.
#pragma once

#include <memory>

#include "lockstep/distribute/variable.h"

namespace lockstep::distribute {

// Members of VariableImpl for optimizers that share their updates with other workers.
struct VariableMemory {
  // Puts the value, which all copies share, into memory to which other workers write during a step (a slot of an
  // optimizer). Reads give copies of it, until another value is written to the variable.
  static void set(VariableImpl& variable, Tensor value);
  // Other workers are still computing parts of the value: the next read or write waits for them, and throws what that
  // throws. Null: no longer.
  static void set_pending_update(VariableImpl& variable, std::shared_ptr<collectives::Pending> update);
  // The value across replicas, for callers that read it between two steps and keep no reference to it.
  static Tensor value_without_copy(const VariableImpl& variable);
};

}  // namespace lockstep::distribute
