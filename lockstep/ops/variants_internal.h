// Vectors of variants: RaggedTensorToVariant's result for the rows of a ragged tensor, and SerializeSparse's for a
// sparse one.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// A scalar variant that holds `parts`: the row splits of a ragged tensor, then its values; or one tensor.
Tensor variant_of(Tensors parts);
// The parts of such a scalar. Throws InvalidArgument for another value.
const Tensors& parts_of(const Tensor& variant);
// Variants of one shape with one more axis in front, and the elements along that axis.
Tensor variants(const Tensors& elements);
const Tensors& variants_in(const Tensor& vector);

}  // namespace lockstep::ops
