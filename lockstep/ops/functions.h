// The operations that layers, losses, metrics and optimizers are written with: typed calls of the op table.
//
// Each function runs or records the TensorFlow operation of the same meaning (see call.h), so what is
// written with them trains eagerly, builds functional models and traces into graphs. Shapes are
// TensorFlow's (NHWC, HWIO). Binary operations broadcast as NumPy does and need equal dtypes, except that
// a number combined with a Tensor takes the Tensor's dtype. Axes may be negative.
//
// Errors are those of ops::call: InvalidArgument for shapes and dtypes that do not fit.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/base/list.h"
#include "lockstep/tensor/axes.h"
#include "lockstep/tensor/none.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// A number, or several in braces.
class IntOrInts : public Ints {
 public:
  IntOrInts() = default;
  template <std::integral I>
  IntOrInts(I value) : Ints{static_cast<std::int64_t>(value)}, is_one_(true) {}
  IntOrInts(std::initializer_list<std::int64_t> values) : Ints(values) {}
  IntOrInts(Ints values) : Ints(std::move(values)) {}
  bool is_one() const { return is_one_; }  // written as a number

 private:
  bool is_one_ = false;
};
// What is or becomes one tensor; ragged tensors have functions of their own.
template <typename X>
concept OneTensor = std::convertible_to<X, Tensor> && !requires(const X& x) {
  x.ragged_rank();
};
// A reduction by keywords, and by position. The latter is a template, because GCC would take {.axis = 1} for a list.
#define LOCKSTEP_REDUCE(function)                                                       \
  Tensor function(const Tensor& x, const AxisKeywords& keywords);                       \
  template <OneTensor X = Tensor>                                                       \
  Tensor function(const X& x, const Axes& axes = std::nullopt, bool keepdims = false) { \
    return function(static_cast<Tensor>(x), AxisKeywords{{}, axes, keepdims});          \
  }

// ---- values ------------------------------------------------------------------------------------------
Tensor constant(double value, DType dtype);                             // a scalar
Tensor constant_ints(const Ints& values, DType dtype = DType::kInt32);  // a vector
// Shapes may have extents of tensors: ones({ops::shape(x)[0], 1}).
Tensor zeros(const ShapeArg& shape, DTypeLike dtype = DType::kFloat32);
Tensor ones(const ShapeArg& shape, DTypeLike dtype = DType::kFloat32);
Tensor fill(const ShapeArg& shape, const Tensor& value);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
struct LikeKeywords {
  FieldNamesOnly names_only = {};
  DType dtype = DType::kFloat32;
};
Tensor zeros_like(const Tensor& x, DTypeLike dtype);
Tensor ones_like(const Tensor& x, DTypeLike dtype);
inline Tensor zeros_like(const Tensor& x, const LikeKeywords& keywords) { return zeros_like(x, keywords.dtype); }
inline Tensor ones_like(const Tensor& x, const LikeKeywords& keywords) { return ones_like(x, keywords.dtype); }
Tensor range(const Tensor& start, const Tensor& limit, const Tensor& delta);
Tensor range(std::int64_t limit, DTypeLike dtype = DType::kInt32);  // 0 … limit-1
Tensor linspace(const Tensor& start, const Tensor& stop, std::int64_t num);
Tensor identity(const Tensor& x);
Tensor stop_gradient(const Tensor& x);

