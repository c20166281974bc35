// NumPy rounds products before it adds them.
#pragma GCC optimize("fp-contract=off")

#include "lockstep/random/mersenne_internal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::random {
namespace {

constexpr std::size_t kSize = 624, kShift = 397;

}  // namespace

void MersenneTwister::init(std::uint32_t seed) {
  words_[0] = seed;
  for (std::uint32_t i = 1; i < kSize; ++i) words_[i] = 1812433253u * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
  used_ = static_cast<int>(kSize);
}

void MersenneTwister::init_by_array(std::span<const std::uint32_t> key) {
  init(19650218u);
  std::size_t i = 1, j = 0;
  const auto wrap = [&] {
    if (++i >= kSize) words_[0] = words_[kSize - 1], i = 1;
  };
  for (std::size_t k = std::max(kSize, key.size()); k > 0; --k) {
    words_[i] =
        (words_[i] ^ ((words_[i - 1] ^ (words_[i - 1] >> 30)) * 1664525u)) + key[j] + static_cast<std::uint32_t>(j);
    wrap();
    if (++j >= key.size()) j = 0;
  }
  for (std::size_t k = kSize - 1; k > 0; --k) {
    words_[i] = (words_[i] ^ ((words_[i - 1] ^ (words_[i - 1] >> 30)) * 1566083941u)) - static_cast<std::uint32_t>(i);
    wrap();
  }
  words_[0] = 0x80000000u;
}

std::vector<std::uint32_t> MersenneTwister::state() const {
  std::vector<std::uint32_t> state(words_.begin(), words_.end());
  state.push_back(static_cast<std::uint32_t>(used_));
  return state;
}

void MersenneTwister::set_state(std::span<const std::uint32_t> state) {
  if (state.size() != kSize + 1 || state[kSize] > kSize) {
    throw_data_loss(
        "a saved random state is not that of a Mersenne Twister: 624 words and how many are used are expected");
  }
  std::copy_n(state.begin(), kSize, words_.begin());
  used_ = static_cast<int>(state[kSize]);
}

void MersenneTwister::refill() {
  for (std::size_t k = 0; k < kSize; ++k) {
    const std::uint32_t y = (words_[k] & 0x80000000u) | (words_[(k + 1) % kSize] & 0x7FFFFFFFu);
    words_[k] = words_[(k + kShift) % kSize] ^ (y >> 1) ^ ((y & 1u) ? 0x9908B0DFu : 0u);
  }
  used_ = 0;
}

std::uint32_t MersenneTwister::next() {
  if (used_ == static_cast<int>(kSize)) refill();
  std::uint32_t y = words_[static_cast<std::size_t>(used_++)];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680u;
  y ^= (y << 15) & 0xEFC60000u;
  return y ^ (y >> 18);
}

double MersenneTwister::uniform() {
  const std::uint32_t high = next() >> 5, low = next() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

void PythonRandom::seed(std::int64_t seed) {
  const std::uint64_t size = seed < 0 ? 0ull - static_cast<std::uint64_t>(seed) : static_cast<std::uint64_t>(seed);
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(size >> 32)};
  words_.init_by_array(std::span(key).first(key[1] ? 2 : 1));
}

std::int64_t PythonRandom::randint(std::int64_t low, std::int64_t high) {
  // Random._randbelow: as many bits as the width has, again until the draw is below it.
  const std::uint64_t width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  const int bits = std::bit_width(width);
  for (;;) {
    std::uint64_t draw = 0;
    if (bits <= 32) {
      draw = words_.next() >> (32 - bits);
    } else {
      draw = words_.next();
      draw |= static_cast<std::uint64_t>(words_.next() >> (64 - bits)) << 32;
    }
    if (draw < width) return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + draw);
  }
}

double NumpyRandom::normal() {
  if (second_normal_) return *std::exchange(second_normal_, std::nullopt);
  for (;;) {
    const double x = 2 * uniform() - 1, y = 2 * uniform() - 1, square = x * x + y * y;
    if (square >= 1 || square == 0) continue;
    const double factor = std::sqrt(-2 * std::log(square) / square);
    second_normal_ = factor * x;
    return factor * y;
  }
}

}  // namespace lockstep::random
