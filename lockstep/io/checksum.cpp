#include "lockstep/io/checksum_internal.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace lockstep::io {
namespace {

// Polynomials over GF(2) modulo a reflected CRC polynomial: bit 31 is x^0, bit 0 is x^31.
constexpr std::uint32_t kCrc32Polynomial = 0xEDB88320u;
constexpr std::uint32_t kCrc32cPolynomial = 0x82F63B78u;

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b, std::uint32_t polynomial) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b & 1) ? (b >> 1) ^ polynomial : b >> 1;
  }
  return product;
}

// crc_a times x^(8 * length): the checksum of A followed by `length` zero bytes.
std::uint32_t combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length, std::uint32_t polynomial) {
  std::uint32_t power = 0x00800000u;  // x^8
  for (; length != 0; length >>= 1) {
    if (length & 1) crc_a = multiply(power, crc_a, polynomial);
    power = multiply(power, power, polynomial);
  }
  return crc_a ^ crc_b;
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

std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b) noexcept {
  return combine(crc_a, crc_b, length_b, kCrc32Polynomial);
}

std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b) noexcept {
  return combine(crc_a, crc_b, length_b, kCrc32cPolynomial);
}

}  // namespace lockstep::io
