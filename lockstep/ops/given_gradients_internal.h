// Gradients that a function computes instead of LibTorch, for the layers above, without its headers.
#pragma once

#include <functional>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// `outputs`, computed outside of autograd, as functions of `inputs`, some of which may be undefined: gradients dys of
// the outputs, undefined where nothing depends on one, become gradients(dys, captured), undefined or one for each
// input. Outputs are cut off from other gradients. `captured` are given as they are; they have gradients where
// gradients have.
using GradientsOf = std::function<Tensors(const Tensors& dys, const Tensors& captured)>;
Tensors with_gradients(const Tensors& inputs, const Tensors& outputs, const Tensors& captured, GradientsOf gradients);

}  // namespace lockstep::ops
