// The seam to LibTorch, for lockstep/tensor and lockstep/ops only.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct TensorListValue {
  Tensors elements;  // an undefined entry was never set
  Shape element_shape;
  DType element_dtype = DType::kInvalid;
};

struct RowSlices;

// The elements of an array (tensor/array_internal.h) that x[...] chose.
struct ArrayPart {
  std::shared_ptr<const TensorImpl> array;
  std::function<void(const at::Tensor& memory, const at::Tensor& values)> write;  // `memory`: the array's
};

struct TensorImpl {
  DType dtype = DType::kInvalid;
  Shape shape;
  at::Tensor value;                                 // dense
  std::vector<std::string> strings;                 // kString
  std::shared_ptr<Resource> resource;               // kResource
  std::shared_ptr<TensorListValue> list;            // kVariant
  std::shared_ptr<const Symbol> symbol;             // symbolic
  mutable bool is_number = false;                   // see Tensor::is_number()
  mutable bool is_array = false;                    // see tensor/array_internal.h
  mutable bool owns_memory = false;                 // of an array: nothing else shares it, so that it can be written to
  std::shared_ptr<const ArrayPart> part;            // of an array: what it is a part of
  mutable Tensor mask, logits;                      // Keras's notes
  mutable std::shared_ptr<const RowSlices> slices;  // of a gradient, see ops/slices_internal.h
};

// The LibTorch tensor of a dense value. Throws Internal for anything else.
const at::Tensor& aten(const Tensor& tensor);
// Takes a LibTorch tensor as a value; its sizes must be in TensorFlow's layout.
Tensor wrap(at::Tensor value);

// Throw Unimplemented for a type that the other side lacks.
at::ScalarType to_scalar_type(DType dtype);
DType from_scalar_type(at::ScalarType type);

}  // namespace lockstep
