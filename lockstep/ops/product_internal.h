// Float32 matrix products by own loops. Includes LibTorch: for sources of lockstep/ops only.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace lockstep::ops {

// Whether product() takes these two: float32 matrices on the CPU that are not empty, with enough rows to be worth
// packing for.
bool has_product(const at::Tensor& a, const at::Tensor& b);

// act(op(a) op(b) + bias) with autograd where it is on. bias (undefined: none) has one number for each column.
at::Tensor product(const at::Tensor& a, bool transpose_a, const at::Tensor& b, bool transpose_b,
                   const at::Tensor& bias = {}, bool relu = false);

// x xᵀ of a matrix that has_product() takes, without autograd: the sums above the diagonal are those below it.
at::Tensor gram_matrix(const at::Tensor& x);

// product() for stacks of matrices [..., rows, depth] and [..., depth, columns] with equal leading axes, without bias;
// not for tiny matrices. Views of other orders of the axes are not copied where rows or columns of a matrix are
// contiguous. `order`: of the axes of the result in memory, the columns last; empty: the usual one.
bool has_batch_product(const at::Tensor& a, const at::Tensor& b);
at::Tensor batch_product(const at::Tensor& a, bool transpose_a, const at::Tensor& b, bool transpose_b,
                         at::IntArrayRef order = {});

// dz = dy where y > 0 (y undefined: dy itself), db = its sum over rows. Images are rows of channels.
struct ReluGradient {
  at::Tensor dz, db;
};
ReluGradient relu_bias_gradient(const at::Tensor& y, const at::Tensor& dy, bool wants_bias);

}  // namespace lockstep::ops