// ---- arithmetic --------------------------------------------------------------------------------------
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
// True division, tf.divide: integers are cast to float64, those of 8 and 16 bits to float32.
Tensor div(const Tensor& a, const Tensor& b);
Tensor floor_div(const Tensor& a, const Tensor& b);
Tensor floor_mod(const Tensor& a, const Tensor& b);
Tensor div_no_nan(const Tensor& a, const Tensor& b);  // 0 where b is 0
Tensor mul_no_nan(const Tensor& a, const Tensor& b);  // 0 where b is 0
Tensor pow(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, double b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, double b);
Tensor minimum(const Tensor& a, double b);
Tensor squared_difference(const Tensor& a, const Tensor& b);
Tensor xlogy(const Tensor& a, const Tensor& b);
Tensor xdivy(const Tensor& a, const Tensor& b);
Tensor atan2(const Tensor& y, const Tensor& x);
Tensor add_n(const Tensors& values);
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // half to even
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);
Tensor lgamma(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor clip_by_value(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor clip_by_value(const Tensor& x, double low, double high);
// x scaled down so that its Euclidean length, along the axes, is at most clip_norm.
Tensor clip_by_norm(const Tensor& x, double clip_norm, const Axes& axes = std::nullopt);
// The Euclidean length of all tensors together; undefined ones are left out.
Tensor global_norm(const Tensors& tensors);
struct ClippedTensors {
  Tensors tensors;
  Tensor global_norm;  // before clipping
};
// All scaled by one factor so that global_norm() is at most clip_norm; of a norm that is not finite all become NaN.
ClippedTensors clip_by_global_norm(const Tensors& tensors, double clip_norm);
Tensor cast(const Tensor& x, DType dtype);  // x itself when it has the dtype
Tensor bitcast(const Tensor& x, DType dtype);

// A number that the dtype of an integer tensor cannot hold, such as 0.5, throws InvalidArgument: cast the tensor first.
// `/` is div(): x / 255.0 of uint8 images gives float32.
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, Number b);
Tensor operator-(const Tensor& a, Number b);
Tensor operator*(const Tensor& a, Number b);
Tensor operator/(const Tensor& a, Number b);
Tensor operator+(Number a, const Tensor& b);
Tensor operator-(Number a, const Tensor& b);
Tensor operator*(Number a, const Tensor& b);
Tensor operator/(Number a, const Tensor& b);
#define LOCKSTEP_ARITHMETIC_OPERATOR(op)                                                               \
  template <typename T>                                                                                \
  requires std::is_arithmetic_v<T> Tensor operator op(const Tensor& a, T b) { return a op Number(b); } \
  template <typename T>                                                                                \
  requires std::is_arithmetic_v<T> Tensor operator op(T a, const Tensor& b) { return Number(a) op b; }
LOCKSTEP_ARITHMETIC_OPERATOR(+)
LOCKSTEP_ARITHMETIC_OPERATOR(-)
LOCKSTEP_ARITHMETIC_OPERATOR(*)
LOCKSTEP_ARITHMETIC_OPERATOR(/)
#undef LOCKSTEP_ARITHMETIC_OPERATOR
Tensor operator-(const Tensor& x);
// The handle gets the new tensor; other handles keep the old one.
Tensor& operator+=(Tensor& a, const Tensor& b);
Tensor& operator-=(Tensor& a, const Tensor& b);
Tensor& operator*=(Tensor& a, const Tensor& b);
Tensor& operator/=(Tensor& a, const Tensor& b);
Tensor& operator+=(Tensor& a, Number b);
Tensor& operator-=(Tensor& a, Number b);
Tensor& operator*=(Tensor& a, Number b);
Tensor& operator/=(Tensor& a, Number b);
#define LOCKSTEP_NUMBER_ASSIGNMENT(op) \
  template <typename T>                \
  requires std::is_arithmetic_v<T> Tensor& operator op(Tensor& a, T b) { return a op Number(b); }
LOCKSTEP_NUMBER_ASSIGNMENT(+=)
LOCKSTEP_NUMBER_ASSIGNMENT(-=)
LOCKSTEP_NUMBER_ASSIGNMENT(*=)
LOCKSTEP_NUMBER_ASSIGNMENT(/=)
#undef LOCKSTEP_NUMBER_ASSIGNMENT

// ---- comparison and logic ----------------------------------------------------------------------------
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor is_nan(const Tensor& x);
Tensor is_finite(const Tensor& x);
Tensor is_inf(const Tensor& x);
// SelectV2: elementwise `yes` where `condition` holds, broadcasting all three.
Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no);
Tensor where(const Tensor& condition);  // coordinates of the true elements, int64 [n, rank]

