// The rows of a gradient that has values in some rows only, as TensorFlow's IndexedSlices.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct RowSlices {
  Tensor indices;  // int64 [n]: rows of the dense tensor, in any order and number
  Tensor values;   // [n, …]
};

// A tensor of this shape that is the sum of the rows. Its dense value is made when it is first asked for (aten()).
Tensor tensor_of_rows(RowSlices rows, Shape shape);
// Whether a tensor was made by tensor_of_rows() and still has no dense value.
bool has_rows_only(const Tensor& tensor);

}  // namespace lockstep
