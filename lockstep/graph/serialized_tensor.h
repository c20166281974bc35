// tf.io.serialize_tensor and its reverse.
#pragma once

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::io {

// A tensor as bytes (a TensorProto), and back. parse_tensor throws DataLoss for bytes that are not a tensor,
// InvalidArgument for one of another dtype.
Tensor serialize_tensor(const Tensor& tensor);
Tensor parse_tensor(const Tensor& serialized, DTypeLike out_type);
struct OutTypeKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike out_type = DType::kFloat32;
};
inline Tensor parse_tensor(const Tensor& serialized, const OutTypeKeywords& o) {
  return parse_tensor(serialized, o.out_type);
}

}  // namespace lockstep::io
