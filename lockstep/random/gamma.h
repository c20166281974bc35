// keras.random.gamma and beta, as of random.h.
#pragma once

#include "lockstep/random/seed_generator.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::random {

// Gamma(alpha, 1), float32. Throws InvalidArgument unless alpha is above 0.
Tensor gamma(const Shape& shape, double alpha, const Seed& seed = {});
// Beta(alpha, beta), float32. Throws InvalidArgument unless both are above 0.
Tensor beta(const Shape& shape, double alpha, double beta, const Seed& seed = {});

}  // namespace lockstep::random
