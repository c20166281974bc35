// Seeds: keras.utils.set_random_seed, the default seeds of constructors, tf.random.set_seed's rules.
//
// All of it is process-wide and may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/base/json.h"

namespace lockstep::random {

// keras.utils.set_random_seed: seeds Python's and NumPy's generators and TensorFlow's global seed, and
// drops the global seed generator. 0 <= seed < 2^32; throws InvalidArgument otherwise.
void set_random_seed(std::int64_t seed);

// The state of all process-wide generators: Python's, NumPy's, the global seed with its op seeds, the generator of
// seedless draws, stateful operations. After restore_state(), draws are those that followed save_state().
// restore_state throws DataLoss for an invalid state, and then changes nothing.
Json save_state();
void restore_state(const Json& state);

// tf.random.set_seed: the global seed only.
void set_global_seed(std::int64_t seed);
std::optional<std::int64_t> global_seed();

// The seed a Keras object without one takes at construction: Python's randint(1, 10^9).
std::int64_t make_default_seed();
// np.random.randint(max) of NumPy's global generator.
std::int64_t numpy_randint(std::int64_t max);

// (seed, seed2) of a stateful op or of Dataset.shuffle run eagerly, from the global seed and its own:
//   both given: (g, o); only global: (g, next internal op seed); only own: (87654321, o); none: chosen
//   at random (TensorFlow's (0, 0)). All modulo 2^31 - 1; (0, 0) becomes (0, 2^31 - 1).
std::pair<std::int64_t, std::int64_t> op_seeds(std::optional<std::int64_t> op_seed);
// The same in a graph, as the operation of that number.
// In functions of datasets and in tf.function, an op without a seed takes the number of those before it in the
// function.
std::pair<std::int64_t, std::int64_t> op_seeds_in_graph(std::optional<std::int64_t> op_seed, std::int64_t number);

}  // namespace lockstep::random