// The tensors that split() and unstack() return: const auto [mean, variance] = split(x, 2, {.axis = 1}), or parts<3>().
// Throw InvalidArgument for another number of tensors.
class Unpacked : public List<Tensor> {
 public:
  Unpacked(Tensors tensors) : List(std::move(tensors)) {}
  template <std::size_t N>
  std::array<Tensor, N> parts() const {
    if (size() != N) throw_wrong_size(size(), N);
    std::array<Tensor, N> out;
    std::copy(begin(), end(), out.begin());
    return out;
  }
  template <std::size_t I>
  Tensor get() const {
    return parts<2>()[I];
  }
  // std::tie(train, rest) = ops::split(x, 2);
  template <std::same_as<Tensor>... T>
  requires(sizeof...(T) > 1) operator std::tuple<T&...>() const {
    if (size() != sizeof...(T)) throw_wrong_size(size(), sizeof...(T));
    auto next = const_cast<Unpacked&>(*this).begin();
    return std::tuple<T&...>{static_cast<T&>(*next++)...};
  }
};

// ---- shapes and pieces -------------------------------------------------------------------------------
Tensor shape_of(const Tensor& x, DType dtype = DType::kInt32);  // a vector
Tensor size_of(const Tensor& x, DType dtype = DType::kInt32);   // a scalar
Tensor rank_of(const Tensor& x);
// The extent of one axis as an int32 scalar; a constant when it is known.
Tensor dim_of(const Tensor& x, int axis);
// The vector that operations take in place of the argument.
Tensor shape_tensor(const ShapeArg& shape);
Tensor reshape(const Tensor& x, const ShapeArg& shape);  // at most one -1
Tensor flatten(const Tensor& x);                         // [batch, rest]; the batch may be unknown
struct TransposeKeywords {
  FieldNamesOnly names_only = {};
  Axes perm = std::nullopt;  // default: all axes in reverse order
};
Tensor transpose(const Tensor& x, const TransposeKeywords& keywords);
template <std::convertible_to<Tensor> X = Tensor>
Tensor transpose(const X& x, const Axes& permutation = std::nullopt) {
  return transpose(static_cast<Tensor>(x), TransposeKeywords{{}, permutation});
}
Tensor expand_dims(const Tensor& x, int axis);
// Default: every axis of extent 1.
Tensor squeeze(const Tensor& x, const AxisKeywords& keywords);
template <std::convertible_to<Tensor> X = Tensor>
Tensor squeeze(const X& x, const Axes& axes = std::nullopt) {
  return squeeze(static_cast<Tensor>(x), AxisKeywords{{}, axes, false});
}
Tensor broadcast_to(const Tensor& x, const ShapeArg& shape);
Tensor concat(const Tensors& values, int axis);
Tensor stack(const Tensors& values, int axis = 0);  // Pack
Unpacked unstack(const Tensor& x, int axis = 0);    // Unpack; the extent must be known
Unpacked split(const Tensor& x, int num, int axis);
Unpacked split(const Tensor& x, const Ints& sizes, int axis);
Tensor slice(const Tensor& x, const Ints& begin, const Ints& size);  // size -1: to the end
inline Tensor slice(const Tensor& x, std::initializer_list<std::int64_t> begin,
                    std::initializer_list<std::int64_t> size) {
  return slice(x, Ints(begin), Ints(size));
}
Tensor slice(const Tensor& x, const Tensor& begin, const Tensor& size);

// One entry of a NumPy-like index, for strided_slice.
struct SliceSpec {
  Place begin, end;  // absent: from the first, to the last
  std::int64_t stride = 1;
  enum class Kind { kRange, kIndex, kNewAxis, kEllipsis, kElements } kind = Kind::kRange;
  Tensor elements;  // of kElements: integers or booleans, as NumPy's arrays in brackets

  SliceSpec() = default;
  template <std::integral I>
  SliceSpec(I place) : begin(place), kind(Kind::kIndex) {}
  template <std::same_as<NoneType> N>
  SliceSpec(N) : kind(Kind::kNewAxis) {}  // x.index({all, None}), as newaxis
  template <typename T>
  requires(std::is_class_v<T> && !std::same_as<T, NoneType> && std::is_convertible_v<const T&, Tensor>)
      SliceSpec(const T& place) {
    set(static_cast<Tensor>(place));
  }
  SliceSpec(Place begin, Place end, std::int64_t stride = 1, Kind kind = Kind::kRange)
      : begin(std::move(begin)), end(std::move(end)), stride(stride), kind(kind) {}

