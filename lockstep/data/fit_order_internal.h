// The order in which Keras's fit takes the samples of arrays.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::data {

// shuffle=True: row numbers 0 … n-1 in the order of RandomShuffle with the global seed and op seed 0. With a
// global seed (random::set_random_seed) every epoch and every fit has the same order, as in Keras; without
// one every call gives another.
std::vector<std::int64_t> fit_order(std::int64_t n);

// The seeds behind the orders, and the orders that given seeds make: for going on within an epoch.
using OrderSeeds = std::pair<std::int64_t, std::int64_t>;
OrderSeeds draw_order_seeds();
std::vector<std::int64_t> fit_order(std::int64_t n, const OrderSeeds& seeds);

// shuffle="batch": the rows of one epoch, rows permuted within each batch by one generator that continues from batch
// to batch, the last partial batch too.
std::vector<std::int64_t> batch_order(std::int64_t n, std::int64_t batch_size);
std::vector<std::int64_t> batch_order(std::int64_t n, std::int64_t batch_size, const OrderSeeds& seeds);

}  // namespace lockstep::data
