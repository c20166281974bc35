// NumPy rounds products before it adds them.
#pragma GCC optimize("fp-contract=off")

#include "lockstep/random/numpy_random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/numpy_numbers_internal.h"

namespace lockstep::np::random {
namespace {

using lockstep::random::NumpyRandom;
using lockstep::random::Pcg64;

std::int64_t checked_seed(std::int64_t seed) {
  if (seed < 0) throw_invalid_argument(fmt::format("np.random: the seed is {}, expected 0 or more", seed));
  return seed;
}
std::uint32_t seed_of_32_bits(std::int64_t seed) {
  if (checked_seed(seed) > 0xFFFFFFFFll)
    throw_invalid_argument(fmt::format("np.random: the seed is {}, expected at most 2^32 - 1", seed));
  return static_cast<std::uint32_t>(seed);
}

std::size_t count_of(const ShapeArg& size) {
  const auto count = size.is_known() ? size.shape().num_elements() : std::nullopt;
  if (!count) throw_invalid_argument("np.random: the size must be known");
  return static_cast<std::size_t>(*count);
}

template <typename T, typename Draw>
Tensor drawn(const ShapeArg& size, const Draw& draw) {
  std::vector<T> values(count_of(size));
  for (T& value : values) value = static_cast<T>(draw());
  return Tensor::from_vector(values, size.shape()).numpy();
}

// `numbers` is a NumpyRandom or a Pcg64.
template <typename Numbers>
Tensor uniform_of(Numbers& numbers, double low, double high, const ShapeArg& size) {
  const double range = high - low;
  if (!std::isfinite(range)) throw_invalid_argument("np.random.uniform: high - low is not finite");
  return drawn<double>(size, [&] { return low + range * numbers.uniform(); });
}
template <typename Numbers>
Tensor normal_of(Numbers& numbers, double loc, double scale, const ShapeArg& size) {
  if (scale < 0) throw_invalid_argument(fmt::format("np.random.normal: the scale is {}, expected 0 or more", scale));
  return drawn<double>(size, [&] { return loc + scale * numbers.normal(); });
}
template <typename Numbers>
Tensor integers_of(Numbers& numbers, std::int64_t low, std::optional<std::int64_t> high, const IntegersKeywords& o) {
  if (!high) high = std::exchange(low, 0);
  if (low >= *high)
    throw_invalid_argument(fmt::format("np.random: low is {} and high {}, expected low < high", low, *high));
  const std::uint64_t range = static_cast<std::uint64_t>(*high) - static_cast<std::uint64_t>(low) - 1;
  const auto draw = [&] { return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + numbers.bounded(range)); };
  const DType dtype = o.dtype;
  if (dtype == DType::kInt64) return drawn<std::int64_t>(o.size, draw);
  if (dtype != DType::kInt32)
    throw_unimplemented(fmt::format("np.random: integers of {}; int64 and int32 are supported", dtype_name(dtype)));
  if (low < INT32_MIN || *high - 1 > INT32_MAX)
    throw_invalid_argument("np.random: low and high are out of bounds for int32");
  return drawn<std::int32_t>(o.size, draw);
}
template <typename Numbers>
std::vector<std::int64_t> order_of(Numbers& numbers, std::int64_t count) {
  if (count < 0) throw_invalid_argument(fmt::format("np.random.permutation: found {}, expected 0 or more", count));
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  numbers.shuffle(order);
  return order;
}
template <typename Numbers>
Tensor rows_of(Numbers& numbers, const Tensor& rows) {
  if (rows.rank() == 0) return Tensor::from_vector(order_of(numbers, rows.item<std::int64_t>())).numpy();
  return ops::gather(rows, Tensor::from_vector(order_of(numbers, rows.dim(0)))).numpy();
}
// Positions in the running sum of the probabilities.
template <typename Numbers>
Tensor weighted(Numbers& numbers, std::int64_t count, const ChoiceKeywords& o) {
  std::vector<double> sums = o.p.values;
  if (static_cast<std::int64_t>(sums.size()) != count)
    throw_invalid_argument(fmt::format("np.random.choice: p has {} numbers, expected {}", sums.size(), count));
  if (std::any_of(sums.begin(), sums.end(), [](double p) { return !(p >= 0); }))
    throw_invalid_argument("np.random.choice: p has numbers below 0");
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  if (sums.empty() || std::abs(sums.back() - 1) > o.p.tolerance)
    throw_invalid_argument("np.random.choice: the sum of p is not 1");
  const double total = sums.back();
  for (double& sum : sums) sum /= total;
  return drawn<std::int64_t>(
      o.size, [&] { return std::upper_bound(sums.begin(), sums.end(), numbers.uniform()) - sums.begin(); });
}
// `first` takes that many numbers without replacement.
template <typename Numbers, typename First>
Tensor choice_of(Numbers& numbers, std::int64_t count, const ChoiceKeywords& o, const First& first) {
  if (count <= 0) throw_invalid_argument("np.random.choice: nothing to choose from");
  if (!o.replace) {
    if (!o.p.values.empty()) throw_unimplemented("np.random.choice: p with replace = false");
    const auto wanted = static_cast<std::int64_t>(count_of(o.size));
    if (wanted > count)
      throw_invalid_argument(
          fmt::format("np.random.choice: {} of {} cannot be chosen with replace = false", wanted, count));
    return first(wanted);
  }
  if (!o.p.values.empty()) return weighted(numbers, count, o);
  return integers_of(numbers, 0, count, {{}, o.size});
}
Tensor choice_of(NumpyRandom& numbers, std::int64_t count, const ChoiceKeywords& o) {
  return choice_of(numbers, count, o, [&](std::int64_t wanted) {
    auto order = order_of(numbers, count);
    order.resize(static_cast<std::size_t>(wanted));
    return Tensor::from_vector(order, o.size.shape()).numpy();
  });
}
Tensor choice_of(Pcg64& numbers, std::int64_t count, const ChoiceKeywords& o) {
  return choice_of(numbers, count, o, [](std::int64_t) -> Tensor {
    throw_unimplemented("np.random.Generator.choice: replace = false; use permutation()");
  });
}
template <typename Numbers>
Tensor elements_of(Numbers& numbers, const Tensor& from, const ChoiceKeywords& o) {
  if (from.rank() == 0) return choice_of(numbers, from.item<std::int64_t>(), o);
  return ops::gather(from, choice_of(numbers, from.dim(0), o)).numpy();
}

template <typename Use>
Tensor of_process(const Use& use) {
  Tensor result;
  lockstep::random::with_numpy_random([&](NumpyRandom& numbers) { result = use(numbers); });
  return result;
}

}  // namespace

