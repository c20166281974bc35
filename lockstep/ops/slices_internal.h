// Gradients of gathered rows, as TensorFlow's IndexedSlices are: the rows in the order of the gathers. The dense tensor
// that they add up to exists only after an operation has asked for it.
//
// Keras's optimizers on TensorFlow apply elementwise functions to the rows before those of one index are added up: the
// square of an embedding's gradient is the sum of its rows' squares, not the square of their sum. The gradient of a
// variable that is only gathered from consists of rows; results of operations on it are dense.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "lockstep/tensor/indexed_slices_internal.h"

namespace lockstep::ops {

// The slices of a gradient; null for other tensors.
const std::shared_ptr<const RowSlices>& slices_of(const Tensor& gradient);

// f of each element of a gradient; where the gradient has slices, f of each slice, added up. f must give zero for zero.
Tensor slicewise(const Tensor& gradient, const std::function<Tensor(const Tensor&)>& f);
// The square as optimizers take it.
Tensor gradient_square(const Tensor& gradient);
// gradient * factor of the same shape, slices kept.
Tensor gradient_times(const Tensor& gradient, const Tensor& factor);
// The gradient with one slice for each row, the sum of its slices.
Tensor with_unique_slices(const Tensor& gradient);
// Puts the rows that have slices, of which each row has one, in the place of the tensors, and returns the tensors.
Tensors exchange_rows(const Tensor& gradient, std::span<Tensor* const> tensors);
// Puts `whole`, with the rows that the tensors are now, in their place.
void put_rows(const Tensor& gradient, std::span<Tensor* const> tensors, const Tensors& whole);
// The sum of gradients that all have slices, as the slices of all in their order; undefined if one has none.
Tensor sum_of_slices(const Tensors& gradients);

}  // namespace lockstep::ops
