// tf.IndexedSlices: rows of a tensor, which variables are updated with.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Row i of `values` belongs to row indices[i]: v.scatter_add(IndexedSlices({{1.0, 2.0}}, {3})).
struct IndexedSlices {
  Tensor values;
  Tensor indices;
  Tensor dense_shape = {};

  // convert_to_tensor(): rows of one index are added up, others are 0. Throws InvalidArgument without a dense_shape.
  operator Tensor() const;
  DType dtype() const { return values.dtype(); }
};

}  // namespace lockstep
