// tf.random: generators with state. The numbers are TensorFlow's.
//
// tf.random.normal and its like, which follow tf.random.set_seed, are ops::random::normal, ...: random::normal and its
// like are those of keras.random.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/random/stateless.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::random {

// tf.random.Generator of the Philox algorithm. A handle: copies share the state, which draws from const ones change
// too. Made in the scope of a strategy, it draws other numbers in each replica: the key is mixed with the replica's
// number.
class Generator {
 public:
  struct AlgorithmKeywords {
    FieldNamesOnly names_only = {};
    std::string_view alg = "auto_select";
  };
  struct SeedKeywords {
    FieldNamesOnly names_only = {};
    std::int64_t seed = 0;
    std::string_view alg = "auto_select";
  };
  struct DTypeKeywords {
    FieldNamesOnly names_only = {};
    DTypeLike dtype = DType::kUInt64;
  };
  struct BinomialNumbers {
    FieldNamesOnly names_only = {};
    Parameter counts = {};
    Parameter probs = {};
    DTypeLike dtype = DType::kInt32;
  };

  static Generator from_seed(std::int64_t seed);
  // Throws InvalidArgument for another algorithm than "philox" or "auto_select".
  static Generator from_seed(std::int64_t seed, const AlgorithmKeywords& keywords);
  static Generator from_seed(const SeedKeywords& o) { return from_seed(o.seed, AlgorithmKeywords{{}, o.alg}); }
  static Generator from_state(const Tensor& state);  // three int64: counter, and key last
  static Generator from_state(const Tensor& state, const AlgorithmKeywords& keywords);
  // Share the variable. Templates, so that numbers in braces are a tensor.
  template <std::same_as<distribute::Variable> V>
  static Generator from_state(const V& state) {
    return from_variable(state, {});
  }
  template <std::same_as<distribute::Variable> V>
  static Generator from_state(const V& state, const AlgorithmKeywords& keywords) {
    return from_variable(state, keywords);
  }
  // The counter is two integers.
  static Generator from_key_counter(std::int64_t key, const std::vector<std::int64_t>& counter,
                                    std::string_view alg = "auto_select");
  static Generator from_non_deterministic_state();

  // Shapes by position are templates, because GCC would take {.shape = ...} for a list.
  Tensor normal(const NormalNumbers& keywords) const;
  template <std::convertible_to<ShapeArg> S = ShapeArg>
  Tensor normal(const S& shape, NormalNumbers options = {}) const {
    options.shape = shape;
    return normal(options);
  }
  Tensor normal(const ShapeArg& shape, double mean, double stddev = 1.0, DTypeLike dtype = DType::kFloat32) const;
  Tensor truncated_normal(const NormalNumbers& keywords) const;
  template <std::convertible_to<ShapeArg> S = ShapeArg>
  Tensor truncated_normal(const S& shape, NormalNumbers options = {}) const {
    options.shape = shape;
    return truncated_normal(options);
  }
  // Throws InvalidArgument for integers with one limit.
  Tensor uniform(const UniformNumbers& keywords) const;
  template <std::convertible_to<ShapeArg> S = ShapeArg>
  Tensor uniform(const S& shape, UniformNumbers options = {}) const {
    options.shape = shape;
    return uniform(options);
  }
  Tensor uniform(const ShapeArg& shape, Number minval, Number maxval, DTypeLike dtype = DType::kFloat32) const;
  Tensor uniform(const ShapeArg& shape, Number minval, Number maxval, const DTypeKeywords& keywords) const {
    return uniform(shape, minval, maxval, keywords.dtype);
  }
  Tensor uniform_full_int(const ShapeArg& shape, DTypeLike dtype = DType::kUInt64) const;
  Tensor uniform_full_int(const ShapeArg& shape, const DTypeKeywords& keywords) const {
    return uniform_full_int(shape, keywords.dtype);
  }
  // The shape ends with the shape that counts and probs have together.
  Tensor binomial(const ShapeArg& shape, const Parameter& counts, const Parameter& probs,
                  DTypeLike dtype = DType::kInt32) const;
  Tensor binomial(const ShapeArg& shape, const BinomialNumbers& o) const {
    return binomial(shape, o.counts, o.probs, o.dtype);
  }
  // Seeds for stateless functions, int64 (2, count): column by column.
  Tensor make_seeds(std::int64_t count = 1) const;
  // Independent generators.
  std::vector<Generator> split(std::int64_t count = 1) const;
  // As if `delta` numbers had been drawn.
  void skip(std::int64_t delta) const;
  void reset_from_seed(std::int64_t seed) const;
  void reset_from_key_counter(std::int64_t key, const std::vector<std::int64_t>& counter) const;
  void reset(const Tensor& state) const;

  // Three int64, not trainable; checkpoints contain it.
  const distribute::Variable& state() const { return state_; }
  std::int64_t key() const;
  std::int64_t algorithm() const;  // 1: Philox

