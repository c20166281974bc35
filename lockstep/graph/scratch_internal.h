// Shapes without values: the result shapes of a computation for inputs of known dtype and shape.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/tensor_spec.h"
#include "lockstep/ops/call.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::graph {

// While one lives, this thread's variable reads and stateful operations (assignments, random draws)
// only infer dtypes and shapes, and so does every operation on a tensor that input() gave. Nothing is
// computed and no variable changes. Results may outlive the scope; only dtype() and shape() of them
// mean anything. Small integer tensors that follow from static shapes come out as values.
//
//   graph::ScratchScope scratch;
//   Tensor y = layer.call(scratch.input(DType::kFloat32, {kUnknownDim, 28, 28, 1}));   // y.shape()
//
// Code that makes variables inside must run their initializers outside of it, under
// `ops::ScopedRecorder eager(nullptr)`.
class ScratchScope {
 public:
  ScratchScope();
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

  Tensor input(DType dtype, Shape shape);
  Tensor input(const TensorSpec& spec) { return input(spec.dtype, spec.shape); }

 private:
  std::shared_ptr<ops::Recorder> recorder_;
  std::unique_ptr<ops::ScopedRecorder> active_;
};

}  // namespace lockstep::graph
