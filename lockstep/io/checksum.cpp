#include "lockstep/io/checksum_internal.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace lockstep::io {
namespace {

// Polynomials over GF(2) modulo the reflected one of CRC-32C: bit 31 is x^0, bit 0 is x^31.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t kPolynomial = 0x82F63B78u;
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b & 1) ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc) noexcept {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) noexcept {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // the library's length is an int
  std::uint32_t state = ~crc;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMost));
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    state = crc32_iscsi(data, static_cast<int>(part.size()), state);
    bytes = bytes.subspan(part.size());
  }
  return ~state;
}

std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b) noexcept {
  // crc_a times x^(8 * length_b): the checksum of A followed by as many zero bytes.
  std::uint32_t power = 0x00800000u;  // x^8
  for (; length_b != 0; length_b >>= 1) {
    if (length_b & 1) crc_a = multiply(power, crc_a);
    power = multiply(power, power);
  }
  return crc_a ^ crc_b;
}

}  // namespace lockstep::io
