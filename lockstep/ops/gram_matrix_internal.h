// The product of a matrix with its own transpose, at half the multiplications.
#pragma once

#include <optional>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// Returns x · transpose(x), or nullopt if no kernel supports the shape and dtype, or if autograd is recording.
std::optional<Tensor> try_gram_matrix(const Tensor& x);

}  // namespace lockstep::ops
