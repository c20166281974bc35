#include "lockstep/random/generator.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/mutex.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/numbers_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::random {
namespace {

Tensor long_algorithm() { return Tensor::scalar(static_cast<std::int64_t>(kPhilox)); }
Tensor philox() { return Tensor::scalar(kPhilox); }
Tensor long_shape(const ShapeArg& shape) { return ops::cast(ops::shape_tensor(shape), DType::kInt64); }
Tensor state_of(std::int64_t counter_low, std::int64_t counter_high, std::int64_t key) {
  return Tensor::from_vector(std::vector<std::int64_t>{counter_low, counter_high, key});
}
Tensor state_of_counter(std::int64_t key, const std::vector<std::int64_t>& counter) {
  if (counter.size() != 2)
    throw_invalid_argument(fmt::format("the counter of a generator is two integers, found {}", counter.size()));
  return state_of(counter[0], counter[1], key);
}
void check(const Generator::AlgorithmKeywords& keywords) {
  if (keywords.alg != "philox" && keywords.alg != "auto_select")
    throw_invalid_argument(fmt::format("Generator: unknown alg '{}', expected philox or auto_select", keywords.alg));
}
Mutex g_mutex;
std::optional<Generator>& default_generator() {
  static std::optional<Generator> instance;
  return instance;
}

}  // namespace

Generator::Generator(distribute::Variable state) : state_(std::move(state)), in_strategy_(distribute::has_strategy()) {}
Generator::Generator(const Tensor& state)
    : Generator(distribute::Variable(state, {.trainable = false, .name = "StateVar"})) {}
Generator Generator::from_seed(std::int64_t seed) { return Generator(state_of(seed, 0, 0)); }
Generator Generator::from_seed(std::int64_t seed, const AlgorithmKeywords& keywords) {
  check(keywords);
  return from_seed(seed);
}
Generator Generator::from_state(const Tensor& state, const AlgorithmKeywords& keywords) {
  check(keywords);
  return from_state(state);
}
Generator Generator::from_state(const Tensor& state) {
  if (state.dtype() == DType::kString || !state.is_value() || state.num_elements() != 3)
    throw_invalid_argument(
        fmt::format("the state of a generator is three integers, found shape {}", state.shape().to_string()));
  return Generator(ops::cast(state, DType::kInt64));
}
Generator Generator::from_variable(const distribute::Variable& state, const AlgorithmKeywords& keywords) {
  check(keywords);
  if (state.shape() != Shape{3} || state.dtype() != DType::kInt64) {
    throw_invalid_argument(fmt::format("the state of a generator is three int64, found a variable of {} and shape {}",
                                       dtype_name(state.dtype()), state.shape().to_string()));
  }
  return Generator(state);
}
Generator Generator::from_key_counter(std::int64_t key, const std::vector<std::int64_t>& counter,
                                      std::string_view alg) {
  check({.alg = alg});
  return Generator(state_of_counter(key, counter));
}
Generator Generator::from_non_deterministic_state() {
  return Generator(ops::call1("NonDeterministicInts", {Tensor::from_vector(std::vector<std::int64_t>{3})},
                              {{"dtype", DType::kInt64}}));
}

// As TensorFlow: the counter moves on as if this many numbers had been drawn, and the numbers are those of the
// stateless operations. Replicas of a strategy have the same counter and their own keys.
Generator::Draw Generator::next(const ShapeArg& shape) const {
  const Tensor dims = long_shape(shape);
  const Tensor count = ops::cast(ops::reduce_prod(dims), DType::kUInt64);
  const Tensor state = ops::bitcast(ops::call1("RngReadAndSkip", {state_->handle(), philox(), count}), DType::kUInt64);
  Tensor key = ops::slice_axis(state, 0, 2, 3);
  const distribute::ReplicaContext* replica = in_strategy_ ? distribute::get_replica_context() : nullptr;
  if (replica) {
    const auto number = static_cast<std::int64_t>(replica->replica_id_in_sync_group());
    const Tensor counter = ops::cast(Tensor::from_vector(std::vector<std::int64_t>{number, 0}), DType::kUInt64);
    key = ops::call1("StatelessRandomUniformFullIntV2", {ops::constant_ints({1}), key, counter, philox()},
                     {{"dtype", DType::kUInt64}});
  }
  return {dims, key, ops::slice_axis(state, 0, 0, 2)};
}

