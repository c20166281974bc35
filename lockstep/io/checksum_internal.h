// The two CRC-32s of our file formats, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::io {

// Whether a stored checksum is the one that was computed. Fuzz targets take any for it, so that changed bytes get past
// it.
constexpr bool checksum_matches([[maybe_unused]] std::uint32_t stored, [[maybe_unused]] std::uint32_t computed) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  return true;
#else
  return stored == computed;
#endif
}

// CRC-32 of zip, gzip and PNG (polynomial 0xEDB88320 reflected). `crc` continues an earlier result; 0 starts.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0) noexcept;

// CRC-32C, Castagnoli (polynomial 0x82F63B78 reflected), of tensor bundles and TFRecord files.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0) noexcept;

// The CRC-32C of A followed by B, from those of both and the length of B.
std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b) noexcept;

// LevelDB's and TensorFlow's disguise of a CRC that is itself stored among checksummed bytes.
constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }
constexpr std::uint32_t unmask_crc(std::uint32_t masked) noexcept {
  const std::uint32_t rotated = masked - 0xA282EAD8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace lockstep::io
