// The order in which Keras's fit takes the samples of arrays.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::data {

// shuffle=True: row numbers 0 … n-1 in the order of RandomShuffle with the global seed and op seed 0. With a
// global seed (random::set_random_seed) every epoch and every fit has the same order, as in Keras; without
// one every call gives another.
std::vector<std::int64_t> fit_order(std::int64_t n);

// shuffle="batch": the rows of one epoch, each batch permuted in itself by one generator that goes on from batch
// to batch, the last partial batch too.
std::vector<std::int64_t> batch_order(std::int64_t n, std::int64_t batch_size);

}  // namespace lockstep::data
