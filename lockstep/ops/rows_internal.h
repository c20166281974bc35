// Rows of tensors of any dtype, as operations on sparse and ragged tensors move them about. Includes LibTorch: for
// sources of lockstep/ops only.
#pragma once

#include <string>
#include <vector>

#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {

// A kernel that only moves elements, for tensors of strings too: it moves their positions. Elements that it fills with
// zero become "".
Kernel for_strings_too(Kernel kernel);

// The strings of input i. Throws InvalidArgument for another dtype.
const std::vector<std::string>& strings_in(const Call& call, int i);
// The single string of input i.
const std::string& string_in(const Call& call, int i);

// An int64 tensor of the shape [n], or of another shape with n elements.
at::Tensor int64_tensor(const Ints& values);
at::Tensor int64_tensor(const Ints& values, const Ints& shape);

// Entries `rows` of the first axis, of numbers or strings; numbers keep their gradient. Each must be in range.
Tensor take_rows(const Tensor& x, const Ints& rows);
// The tensors behind each other along the first axis; all have the same dtype and the same other axes.
Tensor concat_rows(const Tensors& parts);
// x.index_add(0, rows, values), or the same with subtraction. LibTorch multiplies the values by one, which turns the
// other part of a complex number with an infinite part into NaN.
at::Tensor add_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& values, bool subtract = false);

// The extrema of `start` and of the floating-point rows that belong to its rows `index`, taken one after the other and
// with TensorFlow's handling of NaN: in the first `strict[i]` columns of row i an element replaces a value only if it
// exceeds it; in the other columns, unless the value exceeds it.
at::Tensor extrema_in_order(const at::Tensor& rows, const at::Tensor& index, const at::Tensor& start, bool highest,
                            const Ints& strict);

// A sparse tensor as its three inputs give it: `count` rows of `rank` coordinates, each inside of the shape.
struct Sparse {
  Ints indices, shape;
  Tensor values;  // undefined where the operation has none
  std::int64_t count = 0, rank = 0;

  const std::int64_t* row(std::int64_t i) const { return indices.data() + i * rank; }
};
// Of inputs `indices`, `values` (or -1) and `shape`. Throws InvalidArgument where they do not fit each other.
Sparse sparse_in(const Call& call, int indices, int values, int shape);
// The order of its entries by coordinates; equal ones keep theirs.
Ints row_major_order(const Sparse& x);
// Row-major position of each entry in the dense tensor; throws InvalidArgument where that has too many elements.
Ints flat_positions(const Sparse& x);

}  // namespace lockstep::ops
