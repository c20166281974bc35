#include "lockstep/random/graph_draws_internal.h"

#include <limits>
#include <vector>

#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/operators.h"
#include "lockstep/random/random.h"

namespace lockstep::random {

bool drawn_by_graph(const ShapeArg& shape, const Seed& seed) {
  return !shape.is_known() || (ops::ScopedRecorder::active() && !seed.number());
}

Tensor seed_in_graph(const Seed& seed) {
  if (seed.number()) {
    const SeedPair pair = draw_seed(seed);
    return Tensor::from_vector(
        std::vector<std::int32_t>{static_cast<std::int32_t>(pair.first), static_cast<std::int32_t>(pair.second)});
  }
  if (!seed.generator() || !ops::ScopedRecorder::active()) return {};
  const distribute::VariablePtr& variable = seed.generator()->state();
  const Tensor state = variable->read();
  variable->assign(state + Tensor::from_vector<std::int64_t>({0, 1}));
  constexpr std::int64_t kModulus = std::numeric_limits<std::int32_t>::max() - 1;
  return ops::cast(ops::floor_mod(state, Tensor::scalar(kModulus)), DType::kInt32);
}

Tensor any_seed_in_graph(const Seed& seed) {
  const Tensor known = seed_in_graph(seed);
  if (known.defined()) return known;
  return ops::call1("RandomUniformInt", {ops::constant_ints({2}), Tensor::scalar(std::int32_t{0}),
                                         Tensor::scalar(std::numeric_limits<std::int32_t>::max())});
}

Tensor dropout_mask_in_graph(const Tensor& shape, double rate, DType dtype, const Seed& seed) {
  const Tensor kept = ops::greater_equal(uniform(shape, 0.0, 1.0, dtype, seed), ops::constant(rate, dtype));
  return ops::cast(kept, dtype) * (1.0 / (1.0 - rate));
}

}  // namespace lockstep::random
