// The gradients of several replicas, added up.
#pragma once

#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// lists[0][i] + lists[1][i] + …, added in this order, for each i; undefined tensors are left out, and where all are,
// the sum is undefined. Dense float32 in host memory is added in one pass over all i; where all are gradients with
// slices, so is the sum. No gradients are recorded.
Tensors sum_lists(const std::vector<const Tensors*>& lists);

}  // namespace lockstep::ops
