// Philox 4x32-10 and the numbers TensorFlow draws with it on a CPU, bit for bit.
//
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A draw's element i depends on
// key, counter and i only, so any slice of it can be made on its own: every fill takes the offset of its
// first element. Products and sums round separately (no fused multiply-add) and logf, sincosf are the C
// library's, because the original's bits depend on it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep::ops {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// Where a stream of random words stands: a 64-bit key and a 128-bit block counter.
struct PhiloxState {
  std::uint64_t key = 0;
  std::uint64_t counter_low = 0;
  std::uint64_t counter_high = 0;

  // The state `blocks` blocks (of 4 words) later.
  PhiloxState skipped(std::uint64_t blocks) const;
};

// The four words at this state; does not advance.
PhiloxBlock philox_block(const PhiloxState& state);

// Of stateful ops and Dataset.shuffle: (seed, seed2) used as they are.
PhiloxState philox_from_seeds(std::int64_t seed, std::int64_t seed2);
// Of stateless ops (StatelessRandomGetKeyCounter): the seed pair scrambled; int32 seeds sign-extended.
PhiloxState philox_from_stateless_seed(std::int64_t seed0, std::int64_t seed1);

// Words one by one.
class PhiloxStream {
 public:
  explicit PhiloxStream(PhiloxState state) : state_(state) {}
  std::uint32_t next();
  double next_double();  // in [0, 1), of two words
  float next_float();    // in [0, 1), of one word
  // In [0, limit), each with the same probability: words are drawn until one fits.
  std::uint32_t next_below(std::uint32_t limit);
  std::uint64_t next_below64(std::uint64_t limit);

 private:
  PhiloxState state_;
  PhiloxBlock block_{};
  int used_ = 4;
};

// Elements offset, offset + 1, … of the draw that starts at `state`. The
// callers may split a span over threads.
void philox_uniform(const PhiloxState& state, std::int64_t offset, std::span<float> out);   // [0, 1), 23 bits
void philox_uniform(const PhiloxState& state, std::int64_t offset, std::span<double> out);  // [0, 1), 52 bits
void philox_normal(const PhiloxState& state, std::int64_t offset, std::span<float> out);    // Box-Muller
void philox_normal(const PhiloxState& state, std::int64_t offset, std::span<double> out);
// |x| < 2; every group of 4 (double: 2) elements has its own sub-stream of 256 (double: 128) blocks.
void philox_truncated_normal(const PhiloxState& state, std::int64_t offset, std::span<float> out);
void philox_truncated_normal(const PhiloxState& state, std::int64_t offset, std::span<double> out);
// Whole words: one each for 32 bits, two (low first) for 64.
void philox_full_int(const PhiloxState& state, std::int64_t offset, std::span<std::uint32_t> out);
void philox_full_int(const PhiloxState& state, std::int64_t offset, std::span<std::uint64_t> out);
// Gamma(alpha, 1) by Marsaglia and Tsang's method in double precision. Element i has its own sub-stream of 256 blocks;
// `alpha_at(i)` is its alpha, above 0.
void philox_gamma(const PhiloxState& state, std::int64_t offset, const std::function<double(std::int64_t)>& alpha_at,
                  std::span<double> out);
// Float16 and bfloat16 in [0, 1): one word each, `mantissa_bits` (10 or 7) of it, given as float values.
void philox_uniform16(const PhiloxState& state, std::int64_t offset, int mantissa_bits, std::span<float> out);

// values[i] = values[i] * scale + shift, product and sum rounded separately.
void scale_and_shift(std::span<float> values, float scale, float shift);
void scale_and_shift(std::span<double> values, double scale, double shift);

// Where the stateful operations of this process stand: name, seed, seed2; key and counter (low, high) of the next draw.
using StatefulRandomState =
    std::tuple<std::string, std::int64_t, std::int64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
std::vector<StatefulRandomState> stateful_random_states();
void set_stateful_random_states(const std::vector<StatefulRandomState>& states);

// The order RandomShuffle gives to n rows: row i of the result is row p[i] of the input. Uses
// ceil((n - 1) / 4) blocks.
void philox_shuffle(const PhiloxState& state, std::span<std::int64_t> order);

}  // namespace lockstep::ops
