// The truth of a tensor as TensorFlow's conditional operations see it.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::graph {

// A numeric scalar is true unless it equals 0 (NaN is true), a string unless it is empty, any other
// tensor when it has an element.
bool is_true(const Tensor& value);

}  // namespace lockstep::graph
