// Numbers as operands of tensors.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// The number as a scalar of the tensor's dtype. Throws InvalidArgument when the dtype cannot hold it, as an integer
// dtype cannot hold a fraction.
Tensor number_like(const Tensor& other, Number number);

}  // namespace lockstep::ops
