#include "lockstep/tensor/shape_arg.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep {
namespace {

void require_integers(const Tensor& tensor, int rank, const char* what) {
  if (tensor.defined() && (tensor.dtype() == DType::kInt32 || tensor.dtype() == DType::kInt64) &&
      (!tensor.shape().known_rank() || tensor.shape().rank() == rank))
    return;
  throw_invalid_argument(fmt::format(
      "invalid {}: found {}, expected int32 or int64 of shape {}", what,
      tensor.defined() ? fmt::format("a {} tensor of shape {}", dtype_name(tensor.dtype()), tensor.shape().to_string())
                       : "an undefined tensor",
      rank == 0 ? "()" : "(rank,)"));
}

}  // namespace

Extent::Extent(const Tensor& scalar) : known_(kUnknownDim) {
  if (scalar.defined() && scalar.is_value() && scalar.num_elements() == 1) {
    if (is_integer(scalar.dtype())) {
      known_ = scalar.item<std::int64_t>();
      return;
    }
    // As in TensorFlow's eager mode: tf.math.ceil(height / 8) is an extent.
    if (is_floating(scalar.dtype()) && std::abs(scalar.item<double>()) < 0x1p53) {
      known_ = static_cast<std::int64_t>(scalar.item<double>());
      return;
    }
  }
  require_integers(scalar, 0, "extent of a shape");
  const auto known = constant_value_as_shape(scalar);
  if (known && known->rank() == 1 && (*known)[0] != kUnknownDim) {
    known_ = (*known)[0];
  } else {
    tensor_ = scalar;
  }
}

ShapeArg::ShapeArg(std::vector<Extent> extents, int) {
  std::vector<std::int64_t> dims;
  for (const Extent& extent : extents) dims.push_back(extent.known());
  shape_ = Shape(std::move(dims));
  if (std::any_of(extents.begin(), extents.end(), [](const Extent& e) { return e.tensor().defined(); }))
    extents_ = std::move(extents);
}

ShapeArg::ShapeArg(const Tensor& vector) {
  require_integers(vector, 1, "shape");
  if (vector.is_symbolic() && !constant_value(vector)) vector_ = vector;
  shape_ = constant_value_as_shape(vector).value_or(Shape::unknown_rank());
}

}  // namespace lockstep
