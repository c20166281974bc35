// Keyword arguments of TensorFlow's functions: reduce_sum(x, {.axis = 1, .keepdims = true}). Each function is the one
// of functions.h or composed.h with these arguments by position. Names, order and defaults are TensorFlow's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"

namespace lockstep::ops {

#undef LOCKSTEP_REDUCE

// Of functions of one axis: concat, stack, expand_dims, softmax, ...
struct OneAxisKeywords {
  FieldNamesOnly names_only = {};
  int axis = 0;
};
inline Tensor concat(const Tensors& values, const OneAxisKeywords& keywords) { return concat(values, keywords.axis); }
inline Tensor stack(const Tensors& values, const OneAxisKeywords& keywords) { return stack(values, keywords.axis); }
inline Unpacked unstack(const Tensor& x, const OneAxisKeywords& keywords) { return unstack(x, keywords.axis); }
inline Tensor expand_dims(const Tensor& x, const OneAxisKeywords& keywords) { return expand_dims(x, keywords.axis); }
// Of a list, expand_dims({x}, 0), which is one tensor first; also of numbers.
inline Tensor expand_dims(std::initializer_list<Tensor> values, int axis) {
  const auto is_number = [](const Tensor& x) { return x.is_number(); };
  if (!std::all_of(values.begin(), values.end(), is_number)) return expand_dims(stack(Tensors(values)), axis);
  const auto is_real = [](const Tensor& x) { return is_floating(x.dtype()); };
  const bool real = std::any_of(values.begin(), values.end(), is_real);
  Tensors numbers;
  for (const Tensor& x : values) numbers.push_back(real ? cast(x, DType::kFloat32) : x);
  return expand_dims(stack(numbers), axis);
}
inline Tensor expand_dims(std::initializer_list<Tensor> values, const OneAxisKeywords& keywords) {
  return expand_dims(values, keywords.axis);
}
inline Unpacked split(const Tensor& x, int num, const OneAxisKeywords& keywords = {}) {
  return split(x, num, keywords.axis);
}
template <int = 0>
Unpacked split(const Tensor& x, const Ints& sizes, const OneAxisKeywords& keywords = {}) {
  return split(x, sizes, keywords.axis);
}
struct SplitKeywords {
  FieldNamesOnly names_only = {};
  IntOrInts num_or_size_splits = {};
  int axis = 0;
};
inline Unpacked split(const Tensor& x, const SplitKeywords& keywords) {
  const IntOrInts& parts = keywords.num_or_size_splits;
  return parts.is_one() ? split(x, static_cast<int>(parts[0]), keywords.axis)
                        : split(x, static_cast<const Ints&>(parts), keywords.axis);
}

// The axes by position: reduce_mean(x, 3, {.keepdims = true}).
struct KeepdimsKeywords {
  FieldNamesOnly names_only = {};
  bool keepdims = false;
};
#define LOCKSTEP_REDUCE(function)                                                               \
  inline Tensor function(const Tensor& x, const Axes& axes, const KeepdimsKeywords& keywords) { \
    return function(x, AxisKeywords{{}, axes, keywords.keepdims});                              \
  }
LOCKSTEP_REDUCE(reduce_sum)
LOCKSTEP_REDUCE(reduce_mean)
LOCKSTEP_REDUCE(reduce_max)
LOCKSTEP_REDUCE(reduce_min)
LOCKSTEP_REDUCE(reduce_prod)
LOCKSTEP_REDUCE(reduce_any)
LOCKSTEP_REDUCE(reduce_all)
LOCKSTEP_REDUCE(reduce_logsumexp)
LOCKSTEP_REDUCE(reduce_variance)
LOCKSTEP_REDUCE(reduce_std)
#undef LOCKSTEP_REDUCE

// Of functions that make tensors: zeros({2, 3}, {.dtype = int32}).
struct DTypeKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kFloat32;
};
inline Tensor zeros(const ShapeArg& shape, const DTypeKeywords& keywords) { return zeros(shape, keywords.dtype); }
inline Tensor ones(const ShapeArg& shape, const DTypeKeywords& keywords) { return ones(shape, keywords.dtype); }

