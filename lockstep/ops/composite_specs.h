// tf.RaggedTensorSpec and tf.SparseTensorSpec: as output_signature of datasets from generators and as input_signature
// of functions.
#pragma once

#include <concepts>
#include <iosfwd>
#include <optional>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/base/tensor_spec.h"
#include "lockstep/ops/ragged_tensor.h"
#include "lockstep/ops/sparse_tensor.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {

// RaggedTensorSpec({.shape = {None, None}, .dtype = int32}).
class RaggedTensorSpec {
 public:
  struct Arguments {
    FieldNamesOnly names_only = {};
    Shape shape = Shape::unknown_rank();
    DTypeLike dtype = DType::kFloat32;
    std::optional<int> ragged_rank = std::nullopt;  // default: the rank of the shape - 1
    DTypeLike row_splits_dtype = DType::kInt64;
  };
  // Throws InvalidArgument for a shape of unknown rank without a ragged rank, and for ragged ranks that do not fit.
  explicit RaggedTensorSpec(const Arguments& o);
  // A template, because GCC would take {.shape = ...} for a list.
  template <std::convertible_to<Shape> S = Shape>
  RaggedTensorSpec(const S& shape, DTypeLike dtype = DType::kFloat32, std::optional<int> ragged_rank = std::nullopt)
      : RaggedTensorSpec(Arguments{{}, shape, dtype, ragged_rank}) {}
  static RaggedTensorSpec from_value(const RaggedTensor& value);
  // Of a part of an element_spec that has `ragged`.
  static RaggedTensorSpec of_element(const TensorSpec& spec);
  bool is_compatible_with(const RaggedTensorSpec& other) const;
  bool is_compatible_with(const RaggedTensor& value) const { return is_compatible_with(from_value(value)); }
  // As a part of an element_spec or an input_signature.
  operator Nested<TensorSpec>() const;
  friend bool operator==(const RaggedTensorSpec&, const RaggedTensorSpec&) = default;

  Shape shape;
  DType dtype;
  int ragged_rank;
  DType row_splits_dtype;
};
// "RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1, tf.int64)".
std::ostream& operator<<(std::ostream& out, const RaggedTensorSpec& spec);

// SparseTensorSpec({None, 3}, float32). In an element_spec a sparse tensor is the dict of its parts.
class SparseTensorSpec {
 public:
  struct Arguments {
    FieldNamesOnly names_only = {};
    Shape shape = Shape::unknown_rank();
    DTypeLike dtype = DType::kFloat32;
  };
  explicit SparseTensorSpec(const Arguments& o) : shape(o.shape), dtype(o.dtype) {}
  template <std::convertible_to<Shape> S = Shape>
  SparseTensorSpec(const S& shape, DTypeLike dtype = DType::kFloat32) : shape(shape), dtype(dtype) {}
  static SparseTensorSpec from_value(const SparseTensor& value) { return {value.shape(), value.dtype()}; }
  bool is_compatible_with(const SparseTensorSpec& other) const {
    return dtype == other.dtype && shape.compatible_with(other.shape);
  }
  bool is_compatible_with(const SparseTensor& value) const { return is_compatible_with(from_value(value)); }
  operator Nested<TensorSpec>() const;
  friend bool operator==(const SparseTensorSpec&, const SparseTensorSpec&) = default;

  Shape shape;
  DType dtype;
};
// "SparseTensorSpec(TensorShape([None, 3]), tf.float32)".
std::ostream& operator<<(std::ostream& out, const SparseTensorSpec& spec);

inline RaggedTensorSpec type_spec_from_value(const RaggedTensor& value) { return RaggedTensorSpec::from_value(value); }
template <std::same_as<SparseTensor> S>
SparseTensorSpec type_spec_from_value(const S& value) {
  return SparseTensorSpec::from_value(value);
}
template <std::same_as<Tensor> T>
TensorSpec type_spec_from_value(const T& value) {
  return TensorSpec::from_tensor(value);
}

}  // namespace lockstep
