#include "lockstep/random/python_module.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/random/mersenne_internal.h"
#include "lockstep/random/numpy_numbers_internal.h"

namespace lockstep::python::random {

using lockstep::random::PythonRandom;

template <typename Use>
auto Random::with(const Use& use) {
  decltype(use(*own_)) result;
  if (own_)
    result = use(*own_);
  else
    lockstep::random::with_python_random([&](PythonRandom& numbers) { result = use(numbers); });
  return result;
}

Random::Random(std::int64_t seed) : own_(std::make_shared<PythonRandom>(seed)) {}

void Random::seed(std::int64_t seed) {
  if (own_)
    own_->seed(seed);
  else
    lockstep::random::seed_python_random(seed);
}

double Random::random() {
  return with([](PythonRandom& numbers) { return numbers.random(); });
}

double Random::uniform(double a, double b) { return a + (b - a) * random(); }

std::int64_t Random::randint(std::int64_t a, std::int64_t b) {
  if (a > b) throw_invalid_argument(fmt::format("random: found the range from {} to {}, which is empty", a, b));
  return with([&](PythonRandom& numbers) { return numbers.randint(a, b); });
}

std::int64_t Random::randrange(std::int64_t start, std::int64_t stop) {
  if (start >= stop)
    throw_invalid_argument(fmt::format("random: found {} and {}, an empty range or list to choose from", start, stop));
  return randint(start, stop - 1);
}

List<std::int64_t> Random::sample(std::int64_t n, std::int64_t k) {
  if (k < 0 || k > n) throw_invalid_argument(fmt::format("random.sample: {} of {} items", k, n));
  List<std::int64_t> result;
  // As Python: where a list of all is smaller than a set of the chosen, from a list, which loses the chosen.
  const double set_size = 21 + (k > 5 ? std::pow(4, std::ceil(std::log(static_cast<double>(k) * 3) / std::log(4))) : 0);
  if (static_cast<double>(n) <= set_size) {
    List<std::int64_t> pool(static_cast<std::size_t>(n));
    std::iota(pool.begin(), pool.end(), 0);
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t j = randrange(n - i);
      result.push_back(pool[j]);
      pool[j] = pool[n - i - 1];
    }
    return result;
  }
  std::set<std::int64_t> chosen;
  while (static_cast<std::int64_t>(result.size()) < k)
    if (const std::int64_t j = randrange(n); chosen.insert(j).second) result.push_back(j);
  return result;
}

std::vector<std::int64_t> Random::chosen(std::int64_t count, const ChoicesKeywords& o) {
  if (count == 0) throw_invalid_argument("random.choices: the list is empty");
  if (!o.weights.empty() && static_cast<std::int64_t>(o.weights.size()) != count)
    throw_invalid_argument(fmt::format("random.choices: {} weights, expected {}", o.weights.size(), count));
  std::vector<double> sums(o.weights.size());
  std::partial_sum(o.weights.begin(), o.weights.end(), sums.begin());
  if (!sums.empty() && !(sums.back() > 0))
    throw_invalid_argument("random.choices: the sum of the weights is not above 0");
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < o.k; ++i)
    indices.push_back(sums.empty()
                          ? static_cast<std::int64_t>(std::floor(random() * static_cast<double>(count)))
                          : std::upper_bound(sums.begin(), sums.end() - 1, random() * sums.back()) - sums.begin());
  return indices;
}

std::vector<std::int64_t> Random::order(std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(randint(0, i))]);
  return order;
}

}  // namespace lockstep::python::random
