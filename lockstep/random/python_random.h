// Python's global generator, which keras.utils.set_random_seed seeds.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::random {

// random.randint(low, high): both included.
std::int64_t python_randint(std::int64_t low, std::int64_t high);

// random.random(): uniform in [0, 1).
double python_random();

// random.seed(seed), then the order into which random.shuffle brings so many items.
std::vector<std::int64_t> python_shuffled(std::int64_t seed, std::int64_t count);
// The order into which random.shuffle brings so many items, without a new seed.
std::vector<std::int64_t> python_shuffle(std::int64_t count);

}  // namespace lockstep::random
