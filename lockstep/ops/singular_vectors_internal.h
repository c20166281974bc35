// Singular values and vectors.
#pragma once

#include <tuple>

#include <ATen/ATen.h>

namespace lockstep::ops {

// Of matrices [..., m, n] of finite numbers in float, double or their complex types, with k the smaller extent: the
// left vectors [..., m, k], or [..., m, m] where `full`, the values [..., k] as real numbers, descending, and the right
// vectors [..., n, k] or [..., n, n]. Outside of autograd.
std::tuple<at::Tensor, at::Tensor, at::Tensor> singular_vectors(const at::Tensor& x, bool full);

}  // namespace lockstep::ops
