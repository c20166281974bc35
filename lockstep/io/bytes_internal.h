// Numbers in byte strings, and sizes in bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace lockstep::io {

static_assert(std::endian::native == std::endian::little, "formats map little-endian bytes without conversion");

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

// Reverses the bytes of each number of `width` bytes.
inline void swap_bytes(std::span<std::byte> bytes, std::size_t width) {
  for (; width > 1 && bytes.size() >= width; bytes = bytes.subspan(width))
    std::reverse(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(width));
}

// `value` rounded up to a multiple of `multiple`.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace lockstep::io
