// The product of a matrix with its own transpose, at half the multiplications.
#pragma once

#include <optional>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// x xᵀ. Empty where there is no kernel for it, or gradients are recorded.
std::optional<Tensor> try_gram_matrix(const Tensor& x);

}  // namespace lockstep::ops
