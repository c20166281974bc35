// Descriptions of tensors (tf.TensorSpec).
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/base/shape.h"

namespace lockstep {

struct NoneType;

// The description of a tensor before it is computed: TensorSpec({kUnknownDim, 3}, float32, "x"). kUnknownDim entries (a
// batch size) stay unknown.
struct TensorSpec {
  // All arguments by name: TensorSpec({.shape = {kUnknownDim, 3}, .dtype = float32}).
  struct Arguments {
    FieldNamesOnly names_only = {};
    Shape shape;
    DTypeLike dtype = DType::kFloat32;
    std::string name = {};
  };

  TensorSpec() = default;  // of an unknown tensor
  explicit TensorSpec(const Arguments& o) : TensorSpec(o.shape, o.dtype, o.name) {}
  // A template, because GCC would take {.shape = ...} for a list.
  template <std::convertible_to<Shape> S = Shape>
  TensorSpec(const S& shape, DTypeLike dtype = DType::kFloat32, std::string name = {})
      : dtype(dtype), shape(shape), name(std::move(name)) {}

  // Of unknown rank: TensorSpec(None, float32).
  template <std::same_as<NoneType> N>
  TensorSpec(N, DTypeLike dtype = DType::kFloat32, std::string name = {})
      : TensorSpec(Shape::unknown_rank(), dtype, std::move(name)) {}

  // Of a tensor: TensorSpec::from_tensor(x).
  template <typename Tensor>
  static TensorSpec from_tensor(const Tensor& tensor, std::string name = {}) {
    return TensorSpec(Shape(tensor.shape()), tensor.dtype(), std::move(name));
  }
  // Whether a tensor, or what another spec describes, can have this dtype and shape.
  bool is_compatible_with(const TensorSpec& other) const {
    return dtype == other.dtype && shape.compatible_with(other.shape);
  }
  template <typename Tensor>
  requires requires(const Tensor& tensor) { tensor.dtype(); }
  bool is_compatible_with(const Tensor& tensor) const { return is_compatible_with(from_tensor(tensor)); }

  DType dtype = DType::kInvalid;
  Shape shape = Shape::unknown_rank();
  std::string name;  // may be empty
  // Of a ragged tensor in a dataset, which is a scalar variant there: what it contains (tf.RaggedTensorSpec).
  struct Ragged {
    DType dtype = DType::kInvalid;
    Shape shape = Shape::unknown_rank();
    int ragged_rank = 0;
    friend bool operator==(const Ragged&, const Ragged&) = default;
  };
  std::optional<Ragged> ragged = std::nullopt;

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace lockstep
