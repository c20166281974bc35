// Structures of tensors, as Keras's inputs, outputs and masks come.
#pragma once

#include "lockstep/tensor/structure.h"

namespace lockstep::keras {

using lockstep::Nested;
using Structure = Nested<Tensor>;

}  // namespace lockstep::keras
