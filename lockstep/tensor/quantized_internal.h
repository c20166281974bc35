// Quantized types: integers with another name. Their memory is that of the plain type, and kernels that only move
// values about see that one.
#pragma once

#include "lockstep/tensor/aten_internal.h"

namespace lockstep {

inline bool is_quantized(DType dtype) {
  return dtype == DType::kQInt8 || dtype == DType::kQUInt8 || dtype == DType::kQInt32 || dtype == DType::kQInt16 ||
         dtype == DType::kQUInt16;
}

// `value` under the name `dtype`, which to_scalar_type() must map to its type. Throws Internal for another one.
Tensor wrap_as(at::Tensor value, DType dtype);

}  // namespace lockstep
