// Vectors of variants: what RaggedTensorToVariant makes of the rows of a ragged tensor.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// A scalar variant that holds `parts`: the row splits of a ragged tensor, then its values.
Tensor variant_of(Tensors parts);
// The parts of such a scalar. Throws InvalidArgument for another value.
const Tensors& parts_of(const Tensor& variant);
// Scalar variants as a vector, and its elements.
Tensor variants(const Tensors& elements);
const Tensors& variants_in(const Tensor& vector);

}  // namespace lockstep::ops
