// Weights in the order that the loops of convolutions read, and gradients of weights from sums of Winograd's algorithm,
// on the threads of parallel_for. Small weights are packed by one thread.
#pragma once

#include "lockstep/ops/direct_internal.h"

namespace lockstep::ops {

// DirectKernels::pack_kernel and pack_flipped_kernel for all columns.
void pack_kernel(const WindowGeometry& g, const float* kernel, float* packed);
void pack_flipped_kernel(const WindowGeometry& g, const float* kernel, WindowCells rows, WindowCells columns,
                         float* packed);
// WinogradKernels::pack and finish_filter_gradient for all channels.
void pack_winograd(const WindowGeometry& g, int outputs, const float* kernel, bool flipped, float* packed);
void finish_filter_gradient(const WindowGeometry& g, int outputs, const float* sums, float* dk);
// Sums of `parts` arrays of `size` floats, one after the other in memory, in the order of the parts; zeros for none.
void add_parts(std::int64_t parts, std::int64_t size, const float* from, float* to);
void fill_zero(std::int64_t size, float* to);

}  // namespace lockstep::ops
