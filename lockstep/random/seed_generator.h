// keras.random.SeedGenerator: a seed and a counter that advances by one a draw.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/json.h"
#include "lockstep/distribute/variable.h"

namespace lockstep::random {

// A pair of seeds as stateless operations take it.
using SeedPair = std::pair<std::int64_t, std::int64_t>;

class SeedGenerator {
 public:
  // Draws a seed from Python's generator, as Keras does, when it is first used, tracked or copied: a member that the
  // constructor of a layer replaces by another generator draws nothing.
  SeedGenerator() = default;
  // Without a seed one is drawn now.
  explicit SeedGenerator(std::optional<std::int64_t> seed, std::string name = "seed_generator");
  SeedGenerator(const SeedGenerator& other) { *this = other; }
  SeedGenerator(SeedGenerator&&) = default;
  SeedGenerator& operator=(const SeedGenerator& other);
  SeedGenerator& operator=(SeedGenerator&&) = default;

  // The state [seed, counter]; then counter + 1. Replicas draw the same pairs.
  SeedPair next();

  // The argument of the constructor, for configs; empty when the seed was drawn.
  std::optional<std::int64_t> initial_seed() const { return initial_seed_; }
  // The seed in use.
  std::int64_t seed() const {
    draw_late();
    return seed_;
  }
  const std::string& name() const { return name_; }

  // "seed_generator_state", int64, shape (2,), not trainable, the same on all replicas.
  const distribute::VariablePtr& state() const {
    draw_late();
    return state_;
  }

  Json config() const;

 private:
  void draw_late() const;

  std::optional<std::int64_t> initial_seed_;
  mutable std::int64_t seed_ = 0;
  std::string name_ = "seed_generator";
  mutable distribute::VariablePtr state_;
};

using SeedGeneratorPtr = std::shared_ptr<SeedGenerator>;

// The `seed` argument of random functions: nothing (the global generator), a number (stateless: the same
// numbers each time), a generator or a pointer to one.
class Seed {
 public:
  Seed() = default;
  template <std::integral I>
  Seed(I seed) : number_(static_cast<std::int64_t>(seed)) {}
  Seed(std::optional<std::int64_t> seed) : number_(seed) {}
  Seed(SeedGeneratorPtr generator) : generator_(std::move(generator)) {}
  Seed(const SeedGenerator& generator);  // copies share the state

  // At most one of the two is not null.
  const std::optional<std::int64_t>& number() const { return number_; }
  const SeedGeneratorPtr& generator() const { return generator_; }

 private:
  std::optional<std::int64_t> number_;
  SeedGeneratorPtr generator_;
};

// Takes the next pair of a seed and brings it into the range of TensorFlow's stateless operations:
// each element modulo 2^31 - 2, never negative.
SeedPair draw_seed(const Seed& seed);

// The state of the generator behind seedless draws; empty before the first of them.
std::optional<SeedPair> global_seed_state();
void set_global_seed_state(const std::optional<SeedPair>& state);

// While an object of it exists, draws on this thread do not advance their generators. For calls that Keras makes
// symbolically, as when fit builds a model.
class PausedGenerators {
 public:
  PausedGenerators();
  ~PausedGenerators();
  PausedGenerators(const PausedGenerators&) = delete;
  PausedGenerators& operator=(const PausedGenerators&) = delete;

 private:
  struct Function;
  std::unique_ptr<Function> function_;  // whose stateful operations have states of their own
};

// Forgets the generator behind seedless draws; the next one makes a new one.
void drop_global_seed_generator();

}  // namespace lockstep::random
