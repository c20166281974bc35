#include "lockstep/graph/scratch_internal.h"

#include "lockstep/graph/infer_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::graph {
namespace {

class ScratchRecorder;

class ScratchSymbol : public Symbol {
 public:
  ScratchSymbol(std::shared_ptr<ScratchRecorder> recorder, DType dtype, Shape shape, std::optional<Shape> entries = {})
      : Symbol(dtype, std::move(shape)), recorder_(std::move(recorder)), entries_(std::move(entries)) {}

  ops::Recorder& recorder() const override;
  std::optional<Shape> value_as_shape() const override { return entries_; }

 private:
  std::shared_ptr<ScratchRecorder> recorder_;
  std::optional<Shape> entries_;
};

class ScratchRecorder : public ops::Recorder, public std::enable_shared_from_this<ScratchRecorder> {
 public:
  Tensors record(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs) override {
    std::vector<Inferred> outputs = infer(op, inputs, attrs);
    if (auto values = fold(op, inputs, attrs, outputs)) return *std::move(values);
    Tensors symbols;
    for (Inferred& output : outputs) {
      symbols.push_back(Tensor::symbol(std::make_shared<ScratchSymbol>(
          shared_from_this(), output.dtype, std::move(output.shape), std::move(output.as_shape))));
    }
    return symbols;
  }
};

ops::Recorder& ScratchSymbol::recorder() const { return *recorder_; }

}  // namespace

ScratchScope::ScratchScope()
    : recorder_(std::make_shared<ScratchRecorder>()), active_(std::make_unique<ops::ScopedRecorder>(recorder_.get())) {}

ScratchScope::~ScratchScope() = default;

Tensor ScratchScope::input(DType dtype, Shape shape) {
  auto recorder = std::static_pointer_cast<ScratchRecorder>(recorder_);
  return Tensor::symbol(std::make_shared<ScratchSymbol>(std::move(recorder), dtype, std::move(shape)));
}

}  // namespace lockstep::graph
