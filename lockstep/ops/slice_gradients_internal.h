// How gathering rows of a watched variable is differentiated; for kernels and for ops::grad.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::ops {

// Rows of `params` (a leaf of a tape) by int64 indices of rank 1. Inside a SliceCollector its gradient goes there as
// slices.
at::Tensor gather_rows(const at::Tensor& params, const at::Tensor& indices);

// Takes the slices of all gradients computed by this thread while it lives.
class SliceCollector {
 public:
  SliceCollector();
  ~SliceCollector();
  SliceCollector(const SliceCollector&) = delete;
  SliceCollector& operator=(const SliceCollector&) = delete;

  struct Slices {
    const void* leaf;
    at::Tensor indices, values;
  };
  // The slices of a leaf's gradient, in the order in which they came; indices is undefined where there are none.
  Slices slices_of(const at::Tensor& leaf) const;
  void add(Slices slices) { found_.push_back(std::move(slices)); }

 private:
  std::vector<Slices> found_;
  SliceCollector* outer_;
};

}  // namespace lockstep::ops
