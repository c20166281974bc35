// NumPy's PCG64, and its generator of the process.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "lockstep/random/mersenne_internal.h"

namespace lockstep::random {

// numpy.random.PCG64(SeedSequence(seed)) and the numbers that numpy.random.Generator makes of it.
class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed);
  std::uint64_t next64();
  std::uint32_t next32();  // the lower half of 64 bits, then the upper half
  double uniform() { return static_cast<double>(next64() >> 11) * (1.0 / 9007199254740992.0); }
  float uniform32() { return static_cast<float>(next32() >> 8) * (1.0f / 16777216.0f); }
  double normal();                           // by the ziggurat method
  std::uint64_t bounded(std::uint64_t max);  // uniform in [0, max], by Lemire's method
  void shuffle(std::span<std::int64_t> items) { shuffle_items(*this, items); }

 private:
  unsigned __int128 state_ = 0, increment_ = 0;
  bool has_half_ = false;
  std::uint32_t half_ = 0;
};

// Calls a function with NumPy's generator of the process, which no other thread uses meanwhile.
void with_numpy_random(const std::function<void(NumpyRandom&)>& use);
// numpy.random.seed.
void seed_numpy_random(std::uint32_t seed);

// The same of Python's.
void with_python_random(const std::function<void(PythonRandom&)>& use);
void seed_python_random(std::int64_t seed);

}  // namespace lockstep::random
