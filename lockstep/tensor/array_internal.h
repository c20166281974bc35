// Tensors that stand for NumPy's arrays: what Tensor::numpy() returns, its parts, and what NumPy's functions give. They
// print as arrays, and next to a tensor they take its dtype, as TensorFlow converts arrays.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

bool is_array(const Tensor& tensor);
// The same value as a tensor: what tf.convert_to_tensor makes of an array.
Tensor as_tensor(const Tensor& array);
// The array's memory is used elsewhere from now on: it is copied before the array changes.
void share_memory(const Tensor& array);

}  // namespace lockstep
