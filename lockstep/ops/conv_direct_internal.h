// Convolutions and transposed convolutions of float32 NHWC images by the loops of direct_internal.h: values without
// autograd. Includes LibTorch: for sources of lockstep/ops only.
#pragma once

#include "lockstep/ops/conv_window_internal.h"
#include "lockstep/ops/direct_internal.h"
#include "lockstep/ops/elementwise_internal.h"

namespace lockstep::ops {

// A max-pool after a convolution, to be made while each image is in the cache.
struct PoolAlong {
  WindowGeometry window;
  at::Tensor y, which;
};
// A max-pool that was computed together with the convolution before it.
struct Pooled {
  WindowGeometry window;
  at::Tensor which;
};

struct Gradients {
  at::Tensor images, kernel, bias;
};
struct Wanted {
  bool images = false, kernel = false, bias = false;
};

// Sums of groups of images, one for each group, which are zero at first; and their sum, in the order of the groups. No
// group: zeros. Undefined: undefined.
at::Tensor zero_parts(std::int64_t parts, at::IntArrayRef shape, const at::TensorOptions& options);
at::Tensor total_of(const at::Tensor& parts);

// `kernel` [h, w, I, O] over images of w.input and I channels.
WindowGeometry window_geometry(const at::Tensor& kernel, const ConvWindow& w);

// Whether the loops have the convolution; and its gradient with respect to the images.
bool is_direct(const at::Tensor& kernel, const ConvWindow& w);
bool has_direct_adjoint(const at::Tensor& kernel, const ConvWindow& w);

// The weights of a convolution as the loops read them.
struct ConvWeights {
  at::Tensor kernel;  // of pack_weights(); of a depthwise convolution as it is
  at::Tensor bias;    // contiguous; undefined: none
};
at::Tensor pack_weights(const at::Tensor& kernel);

// activation(act(conv(x, kernel) + bias)); of `kernel` the shape counts.
at::Tensor direct_forward(const at::Tensor& x, const at::Tensor& kernel, const ConvWeights& weights, bool relu,
                          const FollowingActivation& activation, const ConvWindow& w, PoolAlong* pool = nullptr);
// act(conv(x, kernel) + bias), `bias` undefined: none.
at::Tensor direct_forward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu,
                          const ConvWindow& w, PoolAlong* pool = nullptr);
// `y` is the output, undefined without relu; with a pool y and dy are the pool's. The images' gradient may be wanted
// where there is a direct adjoint.
Gradients direct_backward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& y, const at::Tensor& dy,
                          const ConvWindow& w, const Pooled* pooled, Wanted wanted);

// The transposed convolution of w: from images [batch, w.output, O] and a kernel [h, w, I, O] to act(… + bias) [batch,
// w.input, I]. w has a direct adjoint.
at::Tensor direct_transposed(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu,
                             const ConvWindow& w);
Gradients direct_transposed_backward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& y,
                                     const at::Tensor& dy, const ConvWindow& w, Wanted wanted);

// The packed data of a kernel [h, w, I, O] (depthwise: [h, w, channels, filters of each]) and a bias (undefined: none),
// with the normalization after them folded in. From the second call with the same values on, the same packed weights
// are returned: values of variables are immutable while they are shared.
ConvWeights kept_weights(const at::Tensor& kernel, const at::Tensor& bias, const FollowingNorm& norm, bool depthwise);

// A depthwise convolution with a kernel [h, w, channels, filters of each], tied to autograd where it is on.
at::Tensor direct_depthwise(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w);

}  // namespace lockstep::ops