// Dtypes by name where functions take a dtype: argmax(x, 1, "int32").
template <typename T>
concept DTypeName = std::convertible_to<const T&, std::string_view>;
template <DTypeName Name>
Tensor argmax(const Tensor& x, int axis, const Name& output_type) {
  return argmax(x, axis, DType(DTypeLike(output_type)));
}
template <DTypeName Name>
Tensor argmin(const Tensor& x, int axis, const Name& output_type) {
  return argmin(x, axis, DType(DTypeLike(output_type)));
}
template <DTypeName Name>
Tensor one_hot(const Tensor& indices, std::int64_t depth, const Name& dtype) {
  return one_hot(indices, depth, DType(DTypeLike(dtype)));
}
template <DTypeName Name>
Tensor bitcast(const Tensor& x, const Name& type) {
  return bitcast(x, DType(DTypeLike(type)));
}

// constant(4, "int64"). A template, as DTypeLike would be ambiguous with the constant of a double.
template <std::convertible_to<std::string_view> Name>
Tensor constant(const Values& values, const Name& dtype) {
  return constant(values, DType(DTypeLike(dtype)));
}

struct ArgmaxKeywords {
  FieldNamesOnly names_only = {};
  int axis = 0;
  DTypeLike output_type = DType::kInt64;
};
inline Tensor argmax(const Tensor& x, const ArgmaxKeywords& keywords) {
  return argmax(x, keywords.axis, keywords.output_type);
}
inline Tensor argmin(const Tensor& x, const ArgmaxKeywords& keywords) {
  return argmin(x, keywords.axis, keywords.output_type);
}

struct CumulativeKeywords {
  FieldNamesOnly names_only = {};
  int axis = 0;
  bool exclusive = false;
  bool reverse = false;
};
inline Tensor cumsum(const Tensor& x, const CumulativeKeywords& keywords) {
  return cumsum(x, keywords.axis, keywords.exclusive, keywords.reverse);
}
inline Tensor cumprod(const Tensor& x, const CumulativeKeywords& keywords) {
  return cumprod(x, keywords.axis, keywords.exclusive, keywords.reverse);
}

struct MatmulKeywords {
  FieldNamesOnly names_only = {};
  bool transpose_a = false;
  bool transpose_b = false;
};
inline Tensor matmul(const Tensor& a, const Tensor& b, const MatmulKeywords& keywords) {
  return matmul(a, b, keywords.transpose_a, keywords.transpose_b);
}

struct CastKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kFloat32;
};
inline Tensor cast(const Tensor& x, const CastKeywords& keywords) { return cast(x, keywords.dtype); }

struct ClipKeywords {
  FieldNamesOnly names_only = {};
  Tensor clip_value_min = {};  // numbers, lists or tensors, which broadcast to x
  Tensor clip_value_max = {};
};
// Throws InvalidArgument unless both are given.
Tensor clip_by_value(const Tensor& x, const ClipKeywords& keywords);

struct GatherKeywords {
  FieldNamesOnly names_only = {};
  Tensor indices = {};                     // where they are not given by position
  std::optional<int> axis = std::nullopt;  // default: batch_dims
  int batch_dims = 0;
};
inline Tensor gather(const Tensor& params, const Tensor& indices, const GatherKeywords& keywords) {
  return gather(params, indices, keywords.axis.value_or(keywords.batch_dims), keywords.batch_dims);
}
inline Tensor gather(const Tensor& params, const GatherKeywords& keywords) {
  return gather(params, keywords.indices, keywords);
}

struct SliceKeywords {
  FieldNamesOnly names_only = {};
  Ints begin = {};
  Ints size = {};
};
inline Tensor slice(const Tensor& x, const SliceKeywords& keywords) { return slice(x, keywords.begin, keywords.size); }

inline Tensor repeat(const Tensor& x, std::int64_t repeats, const RepeatKeywords& keywords) {
  return repeat(x, repeats, keywords.axis);
}
inline Tensor repeat(const Tensor& x, const Ints& repeats, const RepeatKeywords& keywords) {
  return repeat(x, repeats, keywords.axis);
}
// Repeats that are computed, a vector or one number whose values are known.
template <std::convertible_to<Tensor> T>
requires(std::is_class_v<T> && !std::is_convertible_v<const T&, RepeatKeywords>) Tensor
    repeat(const Tensor& x, const T& repeats, const RepeatKeywords& keywords = {}) {
  const Tensor counts = static_cast<Tensor>(repeats);
  const auto values = cast(counts, DType::kInt64).to_vector<std::int64_t>();
  return counts.shape().rank() == 0 ? repeat(x, values[0], keywords.axis) : repeat(x, Ints(values), keywords.axis);
}

