// What a gradient tape asks about a tensor that is not its own.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// Whether autograd has recorded no operation that computed it, as for variables and watched tensors.
bool is_leaf(const Tensor& value);

}  // namespace lockstep::ops
