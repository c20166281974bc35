// The MT19937 generators of Python's `random` and NumPy's legacy RandomState, bit for bit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::random {

class MersenneTwister {
 public:
  MersenneTwister() { init(5489); }
  void init(std::uint32_t seed);
  void init_by_array(std::span<const std::uint32_t> key);
  std::uint32_t next();

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
  double random();  // uniform in [0, 1)
  MersenneTwister& words() { return words_; }

 private:
  MersenneTwister words_;
};

// numpy.random.RandomState(seed) with 0 <= seed < 2^32.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) { words_.init(seed); }
  std::uint64_t bounded(std::uint64_t max);  // uniform in [0, max] by masked rejection
  std::uint64_t interval(std::uint64_t max) { return bounded(max); }
  double uniform();  // in [0, 1)
  // By the polar method, which makes two numbers at a time.
  double normal();
  const std::optional<double>& second_normal() const { return second_normal_; }
  void set_second_normal(std::optional<double> number) { second_normal_ = number; }
  void shuffle(std::span<std::int64_t> items);
  MersenneTwister& words() { return words_; }

 private:
  MersenneTwister words_;
  std::optional<double> second_normal_;
};

}  // namespace lockstep::random
