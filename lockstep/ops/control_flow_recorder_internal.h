// Loops and branches whose conditions are not known while a graph is traced or shapes are inferred.
#pragma once

#include <functional>
#include <vector>

#include "lockstep/ops/call.h"

namespace lockstep::ops {

// Of recorders that have them: those of graphs and of shapes.
class ControlFlowRecorder {
 public:
  virtual ~ControlFlowRecorder() = default;
  virtual Tensors record_while(const std::function<Tensor(const Tensors&)>& cond,
                               const std::function<Tensors(const Tensors&)>& body, const Tensors& initial) = 0;
  virtual Tensors record_cond(const Tensor& predicate, const std::function<Tensors()>& true_fn,
                              const std::function<Tensors()>& false_fn) = 0;
  // Dtypes and shapes of fn's results; nothing is recorded.
  virtual std::vector<OutputType> infer(const std::function<Tensors(const Tensors&)>& fn,
                                        const std::vector<OutputType>& inputs) = 0;
};

// That of a symbol. Throws InvalidArgument, naming the function, where it has none: outside of layers, in the
// functional API.
ControlFlowRecorder& control_flow_recorder(const Tensor& symbol, const char* function);

}  // namespace lockstep::ops
