#include "lockstep/ops/mixed_values.h"

#include <algorithm>

namespace lockstep::ops {

DType MixedValues::dtype() const {
  if (tensor_.defined()) return tensor_.dtype();
  for (const MixedValues& item : items_) {
    if (const DType found = item.dtype(); found != DType::kInvalid) return found;
  }
  return DType::kInvalid;
}

Values MixedValues::values() const {
  if (!is_list_) return *number_;
  std::vector<Values> items;
  for (const MixedValues& item : items_) items.push_back(item.values());
  return items;
}

Tensor MixedValues::stacked_as(DType dtype, int axis) const {
  if (tensor_.defined()) return tensor_;
  if (!is_list_) return constant(*number_, dtype);
  Tensors items;
  for (const MixedValues& item : items_) items.push_back(item.stacked_as(dtype, 0));
  return stack(items, axis);
}

Tensor MixedValues::stacked(int axis, DType dtype) const {
  if (const DType of_tensors = this->dtype(); of_tensors != DType::kInvalid) return stacked_as(of_tensors, axis);
  const Tensor numbers = constant(values(), dtype);
  return axis == 0 ? numbers : stack(unstack(numbers), axis);
}

}  // namespace lockstep::ops