Tensor Generator::normal(const NormalNumbers& o) const {
  const Draw d = next(o.shape);
  return scaled(ops::call1("StatelessRandomNormalV2", {d.shape, d.key, d.counter, philox()}, {{"dtype", o.dtype}}),
                o.mean, o.stddev);
}
Tensor Generator::normal(const ShapeArg& shape, double mean, double stddev, DTypeLike dtype) const {
  return normal({.shape = shape, .mean = mean, .stddev = stddev, .dtype = dtype});
}
Tensor Generator::truncated_normal(const NormalNumbers& o) const {
  const Draw d = next(o.shape);
  return scaled(ops::call1("StatelessTruncatedNormalV2", {d.shape, d.key, d.counter, philox()}, {{"dtype", o.dtype}}),
                o.mean, o.stddev);
}
Tensor Generator::uniform(const UniformNumbers& o) const {
  return draw_uniform(
      {.minval = o.minval, .maxval = o.maxval, .dtype = o.dtype},
      [&] {
        const Draw d = next(o.shape);
        return ops::call1("StatelessRandomUniformV2", {d.shape, d.key, d.counter, philox()}, {{"dtype", o.dtype}});
      },
      [&](const Tensor& low, const Tensor& high) {
        const Draw d = next(o.shape);
        return ops::call1("StatelessRandomUniformIntV2", {d.shape, d.key, d.counter, philox(), low, high});
      },
      [&] { return uniform_full_int(o.shape, o.dtype); });
}
Tensor Generator::uniform(const ShapeArg& shape, Number minval, Number maxval, DTypeLike dtype) const {
  return uniform({.shape = shape, .minval = minval, .maxval = maxval, .dtype = dtype});
}
Tensor Generator::uniform_full_int(const ShapeArg& shape, DTypeLike dtype) const {
  const Draw d = next(shape);
  return ops::call1("StatelessRandomUniformFullIntV2", {d.shape, d.key, d.counter, philox()}, {{"dtype", dtype}});
}
Tensor Generator::binomial(const ShapeArg& shape, const Parameter& counts, const Parameter& probs,
                           DTypeLike dtype) const {
  const Tensor dims = long_shape(shape), given = probs;
  return ops::call1("StatefulRandomBinomial",
                    {state_->handle(), long_algorithm(), dims, ops::cast(counts, given.dtype()), given},
                    {{"dtype", dtype}});
}
Tensor Generator::make_seeds(std::int64_t count) const {
  const Tensor keys = uniform_full_int({count}, DType::kInt64);
  return ops::stack({keys, ops::zeros_like(keys)});
}
std::vector<Generator> Generator::split(std::int64_t count) const {
  std::vector<Generator> generators;
  for (const std::int64_t key : uniform_full_int({count}, DType::kInt64).to_vector<std::int64_t>())
    generators.push_back(Generator(state_of(0, 0, key)));
  return generators;
}
void Generator::skip(std::int64_t delta) const {
  ops::call("RngSkip", {state_->handle(), long_algorithm(), Tensor::scalar(delta)});
}
void Generator::reset_from_seed(std::int64_t seed) const { state_.assign(state_of(seed, 0, 0)); }
void Generator::reset_from_key_counter(std::int64_t key, const std::vector<std::int64_t>& counter) const {
  state_.assign(state_of_counter(key, counter));
}
void Generator::reset(const Tensor& state) const { state_.assign(ops::cast(state, DType::kInt64)); }
std::int64_t Generator::algorithm() const { return kPhilox; }
std::int64_t Generator::key() const { return state_[2].item<std::int64_t>(); }

void set_seed(std::int64_t seed) { set_global_seed(seed); }

