// Functions of TensorFlow that are composed of other operations, and the forms of operations that take numbers. Names,
// order of arguments and defaults are TensorFlow's; errors are those of the operations.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/ops/functions.h"

namespace lockstep::ops {

// tf.constant of a number, a string, or a list: constant({{1, 2}, {3, 4}}, float16). Throws InvalidArgument for lists
// of different lengths.
Tensor constant(const Values& values, DTypeLike dtype = DType::kInvalid);
struct ConstantKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kInvalid;
  Shape shape = Shape::unknown_rank();  // the values in this shape, or one value for all elements
};
// Throws InvalidArgument for a shape of another number of elements.
Tensor constant(const Values& values, const ConstantKeywords& keywords);

// tf.saturate_cast: values beyond the range of the dtype become its limits. From floating numbers the limit is the
// largest integer that the dtype of `value` can represent.
Tensor saturate_cast(const Tensor& value, DTypeLike dtype);

// The tensor itself, or that of an array (x.numpy()), cast to the dtype. Throws InvalidArgument for a tensor that has
// another dtype.
Tensor convert_to_tensor(const Tensor& value, DTypeLike dtype = DType::kInvalid);

// Of a tensor or an array: the tensor, cast to the dtype; of a shape: a vector.
template <typename T>
requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) Tensor
    constant(const T& value, DTypeLike dtype = DType::kInvalid) {
  const Tensor tensor = value;
  return convert_to_tensor(dtype == DType::kInvalid ? tensor : cast(tensor, dtype));
}
template <typename T>
requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) Tensor
    constant(const T& value, const ConstantKeywords& o) {
  const Tensor tensor = constant(value, o.dtype);
  return o.shape.fully_known() ? reshape(tensor, o.shape) : tensor;
}
// A list of numbers, as tf.constant takes it: float32 of fractions.
template <typename T>
requires std::is_arithmetic_v<T> Tensor constant(const std::vector<T>& values, DTypeLike dtype = DType::kInvalid) {
  return constant(Values(values), dtype);
}
// constant({1}, int64) is a vector.
template <typename T>
requires std::is_arithmetic_v<T> Tensor constant(std::initializer_list<T> values, DType dtype) {
  return constant(Values(std::vector<T>(values)), dtype);
}
template <typename T, std::convertible_to<std::string_view> Name>
requires std::is_arithmetic_v<T> Tensor constant(std::initializer_list<T> values, const Name& dtype) {
  return constant(Values(std::vector<T>(values)), DType(DTypeLike(dtype)));
}
template <typename T, std::derived_from<DTypeLike> D>  // np::float32
requires std::is_arithmetic_v<T> Tensor constant(std::initializer_list<T> values, const D& dtype) {
  return constant(values, static_cast<DType>(dtype));
}
template <std::same_as<DTypeLike> D>
Tensor constant(double value, D dtype) {
  return constant(value, static_cast<DType>(dtype));
}
template <std::same_as<Shape> S>
Tensor constant(const S& shape, DTypeLike dtype = DType::kInt32) {
  return cast(constant_ints(shape.dims(), DType::kInt64), dtype);
}
// Of a list of numbers or strings: constant().
template <typename T>
requires(std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) Tensor
    convert_to_tensor(const std::vector<T>& values, DTypeLike dtype = DType::kInvalid) {
  return constant(Values(values), dtype);
}

