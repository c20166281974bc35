// What a gradient tape asks about a tensor that is not its own.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// Whether it is no operation's result for autograd.
bool is_leaf(const Tensor& value);

}  // namespace lockstep::ops
