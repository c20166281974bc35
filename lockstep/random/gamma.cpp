#include "lockstep/random/gamma.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/philox_internal.h"
#include "lockstep/random/batch_slice.h"

namespace lockstep::random {
namespace {

// As tf.random.stateless_gamma: never 0.
std::vector<float> gammas(const SeedPair& seed, std::int64_t offset, std::size_t count, double alpha) {
  if (!(alpha > 0)) throw_invalid_argument(fmt::format("random.gamma: alpha is {}, expected a number above 0", alpha));
  std::vector<double> drawn(count);
  ops::philox_gamma(
      ops::philox_from_stateless_seed(seed.first, seed.second), offset,
      [alpha = static_cast<double>(static_cast<float>(alpha))](std::int64_t) { return alpha; }, drawn);
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = std::max(std::numeric_limits<float>::min(), static_cast<float>(drawn[i]));
  return out;
}

std::size_t checked_count(const char* what, const Shape& shape) {
  const auto count = shape.fully_known() ? shape.num_elements() : std::nullopt;
  if (!count)
    throw_invalid_argument(
        fmt::format("random.{}: invalid shape: found {}, expected known dimensions", what, shape.to_string()));
  return static_cast<std::size_t>(*count);
}

}  // namespace

Tensor gamma(const Shape& shape, double alpha, const Seed& seed) {
  const std::size_t count = checked_count("gamma", shape);
  const SeedPair pair = draw_seed(seed);
  return Tensor::from_vector(gammas(pair, draw_offset(shape), count, alpha), shape);
}

Tensor beta(const Shape& shape, double alpha, double beta, const Seed& seed) {
  const std::size_t count = checked_count("beta", shape);
  const SeedPair pair = draw_seed(seed);
  const std::int64_t offset = draw_offset(shape);
  std::vector<float> a = gammas(pair, offset, count, alpha);
  const std::vector<float> b = gammas({pair.first + 12, pair.second + 12}, offset, count, beta);
  for (std::size_t i = 0; i < count; ++i) a[i] = a[i] / (a[i] + b[i]);
  return Tensor::from_vector(a, shape);
}

}  // namespace lockstep::random
