// Written from the published algorithm (Pike and Alakuijala, FarmHash, the "na" 64-bit variant).
#include "lockstep/ops/farmhash_internal.h"

#include <bit>
#include <cstring>
#include <utility>

namespace lockstep::ops {
namespace {

constexpr std::uint64_t kA = 0xc3a5c85c97cb3127ull, kB = 0xb492b66fbe98f273ull, kC = 0x9ae16a3b2f90404full;

std::uint64_t read64(const char* p) {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}
std::uint64_t read32(const char* p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}
std::uint64_t mix(std::uint64_t value) { return value ^ (value >> 47); }
std::uint64_t hash16(std::uint64_t u, std::uint64_t v, std::uint64_t factor) {
  std::uint64_t a = (u ^ v) * factor;
  a ^= a >> 47;
  std::uint64_t b = (v ^ a) * factor;
  b ^= b >> 47;
  return b * factor;
}

std::uint64_t hash_up_to_16(const char* s, std::size_t n) {
  if (n >= 8) {
    const std::uint64_t factor = kC + n * 2, a = read64(s) + kC, b = read64(s + n - 8);
    return hash16(std::rotr(b, 37) * factor + a, (std::rotr(a, 25) + b) * factor, factor);
  }
  if (n >= 4) return hash16(n + (read32(s) << 3), read32(s + n - 4), kC + n * 2);
  if (n == 0) return kC;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(s[i])); };
  const std::uint32_t y = byte(0) + (byte(n >> 1) << 8), z = static_cast<std::uint32_t>(n) + (byte(n - 1) << 2);
  return mix(y * kC ^ z * kA) * kC;
}
std::uint64_t hash_17_to_32(const char* s, std::size_t n) {
  const std::uint64_t factor = kC + n * 2, a = read64(s) * kB, b = read64(s + 8), c = read64(s + n - 8) * factor,
                      d = read64(s + n - 16) * kC;
  return hash16(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + kC, 18) + c, factor);
}
std::uint64_t hash_33_to_64(const char* s, std::size_t n) {
  const std::uint64_t factor = kC + n * 2, a = read64(s) * kC, b = read64(s + 8), c = read64(s + n - 8) * factor,
                      d = read64(s + n - 16) * kC;
  const std::uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d,
                      z = hash16(y, a + std::rotr(b + kC, 18) + c, factor);
  const std::uint64_t e = read64(s + 16) * factor, f = read64(s + 24), g = (y + read64(s + n - 32)) * factor,
                      h = (z + read64(s + n - 24)) * factor;
  return hash16(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, factor);
}

using Pair = std::pair<std::uint64_t, std::uint64_t>;
Pair weak_hash(const char* s, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t w = read64(s), x = read64(s + 8), y = read64(s + 16), z = read64(s + 24);
  a += w;
  b = std::rotr(b + a + z, 21);
  const std::uint64_t c = a;
  a += x + y;
  b += std::rotr(a, 44);
  return {a + z, b + c};
}

std::uint64_t hash_long(const char* s, std::size_t n) {
  std::uint64_t x = 81, y = 81 * kB + 113, z = mix(y * kC + 113) * kC;
  Pair v, w;
  x = x * kC + read64(s);
  const char* end = s + (n - 1) / 64 * 64;
  const char* last = end + ((n - 1) & 63) - 63;
  do {
    x = std::rotr(x + y + v.first + read64(s + 8), 37) * kB;
    y = std::rotr(y + v.second + read64(s + 48), 42) * kB;
    x ^= w.second;
    y += v.first + read64(s + 40);
    z = std::rotr(z + w.first, 33) * kB;
    v = weak_hash(s, v.second * kB, x + w.first);
    w = weak_hash(s + 32, z + w.second, y + read64(s + 16));
    std::swap(z, x);
    s += 64;
  } while (s != end);
  const std::uint64_t factor = kB + ((z & 0xff) << 1);
  s = last;
  w.first += (n - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  x = std::rotr(x + y + v.first + read64(s + 8), 37) * factor;
  y = std::rotr(y + v.second + read64(s + 48), 42) * factor;
  x ^= w.second * 9;
  y += v.first * 9 + read64(s + 40);
  z = std::rotr(z + w.first, 33) * factor;
  v = weak_hash(s, v.second * factor, x + w.first);
  w = weak_hash(s + 32, z + w.second, y + read64(s + 16));
  std::swap(z, x);
  return hash16(hash16(v.first, w.first, factor) + mix(y) * kA + z, hash16(v.second, w.second, factor) + x, factor);
}

}  // namespace

std::uint64_t farmhash_fingerprint64(std::string_view text) {
  const char* s = text.data();
  const std::size_t n = text.size();
  if (n <= 16) return hash_up_to_16(s, n);
  if (n <= 32) return hash_17_to_32(s, n);
  if (n <= 64) return hash_33_to_64(s, n);
  return hash_long(s, n);
}

}  // namespace lockstep::ops
