// Lists of numbers and tensors in braces, as Python's lists of both: constant({{cos, 0.0}, {0.0, 1.0}}).
#pragma once

#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include "lockstep/ops/keywords.h"

namespace lockstep::ops {

// A number, a tensor of any shape, or a list of these. Numbers take the dtype of the tensors.
class MixedValues {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> MixedValues(T number) : number_(Values(number)) {}
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor> && !std::is_same_v<T, MixedValues>)
      MixedValues(const T& tensor)
      : tensor_(static_cast<Tensor>(tensor)) {}
  MixedValues(std::initializer_list<MixedValues> items) : items_(items), is_list_(true) {}

  // Numbers alone have this dtype; by default that of constant(). Throws InvalidArgument for lists of different
  // lengths, shapes or dtypes.
  Tensor stacked(int axis = 0, DType dtype = DType::kInvalid) const;

 private:
  Values values() const;
  Tensor stacked_as(DType dtype, int axis) const;
  DType dtype() const;  // of the first tensor

  std::optional<Values> number_;
  Tensor tensor_;
  std::vector<MixedValues> items_;
  bool is_list_ = false;
};

// Templates, which lose against lists of one kind.
template <int = 0>
Tensor constant(std::initializer_list<MixedValues> values, const ConstantKeywords& keywords = {}) {
  return constant(MixedValues(values).stacked(0, keywords.dtype), keywords);
}
template <int = 0>
Tensor convert_to_tensor(std::initializer_list<MixedValues> values, const ConvertKeywords& keywords = {}) {
  return constant(values, ConstantKeywords{{}, keywords.dtype});
}

}  // namespace lockstep::ops
