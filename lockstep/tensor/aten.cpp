#include "lockstep/tensor/aten_internal.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

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

}  // namespace

at::ScalarType to_scalar_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
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
  if (!tensor.defined() || !tensor.impl()->value.defined()) {
    throw_internal(fmt::format("a {} where a dense value is needed",
                               !tensor.defined()      ? "missing tensor"
                               : tensor.is_symbolic() ? "symbolic tensor"
                                                      : std::string(dtype_name(tensor.dtype())) + " tensor"));
  }
  return tensor.impl()->value;
}

Tensor wrap(at::Tensor value) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = from_scalar_type(value.scalar_type());
  impl->shape = Shape(value.sizes().vec());
  impl->value = std::move(value);
  return Tensor(std::move(impl));
}

}  // namespace lockstep