// ---- creation ------------------------------------------------------------------------------------------
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, DTypeLike dtype = DType::kFloat32);
// With a number of rows that is computed: eye(ops::shape(x)[0]).
Tensor eye_of(const Tensor& rows, DType dtype);
template <lockstep::internal::StandsFor<Tensor> T>
Tensor eye(const T& rows, DTypeLike dtype = DType::kFloat32) {
  return eye_of(static_cast<Tensor>(rows), dtype);
}
inline Tensor eye(const Tensor& rows, DTypeLike dtype = DType::kFloat32) { return eye_of(rows, dtype); }
Tensor eye(const Tensor& rows, const Tensor& columns, DTypeLike dtype = DType::kFloat32);
// Of a bool, bool; of another number int32 if it is whole, else float32.
Tensor fill(const ShapeArg& shape, Number value);
template <typename T>
requires std::is_arithmetic_v<T> Tensor fill(const ShapeArg& shape, T value) { return fill(shape, Number(value)); }
inline Tensor fill(const ShapeArg& shape, const char* text) { return fill(shape, Tensor::strings({text}, {})); }
Tensor range(Number start, Number limit, Number delta = 1);  // int32 of whole numbers, else float32
// With limits that are computed: range(ops::shape(x)[0]).
Tensor range(const Tensor& limit);
Tensor range(const Tensor& start, const Tensor& limit);
Tensor range(Number start, const Tensor& limit);
Tensor range(Number start, const Tensor& limit, Number delta);
template <typename T, typename... More>
requires(std::is_arithmetic_v<T> && (std::is_arithmetic_v<More> && ...) && sizeof...(More) < 3) Tensor
    range(T first, More... more) {
  if constexpr (sizeof...(More) == 0) {
    return range(Number(0), Number(first));
  } else {
    return range(Number(first), Number(more)...);
  }
}
template <typename T>
requires std::is_arithmetic_v<T> Tensor range(T start, const Tensor& limit) { return range(Number(start), limit); }
template <typename T, typename D>
requires(std::is_arithmetic_v<T>&& std::is_arithmetic_v<D>) Tensor range(T start, const Tensor& limit, D delta) {
  return range(Number(start), limit, Number(delta));
}
Tensor linspace(double start, double stop, std::int64_t num);
struct LinspaceNumKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num = 50;
};
inline Tensor linspace(double start, double stop, const LinspaceNumKeywords& o) { return linspace(start, stop, o.num); }
Tensor one_hot(std::int64_t index, std::int64_t depth, DTypeLike dtype = DType::kFloat32);
// The grids of coordinates of two vectors, as tf.meshgrid(x, y): both (y, x), or with indexing "ij" both (x, y).
Unpacked meshgrid(const Tensor& x, const Tensor& y, std::string_view indexing = "xy");
struct MeshgridKeywords {
  FieldNamesOnly names_only = {};
  std::string_view indexing = "xy";
};
inline Unpacked meshgrid(const Tensor& x, const Tensor& y, const MeshgridKeywords& o) {
  return meshgrid(x, y, o.indexing);
}
// (…, maxlen): true in the first lengths[…] elements. Default of maxlen: the largest length.
Tensor sequence_mask(const Tensor& lengths, std::optional<std::int64_t> maxlen = std::nullopt,
                     DTypeLike dtype = DType::kBool);

// A dtype by name: cast(x, "float32"). Throws InvalidArgument for an unknown one.
Tensor cast(const Tensor& x, std::string_view dtype);
// Of a number: cast(64, float32).
Tensor cast(Number x, DTypeLike dtype);
template <typename T, std::convertible_to<DTypeLike> D>
requires std::is_arithmetic_v<T> Tensor cast(T x, const D& dtype) { return cast(Number(x), DTypeLike(dtype)); }
// Functions of a number, float32: sqrt(6.0).
#define LOCKSTEP_OF_NUMBER(function)                             \
  template <typename T>                                          \
  requires std::is_arithmetic_v<T> Tensor function(T number) {   \
    return function(Tensor::scalar(static_cast<float>(number))); \
  }
LOCKSTEP_OF_NUMBER(abs)
LOCKSTEP_OF_NUMBER(square)
LOCKSTEP_OF_NUMBER(sqrt)
LOCKSTEP_OF_NUMBER(rsqrt)
LOCKSTEP_OF_NUMBER(exp)
LOCKSTEP_OF_NUMBER(log)
LOCKSTEP_OF_NUMBER(sin)
LOCKSTEP_OF_NUMBER(cos)
LOCKSTEP_OF_NUMBER(tan)
LOCKSTEP_OF_NUMBER(tanh)
LOCKSTEP_OF_NUMBER(sigmoid)
#undef LOCKSTEP_OF_NUMBER

// ---- shapes --------------------------------------------------------------------------------------------
inline Tensor shape(const Tensor& x, DTypeLike out_type = DType::kInt32) { return shape_of(x, out_type); }
inline Tensor size(const Tensor& x, DTypeLike out_type = DType::kInt32) { return size_of(x, out_type); }
inline Tensor rank(const Tensor& x) { return rank_of(x); }

