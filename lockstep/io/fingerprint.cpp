// Formulas of FarmHash's "na" variant; n is the length, arithmetic is modulo 2^64.
#include "lockstep/io/fingerprint_internal.h"

#include <bit>
#include <cstring>
#include <utility>

namespace lockstep::io {
namespace {

using u64 = std::uint64_t;
constexpr u64 k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;

u64 load64(const char* at) {
  u64 value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

u64 load32(const char* at) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

u64 rot(u64 value, int bits) { return std::rotr(value, bits); }
u64 shift_mix(u64 value) { return value ^ (value >> 47); }

u64 mix(u64 u, u64 v, u64 t) {
  u64 p = (u ^ v) * t;
  p ^= p >> 47;
  u64 q = (v ^ p) * t;
  q ^= q >> 47;
  return q * t;
}

u64 up_to_16(const char* s, u64 n) {
  const u64 m = k2 + 2 * n;
  if (n >= 8) {
    const u64 a = load64(s) + k2;
    const u64 b = load64(s + n - 8);
    return mix(rot(b, 37) * m + a, (rot(a, 25) + b) * m, m);
  }
  if (n >= 4) return mix(n + 8 * load32(s), load32(s + n - 4), m);
  if (n == 0) return k2;
  const u64 a = static_cast<unsigned char>(s[0]);
  const u64 b = static_cast<unsigned char>(s[n >> 1]);
  const u64 c = static_cast<unsigned char>(s[n - 1]);
  return shift_mix((a + (b << 8)) * k2 ^ (n + (c << 2)) * k0) * k2;
}

u64 up_to_32(const char* s, u64 n) {
  const u64 m = k2 + 2 * n;
  const u64 a = load64(s) * k1, b = load64(s + 8), c = load64(s + n - 8) * m, d = load64(s + n - 16) * k2;
  return mix(rot(a + b, 43) + rot(c, 30) + d, a + rot(b + k2, 18) + c, m);
}

u64 up_to_64(const char* s, u64 n) {
  const u64 m = k2 + 2 * n;
  const u64 a = load64(s) * k2, b = load64(s + 8), c = load64(s + n - 8) * m, d = load64(s + n - 16) * k2;
  const u64 y = rot(a + b, 43) + rot(c, 30) + d;
  const u64 z = mix(y, a + rot(b + k2, 18) + c, m);
  const u64 e = load64(s + 16) * m, f = load64(s + 24);
  const u64 g = (y + load64(s + n - 32)) * m, h = (z + load64(s + n - 24)) * m;
  return mix(rot(e + f, 43) + rot(g, 30) + h, e + rot(f + a, 18) + g, m);
}

std::pair<u64, u64> weak_hash(const char* s, u64 a, u64 b) {
  const u64 w = load64(s), x = load64(s + 8), y = load64(s + 16), z = load64(s + 24);
  a += w;
  b = rot(b + a + z, 21);
  const u64 c = a;
  a += x + y;
  b += rot(a, 44);
  return {a + z, b + c};
}

}  // namespace

u64 fingerprint64(std::string_view text) {
  const char* s = text.data();
  const u64 n = text.size();
  if (n <= 16) return up_to_16(s, n);
  if (n <= 32) return up_to_32(s, n);
  if (n <= 64) return up_to_64(s, n);
  u64 x = 81 * k2 + load64(s);
  u64 y = 81 * k1 + 113;
  u64 z = shift_mix(y * k2 + 113) * k2;
  std::pair<u64, u64> v{0, 0}, w{0, 0};
  const auto round = [&](const char* at, u64 t, u64 j) {
    x = rot(x + y + v.first + load64(at + 8), 37) * t;
    y = rot(y + v.second + load64(at + 48), 42) * t;
    x ^= w.second * j;
    y += v.first * j + load64(at + 40);
    z = rot(z + w.first, 33) * t;
    v = weak_hash(at, v.second * t, x + w.first);
    w = weak_hash(at + 32, z + w.second, y + load64(at + 16));
    std::swap(z, x);
  };
  const u64 end = (n - 1) / 64 * 64;
  for (u64 i = 0; i < end; i += 64) round(s + i, k1, 1);
  const u64 t = k1 + ((z & 255) << 1);
  w.first += (n - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  round(s + n - 64, t, 9);
  return mix(mix(v.first, w.first, t) + shift_mix(y) * k0 + z, mix(v.second, w.second, t) + x, t);
}

u64 fingerprint_cat(u64 a, u64 b) {
  constexpr u64 k = 0xc6a4a7935bd1e995;
  u64 r = a ^ k;
  r ^= shift_mix(b * k) * k;
  r *= k;
  r = shift_mix(r) * k;
  return shift_mix(r);
}

}  // namespace lockstep::io
