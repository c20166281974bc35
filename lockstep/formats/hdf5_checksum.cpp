#include "lockstep/formats/hdf5_checksum_internal.h"

#include <bit>

namespace lockstep::formats::hdf5 {

std::uint32_t lookup3(std::span<const std::byte> bytes) noexcept {
  std::uint32_t state[3];
  state[0] = state[1] = state[2] = 0xdeadbeefu + static_cast<std::uint32_t>(bytes.size());
  auto add = [&](std::span<const std::byte> block) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      state[i / 4] += std::to_integer<std::uint32_t>(block[i]) << (8 * (i % 4));
    }
  };
  auto& [a, b, c] = state;
  while (bytes.size() > 12) {
    add(bytes.first(12));
    bytes = bytes.subspan(12);
    a -= c;
    a ^= std::rotl(c, 4);
    c += b;
    b -= a;
    b ^= std::rotl(a, 6);
    a += c;
    c -= b;
    c ^= std::rotl(b, 8);
    b += a;
    a -= c;
    a ^= std::rotl(c, 16);
    c += b;
    b -= a;
    b ^= std::rotl(a, 19);
    a += c;
    c -= b;
    c ^= std::rotl(b, 4);
    b += a;
  }
  if (bytes.empty()) return c;
  add(bytes);
  c ^= b;
  c -= std::rotl(b, 14);
  a ^= c;
  a -= std::rotl(c, 11);
  b ^= a;
  b -= std::rotl(a, 25);
  c ^= b;
  c -= std::rotl(b, 16);
  a ^= c;
  a -= std::rotl(c, 4);
  b ^= a;
  b -= std::rotl(a, 14);
  c ^= b;
  c -= std::rotl(b, 24);
  return c;
}

std::uint32_t fletcher32(std::span<const std::byte> bytes) noexcept {
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  auto fold = [](std::uint32_t sum) { return (sum & 0xffffu) + (sum >> 16); };
  auto word = [&](std::size_t at) {
    const auto high = std::to_integer<std::uint32_t>(bytes[at]) << 8;
    return at + 1 < bytes.size() ? high | std::to_integer<std::uint32_t>(bytes[at + 1]) : high;
  };
  std::size_t at = 0;
  while (at < bytes.size()) {
    // 360 words are the most that cannot overflow 32 bits between two folds.
    for (std::size_t stop = at + 720; at < bytes.size() && at < stop; at += 2) {
      sum1 += word(at);
      sum2 += sum1;
    }
    sum1 = fold(sum1);
    sum2 = fold(sum2);
  }
  return (fold(sum2) << 16) | fold(sum1);
}

}  // namespace lockstep::formats::hdf5
