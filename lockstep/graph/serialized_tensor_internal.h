// Values as TensorProtos in strings.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::graph {

Tensor serialized(const Tensor& tensor);
// Throws DataLoss for bytes that are not a tensor, InvalidArgument for several strings and for another dtype.
Tensor parsed(const Tensor& bytes, DType dtype);

}  // namespace lockstep::graph