Generator& get_global_generator() {
  const std::lock_guard lock(g_mutex);
  auto& generator = default_generator();
  if (!generator) generator = Generator::from_non_deterministic_state();
  return *generator;
}
void set_global_generator(const Generator& generator) {
  const std::lock_guard lock(g_mutex);
  default_generator() = generator;
}

}  // namespace lockstep::random

namespace lockstep::ops::random {
namespace {

// With the seeds of an operation that runs now.
Tensor draw(std::string_view op, std::initializer_list<Tensor> inputs, std::optional<std::int64_t> own_seed,
            Attrs attrs = {}) {
  const auto [seed, seed2] = lockstep::random::op_seeds(own_seed);
  attrs.set("seed", seed);
  attrs.set("seed2", seed2);
  return call1(op, inputs, std::move(attrs));
}

}  // namespace

Tensor normal(const NormalOptions& o) {
  return lockstep::random::scaled(draw("RandomStandardNormal", {shape_tensor(o.shape)}, o.seed, {{"dtype", o.dtype}}),
                                  o.mean, o.stddev);
}
Tensor normal(const ShapeArg& shape, double mean, double stddev, DTypeLike dtype, std::optional<std::int64_t> seed) {
  return normal({.shape = shape, .mean = mean, .stddev = stddev, .dtype = dtype, .seed = seed});
}
Tensor truncated_normal(const NormalOptions& o) {
  return lockstep::random::scaled(draw("TruncatedNormal", {shape_tensor(o.shape)}, o.seed, {{"dtype", o.dtype}}),
                                  o.mean, o.stddev);
}
Tensor truncated_normal(const ShapeArg& shape, double mean, double stddev, DTypeLike dtype,
                        std::optional<std::int64_t> seed) {
  return truncated_normal({.shape = shape, .mean = mean, .stddev = stddev, .dtype = dtype, .seed = seed});
}
Tensor uniform(const UniformOptions& o) {
  const bool whole = is_integer(o.dtype);
  if (whole && !o.maxval)
    throw_invalid_argument(fmt::format("uniform: numbers of {} require maxval", dtype_name(o.dtype)));
  return lockstep::random::draw_uniform(
      {.minval = whole && !o.minval ? Limit(Number(0)) : o.minval, .maxval = o.maxval, .dtype = o.dtype},
      [&] {
        return draw("RandomUniform", {shape_tensor(o.shape)}, o.seed, {{"dtype", o.dtype}});
      },
      [&](const Tensor& low, const Tensor& high) {
        return draw("RandomUniformInt", {shape_tensor(o.shape), low, high}, o.seed);
      },
      [] { return Tensor(); });
}
Tensor uniform(const ShapeArg& shape, Number minval, Number maxval, DTypeLike dtype, std::optional<std::int64_t> seed) {
  return uniform({.shape = shape, .minval = minval, .maxval = maxval, .dtype = dtype, .seed = seed});
}
Tensor shuffle(const Tensor& value, const SeedOptions& o) { return draw("RandomShuffle", {value}, o.seed); }
Tensor categorical(const Tensor& logits, std::int64_t num_samples, const SeedOptions& o) {
  return draw("Multinomial", {logits, Tensor::scalar(static_cast<std::int32_t>(num_samples))}, o.seed);
}

Tensor gamma(const ShapeArg& shape, const GammaOptions& o) {
  if (!o.alpha.defined()) throw_invalid_argument("gamma requires alpha");
  const Tensor beta = cast(o.beta.defined() ? Tensor(o.beta) : Tensor::scalar(1.0F), o.dtype);
  const Tensor alpha = cast(o.alpha, o.dtype) + zeros_like(beta);
  return maximum(draw("RandomGamma", {shape_tensor(shape), alpha}, o.seed) / beta,
                 lockstep::random::smallest_normal(o.dtype));
}
Tensor poisson(const ShapeArg& shape, const PoissonOptions& o) {
  if (!o.lam.defined()) throw_invalid_argument("poisson requires lam");
  return draw("RandomPoissonV2", {shape_tensor(shape), o.lam}, o.seed, {{"dtype", o.dtype}});
}

}  // namespace lockstep::ops::random
