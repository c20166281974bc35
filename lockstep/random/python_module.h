// Python's module random, which lists of files are shuffled with: the numbers that Python draws, for the same seed.
//
//   namespace random = ls::python::random;
//   random::seed(1);
//   random::shuffle(filenames);
//   random::Random(1337).shuffle(paths);
//
// The functions draw from one generator of the process, which keras::utils::set_random_seed seeds too. All throw
// InvalidArgument where Python has an error.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/list.h"

namespace lockstep::random {
class PythonRandom;
}

namespace lockstep::python::random {

struct ChoicesKeywords {
  FieldNamesOnly names_only = {};
  std::vector<double> weights = {};  // of each item; none: all the same
  std::int64_t k = 1;
};

class Random {
 public:
  explicit Random(std::int64_t seed);
  // The generator of the process.
  static Random of_process() { return Random(); }

  void seed(std::int64_t seed);
  double random();                                       // in [0, 1)
  double uniform(double a, double b);                    // a + (b - a) * random()
  std::int64_t randint(std::int64_t a, std::int64_t b);  // both included
  std::int64_t randrange(std::int64_t stop) { return randrange(0, stop); }
  std::int64_t randrange(std::int64_t start, std::int64_t stop);  // without stop
  template <typename T>
  T choice(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(randrange(static_cast<std::int64_t>(items.size())))];
  }
  template <typename T>
  List<T> choices(const std::vector<T>& items, const ChoicesKeywords& o = {}) {
    return of(items, chosen(static_cast<std::int64_t>(items.size()), o));
  }
  // k different items; of a number n, k of the numbers below n, as sample(range(n), k).
  template <typename T>
  List<T> sample(const std::vector<T>& items, std::int64_t k) {
    return of(items, sample(static_cast<std::int64_t>(items.size()), k));
  }
  List<std::int64_t> sample(std::int64_t n, std::int64_t k);
  template <typename T>
  void shuffle(std::vector<T>& items) {
    items = of(items, order(static_cast<std::int64_t>(items.size())));
  }

 private:
  Random() = default;
  template <typename T>
  static List<T> of(const std::vector<T>& items, const std::vector<std::int64_t>& indices) {
    List<T> out;
    for (const std::int64_t index : indices) out.push_back(items[static_cast<std::size_t>(index)]);
    return out;
  }
  template <typename Use>
  auto with(const Use& use);
  std::vector<std::int64_t> chosen(std::int64_t count, const ChoicesKeywords& o);
  std::vector<std::int64_t> order(std::int64_t count);

  std::shared_ptr<lockstep::random::PythonRandom> own_;  // none: the generator of the process
};

inline void seed(std::int64_t seed) { Random::of_process().seed(seed); }
inline double random() { return Random::of_process().random(); }
inline double uniform(double a, double b) { return Random::of_process().uniform(a, b); }
inline std::int64_t randint(std::int64_t a, std::int64_t b) { return Random::of_process().randint(a, b); }
inline std::int64_t randrange(std::int64_t stop) { return Random::of_process().randrange(stop); }
inline std::int64_t randrange(std::int64_t start, std::int64_t stop) {
  return Random::of_process().randrange(start, stop);
}
template <typename T>
T choice(const std::vector<T>& items) {
  return Random::of_process().choice(items);
}
template <typename T>
List<T> choices(const std::vector<T>& items, const ChoicesKeywords& o = {}) {
  return Random::of_process().choices(items, o);
}
template <typename T>
List<T> sample(const std::vector<T>& items, std::int64_t k) {
  return Random::of_process().sample(items, k);
}
inline List<std::int64_t> sample(std::int64_t n, std::int64_t k) { return Random::of_process().sample(n, k); }
template <typename T>
void shuffle(std::vector<T>& items) {
  Random::of_process().shuffle(items);
}

}  // namespace lockstep::python::random
