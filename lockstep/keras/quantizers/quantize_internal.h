// The arithmetic of quantized layers, written with operations, so that it runs on values and in graphs.
#pragma once

#include "lockstep/keras/quantizers/quantizers.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::quantizers {

struct Quantized {
  Tensor values;  // whole numbers in the dtype of the input
  Tensor scale;   // values / input; the axes have the extent 1
};
Quantized abs_max_quantize(const Tensor& x, const keras::Ints& axes, const AbsMaxQuantizer& how);

struct QuantizedGroups {
  Tensor values;       // from -8 to 7, in the dtype of the matrix
  Tensor scale, zero;  // [groups, columns]: a number is (value - zero) · scale
};
// Of groups of `block_size` rows of a matrix; the last group is padded with zeros.
QuantizedGroups quantize_groups(const Tensor& matrix, std::int64_t block_size);

// Whole numbers from -8 to 7 as int8, two in a byte along an axis: the first one in the lower four bits. An odd extent
// is padded with a zero.
Tensor pack_int4(const Tensor& values, int axis);
// The first `extent` numbers along the axis, in `dtype`.
Tensor unpack_int4(const Tensor& packed, int axis, std::int64_t extent, DType dtype);

// The dtype in which sums of `terms` products of quantized numbers are exact.
DType exact_product_dtype(std::int64_t terms);

}  // namespace lockstep::quantizers
