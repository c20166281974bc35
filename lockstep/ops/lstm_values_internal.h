// The element-by-element part of an LSTM's step on values, without autograd. Includes LibTorch: for sources of
// lockstep/ops only.
#pragma once

#include <optional>
#include <string>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {

struct LstmActivations {
  Squash cell, gates;
};
// By Keras's names. Nothing where the loops lack one.
std::optional<LstmActivations> lstm_activations(const std::string& activation, const std::string& recurrent_activation);

// `x` and `z` [..., 4 · units] are the input's and the state's part of the gates, `c` the cell state before the step. x
// may have gaps between the entries of its first axis; the others are contiguous. Writes `h` and `next_c`, and `gates`
// unless it is undefined.
void lstm_forward(const LstmActivations& activations, const at::Tensor& x, const at::Tensor& z, const at::Tensor& c,
                  const at::Tensor& h, const at::Tensor& next_c, const at::Tensor& gates);
// From the gradients of h and next_c, each undefined where it is zero, to those of z, which is that of x too, and c.
void lstm_backward(const LstmActivations& activations, const at::Tensor& gates, const at::Tensor& c,
                   const at::Tensor& next_c, const at::Tensor& d_h, const at::Tensor& d_next_c, const at::Tensor& d_z,
                   const at::Tensor& d_c);
// h and next_c by LibTorch's operations.
Values lstm_plain(const LstmActivations& activations, const at::Tensor& x, const at::Tensor& z, const at::Tensor& c);

}  // namespace lockstep::ops
