#include "lockstep/data/fit_order_internal.h"

#include <algorithm>
#include <span>

#include "lockstep/ops/philox_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::data {

// Those of the first seedless random operation of a dataset function.
OrderSeeds draw_order_seeds() { return random::op_seeds_in_graph(std::nullopt, 0); }

std::vector<std::int64_t> fit_order(std::int64_t n) { return fit_order(n, draw_order_seeds()); }

std::vector<std::int64_t> fit_order(std::int64_t n, const OrderSeeds& seeds) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  ops::philox_shuffle(ops::philox_from_seeds(seeds.first, seeds.second), order);
  return order;
}

std::vector<std::int64_t> batch_order(std::int64_t n, std::int64_t batch_size) {
  return batch_order(n, batch_size, draw_order_seeds());
}

std::vector<std::int64_t> batch_order(std::int64_t n, std::int64_t batch_size, const OrderSeeds& seeds) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  ops::PhiloxState state = ops::philox_from_seeds(seeds.first, seeds.second);
  for (std::int64_t begin = 0; begin < n; begin += batch_size) {
    const std::int64_t size = std::min(batch_size, n - begin);
    const std::span batch(order.data() + begin, static_cast<std::size_t>(size));
    ops::philox_shuffle(state, batch);
    for (std::int64_t& row : batch) row += begin;
    state = state.skipped(static_cast<std::uint64_t>(size + 2) / 4);  // ceil((size - 1) / 4)
  }
  return order;
}

}  // namespace lockstep::data
