#include "lockstep/random/seed_generator.h"

#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::random {
namespace {

constexpr std::int64_t kSeedModulus = 2147483646;  // 2^31 - 2

thread_local int paused_generators = 0;

// The generator of seedless draws: both numbers move with each draw.
struct GlobalGenerator {
  std::mutex mutex;
  std::optional<SeedPair> state;
};

GlobalGenerator& global_generator() {
  static GlobalGenerator* instance = new GlobalGenerator();
  return *instance;
}

SeedPair next_global_pair() {
  GlobalGenerator& global = global_generator();
  const std::lock_guard lock(global.mutex);
  if (!global.state) global.state = SeedPair{make_default_seed(), 0};
  const SeedPair pair = *global.state;
  if (paused_generators > 0) return pair;
  const auto step = [](std::int64_t value) { return (value + 1) * 5387 % 933199; };
  global.state = SeedPair{step(pair.first), step(pair.second)};
  return pair;
}

std::int64_t bounded(std::int64_t seed) {
  const std::int64_t rest = seed % kSeedModulus;
  return rest < 0 ? rest + kSeedModulus : rest;
}

distribute::VariablePtr make_state(std::int64_t seed, const std::string& name) {
  distribute::VariablePtr state =
      distribute::Variable::create(Tensor::from_vector<std::int64_t>({seed, 0}),
                                   {.trainable = false,
                                    .name = "seed_generator_state",
                                    .aggregation = distribute::VariableAggregation::kOnlyFirstReplica});
  state->set_path(name + "/seed_generator_state");
  return state;
}

}  // namespace

SeedGenerator::SeedGenerator(std::optional<std::int64_t> seed, std::string name)
    : initial_seed_(seed), seed_(seed ? *seed : make_default_seed()), name_(std::move(name)) {
  if (seed_ < 0) throw_invalid_argument("SeedGenerator: the seed must not be negative");
  state_ = make_state(seed_, name_);
}

SeedGenerator& SeedGenerator::operator=(const SeedGenerator& other) {
  other.draw_late();
  initial_seed_ = other.initial_seed_;
  seed_ = other.seed_;
  name_ = other.name_;
  state_ = other.state_;
  return *this;
}

void SeedGenerator::draw_late() const {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (state_) return;
  seed_ = make_default_seed();
  state_ = make_state(seed_, name_);
}

SeedPair SeedGenerator::next() {
  const distribute::VariablePtr& variable = state();
  // Paused, as while a model is built, the call may be symbolic: then a read would be, too.
  const bool paused = paused_generators > 0;
  const auto state = (paused ? variable->numpy() : variable->read()).to_vector<std::int64_t>();
  if (!paused) variable->assign(Tensor::from_vector<std::int64_t>({state[0], state[1] + 1}));
  return {state[0], state[1]};
}

Json SeedGenerator::config() const {
  return {{"name", name_}, {"seed", initial_seed_ ? Json(*initial_seed_) : Json(nullptr)}};
}

Seed::Seed(const SeedGenerator& generator) : generator_(std::make_shared<SeedGenerator>(generator)) {}

SeedPair draw_seed(const Seed& seed) {
  SeedPair pair;
  if (seed.number()) {
    pair = {*seed.number(), 0};
  } else if (seed.generator()) {
    pair = seed.generator()->next();
  } else {
    pair = next_global_pair();
  }
  return {bounded(pair.first), bounded(pair.second)};
}

std::optional<SeedPair> global_seed_state() {
  GlobalGenerator& global = global_generator();
  const std::lock_guard lock(global.mutex);
  return global.state;
}

void set_global_seed_state(const std::optional<SeedPair>& state) {
  GlobalGenerator& global = global_generator();
  const std::lock_guard lock(global.mutex);
  global.state = state;
}

struct PausedGenerators::Function {
  ops::FunctionDraws draws;
  ops::FunctionDraws::Call call{draws, ops::FunctionDraws::Nesting::kApart};
};
PausedGenerators::PausedGenerators() : function_(std::make_unique<Function>()) { ++paused_generators; }
PausedGenerators::~PausedGenerators() { --paused_generators; }

void drop_global_seed_generator() { set_global_seed_state(std::nullopt); }

}  // namespace lockstep::random
