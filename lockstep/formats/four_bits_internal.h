// TensorFlow's int4, which files hold in the low four bits of a byte each.
#pragma once

#include <cstddef>
#include <span>

namespace lockstep::formats {

// Makes them int8.
inline void extend_int4(std::span<std::byte> values) {
  for (std::byte& value : values) value = static_cast<std::byte>(((static_cast<unsigned>(value) & 15u) ^ 8u) - 8u);
}

}  // namespace lockstep::formats
