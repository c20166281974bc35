// Convolutions whose images are computed side by side: no product with a border of zeros, and full tiles however small
// the images are. Plain pointers, no LibTorch.
#pragma once

#include "lockstep/ops/direct_internal.h"

namespace lockstep::ops {

// Whether that is less work than one image after the other with its border.
bool fits_groups(const WindowGeometry& g, std::int64_t images);
// act(conv(x, kernel) + bias): all output channels of all pixels, in parallel. `packed` as DirectKernels::pack_kernel
// gives it; paddings may be negative.
void forward_in_groups(const WindowGeometry& g, std::int64_t images, const float* x, const float* packed,
                       const float* bias, bool relu, const ConvOutput& to);

// Whether the gradient of a kernel is faster cell by cell of the window, over all images, than image by image.
bool fits_cells(const WindowGeometry& g);
// The gradient of the kernel, overwritten: [window_h, window_w, channels, out_channels].
void filter_gradient_in_cells(const WindowGeometry& g, std::int64_t images, const float* x, const float* dy, float* dk);

}  // namespace lockstep::ops
