// Shared by pool.cpp and conv.cpp: a max-pool fused with the convolution before it.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ops/direct_internal.h"
#include "lockstep/ops/fused_internal.h"

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
// Those of `pool` on `conv_output`, where the convolution made them while each image was in the cache, because a
// ScopedPoolFollower announced that pool.
std::optional<PoolResult> take_shared_pool(const at::Tensor& conv_output, const WindowGeometry& pool);
// The announced pool on an image; nothing where the loops do not have it.
std::optional<WindowGeometry> pool_geometry(const FollowingPool& pool, std::int64_t height, std::int64_t width,
                                            std::int64_t channels);

std::vector<std::int64_t> pack_geometry(const WindowGeometry& g);
WindowGeometry unpack_geometry(const std::vector<std::int64_t>& values);

}  // namespace lockstep::ops
