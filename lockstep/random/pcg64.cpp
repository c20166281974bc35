// NumPy rounds products before it adds them.
#pragma GCC optimize("fp-contract=off")

#include <array>
#include <cmath>

#include "lockstep/random/numpy_numbers_internal.h"

namespace lockstep::random {
namespace {

// numpy.random.SeedSequence: mixes the words of a seed into a pool, and makes words of that.
std::array<std::uint64_t, 4> seed_words(std::uint64_t seed) {
  constexpr std::size_t kPool = 4;
  constexpr std::uint32_t kMultiplierA = 0x931e8875u, kMultiplierB = 0x58f38dedu;
  constexpr std::uint32_t kMixLeft = 0xca01f9ddu, kMixRight = 0x4973f715u;
  std::uint32_t constant = 0x43b0d7e5u;
  const auto hash = [&](std::uint32_t value, std::uint32_t multiplier) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ (value >> 16);
  };
  const auto mix = [](std::uint32_t x, std::uint32_t y) {
    const std::uint32_t result = kMixLeft * x - kMixRight * y;
    return result ^ (result >> 16);
  };
  std::array<std::uint32_t, kPool> pool{};
  const std::array<std::uint32_t, kPool> entropy = {static_cast<std::uint32_t>(seed),
                                                    static_cast<std::uint32_t>(seed >> 32), 0, 0};
  for (std::size_t i = 0; i < kPool; ++i) pool[i] = hash(entropy[i], kMultiplierA);
  for (std::size_t from = 0; from < kPool; ++from)
    for (std::size_t to = 0; to < kPool; ++to)
      if (from != to) pool[to] = mix(pool[to], hash(pool[from], kMultiplierA));
  constant = 0x8b51f9ddu;
  std::array<std::uint64_t, 4> words{};
  for (std::size_t i = 0; i < 2 * words.size(); ++i)
    words[i / 2] |= static_cast<std::uint64_t>(hash(pool[i % kPool], kMultiplierB)) << (i % 2 * 32);
  return words;
}

constexpr unsigned __int128 kMultiplier =
    (static_cast<unsigned __int128>(2549297995355413924ull) << 64) | 4865540595714422341ull;

// The layers of the ziggurat of the normal distribution: 256 of the same area, of which the lowest begins at kEdge. The
// area has NumPy's rounding error, which the recurrence amplifies. Of NumPy's numbers some differ in the last bit.
constexpr double kEdge = 3.6541528853610088, kArea = 0.004928673233974652;
struct Ziggurat {
  std::array<double, 256> scale{}, height{};
  std::array<std::uint64_t, 256> inside{};
  Ziggurat() {
    constexpr double kOne = 4503599627370496.0;  // 2^52
    const auto density = [](double x) { return std::exp(-0.5 * x * x); };
    double x = kEdge;
    inside[0] = static_cast<std::uint64_t>(x * density(x) / kArea * kOne);
    scale[0] = kArea / density(x) / kOne;
    scale[255] = x / kOne;
    height[0] = 1;
    height[255] = density(x);
    for (std::size_t i = 254; i >= 1; --i) {
      const double above = x;
      x = std::sqrt(-2 * std::log(kArea / x + density(x)));
      inside[i + 1] = static_cast<std::uint64_t>(x / above * kOne);
      height[i] = density(x);
      scale[i] = x / kOne;
    }
  }
};
const Ziggurat& ziggurat() {
  static const auto* tables = new Ziggurat();
  return *tables;
}

}  // namespace

Pcg64::Pcg64(std::uint64_t seed) {
  const auto words = seed_words(seed);
  increment_ = ((static_cast<unsigned __int128>(words[2]) << 64) | words[3]) << 1 | 1;
  state_ = increment_;  // a step from zero
  state_ += (static_cast<unsigned __int128>(words[0]) << 64) | words[1];
  state_ = state_ * kMultiplier + increment_;
}

std::uint64_t Pcg64::next64() {
  state_ = state_ * kMultiplier + increment_;
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  const auto turn = static_cast<unsigned>(state_ >> 122);
  return (folded >> turn) | (folded << ((64 - turn) & 63));
}

std::uint32_t Pcg64::next32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const std::uint64_t both = next64();
  has_half_ = true;
  half_ = static_cast<std::uint32_t>(both >> 32);
  return static_cast<std::uint32_t>(both);
}

double Pcg64::normal() {
  const Ziggurat& z = ziggurat();
  for (;;) {
    std::uint64_t bits = next64();
    const std::size_t layer = bits & 0xff;
    bits >>= 8;
    const bool negative = bits & 1;
    const std::uint64_t size = (bits >> 1) & 0x000fffffffffffffull;
    const double x = static_cast<double>(size) * z.scale[layer] * (negative ? -1 : 1);
    if (size < z.inside[layer]) return x;
    if (layer == 0) {
      for (;;) {
        const double beyond = -1 / kEdge * std::log1p(-uniform()), y = -std::log1p(-uniform());
        if (y + y > beyond * beyond) return (size >> 8) & 1 ? -(kEdge + beyond) : kEdge + beyond;
      }
    }
    if ((z.height[layer - 1] - z.height[layer]) * uniform() + z.height[layer] < std::exp(-0.5 * x * x)) return x;
  }
}

std::uint64_t Pcg64::bounded(std::uint64_t max) {
  if (max == 0) return 0;
  if (max == 0xFFFFFFFFull) return next32();
  if (max < 0xFFFFFFFFull) {
    const std::uint64_t width = max + 1;
    std::uint64_t product = next32() * width;
    if (static_cast<std::uint32_t>(product) < width) {
      const std::uint32_t least = static_cast<std::uint32_t>((0xFFFFFFFFull - max) % width);
      while (static_cast<std::uint32_t>(product) < least) product = next32() * width;
    }
    return product >> 32;
  }
  if (max == ~0ull) return next64();
  const std::uint64_t width = max + 1;
  unsigned __int128 product = static_cast<unsigned __int128>(next64()) * width;
  if (static_cast<std::uint64_t>(product) < width) {
    const std::uint64_t least = (~0ull - max) % width;
    while (static_cast<std::uint64_t>(product) < least) product = static_cast<unsigned __int128>(next64()) * width;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace lockstep::random
