// Static inference of one operation: dtypes, shapes, and values that are known while building.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/ops/call.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::graph {

struct Inferred {
  DType dtype = DType::kInvalid;
  Shape shape;
  std::optional<Shape> as_shape;  // of an integer vector (or scalar: one entry) whose entries are partly known
};

// Shapes by the op table; shapes behind variable handles; partial values of shape arithmetic
// (Shape, StridedSlice, Pack, ConcatV2, Cast, Identity, Mul, Add, Sub, FloorDiv, …).
std::vector<Inferred> infer(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs);

// Small integer and boolean results that follow from constants or static shapes are computed at once:
// the outputs as values, or nothing where the operation must be recorded.
std::optional<Tensors> fold(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs,
                            std::span<const Inferred> inferred);

// The variable behind a handle: of a resource value, or of a symbol that stands for a captured one; null if unknown.
VariableResource* variable_of(const Tensor& handle);

}  // namespace lockstep::graph
