// Loops over NHWC images that beat the general libraries where channels are few or the work is light.
// Plain pointers, no LibTorch. Compiled twice (AVX2 and AVX-512); direct_kernels() picks for this CPU.
#pragma once

#include <cstdint>

namespace lockstep::ops {

// A convolution or pooling window over one image; extents in elements.
struct WindowGeometry {
  std::int64_t height = 0, width = 0, channels = 0;  // of the input
  std::int64_t window_h = 0, window_w = 0;
  std::int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int64_t out_h = 0, out_w = 0, out_channels = 0;

  std::int64_t padded_h() const { return height + pad_top + pad_bottom; }
  std::int64_t padded_w() const { return width + pad_left + pad_right; }
  bool padded() const { return pad_top || pad_left || pad_bottom || pad_right; }
  std::int64_t taps() const { return window_h * window_w * channels; }
};

struct DirectKernels {
  // One image: y[oy, ox, :] = act(bias + sum over taps). `x` is already padded; kernel is HWIO; bias may be
  // null. out_channels must be a multiple of 8.
  void (*conv_forward)(const WindowGeometry& g, const float* x, const float* kernel, const float* bias, bool relu, float* y);
  // One image: dk += x (padded) correlated with dy.
  void (*conv_filter_gradient)(const WindowGeometry& g, const float* x, const float* dy, float* dk);
  // `rows` rows of `channels`: dz = y > 0 ? dy : 0 (y null: dz is dy and not written); db += column sums (db may be null).
  void (*relu_bias_gradient)(std::int64_t rows, std::int64_t channels, const float* y, const float* dy, float* dz, float* db);
  // One image; which[i] is the winner's number in its window (first of equal ones; NaN never wins).
  void (*max_pool_forward)(const WindowGeometry& g, const float* x, float* y, std::uint8_t* which);
  // One image; dx is overwritten.
  void (*max_pool_backward)(const WindowGeometry& g, const float* dy, const std::uint8_t* which, float* dx);
};

const DirectKernels& direct_kernels();

}  // namespace lockstep::ops