Tensor roll_by(const Tensor& x, const Tensor& shift, const Ints& axis);
// With a shift that is computed, one number or one for each of the axes; of one axis.
template <typename T>
requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) Tensor
    roll(const Tensor& x, const T& shift, const Ints& axis) {
  return roll_by(x, static_cast<Tensor>(shift), axis);
}
inline Tensor roll(const Tensor& x, std::int64_t shift, int axis) { return roll(x, Ints{shift}, Ints{axis}); }

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
inline Tensor cumprod(const Tensor& x) { return cumprod(x, 0); }
Tensor where(const Tensor& condition, const Tensor& yes, Number no);
Tensor where(const Tensor& condition, Number yes, const Tensor& no);
Tensor where(const Tensor& condition, Number yes, Number no);  // bool of bools, int32 of whole numbers, else float32
// A number next to a tensor has the tensor's dtype, rather than that of a tensor of its own.
#define LOCKSTEP_NUMBER_LEFT(function) \
  template <typename T>                \
  requires std::is_arithmetic_v<T> Tensor function(T a, const Tensor& b) { return function(Number(a), b); }
#define LOCKSTEP_NUMBER_RIGHT(function) \
  template <typename T>                 \
  requires std::is_arithmetic_v<T> Tensor function(const Tensor& a, T b) { return function(a, Number(b)); }
LOCKSTEP_NUMBER_LEFT(pow)
LOCKSTEP_NUMBER_LEFT(maximum)
LOCKSTEP_NUMBER_LEFT(minimum)
LOCKSTEP_NUMBER_RIGHT(floor_div)
LOCKSTEP_NUMBER_RIGHT(floor_mod)
#undef LOCKSTEP_NUMBER_LEFT
#undef LOCKSTEP_NUMBER_RIGHT
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) Tensor where(const Tensor& condition, A yes, B no) {
  return where(condition, Number(yes), Number(no));
}
template <typename T>
requires std::is_arithmetic_v<T> Tensor where(const Tensor& condition, const Tensor& yes, T no) {
  return where(condition, yes, Number(no));
}
template <typename T>
requires std::is_arithmetic_v<T> Tensor where(const Tensor& condition, T yes, const Tensor& no) {
  return where(condition, Number(yes), no);
}

// ---- reductions ----------------------------------------------------------------------------------------
// Of tensors of equal shapes in a list, which is one tensor in Python: reduce_sum(losses).
template <std::derived_from<Tensors> List>
Tensor reduce_sum(const List& values, const Axes& axes = std::nullopt) {
  return reduce_sum(stack(values), axes);
}
template <std::derived_from<Tensors> List>
Tensor reduce_mean(const List& values, const Axes& axes = std::nullopt) {
  return reduce_mean(stack(values), axes);
}
// Of a shape: how many elements a tensor of it has.
template <std::same_as<Shape> S>
Tensor reduce_prod(const S& shape) {
  return Tensor::scalar(static_cast<std::int32_t>(prod(shape)));
}
LOCKSTEP_REDUCE(reduce_variance)  // divides by n
LOCKSTEP_REDUCE(reduce_std)
LOCKSTEP_REDUCE(reduce_euclidean_norm)
LOCKSTEP_REDUCE(count_nonzero)  // int64
// The ord of a norm: a positive number, infinity included, or "euclidean" or "fro", the norm of all elements.
class NormOrder {
 public:
  NormOrder(std::nullopt_t = std::nullopt) {}
  template <typename T>
  requires std::is_arithmetic_v<T> NormOrder(T number) : number_(static_cast<double>(number)) {}
  NormOrder(std::string_view name);  // throws InvalidArgument for another name
  NormOrder(const char* name) : NormOrder(std::string_view(name)) {}
  const std::optional<double>& number() const { return number_; }  // none: "euclidean"

 private:
  std::optional<double> number_;
};
// tf.norm: of vectors, over one axis or all elements, or of matrices, over two axes, whose ord is 1, 2, infinity or
// "euclidean". Throws InvalidArgument for others.
Tensor norm(const Tensor& x, const NormOrder& ord = {}, const Axes& axes = std::nullopt, bool keepdims = false);

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

// ---- segments ------------------------------------------------------------------------------------------
// Of the rows with the same id; ids are sorted.
Tensor segment_sum(const Tensor& data, const Tensor& segment_ids);
Tensor segment_mean(const Tensor& data, const Tensor& segment_ids);
Tensor segment_max(const Tensor& data, const Tensor& segment_ids);
Tensor segment_prod(const Tensor& data, const Tensor& segment_ids);
Tensor segment_min(const Tensor& data, const Tensor& segment_ids);
// Ids in any order, each below num_segments. The mean of no rows is 0.
Tensor unsorted_segment_mean(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments);
Tensor unsorted_segment_max(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments);
Tensor unsorted_segment_prod(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments);
// The sum over the square root of the number of rows.
Tensor unsorted_segment_sqrt_n(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments);
Tensor unsorted_segment_min(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments);

