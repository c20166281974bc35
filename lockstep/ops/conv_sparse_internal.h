// Gradients of convolutions whose output has a gradient that is zero almost everywhere, as before a global max-pool:
// each number that is not zero adds to the cells of one window. Includes LibTorch: for sources of lockstep/ops only.
#pragma once

#include <optional>

#include "lockstep/ops/conv_direct_internal.h"

namespace lockstep::ops {

// As direct_backward() without a pool, of contiguous tensors; nothing where more than one element in sixteen of any
// image's dy is not zero.
std::optional<Gradients> sparse_backward(const WindowGeometry& g, const at::Tensor& x, const at::Tensor& kernel,
                                         const at::Tensor& y, const at::Tensor& dy, Wanted wanted);

}  // namespace lockstep::ops
