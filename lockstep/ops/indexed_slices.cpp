#include "lockstep/ops/indexed_slices.h"

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep {

IndexedSlices::operator Tensor() const {
  if (!dense_shape.defined()) throw_invalid_argument("IndexedSlices without a dense_shape cannot become a tensor");
  return ops::scatter_nd(ops::expand_dims(indices, -1), values, ops::cast(dense_shape, indices.dtype()));
}

}  // namespace lockstep
