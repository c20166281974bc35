// The checksums inside HDF5 files, and little-endian access to their fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::formats::hdf5 {

// An address that stands for "nothing stored".
inline constexpr std::uint64_t kUndefinedAddress = ~std::uint64_t{0};

// Bob Jenkins's lookup3 (hashlittle, initial value 0), over every version-2 metadata block.
std::uint32_t lookup3(std::span<const std::byte> bytes) noexcept;

// The Fletcher-32 of the filter of that name, over big-endian 16-bit words.
std::uint32_t fletcher32(std::span<const std::byte> bytes) noexcept;

// Appends little-endian fields to a block of metadata.
class FieldWriter {
 public:
  void u8(std::uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void u16(std::uint16_t value) { unsigned_field(value, 2); }
  void u32(std::uint32_t value) { unsigned_field(value, 4); }
  void u64(std::uint64_t value) { unsigned_field(value, 8); }
  void text(std::string_view value) {
    for (char c : value) bytes_.push_back(static_cast<std::byte>(c));
  }
  void raw(std::span<const std::byte> value) { bytes_.insert(bytes_.end(), value.begin(), value.end()); }
  void zeros(std::size_t count) { bytes_.resize(bytes_.size() + count); }
  void pad_to(std::size_t multiple) { bytes_.resize((bytes_.size() + multiple - 1) / multiple * multiple); }
  std::size_t size() const { return bytes_.size(); }
  std::vector<std::byte>& bytes() { return bytes_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  void unsigned_field(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  std::vector<std::byte> bytes_;
};

}  // namespace lockstep::formats::hdf5
