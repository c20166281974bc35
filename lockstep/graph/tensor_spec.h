// Descriptions of tensors (tf.TensorSpec).
#pragma once

#include <string>

#include "lockstep/base/dtype.h"
#include "lockstep/base/shape.h"

namespace lockstep::graph {

// The description of a tensor before it is computed. kUnknownDim entries (a batch size) stay unknown.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::string name;  // may be empty

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace lockstep::graph