struct OneHotKeywords {
  FieldNamesOnly names_only = {};
  Tensor indices = {};      // where they are not given by position
  std::int64_t depth = -1;  // where it is not given by position; a missing one is an InvalidArgument
  double on_value = 1;
  double off_value = 0;
  int axis = -1;
  DTypeLike dtype = DType::kFloat32;
};
Tensor one_hot(const Tensor& indices, std::int64_t depth, const OneHotKeywords& keywords);
inline Tensor one_hot(const Tensor& indices, const OneHotKeywords& keywords) {
  return one_hot(indices, keywords.depth, keywords);
}
inline Tensor one_hot(const OneHotKeywords& keywords) { return one_hot(keywords.indices, keywords); }

// A number, or a tensor of one, ops::shape(x)[1].
class RangeLimit {
 public:
  RangeLimit() = default;
  RangeLimit(Number number) : number_(number) {}
  template <typename T>
  requires std::is_arithmetic_v<T> RangeLimit(T number) : number_(Number(number)) {}
  template <std::convertible_to<Tensor> T>
  requires std::is_class_v<T> RangeLimit(const T& tensor) : tensor_(static_cast<Tensor>(tensor)) {}
  const std::optional<Number>& number() const { return number_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  std::optional<Number> number_;
  Tensor tensor_;
};
struct RangeKeywords {
  FieldNamesOnly names_only = {};
  Number start = 0;
  RangeLimit limit = {};  // a missing one is an InvalidArgument
  Number delta = 1;
  std::optional<DTypeLike> dtype = std::nullopt;  // default: int32 of whole numbers, else float32
};
Tensor range(const RangeKeywords& keywords);
// range(5, {.dtype = int64}), range(1, shape(x)[0], {.dtype = int64}).
inline Tensor range(const RangeLimit& limit, RangeKeywords keywords) {
  keywords.limit = limit;
  return range(keywords);
}
inline Tensor range(Number start, const RangeLimit& limit, RangeKeywords keywords) {
  keywords.start = start;
  return range(limit, keywords);
}

// convert_to_tensor({0.1, 0.2}, {.dtype = float64}).
struct ConvertKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kInvalid;  // default: the value's
};
inline Tensor convert_to_tensor(const Tensor& value, const ConvertKeywords& keywords) {
  return convert_to_tensor(value, keywords.dtype);
}
// Of a list of tensors of one shape: stack().
template <std::same_as<Tensor> T>
Tensor convert_to_tensor(const std::vector<T>& values, DTypeLike dtype = DType::kInvalid) {
  return convert_to_tensor(stack(values), dtype);
}
template <std::same_as<Tensor> T>
Tensor convert_to_tensor(const std::vector<T>& values, const ConvertKeywords& keywords) {
  return convert_to_tensor(stack(values), keywords.dtype);
}
template <typename T>
requires std::is_arithmetic_v<T> Tensor convert_to_tensor(std::initializer_list<T> values,
                                                          const ConvertKeywords& keywords) {
  return convert_to_tensor(std::vector<T>(values), keywords.dtype);
}

// Of tensors in braces, as of a list in Python: constant({loss, norm}).
template <typename T>
concept TensorInBraces = std::is_same_v<T, Tensor> || std::is_same_v<T, Nested<Tensor>>;
template <TensorInBraces T>
Tensor convert_to_tensor(std::initializer_list<T> values) {
  return stack(Tensors(values.begin(), values.end()));
}
template <TensorInBraces T>
Tensor constant(std::initializer_list<T> values) {
  return stack(Tensors(values.begin(), values.end()));
}
template <TensorInBraces T>
Tensor constant(std::initializer_list<T> values, const ConstantKeywords& keywords) {
  return constant(constant(values), keywords);
}
template <TensorInBraces T, std::convertible_to<DTypeLike> Type>
Tensor constant(std::initializer_list<T> values, const Type& dtype) {
  return constant(constant(values), dtype);
}
// Of lists of variables, by their values.
template <lockstep::internal::StandsFor<Tensor> V>
ClippedTensors clip_by_global_norm(const std::vector<V>& variables, double clip_norm) {
  return clip_by_global_norm(Tensors(variables.begin(), variables.end()), clip_norm);
}
template <lockstep::internal::StandsFor<Tensor> V>
Tensor add_n(const std::vector<V>& variables) {
  return add_n(Tensors(variables.begin(), variables.end()));
}
template <lockstep::internal::StandsFor<Tensor> V>
Tensor global_norm(const std::vector<V>& variables) {
  return global_norm(Tensors(variables.begin(), variables.end()));
}

