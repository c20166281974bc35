// Winograd's algorithm for tensors: its weights, and the convolution that takes gradients back. Includes LibTorch: for
// sources of lockstep/ops only.
#pragma once

#include <ATen/ATen.h>

#include "lockstep/ops/packing_internal.h"
#include "lockstep/ops/winograd_internal.h"

namespace lockstep::ops {

// The pixels of a tile along each axis, or 0, and how many tiles an image has.
struct WinogradWay {
  int outputs = 0;
  std::int64_t tiles = 0;

  WinogradWay() = default;  // none
  explicit WinogradWay(const WindowGeometry& g)
      : outputs(winograd_outputs(g)), tiles(outputs > 0 ? winograd_tiles(g, outputs) : 0) {}
  explicit operator bool() const { return outputs > 0; }
  // Whether the tiles of several images have to be computed together.
  bool needs_batch() const { return tiles < kTilesTogether; }
};

// pack_winograd(); `kernel` is contiguous.
inline at::Tensor winograd_weights(const WindowGeometry& g, int outputs, const at::Tensor& kernel, bool flipped) {
  at::Tensor packed = at::empty({winograd_kernels().packed_size(g, outputs)}, kernel.options());
  pack_winograd(g, outputs, kernel.const_data_ptr<float>(), flipped, packed.mutable_data_ptr<float>());
  return packed;
}

// The convolution from the gradient of the output of `g`, which has stride 1, to that of its input.
inline WindowGeometry adjoint_geometry(const WindowGeometry& g) {
  WindowGeometry a = g;
  a.height = g.out_h, a.width = g.out_w, a.channels = g.out_channels;
  a.out_h = g.height, a.out_w = g.width, a.out_channels = g.channels;
  const std::int64_t reach_h = (g.window_h - 1) * g.dilation_h, reach_w = (g.window_w - 1) * g.dilation_w;
  a.pad_top = reach_h - g.pad_top, a.pad_bottom = reach_h - g.pad_bottom;
  a.pad_left = reach_w - g.pad_left, a.pad_right = reach_w - g.pad_right;
  return a;
}

}  // namespace lockstep::ops
