#include "lockstep/ops/ragged_elements_internal.h"

#include "lockstep/ops/call.h"
#include "lockstep/ops/variants_internal.h"

namespace lockstep::ops {

namespace {

Tensors parts_in(const RaggedTensor& ragged) {
  Tensors parts = ragged.ragged_rank() > 0 ? ragged.nested_row_splits() : Tensors();
  parts.push_back(ragged.flat_values());
  return parts;
}

}  // namespace

Tensor variant_of_ragged(const RaggedTensor& ragged) { return variant_of(parts_in(ragged)); }

Tensors variants_of_rows(const RaggedTensor& ragged) {
  return variants_in(call1("RaggedTensorToVariant", parts_in(ragged),
                           {{"RAGGED_RANK", static_cast<std::int64_t>(ragged.ragged_rank())},
                            {"Tsplits", DType::kInt64},
                            {"batched_input", true}}));
}

bool holds_ragged(const Tensor& leaf) { return leaf.defined() && leaf.dtype() == DType::kVariant && leaf.rank() == 0; }

RaggedTensor ragged_in(const Tensor& variant) {
  const Tensors& parts = parts_of(variant);
  return RaggedTensor::from_nested_row_splits(parts.back(), Tensors(parts.begin(), parts.end() - 1));
}

}  // namespace lockstep::ops
