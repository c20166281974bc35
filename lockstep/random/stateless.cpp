#include "lockstep/random/stateless.h"

#include <limits>

#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/random/numbers_internal.h"

namespace lockstep::random {
namespace {

void require(const Tensor& given, const char* function, const char* name) {
  if (!given.defined()) throw_invalid_argument(fmt::format("{} requires {}", function, name));
}

}  // namespace

Limit::Limit(const Tensor& scalar)
    : std::optional<Number>(is_floating(scalar.dtype()) ? Number(scalar.item<double>())
                                                        : Number(scalar.item<std::int64_t>())) {}

Tensor stateless_normal(const StatelessNormalKeywords& o) {
  return scaled(ops::stateless_random_normal(ops::shape_tensor(o.shape), o.seed, o.dtype), o.mean, o.stddev);
}
Tensor stateless_truncated_normal(const StatelessNormalKeywords& o) {
  return scaled(ops::stateless_truncated_normal(ops::shape_tensor(o.shape), o.seed, o.dtype), o.mean, o.stddev);
}
Tensor stateless_uniform(const StatelessUniformKeywords& o) {
  const Tensor dims = ops::shape_tensor(o.shape);
  return draw_uniform(
      {.minval = o.minval, .maxval = o.maxval, .dtype = o.dtype},
      [&] { return ops::stateless_random_uniform(dims, o.seed, o.dtype); },
      [&](const Tensor& low, const Tensor& high) { return ops::stateless_random_uniform_int(dims, o.seed, low, high); },
      [&] { return ops::stateless_random_full_int(dims, o.seed, o.dtype); });
}
Tensor stateless_gamma(const StatelessGammaKeywords& o) {
  require(o.alpha, "stateless_gamma", "alpha");
  const Tensor beta = ops::cast(o.beta, o.dtype);
  const Tensor alpha = ops::cast(o.alpha, o.dtype) + ops::zeros_like(beta);
  return ops::maximum(ops::call1("StatelessRandomGammaV2", {ops::shape_tensor(o.shape), o.seed, alpha}) / beta,
                      smallest_normal(o.dtype));
}
Tensor stateless_poisson(const StatelessPoissonKeywords& o) {
  require(o.lam, "stateless_poisson", "lam");
  return ops::call1("StatelessRandomPoisson", {ops::shape_tensor(o.shape), o.seed, ops::broadcast_to(o.lam, o.shape)},
                    {{"dtype", o.dtype}});
}
Tensor stateless_binomial(const StatelessBinomialKeywords& o) {
  require(o.counts, "stateless_binomial", "counts");
  require(o.probs, "stateless_binomial", "probs");
  const Tensor probs = o.probs;
  return ops::call1("StatelessRandomBinomial",
                    {ops::shape_tensor(o.shape), o.seed, ops::cast(o.counts, probs.dtype()), probs},
                    {{"dtype", o.output_dtype}});
}
Tensor stateless_categorical(const Tensor& logits, std::int64_t num_samples, const SeedKeywords& o) {
  return ops::call1("StatelessMultinomial", {logits, Tensor::scalar(static_cast<std::int32_t>(num_samples)), o.seed});
}
Tensor split(const Tensor& seed, std::int64_t num) {
  return stateless_uniform({num, 2}, seed, {.dtype = seed.dtype()});
}
Tensor fold_in(const Tensor& seed, std::int32_t data) {
  return ops::stack({stateless_uniform(Shape{}, seed, {.dtype = DType::kInt32}), Tensor::scalar(data)});
}

namespace experimental {

Tensor stateless_shuffle(const Tensor& value, const SeedKeywords& o) {
  const Tensors key = ops::call("StatelessRandomGetKeyCounter", {o.seed});
  return ops::call1("StatelessShuffle", {value, key[0], key[1], Tensor::scalar(kPhilox)});
}

}  // namespace experimental
}  // namespace lockstep::random