// ---- order ---------------------------------------------------------------------------------------------
struct SortOptions {
  int axis = -1;
  std::string direction = "ASCENDING";  // or "DESCENDING"; InvalidArgument for another word
  bool stable = false;                  // equal values keep their order in any case
};
Tensor sort(const Tensor& x, const SortOptions& options);
Tensor argsort(const Tensor& x, const SortOptions& options);
// The different values of a vector in the order in which they first come, and for each element the index of its value.
struct Unique {
  Tensor y, idx;
};
Unique unique(const Tensor& x);
struct UniqueWithCounts {
  Tensor y, idx, count;
};
UniqueWithCounts unique_with_counts(const Tensor& x);
// Where values would have to be inserted into rows that are sorted: before ("left") or after ("right") equal ones.
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, std::string_view side = "left");
Tensor invert_permutation(const Tensor& x);

// ---- counts --------------------------------------------------------------------------------------------
// How often each number from 0 to the largest one comes, int32.
Tensor bincount(const Tensor& x);
// (num_classes, num_classes): rows are labels, columns predictions; int32. Default: the largest number + 1.
Tensor confusion_matrix(const Tensor& labels, const Tensor& predictions,
                        std::optional<std::int64_t> num_classes = std::nullopt);
// Of nbins of equal width in the range (two numbers); values outside of it count in the first and the last one.
Tensor histogram_fixed_width(const Tensor& values, const Tensor& value_range, std::int64_t nbins);
template <int = 0>  // since GCC would take {.value_range = …} for a tensor
Tensor histogram_fixed_width(const Tensor& values, const Tensor& value_range) {
  return histogram_fixed_width(values, value_range, 100);
}

// ---- selection -----------------------------------------------------------------------------------------
// Each element, or each slice of an axis, `repeats` times, or each its own number of times. Without an axis, of all
// elements in a row. Throws InvalidArgument for another number of repeats.
Tensor repeat(const Tensor& x, std::int64_t repeats, std::optional<int> axis = std::nullopt);
struct RepeatKeywords {
  FieldNamesOnly names_only = {};
  IntOrInts repeats = {};                  // where it is not given by position
  std::optional<int> axis = std::nullopt;  // default: the elements of all axes
};
Tensor repeat(const Tensor& x, const RepeatKeywords& keywords);
template <int = 0>
Tensor repeat(const Tensor& x, const Ints& repeats, std::optional<int> axis = std::nullopt) {
  return repeat(x, RepeatKeywords{{}, repeats, axis});
}
// The elements of the first axes where the mask, whose shape is known, is true.
Tensor boolean_mask(const Tensor& x, const Tensor& mask);
// The rows of each partition, in order: partitions[i] is that of row i.
Unpacked dynamic_partition(const Tensor& data, const Tensor& partitions, std::int64_t num_partitions);
// merged[indices[m]] = data[m].
Tensor dynamic_stitch(const Tensors& indices, const Tensors& data);
// x[begin:end:strides] of all axes.
Tensor strided_slice(const Tensor& x, const Ints& begin, const Ints& end, const Ints& strides = {});
struct StridedSliceKeywords {
  FieldNamesOnly names_only = {};
  Ints begin = {};
  Ints end = {};
  Ints strides = {};
};
inline Tensor strided_slice(const Tensor& x, const StridedSliceKeywords& o) {
  return strided_slice(x, o.begin, o.end, o.strides);
}
// x, whose shape is checked. Throws InvalidArgument for another one.
Tensor ensure_shape(const Tensor& x, const Shape& shape);
Tensor tensor_scatter_nd_update(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor tensor_scatter_nd_add(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor tensor_scatter_nd_sub(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor tensor_scatter_nd_max(const Tensor& x, const Tensor& indices, const Tensor& updates);
Tensor tensor_scatter_nd_min(const Tensor& x, const Tensor& indices, const Tensor& updates);

}  // namespace lockstep::ops

namespace lockstep {
using ops::constant;
using ops::convert_to_tensor;
// tf.bool and tf.string.
inline constexpr DType bool_ = DType::kBool;
inline constexpr DType string = DType::kString;
}  // namespace lockstep
