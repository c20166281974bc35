// Structures of tensors, as Keras's inputs, outputs and masks come.
#pragma once

#include "lockstep/base/nested.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

using lockstep::Nested;
using Structure = Nested<Tensor>;

}  // namespace lockstep::keras
