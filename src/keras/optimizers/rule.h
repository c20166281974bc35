// Helpers for writing update rules: the fused path and values in place.
#pragma once

#include "lockstep/keras/optimizers/fields.h"
#include "lockstep/ops/autograd.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/optimizer_kernels.h"
#include "lockstep/ops/slices.h"

namespace lockstep::optimizers {

// The memory of a variable, safe to be written to.
inline Tensor& writable(const VariablePtr& variable) {
  Tensor& value = variable->shared_value();
  ops::make_writable(value);
  return value;
}

// Whether the fused kernels take it; those that square the gradient take none with slices.
inline bool fusable(const VariablePtr& variable, const Tensor& gradient) {
  return !ops::slices_of(gradient) && ops::fusable(variable->shared_value(), gradient);
}

// One variable of a step with those of its slots that exist.
inline ops::FusedUpdate fused_update(const VariablePtr& variable, const Tensor& gradient, float decay,
                                     std::initializer_list<const VariablePtr*> slots) {
  ops::FusedUpdate update;
  update.value = writable(variable);
  update.gradient = gradient;
  update.decay = decay;
  int i = 0;
  for (const VariablePtr* slot : slots) {
    if (slot && *slot) update.slots[i] = writable(*slot);
    ++i;
  }
  return update;
}

// Throws InvalidArgument unless low <= value < high.
void check_range(const char* who, const char* what, double value, double low, double high);

}  // namespace lockstep::optimizers
