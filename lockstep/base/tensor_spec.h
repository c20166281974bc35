// Descriptions of tensors (tf.TensorSpec).
#pragma once

#include <string>
#include <utility>

#include "lockstep/base/dtype.h"
#include "lockstep/base/shape.h"

namespace lockstep {

// The description of a tensor before it is computed: TensorSpec({kUnknownDim, 3}, float32, "x"). kUnknownDim entries (a
// batch size) stay unknown.
struct TensorSpec {
  TensorSpec() = default;  // of an unknown tensor
  TensorSpec(Shape shape, DType dtype = DType::kFloat32, std::string name = {})
      : dtype(dtype), shape(std::move(shape)), name(std::move(name)) {}

  DType dtype = DType::kInvalid;
  Shape shape = Shape::unknown_rank();
  std::string name;  // may be empty

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace lockstep