  static SliceSpec all() { return {}; }
  static SliceSpec range(Place begin, Place end, std::int64_t stride = 1) {
    return {std::move(begin), std::move(end), stride, Kind::kRange};
  }
  static SliceSpec at(Place index) { return {std::move(index), std::nullopt, 1, Kind::kIndex}; }
  static SliceSpec new_axis() { return {std::nullopt, std::nullopt, 1, Kind::kNewAxis}; }
  static SliceSpec ellipsis() { return {std::nullopt, std::nullopt, 1, Kind::kEllipsis}; }

 private:
  void set(const Tensor& place);
};
Tensor strided_slice(const Tensor& x, const std::vector<SliceSpec>& index);
// x with other values there; they have the shape of the slice.
Tensor updated_slice(const Tensor& x, const std::vector<SliceSpec>& index, const Tensor& value);
// x[begin:end] of one axis; a missing end: to the last.
Tensor slice_axis(const Tensor& x, int axis, const Place& begin, const Place& end, std::int64_t stride = 1);

Tensor gather(const Tensor& params, const Tensor& indices, int axis, int batch_dims = 0);
Tensor gather_places(const Tensor& params, const Tensor& indices);  // gather_nd
// Templates, because GCC would take {.indices = {0, 3}} for a list of numbers.
template <int = 0>
Tensor gather(const Tensor& params, const Tensor& indices) {
  return gather(params, indices, 0);
}
template <int = 0>
Tensor gather_nd(const Tensor& params, const Tensor& indices) {
  return gather_places(params, indices);
}
Tensor scatter_nd(const Tensor& indices, const Tensor& updates, const Tensor& shape);
Tensor one_hot(const Tensor& indices, std::int64_t depth, DType dtype = DType::kFloat32, int axis = -1);
// Entries before and after those of each axis.
using Paddings = std::vector<std::pair<std::int64_t, std::int64_t>>;
struct PadKeywords {
  FieldNamesOnly names_only = {};
  Paddings paddings = {};              // where they are not given by position
  std::string_view mode = "CONSTANT";  // or "REFLECT", "SYMMETRIC"
  double constant_values = 0;
};
// Throws InvalidArgument for another mode.
Tensor pad(const Tensor& x, const Paddings& paddings, const PadKeywords& keywords);
inline Tensor pad(const Tensor& x, const PadKeywords& keywords) { return pad(x, keywords.paddings, keywords); }
// Templates, because GCC would take {.paddings = p} for paddings.
template <int = 0>
Tensor pad(const Tensor& x, const Paddings& paddings, double constant_values = 0) {
  return pad(x, paddings, PadKeywords{{}, {}, "CONSTANT", constant_values});
}
template <int = 0>
Tensor pad(const Tensor& x, const Paddings& paddings, const char* mode, double constant_values = 0) {
  return pad(x, paddings, PadKeywords{{}, {}, mode, constant_values});
}
Tensor mirror_pad(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& paddings,
                  std::string_view mode);  // "REFLECT" or "SYMMETRIC"
Tensor tile(const Tensor& x, const ShapeArg& multiples);
Tensor reverse(const Tensor& x, const Ints& axes);
Tensor roll(const Tensor& x, const Ints& shifts, const Ints& axes);
Tensor matrix_band_part(const Tensor& x, std::int64_t lower, std::int64_t upper);

