#include "lockstep/tensor/aten_internal.h"

#include <array>
#include <mutex>
#include <utility>

#include <ATen/ops/index_add.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/indexed_slices_internal.h"
#include "lockstep/tensor/quantized_internal.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 17> kTypes = {{
    {DType::kFloat32, at::kFloat},
    {DType::kFloat64, at::kDouble},
    {DType::kFloat16, at::kHalf},
    {DType::kBFloat16, at::kBFloat16},
    {DType::kInt8, at::kChar},
    {DType::kInt16, at::kShort},
    {DType::kInt32, at::kInt},
    {DType::kInt64, at::kLong},
    {DType::kUInt8, at::kByte},
    {DType::kUInt16, at::kUInt16},
    {DType::kUInt32, at::kUInt32},
    {DType::kUInt64, at::kUInt64},
    {DType::kBool, at::kBool},
    {DType::kComplex64, at::kComplexFloat},
    {DType::kComplex128, at::kComplexDouble},
    {DType::kFloat8E5M2, at::kFloat8_e5m2},
    {DType::kFloat8E4M3FN, at::kFloat8_e4m3fn},
}};

// The slices of a tensor without a dense value: TensorImpl::value is undefined, `slices` points to this.
struct RowsOnly : RowSlices {
  explicit RowsOnly(RowSlices rows) : RowSlices(std::move(rows)) {}
  mutable std::once_flag once;
  mutable at::Tensor dense;
};

}  // namespace

at::ScalarType to_scalar_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  switch (dtype) {
    case DType::kQInt8: return at::kChar;
    case DType::kQUInt8: return at::kByte;
    case DType::kQInt16: return at::kShort;
    case DType::kQUInt16: return at::kUInt16;
    case DType::kQInt32: return at::kInt;
    default: break;
  }
  throw_unimplemented(fmt::format("dtype {} has no dense values in memory", dtype_name(dtype)));
}

DType from_scalar_type(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw_unimplemented(fmt::format("LibTorch's element type {} has no TensorFlow counterpart", c10::toString(type)));
}

const at::Tensor& aten(const Tensor& tensor) {
  if (tensor.defined() && !tensor.impl()->value.defined() && tensor.impl()->slices) {
    const auto& rows = static_cast<const RowsOnly&>(*tensor.impl()->slices);
    std::call_once(rows.once, [&] {
      const at::Tensor& values = aten(rows.values);
      rows.dense = at::zeros(tensor.shape().dims(), values.options()).index_add_(0, aten(rows.indices), values);
    });
    return rows.dense;
  }
  if (!tensor.defined() || !tensor.impl()->value.defined()) {
    throw_internal(fmt::format("a {} where a dense value is needed",
                               !tensor.defined()      ? "missing tensor"
                               : tensor.is_symbolic() ? "symbolic tensor"
                                                      : std::string(dtype_name(tensor.dtype())) + " tensor"));
  }
  return tensor.impl()->value;
}

Tensor tensor_of_rows(RowSlices rows, Shape shape) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = rows.values.dtype();
  impl->shape = std::move(shape);
  impl->slices = std::make_shared<RowsOnly>(std::move(rows));
  return Tensor(std::move(impl));
}

bool has_rows_only(const Tensor& tensor) {
  if (!tensor.defined() || tensor.impl()->value.defined() || !tensor.impl()->slices) return false;
  return !static_cast<const RowsOnly&>(*tensor.impl()->slices).dense.defined();
}

Tensor wrap(at::Tensor value) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = from_scalar_type(value.scalar_type());
  impl->shape = Shape(value.sizes().vec());
  impl->value = std::move(value);
  return Tensor(std::move(impl));
}

Tensor wrap_as(at::Tensor value, DType dtype) {
  if (to_scalar_type(dtype) != value.scalar_type())
    throw_internal(fmt::format("{} of memory as {}", c10::toString(value.scalar_type()), dtype_name(dtype)));
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = dtype;
  impl->shape = Shape(value.sizes().vec());
  impl->value = std::move(value);
  return Tensor(std::move(impl));
}

}  // namespace lockstep
