// Elementwise operations of large tensors on the threads of parallel_for. Includes LibTorch: for sources of
// lockstep/ops only.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {

// Number of elements from which an autograd node with its own loop is faster.
constexpr std::int64_t kOwnElements = 1 << 14;
inline bool is_large_float(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat && x.is_cpu() && x.numel() >= kOwnElements;
}

// a + b and a · b of equal shapes, where has_own_pair.
bool has_own_pair(const at::Tensor& a, const at::Tensor& b);
at::Tensor own_sum(const at::Tensor& a, const at::Tensor& b);
at::Tensor own_product(const at::Tensor& a, const at::Tensor& b);
// a · b, zero where b, which has no gradient, is zero.
at::Tensor own_product_no_nan(const at::Tensor& a, const at::Tensor& b);

// A contiguous tensor as [outer, steps, columns], where `axes` are neighbours, in order, and make the steps.
constexpr std::int64_t kFewestColumns = 8;  // a vector
struct AxisExtents {
  std::int64_t outer = 1, steps = 1, columns = 1;
  AxisExtents(const at::Tensor& x, const std::vector<std::int64_t>& axes);
  // Whether the (sorted) axes are neighbours and leave enough columns.
  static bool fits(const at::Tensor& x, const std::vector<std::int64_t>& axes);
};
std::vector<std::int64_t> reduced_shape(const at::Tensor& x, const std::vector<std::int64_t>& axes, bool keep);

// Of large float32 tensors: the largest (or smallest) values, or the mean, along axes that fit AxisExtents; a product
// with one number for each entry of the first and of the last axis; a border of zeros (amounts before and after each
// axis) that leaves out the first and the last axis. Nothing for others.
std::optional<at::Tensor> try_extremum(const at::Tensor& x, std::vector<std::int64_t> axes, bool keep, bool highest);
std::optional<at::Tensor> try_position_mean(const at::Tensor& x, std::vector<std::int64_t> axes, bool keep);
std::optional<at::Tensor> try_channel_product(const at::Tensor& a, const at::Tensor& b);
std::optional<at::Tensor> try_zero_padding(const at::Tensor& x, const std::vector<std::int64_t>& amounts);

// Softmax along the last axis of a large float32 tensor. Nothing for others.
std::optional<at::Tensor> try_softmax(const at::Tensor& x);

// An activation by plain operations.
at::Tensor plain_unary(Unary kind, double alpha, const at::Tensor& x);

struct FollowingActivation {
  Unary kind = Unary::kLinear;
  double alpha = 0;
};
// The values of a FixedNorm that follows; undefined mean: no normalization follows.
struct FollowingNorm {
  at::Tensor gamma, beta, mean, variance;
  double epsilon = 0;
};
// The operation that the ScopedFollower of this thread announces: to a normalization, and to a convolution.
// kLinear and no norm where there is nothing for them.
FollowingActivation take_follower();
struct ConvFollowers {
  FollowingNorm norm;
  FollowingActivation activation;
};
ConvFollowers take_conv_followers();
// The activation in place, on one thread.
void activate(const FollowingActivation& activation, std::int64_t count, float* values);

}  // namespace lockstep::ops
