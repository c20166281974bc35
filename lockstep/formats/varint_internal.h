// Base-128 numbers, least significant group first, and the fields of bytes of protocol buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::formats {

inline void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// A field of a message that holds bytes, another message or packed numbers.
inline void append_bytes_field(std::string& out, unsigned number, std::string_view bytes) {
  append_varint(out, number << 3U | 2U);
  append_varint(out, bytes.size());
  out += bytes;
}

// Takes a number from the front of `bytes`; empty when it is cut short or has more than 64 bits.
inline std::optional<std::uint64_t> take_varint(std::span<const std::byte>& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace lockstep::formats