 private:
  static Generator from_variable(const distribute::Variable& state, const AlgorithmKeywords& keywords);
  explicit Generator(const Tensor& state);
  explicit Generator(distribute::Variable state);
  // key and counter of the next draw of a shape.
  struct Draw {
    Tensor shape, key, counter;
  };
  Draw next(const ShapeArg& shape) const;

  distribute::Variable state_;
  bool in_strategy_;
};

// tf.random.set_seed: the seed of the functions of ops::random.
void set_seed(std::int64_t seed);

// The process's generator; by default from_non_deterministic_state().
Generator& get_global_generator();
void set_global_generator(const Generator& generator);

}  // namespace lockstep::random

// Functions of tf.random that follow set_seed, or keras::utils::set_random_seed.
namespace lockstep::ops::random {

using lockstep::random::Generator;
using lockstep::random::get_global_generator;
using lockstep::random::set_global_generator;

using lockstep::random::set_seed;

// Arguments by name: normal({.shape = {2, 3}, .seed = 1}), normal({2, 3}, {.stddev = 0.5}).
struct NormalOptions {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};  // where it is not given by position
  double mean = 0.0;
  double stddev = 1.0;
  DTypeLike dtype = DType::kFloat32;
  std::optional<std::int64_t> seed = std::nullopt;
};
struct UniformOptions {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};          // where it is not given by position
  Limit minval = std::nullopt;  // default: 0
  Limit maxval = std::nullopt;  // default: 1; integers need one
  DTypeLike dtype = DType::kFloat32;
  std::optional<std::int64_t> seed = std::nullopt;
};
struct SeedOptions {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> seed = std::nullopt;
};
// Shapes by position are templates, because GCC would take {.shape = {2, 3}} for a shape.
Tensor normal(const NormalOptions& options);
template <std::convertible_to<ShapeArg> S = ShapeArg>
Tensor normal(const S& shape, NormalOptions options = {}) {
  options.shape = shape;
  return normal(options);
}
Tensor normal(const ShapeArg& shape, double mean, double stddev = 1.0, DTypeLike dtype = DType::kFloat32,
              std::optional<std::int64_t> seed = std::nullopt);
Tensor truncated_normal(const NormalOptions& options);
template <std::convertible_to<ShapeArg> S = ShapeArg>
Tensor truncated_normal(const S& shape, NormalOptions options = {}) {
  options.shape = shape;
  return truncated_normal(options);
}
Tensor truncated_normal(const ShapeArg& shape, double mean, double stddev = 1.0, DTypeLike dtype = DType::kFloat32,
                        std::optional<std::int64_t> seed = std::nullopt);
// Throws InvalidArgument for integers without maxval.
Tensor uniform(const UniformOptions& options);
template <std::convertible_to<ShapeArg> S = ShapeArg>
Tensor uniform(const S& shape, UniformOptions options = {}) {
  options.shape = shape;
  return uniform(options);
}
Tensor uniform(const ShapeArg& shape, Number minval, Number maxval, DTypeLike dtype = DType::kFloat32,
               std::optional<std::int64_t> seed = std::nullopt);
Tensor shuffle(const Tensor& value, const SeedOptions& options = {});
Tensor categorical(const Tensor& logits, std::int64_t num_samples, const SeedOptions& options = {});
struct CategoricalKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num_samples = 1;
  std::optional<std::int64_t> seed = std::nullopt;
};
inline Tensor categorical(const Tensor& logits, const CategoricalKeywords& o) {
  return categorical(logits, o.num_samples, SeedOptions{{}, o.seed});
}
// For each alpha and beta numbers of this shape: shape + the shape of alpha and beta.
struct GammaOptions {
  FieldNamesOnly names_only = {};
  Parameter alpha = {};  // where it is not given by position
  Parameter beta = {};   // default: 1
  DTypeLike dtype = DType::kFloat32;
  std::optional<std::int64_t> seed = std::nullopt;
};
Tensor gamma(const ShapeArg& shape, const GammaOptions& options);
// gamma({2}, 0.5, {.beta = 2.0, .seed = 1}).
inline Tensor gamma(const ShapeArg& shape, const Parameter& alpha, GammaOptions options = {}) {
  options.alpha = alpha;
  return gamma(shape, options);
}
struct PoissonOptions {
  FieldNamesOnly names_only = {};
  Parameter lam = {};  // where it is not given by position
  DTypeLike dtype = DType::kFloat32;
  std::optional<std::int64_t> seed = std::nullopt;
};
Tensor poisson(const ShapeArg& shape, const PoissonOptions& options);
inline Tensor poisson(const ShapeArg& shape, const Parameter& lam, PoissonOptions options = {}) {
  options.lam = lam;
  return poisson(shape, options);
}

}  // namespace lockstep::ops::random
