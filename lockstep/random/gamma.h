// keras.random.gamma, beta and binomial, as of random.h.
#pragma once

#include "lockstep/random/generator.h"
#include "lockstep/random/seed_generator.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::random {

struct ParameterOptions {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kFloat32;
  Seed seed = {};
};
// Gamma(alpha, 1); alpha is a number, or a tensor that broadcasts to the shape. Throws InvalidArgument unless alpha is
// above 0, for dtypes other than float16, float32 and float64, and for shapes that are not known.
Tensor gamma(const ShapeArg& shape, const Parameter& alpha, const ParameterOptions& options = {});
// Beta(alpha, beta). Throws InvalidArgument as gamma does.
Tensor beta(const ShapeArg& shape, const Parameter& alpha, const Parameter& beta, const ParameterOptions& options = {});
// How many of `counts` trials succeed, each with probability `probabilities`.
Tensor binomial(const ShapeArg& shape, const Parameter& counts, const Parameter& probabilities,
                const ParameterOptions& options = {});

// Arguments by name: gamma({2, 3}, {.alpha = 0.2, .seed = 1}), gamma({.shape = {2, 3}, .alpha = 0.2}).
struct GammaKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};  // where it is not given by position
  Parameter alpha = {};
  DTypeLike dtype = DType::kFloat32;
  Seed seed = {};
};
inline Tensor gamma(const ShapeArg& shape, const GammaKeywords& o) {
  return gamma(shape, o.alpha, {{}, o.dtype, o.seed});
}
inline Tensor gamma(const GammaKeywords& o) { return gamma(o.shape, o); }
struct BetaKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  Parameter alpha = {};
  Parameter beta = {};
  DTypeLike dtype = DType::kFloat32;
  Seed seed = {};
};
inline Tensor beta(const ShapeArg& shape, const BetaKeywords& o) {
  return beta(shape, o.alpha, o.beta, {{}, o.dtype, o.seed});
}
inline Tensor beta(const BetaKeywords& o) { return beta(o.shape, o); }
struct BinomialKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  Parameter counts = {};
  Parameter probabilities = {};
  DTypeLike dtype = DType::kFloat32;
  Seed seed = {};
};
inline Tensor binomial(const ShapeArg& shape, const BinomialKeywords& o) {
  return binomial(shape, o.counts, o.probabilities, {{}, o.dtype, o.seed});
}
inline Tensor binomial(const BinomialKeywords& o) { return binomial(o.shape, o); }

}  // namespace lockstep::random
