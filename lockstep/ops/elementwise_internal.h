// Elementwise operations of large tensors on the threads of parallel_for. Includes LibTorch: for sources of lockstep/ops
// only.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {

// Elements from which a node of autograd and a loop of their own pay.
constexpr std::int64_t kOwnElements = 1 << 14;

// a + b of equal shapes.
bool has_own_sum(const at::Tensor& a, const at::Tensor& b);
at::Tensor own_sum(const at::Tensor& a, const at::Tensor& b);

// An activation by plain operations.
at::Tensor plain_unary(Unary kind, double alpha, const at::Tensor& x);

// The activation of the innermost ScopedFollower of this thread that nobody has taken; kLinear for none.
struct FollowingActivation {
  Unary kind = Unary::kLinear;
  double alpha = 0;
};
FollowingActivation take_follower();

}  // namespace lockstep::ops
