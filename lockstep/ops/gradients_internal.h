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
// dx, and 0 where dy is 0 even if the slope is not finite, as in TensorFlow.
at::Tensor zero_where_dy_is(const at::Tensor& dy, const at::Tensor& dx);
// dy · (y + shift) where y is below 0, else dy · scale: the gradient of Elu and Selu, without mixing both parts if a
// value is not finite.
at::Tensor below_zero_slope(const at::Tensor& dy, const at::Tensor& y, double shift, double scale);

// Products and quotients of a pair with the derivatives of TensorFlow, which does not conjugate those of complex
// numbers, and Atan2, whose derivatives at the origin are NaN.
at::Tensor multiply_no_nan_like_tf(const at::Tensor& a, const at::Tensor& b);
at::Tensor x_divided_y_like_tf(const at::Tensor& a, const at::Tensor& b);
at::Tensor x_log_y_like_tf(const at::Tensor& a, const at::Tensor& b);
at::Tensor x_log1p_y_like_tf(const at::Tensor& a, const at::Tensor& b);
at::Tensor atan2_like_tf(const at::Tensor& a, const at::Tensor& b);
at::Tensor power_like_tf(const at::Tensor& a, const at::Tensor& b);

// x; its gradient is the conjugate of that of the result. Around the inputs and the result of a holomorphic function,
// it leaves out the conjugation in the gradient, as many gradients of TensorFlow do.
at::Tensor conjugate_gradient(const at::Tensor& x);

struct CrossEntropy {
  at::Tensor loss, backprop;
};
// logits and labels [n, classes]; the gradient to logits is softmax - labels.
CrossEntropy softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels);
// labels [n] of int32 or int64, checked to be in range.
CrossEntropy sparse_softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace lockstep::ops
