// Resizing along the axes of images. Includes LibTorch: for sources of lockstep/ops only.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::ops {

// Pixel i of the result is below + (above - below) · share of the source's pixels below[i] and above[i]; without
// shares it is below[i], and above is equal.
struct AxisPixels {
  std::vector<std::int64_t> below, above;
  std::vector<float> share;
};

// Images [n, rows, columns, channels] of any dtype (float32 with shares): along the columns, then along the rows.
at::Tensor resized(const at::Tensor& x, AxisPixels rows, AxisPixels columns);

}  // namespace lockstep::ops
