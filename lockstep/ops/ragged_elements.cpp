#include "lockstep/ops/ragged_elements_internal.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/variants_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::ops {

namespace {

Tensors parts_in(const RaggedTensor& ragged) {
  Tensors parts = ragged.ragged_rank() > 0 ? ragged.nested_row_splits() : Tensors();
  parts.push_back(ragged.flat_values());
  return parts;
}

// A ragged tensor of a function that is traced.
class RaggedSymbol : public Symbol {
 public:
  explicit RaggedSymbol(Tensors parts) : Symbol(DType::kVariant, Shape{}), parts(std::move(parts)) {}
  ops::Recorder& recorder() const override {
    throw_unimplemented("ragged tensors of traced functions have to_tensor(), flat_values() and row_splits() only");
  }

  const Tensors parts;
};

}  // namespace

Tensor variant_of_ragged(const RaggedTensor& ragged) {
  Tensors parts = parts_in(ragged);
  if (std::any_of(parts.begin(), parts.end(), [](const Tensor& part) { return part.is_symbolic(); }))
    return Tensor::symbol(std::make_shared<RaggedSymbol>(std::move(parts)));
  return variant_of(std::move(parts));
}

Tensors variants_of_rows(const RaggedTensor& ragged) {
  return variants_in(call1("RaggedTensorToVariant", parts_in(ragged),
                           {{"RAGGED_RANK", static_cast<std::int64_t>(ragged.ragged_rank())},
                            {"Tsplits", DType::kInt64},
                            {"batched_input", true}}));
}

bool holds_ragged(const Tensor& leaf) { return leaf.defined() && leaf.dtype() == DType::kVariant && leaf.rank() == 0; }

RaggedTensor ragged_in(const Tensor& variant) {
  const auto symbol = variant.is_symbolic() ? std::dynamic_pointer_cast<const RaggedSymbol>(variant.symbol_value())
                                            : std::shared_ptr<const RaggedSymbol>();
  const Tensors& parts = symbol ? symbol->parts : parts_of(variant);
  return RaggedTensor::from_nested_row_splits(parts.back(), Tensors(parts.begin(), parts.end() - 1));
}

RaggedTensor traced_rows_of(const Tensors& sparse) {
  const Tensor rows = reshape(slice(sparse[0], {0, 0}, {-1, 1}), {-1});
  const Tensor count = reshape(slice(sparse[2], {0}, {1}), Shape{});
  const Tensor lengths = call1("UnsortedSegmentSum", {ones_like(rows), rows, count});
  const Tensor zero = Tensor::from_vector(std::vector<std::int64_t>{0});
  return RaggedTensor::from_row_splits(sparse[1], concat({zero, cumsum(lengths, 0)}, 0));
}

}  // namespace lockstep::ops