// shape(x, {.out_type = "int64"}), size(x, {.out_type = int64}).
struct OutTypeKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike out_type = DType::kInt32;
};
inline Tensor shape(const Tensor& x, const OutTypeKeywords& keywords) { return shape(x, keywords.out_type); }
inline Tensor size(const Tensor& x, const OutTypeKeywords& keywords) { return size(x, keywords.out_type); }

struct SequenceMaskKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> maxlen = std::nullopt;
  DTypeLike dtype = DType::kBool;
};
inline Tensor sequence_mask(const Tensor& lengths, const SequenceMaskKeywords& keywords) {
  return sequence_mask(lengths, keywords.maxlen, keywords.dtype);
}

// Integers, or a tensor of them.
class IntsOrTensor {
 public:
  IntsOrTensor() = default;
  template <std::integral I>
  IntsOrTensor(I value) : ints_{static_cast<std::int64_t>(value)} {}
  IntsOrTensor(std::initializer_list<std::int64_t> values) : ints_(values) {}
  IntsOrTensor(Ints values) : ints_(std::move(values)) {}
  template <std::convertible_to<Tensor> T>
  requires std::is_class_v<T> IntsOrTensor(const T& tensor) : tensor_(static_cast<Tensor>(tensor)) {}
  const Ints& ints() const { return ints_; }
  const Tensor& tensor() const { return tensor_; }  // undefined where the integers are given

 private:
  Ints ints_;
  Tensor tensor_;
};
struct RollKeywords {
  FieldNamesOnly names_only = {};
  IntsOrTensor shift = {};
  IntOrInts axis = {};
};
inline Tensor roll(const Tensor& x, const RollKeywords& keywords) {
  const Tensor& shift = keywords.shift.tensor();
  return shift.defined() ? roll_by(x, shift, keywords.axis)
                         : roll(x, keywords.shift.ints(), static_cast<const Ints&>(keywords.axis));
}

struct RollAxisKeywords {
  FieldNamesOnly names_only = {};
  IntOrInts axis = {};
};
template <std::convertible_to<IntsOrTensor> Shift = IntsOrTensor>
Tensor roll(const Tensor& x, const Shift& shift, const RollAxisKeywords& keywords) {
  return roll(x, RollKeywords{{}, shift, keywords.axis});
}

struct LinspaceKeywords {
  FieldNamesOnly names_only = {};
  RangeLimit start = {};  // both are required
  RangeLimit stop = {};
  std::int64_t num = 50;
};
// Throws InvalidArgument unless start and stop are given.
Tensor linspace(const LinspaceKeywords& keywords);

struct TopKKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t k = 1;
  bool sorted = true;
};
inline TopK top_k(const Tensor& x, const TopKKeywords& keywords) { return top_k(x, keywords.k, keywords.sorted); }

struct EyeKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> num_columns = std::nullopt;
  Ints batch_shape = {};  // one matrix for each index of it
  DTypeLike dtype = DType::kFloat32;
};
Tensor eye(std::int64_t rows, const EyeKeywords& keywords);

// Axes of tensordot: a number, or axes of a and of b: {{1}, {0}}.
struct TensordotKeywords {
  FieldNamesOnly names_only = {};
  std::vector<IntOrInts> axes = {};
};
// Throws InvalidArgument unless `axes` has one number or two lists.
Tensor tensordot(const Tensor& a, const Tensor& b, const TensordotKeywords& keywords);