// ---- reductions and scans ----------------------------------------------------------------------------
LOCKSTEP_REDUCE(reduce_sum)
LOCKSTEP_REDUCE(reduce_mean)
LOCKSTEP_REDUCE(reduce_max)
LOCKSTEP_REDUCE(reduce_min)
LOCKSTEP_REDUCE(reduce_prod)
LOCKSTEP_REDUCE(reduce_any)
LOCKSTEP_REDUCE(reduce_all)
// As tf.reduce_logsumexp and tf.nn.moments compute them.
LOCKSTEP_REDUCE(reduce_logsumexp)
struct Moments {
  Tensor mean, variance;  // variance divides by n
};
Moments moments_of(const Tensor& x, const Axes& axes, bool keepdims);
// A template with this default, because GCC would take {.axes = {0}} for a list.
template <std::convertible_to<Axes> A = Axes>
Moments moments(const Tensor& x, const A& axes, bool keepdims = false) {
  return moments_of(x, axes, keepdims);
}
Tensor argmax(const Tensor& x, int axis = 0, DType dtype = DType::kInt64);
Tensor argmin(const Tensor& x, int axis = 0, DType dtype = DType::kInt64);
Tensor cumsum(const Tensor& x, int axis, bool exclusive = false, bool reverse = false);
Tensor cumprod(const Tensor& x, int axis, bool exclusive = false, bool reverse = false);
struct TopK {
  Tensor values, indices;
};
TopK top_k(const Tensor& x, std::int64_t k = 1, bool sorted = true);  // of the last axis; indices int32
Tensor in_top_k(const Tensor& targets, const Tensor& predictions, std::int64_t k);
Tensor sort(const Tensor& x, int axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);  // stable, int32
Tensor bincount(const Tensor& x, std::int64_t size, const Tensor& weights = {}, bool binary = false);
Tensor unsorted_segment_sum(const Tensor& data, const Tensor& ids, std::int64_t num_segments);

// ---- linear algebra ----------------------------------------------------------------------------------
// Of matrices; with more axes a batch of them (BatchMatMulV2, batch axes broadcast).
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
Tensor einsum(std::string_view equation, const Tensors& operands);  // spaces are removed; one or two operands
// tf.tensordot(a, b, axes = 1) when the last axis of a meets the first of b.
Tensor tensordot_last(const Tensor& a, const Tensor& b);

// ---- neural networks ---------------------------------------------------------------------------------
Tensor bias_add(const Tensor& x, const Tensor& bias, std::string_view data_format = "NHWC");  // or "NCHW"
Tensor relu(const Tensor& x);
Tensor relu6(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double alpha = 0.2);
Tensor elu(const Tensor& x);
Tensor selu(const Tensor& x);
Tensor softplus(const Tensor& x);
Tensor softsign(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
// Mean-free losses, one for each row: labels integers [n] and logits [n, classes]; the gradient flows to
// logits only. Throws InvalidArgument for a label outside [0, classes).
Tensor sparse_softmax_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels);
Tensor softmax_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels);
// max(x, 0) - x z + log(1 + exp(-|x|)), elementwise.
Tensor sigmoid_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels);
Tensor l2_loss(const Tensor& x);
// x over its Euclidean length along the axes, at most x / epsilon (keras.ops.normalize of order 2).
Tensor unit_vectors(const Tensor& x, const Axes& axes, double epsilon = 1e-7);

// How a window moves over an image. `strides` and `dilations` name height and width.
struct ConvOptions {
  Ints strides = {1, 1};
  std::string_view padding = "VALID";  // "VALID", "SAME" or "EXPLICIT"
  Ints explicit_paddings = {};         // top, bottom, left, right for EXPLICIT
  Ints dilations = {1, 1};
  std::string_view data_format = "NHWC";  // or "NCHW"
};
// kernel [h, w, in / groups, out]; groups follow from the shapes.
Tensor conv2d(const Tensor& x, const Tensor& kernel, const ConvOptions& options = {});
// kernel [h, w, in, multiplier].
Tensor depthwise_conv2d(const Tensor& x, const Tensor& kernel, const ConvOptions& options = {});
// Conv2DBackpropInput: kernel [h, w, out, in]; `output_shape` is a whole shape (4 numbers).
Tensor conv2d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& output_shape,
                        const ConvOptions& options = {});
// Three spatial axes: strides and dilations of 3 numbers, formats "NDHWC" and "NCDHW".
Tensor conv3d(const Tensor& x, const Tensor& kernel, const ConvOptions& options);

