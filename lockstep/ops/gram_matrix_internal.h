// The product of a matrix with its own transpose, at half the multiplications.
#pragma once

#include <optional>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// Returns x · transpose(x), or nullopt if there is no kernel for the shape and dtype or if autograd records.
std::optional<Tensor> try_gram_matrix(const Tensor& x);

}  // namespace lockstep::ops
