// keras.random.gamma, beta and binomial, as of random.h.
#pragma once

#include "lockstep/random/generator.h"
#include "lockstep/random/seed_generator.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::random {

struct ParameterOptions {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kFloat32;
  Seed seed = {};
};
// Gamma(alpha, 1); alpha is a number, or a tensor that broadcasts to the shape. Throws InvalidArgument unless alpha is
// above 0, and for dtypes other than float16, float32 and float64.
Tensor gamma(const Shape& shape, const Parameter& alpha, const ParameterOptions& options = {});
// Beta(alpha, beta). Throws InvalidArgument as gamma does.
Tensor beta(const Shape& shape, const Parameter& alpha, const Parameter& beta, const ParameterOptions& options = {});
// How many of `counts` trials succeed, each with probability `probabilities`.
Tensor binomial(const Shape& shape, const Parameter& counts, const Parameter& probabilities,
                const ParameterOptions& options = {});

}  // namespace lockstep::random
