// Python's global generator, which keras.utils.set_random_seed seeds.
#pragma once

#include <cstdint>

namespace lockstep::random {

// random.randint(low, high): both included.
std::int64_t python_randint(std::int64_t low, std::int64_t high);

}  // namespace lockstep::random
