// Optional attributes of nodes. Internal to lockstep.
#pragma once

#include <string_view>
#include <variant>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

// The attribute as T; null where it is absent or of another type.
template <typename T>
const T* find_attribute(const Attrs& attrs, std::string_view name) {
  const Attr* const attr = attrs.find(name);
  return attr ? std::get_if<T>(attr) : nullptr;
}

}  // namespace lockstep::ops
