// The MT19937 generators of Python's `random` and NumPy's legacy RandomState, bit for bit.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::random {

// A number of NumPy's generators, uniform in [0, max].
template <typename Numbers>
std::uint64_t masked_rejection(Numbers& numbers, std::uint64_t max) {
  if (max == 0) return 0;
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(max);
  for (;;) {
    const std::uint64_t draw = (max > 0xFFFFFFFFu ? numbers.next64() : numbers.next32()) & mask;
    if (draw <= max) return draw;
  }
}
// numpy's shuffle and permutation.
template <typename Numbers>
void shuffle_items(Numbers& numbers, std::span<std::int64_t> items) {
  for (std::size_t i = items.size(); i-- > 1;) std::swap(items[i], items[masked_rejection(numbers, i)]);
}

class MersenneTwister {
 public:
  MersenneTwister() { init(5489); }
  void init(std::uint32_t seed);
  void init_by_array(std::span<const std::uint32_t> key);
  std::uint32_t next();
  double uniform();  // in [0, 1), 53 bits

  // The 624 words and how many of them are used up: all that later numbers follow from.
  std::vector<std::uint32_t> state() const;
  // Throws DataLoss for a value that state() never returns.
  void set_state(std::span<const std::uint32_t> state);

 private:
  void refill();
  std::array<std::uint32_t, 624> words_{};
  int used_ = 624;
};

// random.Random(seed): the words of abs(seed) seed the generator.
class PythonRandom {
 public:
  explicit PythonRandom(std::int64_t seed) { this->seed(seed); }
  void seed(std::int64_t seed);
  // Uniform in [low, high], both included; high - low + 1 must fit 64 bits.
  std::int64_t randint(std::int64_t low, std::int64_t high);
  double random() { return words_.uniform(); }
  MersenneTwister& words() { return words_; }

 private:
  MersenneTwister words_;
};

// numpy.random.RandomState(seed) with 0 <= seed < 2^32.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) { words_.init(seed); }
  std::uint32_t next32() { return words_.next(); }
  std::uint64_t next64() {
    const std::uint64_t high = words_.next();
    return high << 32 | words_.next();
  }
  std::uint64_t bounded(std::uint64_t max) { return masked_rejection(*this, max); }  // uniform in [0, max]
  double uniform() { return words_.uniform(); }
  // By the polar method, which makes two numbers at a time.
  double normal();
  const std::optional<double>& second_normal() const { return second_normal_; }
  void set_second_normal(std::optional<double> number) { second_normal_ = number; }
  void shuffle(std::span<std::int64_t> items) { shuffle_items(*this, items); }
  MersenneTwister& words() { return words_; }

 private:
  MersenneTwister words_;
  std::optional<double> second_normal_;
};

}  // namespace lockstep::random
