// Ragged tensors as elements of datasets: scalar variants that hold the row splits of each ragged axis and the values.
// Rows of a ragged tensor that are plain tensors are such variants, too, of no splits, so that batch() joins rows of
// different lengths.
#pragma once

#include "lockstep/ops/ragged_tensor.h"

namespace lockstep::ops {

Tensor variant_of_ragged(const RaggedTensor& ragged);
// Such a variant for each row, of a tensor without ragged axes, too.
Tensors variants_of_rows(const RaggedTensor& ragged);
bool holds_ragged(const Tensor& leaf);
// Throws InvalidArgument unless holds_ragged(variant).
RaggedTensor ragged_in(const Tensor& variant);
// The rows of a sparse tensor of two axes that an operation returns, as its indices, values and shape, in a function
// that is traced: each row has values at its first places.
RaggedTensor traced_rows_of(const Tensors& sparse);

}  // namespace lockstep::ops