struct PoolOptions {
  Ints size = {2, 2};
  Ints strides = {2, 2};
  std::string_view padding = "VALID";
  std::string_view data_format = "NHWC";
};
Tensor max_pool(const Tensor& x, const PoolOptions& options = {});
Tensor avg_pool(const Tensor& x, const PoolOptions& options = {});
Tensor max_pool3d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool3d(const Tensor& x, const PoolOptions& options);

struct BatchNorm {
  Tensor y, mean, variance;  // in training: statistics of the batch, variance with n - 1
};
// Over the channel axis of rank-4 images; in inference mean and variance are given.
BatchNorm fused_batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& mean,
                           const Tensor& variance, double epsilon, bool training,
                           std::string_view data_format = "NHWC");

Tensor resize_bilinear(const Tensor& images, std::int64_t height, std::int64_t width);  // half-pixel centres
Tensor resize_nearest(const Tensor& images, std::int64_t height, std::int64_t width);   // half-pixel centres

// Composites that run as one kernel on values and record the plain operations. `activation` is "" or
// "linear", "relu", "relu6", "sigmoid", "tanh", "elu", …: a name this page has. `bias` may be undefined.
Tensor conv2d_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, std::string_view activation,
                       const ConvOptions& options = {});
// x [..., in], kernel [in, out].
Tensor dense_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, std::string_view activation);
// The activation of that name applied; throws InvalidArgument for an unknown one.
Tensor activate(const Tensor& x, std::string_view activation);

// ---- resources ---------------------------------------------------------------------------------------
Tensor read_variable(const Tensor& handle, DType dtype);
void assign_variable(const Tensor& handle, const Tensor& value);
void assign_add_variable(const Tensor& handle, const Tensor& value);
void assign_sub_variable(const Tensor& handle, const Tensor& value);

// ---- random numbers: TensorFlow's Philox, see philox_internal.h -----------------------------------------------
// `shape` and `seed` (two int32 or int64) are vectors; floating dtypes.
Tensor stateless_random_uniform(const Tensor& shape, const Tensor& seed, DType dtype = DType::kFloat32);
Tensor stateless_random_normal(const Tensor& shape, const Tensor& seed, DType dtype = DType::kFloat32);
Tensor stateless_truncated_normal(const Tensor& shape, const Tensor& seed, DType dtype = DType::kFloat32);
Tensor stateless_random_uniform_int(const Tensor& shape, const Tensor& seed, const Tensor& low, const Tensor& high);
Tensor stateless_random_full_int(const Tensor& shape, const Tensor& seed, DType dtype = DType::kInt32);

}  // namespace lockstep::ops

namespace lockstep {
// abs(x) of Python, and pow(x, 2) for its x ** 2: found without a namespace, next to those of <cmath>.
template <typename X>
requires(std::is_class_v<X>&& std::is_convertible_v<const X&, Tensor>) Tensor abs(const X& x) { return ops::abs(x); }
template <typename X, typename Y>
requires(std::is_class_v<X>&& std::is_convertible_v<const X&, Tensor> &&
         (std::is_arithmetic_v<Y> || std::is_convertible_v<const Y&, Tensor>)) Tensor pow(const X& x, const Y& y) {
  if constexpr (std::is_arithmetic_v<Y>) {
    return ops::pow(x, static_cast<double>(y));
  } else {
    return ops::pow(static_cast<const Tensor&>(x), static_cast<const Tensor&>(y));
  }
}
}  // namespace lockstep

// Operators are found on Tensor by name lookup.
namespace lockstep {

// Entries of Tensor::index(): ':', '...' and tf.newaxis.
inline const ops::SliceSpec all = ops::SliceSpec::all();
inline const ops::SliceSpec ellipsis = ops::SliceSpec::ellipsis();
inline const ops::SliceSpec newaxis = ops::SliceSpec::new_axis();

using ops::operator+;
using ops::operator-;
using ops::operator*;
using ops::operator/;
using ops::operator+=;
using ops::operator-=;
using ops::operator*=;
using ops::operator/=;
}  // namespace lockstep

template <>
struct std::tuple_size<lockstep::ops::Unpacked> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::ops::Unpacked> {
  using type = lockstep::Tensor;
};
