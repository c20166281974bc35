// Little-endian numbers in byte strings.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace lockstep::io {

static_assert(std::endian::native == std::endian::little, "formats map little-endian bytes as they lie");

// The number at `offset`, or empty when it would pass the end.
template <typename T>
std::optional<T> load_le(std::span<const std::byte> bytes, std::size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T>
void append_le(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace lockstep::io
