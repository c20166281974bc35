#include "lockstep/saving/assign_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::saving {

namespace {

void check_shape(const distribute::VariablePtr& variable, const Shape& shape, const std::string& name,
                 const std::string& owner) {
  if (shape == variable->shape()) return;
  throw_invalid_argument(fmt::format("{}: variable '{}' has shape {}, but the file's '{}' has {}", owner,
                                     variable->name(), variable->shape().to_string(), name, shape.to_string()));
}

}  // namespace

void Assignment::add(const distribute::VariablePtr& variable, const formats::TensorReader& reader,
                     const formats::TensorInfo& info, const std::string& owner) {
  check_shape(variable, info.shape, info.name, owner);
  add(variable, Tensor::from_data(reader.read(info.name)), info.name, owner);
}

void Assignment::add(const distribute::VariablePtr& variable, Tensor value, const std::string& name,
                     const std::string& owner) {
  check_shape(variable, value.shape(), name, owner);
  if (value.dtype() != variable->dtype()) value = ops::cast(value, variable->dtype());
  items_.push_back({variable, std::move(value)});
}

void Assignment::commit() {
  for (Item& item : items_) {
    if (item.variable->has_own_copies()) {
      item.variable->restore(item.value);
    } else {
      optimizers::replace_value(*item.variable, std::move(item.value));
    }
  }
  items_.clear();
  for (const std::function<void()>& load : loads_) load();
  loads_.clear();
}

formats::TensorData variable_data(const distribute::VariablePtr& variable) { return variable->numpy().to_data(); }

formats::WeightEntry weight_entry(std::string path, const distribute::VariablePtr& variable) {
  return {std::move(path), variable->dtype(), variable->shape(), [variable] { return variable_data(variable); }};
}

}  // namespace lockstep::saving
