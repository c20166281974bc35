// Functions of TensorFlow that are composed of other operations, and the forms of operations that take numbers. Names,
// order of arguments and defaults are TensorFlow's; errors are those of the operations.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/ops/functions.h"

namespace lockstep::ops {

// tf.constant of a number, a text, or a list: constant({{1, 2}, {3, 4}}, float16). Throws InvalidArgument for lists of
// different lengths.
Tensor constant(const Values& values, DType dtype = DType::kInvalid);
// The tensor itself. Throws InvalidArgument when it has another dtype.
Tensor convert_to_tensor(const Tensor& value, DType dtype = DType::kInvalid);

// ---- creation ------------------------------------------------------------------------------------------
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, DType dtype = DType::kFloat32);
Tensor fill(const ShapeArg& shape, Number value);            // int32 of a whole number, else float32
Tensor range(Number start, Number limit, Number delta = 1);  // int32 of whole numbers, else float32
// tf.range(10.0): 0, 1, … below the limit, float32.
template <std::floating_point T>
Tensor range(T limit) {
  return range(Number(0), Number(limit));
}
Tensor linspace(double start, double stop, std::int64_t num);

// A dtype by name: cast(x, "float32"). Throws InvalidArgument for an unknown one.
Tensor cast(const Tensor& x, std::string_view dtype);
// Of a number: cast(64, float32).
Tensor cast(Number x, DType dtype);

// ---- shapes --------------------------------------------------------------------------------------------
inline Tensor shape(const Tensor& x, DType out_type = DType::kInt32) { return shape_of(x, out_type); }
inline Tensor size(const Tensor& x, DType out_type = DType::kInt32) { return size_of(x, out_type); }
inline Tensor rank(const Tensor& x) { return rank_of(x); }

// ---- arithmetic ----------------------------------------------------------------------------------------
inline Tensor multiply(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor subtract(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor divide(const Tensor& a, const Tensor& b) { return a / b; }
inline Tensor negative(const Tensor& x) { return neg(x); }
Tensor floor_div(const Tensor& a, Number b);
Tensor floor_mod(const Tensor& a, Number b);
Tensor pow(Number a, const Tensor& b);
Tensor maximum(Number a, const Tensor& b);
Tensor minimum(Number a, const Tensor& b);
inline Tensor cumsum(const Tensor& x) { return cumsum(x, 0); }
Tensor where(const Tensor& condition, const Tensor& yes, Number no);
Tensor where(const Tensor& condition, Number yes, const Tensor& no);

// ---- reductions ----------------------------------------------------------------------------------------
Tensor reduce_variance(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);  // divides by n
Tensor reduce_std(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);
Tensor reduce_euclidean_norm(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);
Tensor count_nonzero(const Tensor& x, const Axes& axes = std::nullopt, bool keepdims = false);  // int64
// tf.norm: without `ord` the Euclidean norm of all elements on the axes; of vectors also with ord 1, 2, infinity or
// another positive number. Throws InvalidArgument for others, and for an ord of two axes (a norm of matrices).
Tensor norm(const Tensor& x, std::optional<double> ord = std::nullopt, const Axes& axes = std::nullopt,
            bool keepdims = false);

// ---- matrices ------------------------------------------------------------------------------------------
// Sums over the last `axes` axes of a and the first of b.
Tensor tensordot(const Tensor& a, const Tensor& b, int axes);
// Over these axes of a and of b, in pairs: tensordot(a, b, {{1, 2}, {0, 1}}).
Tensor tensordot(const Tensor& a, const Tensor& b, const std::pair<Ints, Ints>& axes);
// einsum("ij,jk->ik", a, b).
template <std::convertible_to<Tensor>... Operands>
Tensor einsum(std::string_view equation, const Tensor& first, const Operands&... others) {
  return einsum(equation, Tensors{first, others...});
}
Tensor trace(const Tensor& x);  // of the last two axes

// Of square matrices in the last two axes (tf.linalg).
Tensor solve(const Tensor& matrix, const Tensor& rhs);
Tensor inv(const Tensor& x);
Tensor det(const Tensor& x);
Tensor cholesky(const Tensor& x);

// ---- segments ------------------------------------------------------------------------------------------
// Of the rows with the same id; ids are sorted.
Tensor segment_sum(const Tensor& data, const Tensor& segment_ids);
Tensor segment_mean(const Tensor& data, const Tensor& segment_ids);
Tensor segment_max(const Tensor& data, const Tensor& segment_ids);
Tensor segment_min(const Tensor& data, const Tensor& segment_ids);

// ---- order ---------------------------------------------------------------------------------------------
struct SortOptions {
  int axis = -1;
  std::string direction = "ASCENDING";  // or "DESCENDING"; InvalidArgument for another word
};
Tensor sort(const Tensor& x, const SortOptions& options);
Tensor argsort(const Tensor& x, const SortOptions& options);
// The different values of a vector in the order in which they first come, and for each element the place of its value.
struct Unique {
  Tensor y, idx;
};
Unique unique(const Tensor& x);

// ---- selection -----------------------------------------------------------------------------------------
// The elements of the first axes where the mask, whose shape is known, is true.
Tensor boolean_mask(const Tensor& x, const Tensor& mask);
Tensor tensor_scatter_nd_update(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor tensor_scatter_nd_add(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor tensor_scatter_nd_sub(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor tensor_scatter_nd_max(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor tensor_scatter_nd_min(const Tensor& x, const Tensor& indices, const Tensor& updates);

}  // namespace lockstep::ops

namespace lockstep {
using ops::constant;
}
