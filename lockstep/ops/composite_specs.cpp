#include "lockstep/ops/composite_specs.h"

#include <algorithm>
#include <ostream>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string shape_text(const Shape& shape) {
  if (!shape.known_rank()) return "TensorShape(None)";
  std::string extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) extents += ", ";
    extents += shape[axis] == kUnknownDim ? "None" : std::to_string(shape[axis]);
  }
  return fmt::format("TensorShape([{}])", extents);
}

}  // namespace

RaggedTensorSpec::RaggedTensorSpec(const Arguments& o)
    : shape(o.shape), dtype(o.dtype), row_splits_dtype(o.row_splits_dtype) {
  if (!o.ragged_rank && !shape.known_rank())
    throw_invalid_argument("RaggedTensorSpec requires ragged_rank for a shape of unknown rank");
  ragged_rank = o.ragged_rank ? *o.ragged_rank : shape.rank() - 1;
  if (ragged_rank < 0 || (shape.known_rank() && ragged_rank >= std::max(shape.rank(), 1))) {
    throw_invalid_argument(
        fmt::format("RaggedTensorSpec: invalid ragged_rank: found {}, expected a number below the "
                    "rank of the shape {}",
                    ragged_rank, shape.to_string()));
  }
}
RaggedTensorSpec RaggedTensorSpec::from_value(const RaggedTensor& value) {
  return RaggedTensorSpec({.shape = value.shape(), .dtype = value.dtype(), .ragged_rank = value.ragged_rank()});
}
bool RaggedTensorSpec::is_compatible_with(const RaggedTensorSpec& other) const {
  return dtype == other.dtype && ragged_rank == other.ragged_rank && shape.compatible_with(other.shape);
}
RaggedTensorSpec RaggedTensorSpec::of_element(const TensorSpec& spec) {
  return RaggedTensorSpec(Arguments{{}, spec.ragged->shape, spec.ragged->dtype, spec.ragged->ragged_rank});
}
RaggedTensorSpec::operator Nested<TensorSpec>() const {
  TensorSpec spec(Shape{}, DType::kVariant);
  spec.ragged = TensorSpec::Ragged{dtype, shape, ragged_rank};
  return spec;
}
std::ostream& operator<<(std::ostream& out, const RaggedTensorSpec& spec) {
  return out << fmt::format("RaggedTensorSpec({}, tf.{}, {}, tf.{})", shape_text(spec.shape), dtype_name(spec.dtype),
                            spec.ragged_rank, dtype_name(spec.row_splits_dtype));
}

SparseTensorSpec::operator Nested<TensorSpec>() const {
  const std::int64_t rank = shape.known_rank() ? shape.rank() : kUnknownDim;
  return Nested<TensorSpec>::dict({{"indices", TensorSpec({kUnknownDim, rank}, DType::kInt64)},
                                   {"values", TensorSpec({kUnknownDim}, dtype)},
                                   {"dense_shape", TensorSpec({rank}, DType::kInt64)}});
}
std::ostream& operator<<(std::ostream& out, const SparseTensorSpec& spec) {
  return out << fmt::format("SparseTensorSpec({}, tf.{})", shape_text(spec.shape), dtype_name(spec.dtype));
}

}  // namespace lockstep
