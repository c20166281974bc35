// NumPy's arrays (tensor/array_internal.h) as operands.
#pragma once

#include "lockstep/tensor/array_internal.h"

namespace lockstep::ops {

// The result as an array if x is one.
Tensor like(const Tensor& x, const Tensor& result);
// The result of two operands: an array of two arrays, or of an array and a number; next to a tensor a tensor.
Tensor like(const Tensor& a, const Tensor& b, const Tensor& result);
// The array in the dtype in which NumPy combines it with the number: integers next to a fraction are float64, booleans
// next to a whole number int64. A tensor as it is.
Tensor array_next_to(const Tensor& x, Number number);

}  // namespace lockstep::ops
