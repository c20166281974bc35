// Draws of random numbers that several families of random operations share. Includes LibTorch: for sources of
// lockstep/ops only.
#pragma once

#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/philox_internal.h"

namespace lockstep::ops {

enum class RandomKind { kUniform, kNormal, kTruncatedNormal, kFullInt };

at::Tensor draw_random(const PhiloxState& state, const Ints& shape, DType dtype, RandomKind kind);
// Integers in [low, high); both int32 or int64. Throws InvalidArgument where low is not less than high.
at::Tensor draw_random_ints(const PhiloxState& state, const Ints& shape, const at::Tensor& low, const at::Tensor& high);
// Samples of each alpha: `shape` ends with alpha's shape.
at::Tensor draw_random_gamma(const PhiloxState& state, const Ints& shape, const at::Tensor& alpha);
// The same of Poisson numbers for each rate, as `dtype`.
at::Tensor draw_random_poisson(const PhiloxState& state, const Ints& shape, const at::Tensor& rates, DType dtype);
// Binomial numbers: `shape` ends with the common shape of counts and probabilities.
at::Tensor draw_random_binomial(const PhiloxState& state, const Ints& shape, const at::Tensor& counts,
                                const at::Tensor& probabilities, DType dtype);

// The state that the seed in input i stands for.
PhiloxState stateless_seed_in(const Call& call, int i);
// The state at which a stateful operation's draw begins; the next one begins `blocks` later.
PhiloxState advance_stateful(const Call& call, std::uint64_t blocks);

}  // namespace lockstep::ops
