#include "lockstep/random/seeds.h"

#include <mutex>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/entropy_internal.h"
#include "lockstep/base/error.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/ops/philox_internal.h"
#include "lockstep/random/mersenne_internal.h"
#include "lockstep/random/numpy_numbers_internal.h"
#include "lockstep/random/python_random.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::random {
namespace {

constexpr std::int64_t kModulus = 2147483647;  // 2^31 - 1
constexpr std::int64_t kDefaultGraphSeed = 87654321;

struct Generators {
  std::mutex mutex;
  PythonRandom python{draw_entropy()};
  NumpyRandom numpy{draw_entropy()};
  PythonRandom op_seeds{0};
  std::optional<std::int64_t> global_seed;
  bool seeded = false;  // by set_random_seed
  int generation = entropy_generation();

  // With the mutex held: reseeds the generators that nobody seeded when the source has changed since.
  void refresh() {
    if (seeded || generation == entropy_generation()) return;
    generation = entropy_generation();
    python.seed(draw_entropy());
    numpy = NumpyRandom(draw_entropy());
  }
};

Generators& generators() {
  static Generators* instance = new Generators();
  return *instance;
}

std::int64_t floor_mod(std::int64_t value, std::int64_t modulus) {
  const std::int64_t rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

std::pair<std::int64_t, std::int64_t> avoid_zero(std::int64_t seed, std::int64_t seed2) {
  if (seed == 0 && seed2 == 0) return {0, kModulus};
  return {seed, seed2};
}

std::pair<std::int64_t, std::int64_t> random_pair() {
  return {static_cast<std::int64_t>(draw_entropy()) + 1, static_cast<std::int64_t>(draw_entropy())};
}

}  // namespace

void set_random_seed(std::int64_t seed) {
  if (seed < 0 || seed > 0xFFFFFFFFll) {
    throw_invalid_argument(fmt::format("set_random_seed: the seed is {}, expected 0 to 2^32 - 1", seed));
  }
  {
    Generators& all = generators();
    const std::lock_guard lock(all.mutex);
    all.seeded = true;
    all.python.seed(seed);
    all.numpy = NumpyRandom(static_cast<std::uint32_t>(seed));
  }
  set_global_seed(seed);
  drop_global_seed_generator();
}

Json save_state() {
  Generators& all = generators();
  const auto seedless = global_seed_state();
  const std::lock_guard lock(all.mutex);
  return {{"python", all.python.words().state()},
          {"numpy", all.numpy.words().state()},
          {"numpy_normal", all.numpy.second_normal() ? Json(*all.numpy.second_normal()) : Json(nullptr)},
          {"global_seed", all.global_seed ? Json(*all.global_seed) : Json(nullptr)},
          {"op_seeds", all.global_seed ? Json(all.op_seeds.words().state()) : Json(nullptr)},
          {"seedless", seedless ? Json::array({seedless->first, seedless->second}) : Json(nullptr)},
          {"operations", ops::stateful_random_states()}};
}

void restore_state(const Json& state) {
  Generators& all = generators();
  try {
    PythonRandom python{0}, op_seeds{0};
    NumpyRandom numpy{0};
    python.words().set_state(state.at("python").get<std::vector<std::uint32_t>>());
    numpy.words().set_state(state.at("numpy").get<std::vector<std::uint32_t>>());
    if (const auto second = state.find("numpy_normal"); second != state.end() && !second->is_null())
      numpy.set_second_normal(second->get<double>());
    std::optional<std::int64_t> global_seed;
    if (!state.at("global_seed").is_null()) {
      global_seed = state["global_seed"].get<std::int64_t>();
      op_seeds.words().set_state(state.at("op_seeds").get<std::vector<std::uint32_t>>());
    }
    std::optional<SeedPair> seedless;
    if (!state.at("seedless").is_null()) seedless = state["seedless"].get<SeedPair>();
    ops::set_stateful_random_states(state.at("operations").get<std::vector<ops::StatefulRandomState>>());
    set_global_seed_state(seedless);
    const std::lock_guard lock(all.mutex);
    all.python = python;
    all.numpy = numpy;
    all.op_seeds = op_seeds;
    all.global_seed = global_seed;
  } catch (const JsonError& error) {
    throw_data_loss(fmt::format("a saved random state is malformed: {}", error.what()));
  }
}

void set_global_seed(std::int64_t seed) {
  // Operations outside of graphs begin at their seeds again; their names end in their attributes, those of operations
  // in graphs in the path of a node.
  auto operations = ops::stateful_random_states();
  std::erase_if(operations, [](const auto& state) { return std::get<0>(state).ends_with(')'); });
  ops::set_stateful_random_states(operations);
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.global_seed = seed;
  all.op_seeds.seed(seed);
}

std::optional<std::int64_t> global_seed() {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  return all.global_seed;
}

std::int64_t python_randint(std::int64_t low, std::int64_t high) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.refresh();
  return all.python.randint(low, high);
}

double python_random() {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.refresh();
  return all.python.random();
}

namespace {

std::vector<std::int64_t> shuffled(PythonRandom& python, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = count - 1; i > 0; --i) {
    const std::int64_t j = python.randint(0, i);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]);
  }
  return order;
}

}  // namespace

std::vector<std::int64_t> python_shuffled(std::int64_t seed, std::int64_t count) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.seeded = true;
  all.python.seed(seed);
  return shuffled(all.python, count);
}

std::vector<std::int64_t> python_shuffle(std::int64_t count) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.refresh();
  return shuffled(all.python, count);
}

std::int64_t make_default_seed() { return python_randint(1, 1000000000); }

std::int64_t numpy_randint(std::int64_t max) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.refresh();
  return static_cast<std::int64_t>(all.numpy.bounded(static_cast<std::uint64_t>(max - 1)));
}

void with_numpy_random(const std::function<void(NumpyRandom&)>& use) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.refresh();
  use(all.numpy);
}

void with_python_random(const std::function<void(PythonRandom&)>& use) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.refresh();
  use(all.python);
}

void seed_python_random(std::int64_t seed) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.seeded = true;
  all.python.seed(seed);
}

void seed_numpy_random(std::uint32_t seed) {
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  all.seeded = true;
  all.numpy = NumpyRandom(seed);
}

std::pair<std::int64_t, std::int64_t> op_seeds(std::optional<std::int64_t> op_seed) {
  if (ops::FunctionDraws::active()) {
    if (!op_seed && !global_seed()) return random_pair();
    if (!op_seed) op_seed = ops::FunctionDraws::next_seed();
  }
  Generators& all = generators();
  const std::lock_guard lock(all.mutex);
  if (!all.global_seed) {
    return op_seed ? avoid_zero(kDefaultGraphSeed, floor_mod(*op_seed, kModulus)) : random_pair();
  }
  const std::int64_t own = op_seed ? *op_seed : all.op_seeds.randint(0, kModulus);
  return avoid_zero(floor_mod(*all.global_seed, kModulus), floor_mod(own, kModulus));
}

std::pair<std::int64_t, std::int64_t> op_seeds_in_graph(std::optional<std::int64_t> op_seed, std::int64_t number) {
  if (!op_seed && !global_seed()) return random_pair();
  return op_seeds(op_seed ? *op_seed : number);
}

}  // namespace lockstep::random
