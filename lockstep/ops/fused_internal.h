// Composites of several operations that have one kernel on values. Empty results mean: run the plain
// operations (an input is symbolic, or the case has no kernel of its own).
#pragma once

#include <optional>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

// Conv2D, then BiasAdd (undefined bias: none), then Relu if asked. `attrs` are Conv2D's.
std::optional<Tensor> try_conv2d_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool relu,
                                          const Attrs& attrs);
// x [..., in] times kernel [in, out], plus bias, then Relu if asked.
std::optional<Tensor> try_dense_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool relu);

// x[begin:end] along the first axis of a dense value, which shares its memory.
std::optional<Tensor> try_rows(const Tensor& x, std::int64_t begin, std::int64_t end);

// While one lives, a max-pool right after a relu convolution of images with few channels shares one backward
// pass with it. Only for steps whose gradients are asked for with respect to variables alone: there is then
// no gradient with respect to the convolution's output, and no second gradient.
class ScopedPoolFusion {
 public:
  ScopedPoolFusion();
  ~ScopedPoolFusion();
  ScopedPoolFusion(const ScopedPoolFusion&) = delete;
  ScopedPoolFusion& operator=(const ScopedPoolFusion&) = delete;

 private:
  bool previous_;
};

}  // namespace lockstep::ops
