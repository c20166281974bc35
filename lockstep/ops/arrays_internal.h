// NumPy's arrays (tensor/array_internal.h) as operands.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/ops/functions.h"
#include "lockstep/tensor/array_internal.h"

namespace lockstep::ops {

// The result as an array if x is one.
Tensor like(const Tensor& x, const Tensor& result);
// The result of two operands: an array of two arrays, or of an array and a number; next to a tensor a tensor.
Tensor like(const Tensor& a, const Tensor& b, const Tensor& result);
// The array in the dtype in which NumPy combines it with the number: integers next to a fraction are float64, booleans
// next to a whole number int64. A tensor as it is.
Tensor array_next_to(const Tensor& x, Number number);

// x[index] of an array, which can be assigned to; `index` has no ellipsis. Nothing for strings, and for indices that
// are not known or in reverse order.
std::optional<Tensor> array_slice(const Tensor& x, const std::vector<SliceSpec>& index);
// x[entries], of booleans or integers, whose value is `part`: of an array one that can be assigned to.
Tensor array_elements(const Tensor& x, const Tensor& entries, const Tensor& part);
// x[...] = values. Throws FailedPrecondition unless `part` was taken from an array, and InvalidArgument when the shapes
// cannot be broadcast.
void assign_part(const Tensor& part, const Tensor& values);

}  // namespace lockstep::ops
