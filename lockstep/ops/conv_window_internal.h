// Shared by conv.cpp and conv_fused.cpp. Includes LibTorch: for sources of lockstep/ops only.
#pragma once

#include <memory>
#include <optional>

#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {

// Everything about one convolution's window, one entry for each spatial axis.
struct ConvWindow {
  bool channels_first = false;
  int spatial = 2;
  Ints strides, dilations, before, after, input, kernel, output;
  std::int64_t groups = 1;

  bool same_padding_both_sides() const { return before == after; }
};

// LibTorch's names of the axes are N C spatial for images and O I spatial for kernels; these are views, not copies.
at::Tensor image_in(const at::Tensor& x, bool channels_first);
at::Tensor image_out(const at::Tensor& y, bool channels_first);  // back, and contiguous
at::Tensor kernel_in(const at::Tensor& kernel);
at::Tensor pad_image(const at::Tensor& x, const Ints& before, const Ints& after);
// LibTorch's convolution of the results of image_in and kernel_in.
at::Tensor convolve(const at::Tensor& x, const at::Tensor& kernel, const std::optional<at::Tensor>& bias,
                    const ConvWindow& w);

// For LibraryThreads: a convolution with `kernel` [spatial…, I, O] is as much work as an operation on so many elements.
std::int64_t convolution_work(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w);

// Conv2D, bias (undefined: none) and relu of float32 NHWC images that are not empty, tied to autograd where it is on.
at::Tensor fused_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu, ConvWindow w);

// Of float32 NDHWC volumes: Conv3D and the transposed convolution, tied to autograd where it is on; and the gradient of
// Conv3D's kernel, from dy of its output. Nothing for others.
std::optional<at::Tensor> try_volume_conv(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w);
std::optional<at::Tensor> try_volume_transposed(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w);
std::optional<at::Tensor> try_volume_kernel_gradient(const at::Tensor& x, const at::Tensor& dy, const ConvWindow& w,
                                                     const Ints& kernel_sizes);

// The same by LibTorch's loops, of any number of axes and float types; depthwise kernels are [spatial…, I, multiplier].
at::Tensor plain_convolution(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w, bool depthwise);
at::Tensor plain_transposed(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w, bool depthwise);

}  // namespace lockstep::ops
