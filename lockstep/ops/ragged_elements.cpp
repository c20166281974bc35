#include "lockstep/ops/ragged_elements_internal.h"

#include "lockstep/ops/variants_internal.h"

namespace lockstep::ops {

Tensor variant_of_ragged(const RaggedTensor& ragged) {
  Tensors parts = ragged.ragged_rank() > 0 ? ragged.nested_row_splits() : Tensors();
  parts.push_back(ragged.flat_values());
  return variant_of(std::move(parts));
}

bool holds_ragged(const Tensor& leaf) { return leaf.defined() && leaf.dtype() == DType::kVariant && leaf.rank() == 0; }

RaggedTensor ragged_in(const Tensor& variant) {
  const Tensors& parts = parts_of(variant);
  return RaggedTensor::from_nested_row_splits(parts.back(), Tensors(parts.begin(), parts.end() - 1));
}

}  // namespace lockstep::ops