Probabilities Probabilities::of_array(const Tensor& array) {
  Probabilities p(ops::cast(array, DType::kFloat64).to_vector<double>());
  const auto at_least = [&](double epsilon) { p.tolerance = std::max(p.tolerance, std::sqrt(epsilon)); };
  if (array.dtype() == DType::kFloat32) at_least(std::numeric_limits<float>::epsilon());
  if (array.dtype() == DType::kFloat16) at_least(std::ldexp(1.0, -10));
  return p;
}

template <typename Numbers>
Tensor Draws<Numbers>::uniform(double low, double high, const ShapeArg& size) {
  return uniform_of(*numbers_, low, high, size);
}
template <typename Numbers>
Tensor Draws<Numbers>::normal(double loc, double scale, const ShapeArg& size) {
  return normal_of(*numbers_, loc, scale, size);
}
template <typename Numbers>
Tensor Draws<Numbers>::integers_between(std::int64_t low, std::optional<std::int64_t> high, const IntegersKeywords& o) {
  return integers_of(*numbers_, low, high, o);
}
template <typename Numbers>
Tensor Draws<Numbers>::permutation(std::int64_t count) {
  return Tensor::from_vector(order_of(*numbers_, count)).numpy();
}
template <typename Numbers>
Tensor Draws<Numbers>::permutation(const Tensor& rows) {
  return rows_of(*numbers_, rows);
}
template <typename Numbers>
void Draws<Numbers>::shuffle(Tensor& rows) {
  rows = rows_of(*numbers_, rows);
}
template <typename Numbers>
Tensor Draws<Numbers>::choice(std::int64_t count, const ChoiceKeywords& o) {
  return choice_of(*numbers_, count, o);
}
template <typename Numbers>
Tensor Draws<Numbers>::choice(const Tensor& from, const ChoiceKeywords& o) {
  return elements_of(*numbers_, from, o);
}
template class Draws<NumpyRandom>;
template class Draws<Pcg64>;

RandomState::RandomState(std::int64_t seed) : Draws(std::make_shared<NumpyRandom>(seed_of_32_bits(seed))) {}
Tensor RandomState::random_sample(const ShapeArg& size) {
  return drawn<double>(size, [&] { return numbers_->uniform(); });
}

Generator::Generator(std::int64_t seed)
    : Draws(std::make_shared<Pcg64>(static_cast<std::uint64_t>(checked_seed(seed)))) {}
Tensor Generator::random(const ShapeArg& size, const DTypeLike& dtype) {
  if (dtype == DType::kFloat64) return drawn<double>(size, [&] { return numbers_->uniform(); });
  if (dtype == DType::kFloat32) return drawn<float>(size, [&] { return numbers_->uniform32(); });
  throw_invalid_argument(
      fmt::format("np.random.Generator.random: found {}, expected float64 or float32", dtype_name(dtype)));
}

void seed(std::int64_t seed) { lockstep::random::seed_numpy_random(seed_of_32_bits(seed)); }
Tensor random_sample(const ShapeArg& size) {
  return of_process([&](NumpyRandom& numbers) { return drawn<double>(size, [&] { return numbers.uniform(); }); });
}
Tensor uniform(double low, double high, const ShapeArg& size) {
  return of_process([&](NumpyRandom& numbers) { return uniform_of(numbers, low, high, size); });
}
Tensor normal(double loc, double scale, const ShapeArg& size) {
  return of_process([&](NumpyRandom& numbers) { return normal_of(numbers, loc, scale, size); });
}
Tensor randint(std::int64_t low, std::optional<std::int64_t> high, const IntegersKeywords& o) {
  return of_process([&](NumpyRandom& numbers) { return integers_of(numbers, low, high, o); });
}
Tensor permutation(std::int64_t count) {
  return of_process([&](NumpyRandom& numbers) { return Tensor::from_vector(order_of(numbers, count)).numpy(); });
}
Tensor permutation(const Tensor& rows) {
  return of_process([&](NumpyRandom& numbers) { return rows_of(numbers, rows); });
}
void shuffle(Tensor& rows) { rows = permutation(rows); }
Tensor choice(std::int64_t count, const ChoiceKeywords& o) {
  return of_process([&](NumpyRandom& numbers) { return choice_of(numbers, count, o); });
}
Tensor choice(const Tensor& from, const ChoiceKeywords& o) {
  return of_process([&](NumpyRandom& numbers) { return elements_of(numbers, from, o); });
}

}  // namespace lockstep::np::random
