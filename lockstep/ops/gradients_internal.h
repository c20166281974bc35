// Kernels whose gradient LibTorch would take differently than TensorFlow, written as one node of autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::ops {

// These three have a gradient of 0, not NaN, where dy is 0.
at::Tensor sqrt_like_tf(const at::Tensor& x);
at::Tensor rsqrt_like_tf(const at::Tensor& x);
at::Tensor reciprocal_like_tf(const at::Tensor& x);
at::Tensor maximum_like_tf(const at::Tensor& a, const at::Tensor& b);  // ties: all to a
at::Tensor minimum_like_tf(const at::Tensor& a, const at::Tensor& b);

// 0.5 / conj(y), rounded once: the derivative of a square root y.
at::Tensor half_of_inverse(const at::Tensor& y);

struct CrossEntropy {
  at::Tensor loss, backprop;
};
// logits and labels [n, classes]; the gradient to logits is softmax - labels.
CrossEntropy softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels);
// labels [n] of int32 or int64, checked to be in range.
CrossEntropy sparse_softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace lockstep::ops
