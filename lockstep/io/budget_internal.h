// Bounds the cost of reading one untrusted file. Sizes inside a file are checked against the file's size one by one,
// but parts of a file can be shared, and then their sum is not bounded by it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::io {

class Budget {
 public:
  constexpr Budget(std::uint64_t bytes, std::uint64_t steps) : bytes_(bytes), steps_(steps) {}

  // False where less than `bytes` of memory is left; then nothing is taken.
  bool take_bytes(std::uint64_t bytes) { return take(bytes_, bytes); }
  bool take_steps(std::uint64_t steps) { return take(steps_, steps); }

 private:
  static bool take(std::uint64_t& left, std::uint64_t wanted) {
    if (wanted > left) return false;
    left -= wanted;
    return true;
  }

  std::uint64_t bytes_;
  std::uint64_t steps_;
};

// The most bytes that `stored` compressed bytes may expand to: more is rejected as a decompression bomb.
// Weights hardly shrink, state that is all zero shrinks a thousandfold but is small.
constexpr std::uint64_t most_expanded(std::uint64_t stored) {
  constexpr std::uint64_t kFloor = std::uint64_t{256} << 20;
  constexpr std::uint64_t kRatio = 100;
  return std::max(kFloor, stored > ~std::uint64_t{0} / kRatio ? ~std::uint64_t{0} : stored * kRatio);
}

}  // namespace lockstep::io
