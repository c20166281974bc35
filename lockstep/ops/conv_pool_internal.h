// Shared by pool.cpp and conv.cpp: a max-pool fused with the convolution before it.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ops/direct_internal.h"

namespace lockstep::ops {

// `pooled` and `which` are the pool's results on `conv_output`. When that tensor is the latest relu
// convolution of this thread and a ScopedPoolFusion lives: `pooled` tied to the convolution's inputs, so
// that the backward pass goes image by image through both at once. Else nothing.
std::optional<at::Tensor> try_join_pool(const at::Tensor& conv_output, const WindowGeometry& pool,
                                        const at::Tensor& pooled, const at::Tensor& which);

// A max-pool's results.
struct PoolResult {
  at::Tensor y, which;
};
// Those of `pool` on `conv_output`, where the convolution made them while each image was in the cache, because a pool
// like that followed when these weights were last used on this thread.
std::optional<PoolResult> take_expected_pool(const at::Tensor& conv_output, const WindowGeometry& pool);

std::vector<std::int64_t> pack_geometry(const WindowGeometry& g);
WindowGeometry unpack_geometry(const std::vector<std::int64_t>& values);

}  // namespace lockstep::ops
