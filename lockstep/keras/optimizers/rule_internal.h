// Helpers for writing update rules: values in place.
#pragma once

#include "lockstep/keras/optimizers/fields_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/optimizer_kernels_internal.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::optimizers {

// The memory of a variable, safe to be written to.
inline Tensor& writable(const VariablePtr& variable) {
  Tensor& value = variable->shared_value();
  ops::make_writable(value);
  return value;
}

// Calls update() with the gradient's slices, one for each row, while the value and the slots are their rows only; null
// slots are left out.
void update_rows(const Tensor& gradient, Tensor& value, std::span<const VariablePtr> slots,
                 const std::function<void(const Tensor&)>& update);

// Throws InvalidArgument unless low <= value < high.
void check_range(const char* who, const char* what, double value, double low, double high);

}  // namespace lockstep::optimizers
