#include "lockstep/graph/scratch_internal.h"

#include "lockstep/graph/infer_internal.h"
#include "lockstep/graph/trace_internal.h"
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

class ScratchRecorder : public ops::Recorder,
                        public ops::ControlFlowRecorder,
                        public std::enable_shared_from_this<ScratchRecorder> {
 public:
  Tensors record_while(const std::function<Tensor(const Tensors&)>& cond,
                       const std::function<Tensors(const Tensors&)>& body, const Tensors& initial) override {
    return while_loop(cond, body, initial);
  }
  Tensors record_cond(const Tensor& predicate, const std::function<Tensors()>& true_fn,
                      const std::function<Tensors()>& false_fn) override {
    return graph::cond(predicate, true_fn, false_fn);
  }
  std::vector<ops::OutputType> infer(const std::function<Tensors(const Tensors&)>& fn,
                                     const std::vector<ops::OutputType>& inputs) override {
    Tensors symbols;
    for (const ops::OutputType& input : inputs)
      symbols.push_back(Tensor::symbol(std::make_shared<ScratchSymbol>(shared_from_this(), input.dtype, input.shape)));
    std::vector<ops::OutputType> results;
    for (const Tensor& result : fn(symbols)) results.push_back({result.dtype(), result.shape()});
    return results;
  }
  Tensors record(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs) override {
    std::vector<Inferred> outputs = graph::infer(op, inputs, attrs);
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
