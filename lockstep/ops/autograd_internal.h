// Gradients and threads of LibTorch for the layers above, without its headers.
#pragma once

#include <functional>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// Whether operations on this thread record for autograd. Off at start of every lockstep thread.
bool grad_enabled();
void set_grad_enabled(bool enabled);

// While one lives, operations of its thread record nothing for autograd.
class GradientsOff {
 public:
  GradientsOff() : before_(grad_enabled()) { set_grad_enabled(false); }
  ~GradientsOff() { set_grad_enabled(before_); }
  GradientsOff(const GradientsOff&) = delete;
  GradientsOff& operator=(const GradientsOff&) = delete;

 private:
  bool before_;
};

// The same memory as a new leaf that gradients can be taken of. The dtype must be floating or complex.
Tensor make_leaf(const Tensor& value);
// The same memory cut off from gradients.
Tensor detach(const Tensor& value);
bool requires_grad(const Tensor& value);
// Makes the tensor, and so all copies of its handle, a leaf of all later operations.
void require_grad(const Tensor& value);

// Gradients of `outputs` (with the given output gradients; undefined: ones) with respect to `inputs`;
// undefined for inputs without a path. `ready`, when given, is called with the gradient of input number i as soon as it
// has its value, while others are still being computed, on this thread; not of every one: those with slices come with
// the result only.
using GradientReady = std::function<void(std::size_t i, const Tensor& gradient)>;
Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& output_gradients, bool retain_graph,
             bool create_graph, const GradientReady& ready = {});

// `y`, the result of a linear map of x outside of autograd, as a function of x: a gradient dy becomes adjoint(dy). `y`
// is cut off from gradients; the adjoint runs while gradients are computed, on the thread that asked for them.
Tensor with_adjoint(const Tensor& x, const Tensor& y, std::function<Tensor(const Tensor&)> adjoint);

// Makes sure nobody else sees the memory of `value`, so that kernels may write into it: returns with
// `value` replaced by a copy when the memory is shared.
void make_writable(Tensor& value);

// How many threads one operation on this thread may use.
void set_intra_op_threads(int threads);
int intra_op_threads();

// Once per process: allocator thresholds and defaults of LibTorch that suit training loops.
void initialize_engine();

}  // namespace lockstep::ops
