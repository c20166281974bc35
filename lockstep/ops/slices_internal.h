// Gradients of gathered rows, as TensorFlow's IndexedSlices are: the rows as they came, and the dense tensor they add
// up to.
//
// Keras's optimizers on TensorFlow apply elementwise functions to the rows before those of one index are added up: the
// square of an embedding's gradient is the sum of its rows' squares, not the square of their sum. A gradient that came
// of gathering rows of a variable (and of nothing else) keeps its rows beside the dense sum; operations drop them.
#pragma once

#include <functional>
#include <memory>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct IndexedSlices {
  Tensor indices;  // int64 [n]: rows of the dense tensor, in any order and number
  Tensor values;   // [n, …]
};

namespace ops {

// The slices of a gradient; null for other tensors.
const std::shared_ptr<const IndexedSlices>& slices_of(const Tensor& gradient);
void set_slices(const Tensor& gradient, IndexedSlices slices);

// f of each element of a gradient; where the gradient has slices, f of each slice, added up. f must give zero for zero.
Tensor slicewise(const Tensor& gradient, const std::function<Tensor(const Tensor&)>& f);
// The square as optimizers take it.
Tensor gradient_square(const Tensor& gradient);
// gradient * factor of the same shape, slices kept.
Tensor gradient_times(const Tensor& gradient, const Tensor& factor);
// The sum of gradients of equal shape, of which `sum` is the dense sum: gives it the slices of all when all have them.
void join_slices(const Tensors& gradients, const Tensor& sum);

}  // namespace ops
}  // namespace lockstep
