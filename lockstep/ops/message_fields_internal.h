// Reads the fields of a serialized protocol buffer without its descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::ops {

// The fields of one message, in order. Views refer to its bytes. Groups are not supported.
class MessageFields {
 public:
  enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  // Bytes that are not a message throw InvalidArgument, "invalid <what>: …".
  MessageFields(std::string_view bytes, const char* what) : at_(bytes.data()), end_(at_ + bytes.size()), what_(what) {}

  // False at the end.
  bool next() {
    if (at_ == end_) return false;
    const std::uint64_t tag = varint();
    number = static_cast<std::uint32_t>(tag >> 3), type = static_cast<int>(tag & 7);
    if (number == 0) throw_malformed();
    if (type == kBytes) {
      payload = take(varint());
      return true;
    }
    switch (type) {
      case kVarint: value = varint(); return true;
      case kFixed64: payload = take(8); return true;
      case kFixed32: payload = take(4); return true;
      default: throw_malformed();
    }
  }
  bool is_message(std::uint32_t field) const { return number == field && type == kBytes; }

  // The next number of packed ones.
  std::uint64_t varint() {
    if (at_ != end_ && static_cast<std::uint8_t>(*at_) < 0x80) return static_cast<std::uint8_t>(*at_++);
    return long_varint();
  }
  bool empty() const { return at_ == end_; }
  [[noreturn]] void throw_malformed() const {
    throw_invalid_argument(fmt::format("invalid {}: found bytes that are not a message", what_));
  }

  // Of the last field that next() read. `payload`: the bytes of all types but kVarint, whose number is `value`.
  std::uint32_t number = 0;
  int type = 0;
  std::uint64_t value = 0;
  std::string_view payload;

 private:
  std::uint64_t long_varint() {
    std::uint64_t out = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) throw_malformed();
      const auto byte = static_cast<std::uint8_t>(*at_++);
      if (shift < 64) out |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return out;
    }
    throw_malformed();
  }
  std::string_view take(std::uint64_t size) {
    if (size > static_cast<std::uint64_t>(end_ - at_)) throw_malformed();
    const std::string_view out(at_, static_cast<std::size_t>(size));
    at_ += size;
    return out;
  }

  const char *at_, *end_;
  const char* what_;
};

}  // namespace lockstep::ops