// A number of segments may be a tensor of one, reduce_max(ids) + 1.
struct SegmentsKeywords {
  FieldNamesOnly names_only = {};
  Tensor data = {};         // where it is not given by position
  Tensor segment_ids = {};  // alike
  Extent num_segments = 0;
};
#define LOCKSTEP_SEGMENTS(function)                                                                                   \
  template <std::convertible_to<Tensor> N>                                                                            \
  requires std::is_class_v<N> Tensor function(const Tensor& data, const Tensor& segment_ids, const N& num_segments) { \
    return function(data, segment_ids, count_of_segments(num_segments));                                              \
  }                                                                                                                   \
  inline Tensor function(const Tensor& data, const Tensor& segment_ids, const SegmentsKeywords& keywords) {           \
    return function(data, segment_ids, count_of_segments(keywords.num_segments));                                     \
  }                                                                                                                   \
  inline Tensor function(const SegmentsKeywords& keywords) {                                                          \
    return function(keywords.data, keywords.segment_ids, keywords);                                                   \
  }
// Throws InvalidArgument for a number that is not known yet.
std::int64_t count_of_segments(const Extent& num_segments);
LOCKSTEP_SEGMENTS(unsorted_segment_sum)
LOCKSTEP_SEGMENTS(unsorted_segment_mean)
LOCKSTEP_SEGMENTS(unsorted_segment_max)
LOCKSTEP_SEGMENTS(unsorted_segment_min)
LOCKSTEP_SEGMENTS(unsorted_segment_prod)
LOCKSTEP_SEGMENTS(unsorted_segment_sqrt_n)
#undef LOCKSTEP_SEGMENTS

struct NormKeywords {
  FieldNamesOnly names_only = {};
  NormOrder ord = {};
  Axes axis = std::nullopt;
  bool keepdims = false;
};
// Of a tensor and a number: add(x, 1), squared_difference(x, 0.5).
#define LOCKSTEP_WITH_NUMBER(function, of_tensor, of_number)                                   \
  template <typename N>                                                                        \
  requires std::is_arithmetic_v<N> Tensor function(const Tensor& a, N b) { return of_tensor; } \
  template <typename N>                                                                        \
  requires std::is_arithmetic_v<N> Tensor function(N a, const Tensor& b) { return of_number; }
LOCKSTEP_WITH_NUMBER(add, a + b, a + b)
LOCKSTEP_WITH_NUMBER(sub, a - b, a - b)
LOCKSTEP_WITH_NUMBER(subtract, a - b, a - b)
LOCKSTEP_WITH_NUMBER(mul, a* b, a* b)
LOCKSTEP_WITH_NUMBER(multiply, a* b, a* b)
LOCKSTEP_WITH_NUMBER(div, a / b, a / b)
LOCKSTEP_WITH_NUMBER(divide, a / b, a / b)
#define LOCKSTEP_AS_TENSOR(function)                                                       \
  LOCKSTEP_WITH_NUMBER(function, function(a, constant(static_cast<double>(b), a.dtype())), \
                       function(constant(static_cast<double>(a), b.dtype()), b))
LOCKSTEP_AS_TENSOR(squared_difference)
LOCKSTEP_AS_TENSOR(div_no_nan)
LOCKSTEP_AS_TENSOR(mul_no_nan)
LOCKSTEP_AS_TENSOR(atan2)
#undef LOCKSTEP_AS_TENSOR
#undef LOCKSTEP_WITH_NUMBER
// The names of tf.math.
template <typename A, typename B>
Tensor divide_no_nan(const A& a, const B& b) {
  return div_no_nan(a, b);
}
template <typename B>
Tensor floordiv(const Tensor& a, const B& b) {
  return floor_div(a, b);
}
template <typename B>
Tensor floormod(const Tensor& a, const B& b) {
  return floor_mod(a, b);
}
template <typename B>
Tensor mod(const Tensor& a, const B& b) {
  return floor_mod(a, b);
}
inline Tensor norm(const Tensor& x, const NormKeywords& keywords) {
  return norm(x, keywords.ord, keywords.axis, keywords.keepdims);
}

}  // namespace lockstep::ops

namespace lockstep {

// sum(model.losses()) of Python: of a list of tensors of one shape; 0 where there are none. Of a tensor: of its first
// axis.
template <ops::OneTensor X>
requires std::is_class_v<X> Tensor sum(const X& x) { return ops::reduce_sum(static_cast<Tensor>(x), 0); }
inline Tensor sum(const Tensors& values) { return values.empty() ? Tensor::scalar(0.0F) : ops::add_n(values); }
// Of numbers.
template <typename T>
requires std::is_arithmetic_v<T> T sum(const std::vector<T>& values) {
  return std::accumulate(values.begin(), values.end(), T{});
}

}  // namespace lockstep
