// Eigenvalues and eigenvectors of self-adjoint matrices.
#pragma once

#include <utility>

#include <ATen/ATen.h>

namespace lockstep::ops {

// Of matrices [..., n, n] of finite numbers in float, double or their complex types, by their lower triangles: the
// values [..., n], ascending, in the dtype of x, and the vectors as columns [..., n, n]. Outside of autograd. Throws
// InvalidArgument where the iteration does not converge.
std::pair<at::Tensor, at::Tensor> self_adjoint_eigen(const at::Tensor& x);

}  // namespace lockstep::ops
