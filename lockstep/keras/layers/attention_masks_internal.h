// Masks of attention layers: bool tensors [batch or 1, rows of the query, rows of the keys].
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

// True on and below the diagonal: [1, steps of the query, steps of the keys].
Tensor causal_mask(const Tensor& query, const Tensor& key);
// True where the steps are less than `window` apart, to either side; shape as causal_mask().
Tensor sliding_window_mask(const Tensor& query, const Tensor& key, std::int64_t window);
// Both hold; an undefined mask is none.
Tensor both_masks(const Tensor& a, const Tensor& b);

}  // namespace lockstep::keras
