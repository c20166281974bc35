// Derivatives with respect to the shape parameter of gamma distributions. Includes LibTorch: for sources of
// lockstep/ops only.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::ops {

// Of the lower incomplete gamma function P(a, x); broadcast. The upper one has the opposite sign.
at::Tensor incomplete_gamma_by_a(const at::Tensor& a, const at::Tensor& x);
// How a sample of Gamma(alpha, 1) changes with alpha where its random numbers stay; broadcast.
at::Tensor gamma_sample_by_alpha(const at::Tensor& alpha, const at::Tensor& sample);

}  // namespace lockstep::ops
