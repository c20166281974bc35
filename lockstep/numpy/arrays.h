// NumPy's functions of arrays, which are tensors here: np::arange(6).reshape(2, 3), np::mean(x, 0), np::array({1, 2}).
// Signatures and dtypes are NumPy's: fractions are float64, whole numbers int64, roots and quotients of integers
// float64. See also random/numpy_random.h and data/numpy_files.h. With namespace np = lockstep::np.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/error.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/callbacks/log_value.h"
#include "lockstep/keras/operations/operations.h"
#include "lockstep/ops/array_dtype.h"
#include "lockstep/ops/composed.h"
#include "lockstep/tensor/axes.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::np {

inline constexpr double pi = std::numbers::pi;
inline constexpr double e = std::numbers::e;
inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
using lockstep::newaxis;

class Array;

// Dtypes: array(x, float32), x.astype(uint8), zeros({2}, {.dtype = int64}); and as functions, uint8(255 * image),
// float32(2): the array in this dtype.
class Type : public DTypeLike {
 public:
  constexpr explicit Type(DType dtype) : DTypeLike(dtype) {}
  template <typename T>
  requires std::is_convertible_v<const T&, Array> Tensor operator()(const T& x) const;
};
inline constexpr Type bool_{DType::kBool};
inline constexpr Type int8{DType::kInt8};
inline constexpr Type int16{DType::kInt16};
inline constexpr Type int32{DType::kInt32};
inline constexpr Type int64{DType::kInt64};
inline constexpr Type uint8{DType::kUInt8};
inline constexpr Type uint16{DType::kUInt16};
inline constexpr Type uint32{DType::kUInt32};
inline constexpr Type uint64{DType::kUInt64};
inline constexpr Type float16{DType::kFloat16};
inline constexpr Type float32{DType::kFloat32};
inline constexpr Type float64{DType::kFloat64};
inline constexpr Type complex64{DType::kComplex64};
inline constexpr Type complex128{DType::kComplex128};

struct DTypeKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kInvalid;  // default: of the values, or float64
};

namespace internal {

using keras_ops::OpArgument;
using keras_ops::Operand;

// The tensor as an array, of this dtype.
inline Tensor cast(const Tensor& x, DType dtype) {
  return (dtype == DType::kInvalid || x.dtype() == dtype ? x : x.astype(dtype)).numpy();
}
inline DType or_else(DTypeLike dtype, DType other) {
  return dtype == DType::kInvalid ? other : static_cast<DType>(dtype);
}
// The dtype of an array of Python's numbers in braces, as a tensor of them has it or in NumPy.
inline Tensor of_python(const Tensor& x, DTypeLike dtype) {
  if (dtype != DType::kInvalid) return cast(x, dtype);
  return x.dtype() == DType::kFloat32 ? cast(x, DType::kFloat64)
         : x.dtype() == DType::kInt32 ? cast(x, DType::kInt64)
                                      : x.numpy();
}
// Fractions are those of Python, float64.
inline Tensor of_python(std::initializer_list<Values> values, DTypeLike dtype) {
  if (dtype != DType::kInvalid) return Tensor(values, dtype).numpy();
  const Tensor x(values);
  return x.dtype() == DType::kFloat32 ? Tensor(values, DType::kFloat64).numpy() : of_python(x, dtype);
}
inline keras::Structure arrays(const keras::Structure& parts) {
  return parts.map([](const Tensor& part) { return part.numpy(); });
}
inline Tensor to_float(const Tensor& x) {
  return is_floating(x.dtype()) || is_complex(x.dtype()) ? x.numpy() : cast(x, DType::kFloat64);
}

}  // namespace internal

// What a function computes with: an array, a variable, a number, or a list of numbers or of arrays.
class Array : public Tensor {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> Array(T number)
      : Tensor(Tensor::scalar(
                   static_cast<std::conditional_t<std::is_floating_point_v<T>, double,
                                                  std::conditional_t<std::is_same_v<T, bool>, bool, std::int64_t>>>(
                       number))
                   .numpy()),
        weak_(!std::is_same_v<T, bool>) {}
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor> && !std::derived_from<T, Array>)
      Array(const T& value)
      : Tensor(static_cast<Tensor>(value).numpy()) {}
  Array(const std::vector<Tensor>& parts) : Tensor(ops::stack(parts).numpy()) {}
  template <std::integral T>
  Array(const std::vector<T>& numbers) : Tensor(internal::of_python(Tensor(numbers), DType::kInvalid)) {}
  // The values that evaluate() returns: a number of one, a vector of several.
  Array(const keras::Results& results);
  // One of them: const auto [loss, accuracy] = model.evaluate(x, y); np::round(accuracy, 4).
  template <std::same_as<keras::LogValue> V>
  Array(const V& value) : Array(static_cast<double>(value)) {}
  Array(std::initializer_list<Values> values) : Tensor(internal::of_python(values, DType::kInvalid)) {}
  // Arrays in braces are a list of them, also one alone.
  template <int = 0>
  Array(std::initializer_list<Array> parts) : Tensor(ops::stack(Tensors(parts.begin(), parts.end())).numpy()) {}

  // Whether it is a number, which takes the dtype of the array that it meets where that can hold it.
  bool is_weak() const { return weak_; }

 private:
  bool weak_ = false;
};

inline Array::Array(const keras::Results& results) {
  const Tensor values = results.values();
  Tensor::operator=((results.size() == 1 ? values[0] : values).numpy());
}

namespace internal {

// Both in NumPy's common dtype.
inline std::pair<Tensor, Tensor> together(const Array& a, const Array& b) {
  const auto whole = [](const Array& x) { return !is_floating(x.dtype()) && !is_complex(x.dtype()); };
  if (a.dtype() == b.dtype() || a.dtype() == DType::kString) return {a, b};
  if (a.is_weak() && (whole(a) || !whole(b))) return {cast(a, b.dtype()), b};
  if (b.is_weak() && (whole(b) || !whole(a))) return {a, cast(b, a.dtype())};
  const DType dtype = ops::array_dtype(a.dtype(), b.dtype());
  return {cast(a, dtype), cast(b, dtype)};
}

}  // namespace internal

// ---- arrays ----
template <typename T>
requires std::is_convertible_v<const T&, Array> Tensor Type::operator()(const T& x) const {
  return internal::cast(Array(x), *this);
}
inline Tensor array(std::initializer_list<Values> values, DTypeLike dtype = DType::kInvalid) {
  return internal::of_python(values, dtype);
}
inline Tensor array(std::initializer_list<Values> values, const DTypeKeywords& o) { return array(values, o.dtype); }
template <int = 0>
Tensor array(std::initializer_list<Array> parts, DTypeLike dtype = DType::kInvalid) {
  return internal::cast(Array(parts), dtype);
}
template <int = 0>
Tensor array(std::initializer_list<Array> parts, const DTypeKeywords& o) {
  return array(parts, o.dtype);
}
template <typename T>
requires std::is_convertible_v<const T&, Array> Tensor array(const T& x, DTypeLike dtype = DType::kInvalid) {
  return internal::cast(Array(x), dtype).copy();
}
template <typename T>
requires std::is_convertible_v<const T&, Array> Tensor array(const T& x, const DTypeKeywords& o) {
  return array(x, o.dtype);
}
inline Tensor asarray(const Array& x, DTypeLike dtype = DType::kInvalid) { return internal::cast(x, dtype); }
inline Tensor copy(const Array& x) { return x.copy(); }

inline Tensor zeros(const ShapeArg& shape, DTypeLike dtype = DType::kFloat64) {
  return ops::zeros(shape, internal::or_else(dtype, DType::kFloat64)).numpy();
}
inline Tensor zeros(const ShapeArg& shape, const DTypeKeywords& o) { return zeros(shape, o.dtype); }
inline Tensor ones(const ShapeArg& shape, DTypeLike dtype = DType::kFloat64) {
  return ops::ones(shape, internal::or_else(dtype, DType::kFloat64)).numpy();
}
inline Tensor ones(const ShapeArg& shape, const DTypeKeywords& o) { return ones(shape, o.dtype); }
inline Tensor empty(const ShapeArg& shape, DTypeLike dtype = DType::kFloat64) { return zeros(shape, dtype); }
inline Tensor full(const ShapeArg& shape, const Array& value, DTypeLike dtype = DType::kInvalid) {
  return internal::cast(ops::broadcast_to(value, shape), dtype);
}
inline Tensor full(const ShapeArg& shape, const Array& value, const DTypeKeywords& o) {
  return full(shape, value, o.dtype);
}
inline Tensor zeros_like(const Array& x, DTypeLike dtype = DType::kInvalid) {
  return internal::cast(ops::zeros_like(x), dtype);
}
inline Tensor zeros_like(const Array& x, const DTypeKeywords& o) { return zeros_like(x, o.dtype); }
inline Tensor ones_like(const Array& x, DTypeLike dtype = DType::kInvalid) {
  return internal::cast(ops::ones_like(x), dtype);
}
inline Tensor ones_like(const Array& x, const DTypeKeywords& o) { return ones_like(x, o.dtype); }
inline Tensor full_like(const Array& x, const Array& value) {
  return internal::cast(ops::zeros_like(x) + internal::cast(value, x.dtype()), x.dtype());
}
inline int ndim(const Array& a) { return a.rank(); }
inline Shape shape(const Array& a) { return a.shape(); }
inline std::int64_t size(const Array& a) { return a.shape().num_elements().value(); }
inline Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt) {
  return ops::eye(rows, columns, DType::kFloat64).numpy();
}
inline Tensor identity(std::int64_t n) { return eye(n); }
// arange(6), arange(1, 6), arange(0.0, 1.0, 0.25); .dtype follows in braces.
template <typename... N>
requires((std::is_arithmetic_v<N> && ...) && sizeof...(N) > 0 && sizeof...(N) <= 3) Tensor arange(N... numbers) {
  const DType dtype = (std::is_floating_point_v<N> || ...) ? DType::kFloat64 : DType::kInt64;
  const std::initializer_list<Number> given = {Number(numbers)...};
  const Number* const n = given.begin();
  return keras_ops::arange(sizeof...(N) == 1 ? Number(0) : n[0], n[sizeof...(N) == 1 ? 0 : 1],
                           sizeof...(N) == 3 ? n[2] : Number(1), dtype)
      .numpy();
}
template <typename N>
requires std::is_arithmetic_v<N> Tensor arange(N stop, const DTypeKeywords& o) {
  return internal::cast(arange(stop), o.dtype);
}
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) Tensor arange(A start, B stop, const DTypeKeywords& o) {
  return internal::cast(arange(start, stop), o.dtype);
}
template <typename A, typename B, typename C>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>&& std::is_arithmetic_v<C>) Tensor
    arange(A start, B stop, C step, const DTypeKeywords& o) {
  return internal::cast(arange(start, stop, step), o.dtype);
}
struct LinspaceKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num = 50;
  bool endpoint = true;
  DTypeLike dtype = DType::kFloat64;
};
inline Tensor linspace(double start, double stop, const LinspaceKeywords& o) {
  const std::int64_t parts = o.endpoint ? o.num - 1 : o.num;
  std::vector<double> values;
  for (std::int64_t i = 0; i < o.num; ++i) {
    values.push_back(o.endpoint && parts > 0 && i == parts ? stop
                     : parts > 0 ? static_cast<double>(i) * ((stop - start) / static_cast<double>(parts)) + start
                                 : start);
  }
  return internal::cast(Tensor::from_vector(values), o.dtype);
}
inline Tensor linspace(double start, double stop, std::int64_t num, LinspaceKeywords o) {
  o.num = num;
  return linspace(start, stop, o);
}
template <int = 0>
Tensor linspace(double start, double stop, std::int64_t num = 50, bool endpoint = true) {
  return linspace(start, stop, LinspaceKeywords{{}, num, endpoint, DType::kFloat64});
}

// ---- shapes and parts: the functions of keras.ops, which give arrays here ----
using keras_ops::argpartition;
using keras_ops::diagonal;
using keras_ops::rot90;

#define LOCKSTEP_NUMPY(function) \
  inline Tensor function(const internal::Operand& x) { return keras_ops::function(x).numpy(); }
LOCKSTEP_NUMPY(hstack)
LOCKSTEP_NUMPY(ravel)
LOCKSTEP_NUMPY(vstack)
#undef LOCKSTEP_NUMPY
// flip(x), flip(x, 1), flip(x, {.axis = 1}). The middle one is a template, because GCC would take {.axis = 1} for a
// list.
#define LOCKSTEP_NUMPY(function, Options, option)                                                      \
  template <int = 0>                                                                                   \
  Tensor function(const internal::Operand& x, const internal::OpArgument& option = Options{}.option) { \
    return keras_ops::function(x, option).numpy();                                                     \
  }                                                                                                    \
  inline Tensor function(const internal::Operand& x, const Options& o) { return keras_ops::function(x, o).numpy(); }
LOCKSTEP_NUMPY(concatenate, keras_ops::Axis0Options, axis)
LOCKSTEP_NUMPY(diag, keras_ops::K0Options, k)
LOCKSTEP_NUMPY(expand_dims, keras_ops::ExpandDimsKeywords, axis)
LOCKSTEP_NUMPY(flip, keras_ops::AxisOptions, axis)
LOCKSTEP_NUMPY(squeeze, keras_ops::AxisOptions, axis)
LOCKSTEP_NUMPY(stack, keras_ops::Axis0Options, axis)
LOCKSTEP_NUMPY(transpose, keras_ops::TransposeOptions, axes)
LOCKSTEP_NUMPY(tril, keras_ops::K0Options, k)
LOCKSTEP_NUMPY(triu, keras_ops::K0Options, k)
#undef LOCKSTEP_NUMPY
// take(x, indices), take(x, indices, 1), take(x, indices, {.axis = 1}), take(x, {.indices = indices, .axis = 1}).
#define LOCKSTEP_NUMPY(function, Second, Keywords)                                                           \
  template <int = 0>                                                                                         \
  Tensor function(const internal::Operand& x, const Second& y, const internal::OpArgument& axis = nullptr) { \
    return keras_ops::function(x, y, axis).numpy();                                                          \
  }                                                                                                          \
  inline Tensor function(const internal::Operand& x, const Second& y, const keras_ops::AxisOptions& o) {     \
    return keras_ops::function(x, y, o).numpy();                                                             \
  }                                                                                                          \
  inline Tensor function(const internal::Operand& x, const keras_ops::Keywords& o) {                         \
    return keras_ops::function(x, o).numpy();                                                                \
  }
LOCKSTEP_NUMPY(append, internal::Operand, AppendKeywords)
LOCKSTEP_NUMPY(repeat, internal::OpArgument, RepeatKeywords)
LOCKSTEP_NUMPY(roll, internal::OpArgument, RollKeywords)
LOCKSTEP_NUMPY(take, internal::Operand, IndicesAxisKeywords)
LOCKSTEP_NUMPY(take_along_axis, internal::Operand, IndicesAxisKeywords)
#undef LOCKSTEP_NUMPY
#define LOCKSTEP_NUMPY(function, Second) \
  inline Tensor function(const internal::Operand& x, const Second& y) { return keras_ops::function(x, y).numpy(); }
LOCKSTEP_NUMPY(broadcast_to, ShapeArg)
LOCKSTEP_NUMPY(outer, internal::Operand)
LOCKSTEP_NUMPY(reshape, ShapeArg)
LOCKSTEP_NUMPY(tile, ShapeArg)
#undef LOCKSTEP_NUMPY
#define LOCKSTEP_NUMPY(function)                                                                                     \
  inline Tensor function(const internal::Operand& x, const internal::OpArgument& a, const internal::OpArgument& b) { \
    return keras_ops::function(x, a, b).numpy();                                                                     \
  }
LOCKSTEP_NUMPY(moveaxis)
LOCKSTEP_NUMPY(swapaxes)
#undef LOCKSTEP_NUMPY
inline Tensor pad(const internal::Operand& x, const keras_ops::PadKeywords& o) { return keras_ops::pad(x, o).numpy(); }
inline Tensor pad(const internal::Operand& x, const internal::OpArgument& pad_width,
                  const keras_ops::PadModeOptions& o) {
  return keras_ops::pad(x, pad_width, o).numpy();
}
template <int = 0>
Tensor pad(const internal::Operand& x, const internal::OpArgument& pad_width,
           const internal::OpArgument& mode = "constant", const internal::OpArgument& constant_values = nullptr) {
  return keras_ops::pad(x, pad_width, mode, constant_values).numpy();
}
#define LOCKSTEP_NUMPY(function)                                                                                     \
  template <int = 0>                                                                                                 \
  keras::Structure function(const internal::Operand& x, const internal::OpArgument& indices_or_sections,             \
                            const internal::OpArgument& axis = 0) {                                                  \
    return internal::arrays(keras_ops::function(x, indices_or_sections, axis));                                      \
  }                                                                                                                  \
  inline keras::Structure function(const internal::Operand& x, const internal::OpArgument& indices_or_sections,      \
                                   const keras_ops::Axis0Options& o) {                                               \
    return internal::arrays(keras_ops::function(x, indices_or_sections, o));                                         \
  }                                                                                                                  \
  inline keras::Structure function(const internal::Operand& x, const keras_ops::IndicesOrSectionsAxis0Keywords& o) { \
    return internal::arrays(keras_ops::function(x, o));                                                              \
  }
LOCKSTEP_NUMPY(array_split)
LOCKSTEP_NUMPY(split)
#undef LOCKSTEP_NUMPY
inline keras::Structure meshgrid(const Tensors& vectors, const keras_ops::MeshgridOptions& o = {}) {
  return internal::arrays(keras_ops::meshgrid(vectors, o));
}
inline keras::Structure meshgrid(const Tensor& x, const Tensor& y, const keras_ops::MeshgridOptions& o = {}) {
  return np::meshgrid(Tensors{x, y}, o);
}

// ---- elementwise ----
#define LOCKSTEP_NUMPY(function) \
  inline Tensor function(const Array& x) { return keras_ops::function(internal::to_float(x)).numpy(); }
LOCKSTEP_NUMPY(sqrt)
LOCKSTEP_NUMPY(exp)
LOCKSTEP_NUMPY(expm1)
LOCKSTEP_NUMPY(log)
LOCKSTEP_NUMPY(log10)
LOCKSTEP_NUMPY(log1p)
LOCKSTEP_NUMPY(log2)
LOCKSTEP_NUMPY(sin)
LOCKSTEP_NUMPY(cos)
LOCKSTEP_NUMPY(tan)
LOCKSTEP_NUMPY(sinh)
LOCKSTEP_NUMPY(cosh)
LOCKSTEP_NUMPY(tanh)
LOCKSTEP_NUMPY(arcsin)
LOCKSTEP_NUMPY(arccos)
LOCKSTEP_NUMPY(arctan)
#undef LOCKSTEP_NUMPY
#define LOCKSTEP_NUMPY(function)                                                                           \
  inline Tensor function(const Array& x) {                                                                 \
    const Tensor& value = x;                                                                               \
    return is_floating(x.dtype()) ? internal::cast(keras_ops::function(value), x.dtype()) : value.numpy(); \
  }
LOCKSTEP_NUMPY(floor)
LOCKSTEP_NUMPY(ceil)
LOCKSTEP_NUMPY(trunc)
#undef LOCKSTEP_NUMPY
#define LOCKSTEP_NUMPY(function)               \
  inline Tensor function(const Array& x) {     \
    const Tensor& value = x;                   \
    return keras_ops::function(value).numpy(); \
  }
LOCKSTEP_NUMPY(abs)
LOCKSTEP_NUMPY(absolute)
LOCKSTEP_NUMPY(sign)
LOCKSTEP_NUMPY(square)
LOCKSTEP_NUMPY(isnan)
LOCKSTEP_NUMPY(isinf)
LOCKSTEP_NUMPY(isfinite)
LOCKSTEP_NUMPY(logical_not)
#undef LOCKSTEP_NUMPY
#define LOCKSTEP_NUMPY(function)                             \
  inline Tensor function(const Array& x1, const Array& x2) { \
    const auto [a, b] = internal::together(x1, x2);          \
    return keras_ops::function(a, b).numpy();                \
  }
LOCKSTEP_NUMPY(add)
LOCKSTEP_NUMPY(subtract)
LOCKSTEP_NUMPY(multiply)
LOCKSTEP_NUMPY(power)
LOCKSTEP_NUMPY(maximum)
LOCKSTEP_NUMPY(minimum)
LOCKSTEP_NUMPY(mod)
LOCKSTEP_NUMPY(floor_divide)
LOCKSTEP_NUMPY(dot)
LOCKSTEP_NUMPY(matmul)
LOCKSTEP_NUMPY(equal)
LOCKSTEP_NUMPY(not_equal)
LOCKSTEP_NUMPY(greater)
LOCKSTEP_NUMPY(greater_equal)
LOCKSTEP_NUMPY(less)
LOCKSTEP_NUMPY(less_equal)
LOCKSTEP_NUMPY(logical_and)
LOCKSTEP_NUMPY(logical_or)
#undef LOCKSTEP_NUMPY
inline Tensor divide(const Array& x1, const Array& x2) {
  const auto [a, b] = internal::together(x1, x2);
  return keras_ops::divide(internal::to_float(a), internal::to_float(b)).numpy();
}
inline Tensor arctan2(const Array& x1, const Array& x2) {
  const auto [a, b] = internal::together(x1, x2);
  return keras_ops::arctan2(internal::to_float(a), internal::to_float(b)).numpy();
}
inline Tensor clip(const Array& x, const Array& a_min, const Array& a_max) { return minimum(maximum(x, a_min), a_max); }
inline Tensor round(const Array& x, int decimals = 0) { return x.round(decimals); }
inline Tensor where(const Array& condition, const Array& x, const Array& y) {
  const auto [a, b] = internal::together(x, y);
  return keras_ops::where(static_cast<const Tensor&>(condition), a, b).numpy();
}
// The indices of the true elements, an int64 vector for each axis.
inline keras::Structure where(const Array& condition) {
  keras::Structure::List all;
  for (const Tensor& indices : ops::unstack(ops::where(static_cast<const Tensor&>(condition)), 1))
    all.push_back(indices.numpy());
  return keras::Structure::list(std::move(all));
}
inline keras::Structure nonzero(const Array& x) { return where(not_equal(x, 0)); }
inline bool allclose(const Array& a, const Array& b, double rtol = 1e-5, double atol = 1e-8) {
  return keras_ops::allclose(internal::to_float(a), internal::to_float(b), rtol, atol).item<bool>();
}
inline bool array_equal(const Array& a, const Array& b) {
  return a.shape() == b.shape() && equal(a, b).all().item<bool>();
}

// ---- reductions: sum(x), sum(x, 0), sum(x, {0, 1}), sum(x, {.axis = 0, .keepdims = true}) ----
#define LOCKSTEP_NUMPY(function)                                                                    \
  inline Tensor function(const Array& x, const ops::AxisKeywords& o = {}) { return x.function(o); } \
  template <std::convertible_to<ops::Axes> A = ops::Axes>                                           \
  Tensor function(const Array& x, const A& axis, bool keepdims = false) {                           \
    return x.function(ops::AxisKeywords{{}, axis, keepdims});                                       \
  }
LOCKSTEP_NUMPY(sum)
LOCKSTEP_NUMPY(prod)
LOCKSTEP_NUMPY(mean)
LOCKSTEP_NUMPY(std)
LOCKSTEP_NUMPY(var)
LOCKSTEP_NUMPY(max)
LOCKSTEP_NUMPY(min)
LOCKSTEP_NUMPY(any)
LOCKSTEP_NUMPY(all)
#undef LOCKSTEP_NUMPY
struct AxisKeywords {
  FieldNamesOnly names_only = {};
  std::optional<int> axis = std::nullopt;
};
inline Tensor argmax(const Array& x, const AxisKeywords& o = {}) { return x.argmax(o.axis); }
inline Tensor argmax(const Array& x, int axis) { return x.argmax(axis); }
inline Tensor argmin(const Array& x, const AxisKeywords& o = {}) { return x.argmin(o.axis); }
inline Tensor argmin(const Array& x, int axis) { return x.argmin(axis); }
inline Tensor cumsum(const Array& x, const AxisKeywords& o = {}) { return x.cumsum(o.axis); }
inline Tensor cumsum(const Array& x, int axis) { return x.cumsum(axis); }
inline Tensor cumprod(const Array& x, const AxisKeywords& o = {}) {
  const Tensor flat = o.axis ? Tensor(x) : x.flatten();
  const bool whole = !is_floating(x.dtype()) && !is_complex(x.dtype());
  return keras_ops::cumprod(whole ? internal::cast(flat, DType::kInt64) : flat, o.axis.value_or(0)).numpy();
}
inline Tensor cumprod(const Array& x, int axis) { return cumprod(x, {.axis = axis}); }
// Also of texts in one axis.
Tensor argsort(const Array& x, int axis = -1);
Tensor sort(const Array& x, int axis = -1);
struct SortKeywords {
  FieldNamesOnly names_only = {};
  int axis = -1;
  std::string kind = {};  // without effect: equal elements keep their order
};
inline Tensor argsort(const Array& x, const SortKeywords& o) { return argsort(x, o.axis); }
inline Tensor sort(const Array& x, const SortKeywords& o) { return sort(x, o.axis); }
inline Tensor median(const Array& x) { return keras_ops::median(internal::to_float(x)).numpy(); }
inline Tensor median(const Array& x, int axis) { return keras_ops::median(internal::to_float(x), axis).numpy(); }
inline Tensor percentile(const Array& x, const Array& q) {
  return keras_ops::percentile(internal::to_float(x), internal::cast(q, internal::to_float(x).dtype())).numpy();
}
inline Tensor percentile(const Array& x, const Array& q, int axis) {
  return keras_ops::percentile(internal::to_float(x), internal::cast(q, internal::to_float(x).dtype()), axis).numpy();
}

namespace linalg {

inline Tensor norm(const Array& x) { return keras_ops::norm(internal::to_float(x)).numpy(); }
inline Tensor norm(const Array& x, const ops::AxisKeywords& o) {
  return ops::norm(internal::to_float(x), {}, o.axis, o.keepdims).numpy();
}

}  // namespace linalg

namespace testing {

// Throws FailedPrecondition, with the largest difference, where NumPy has an AssertionError.
inline void assert_allclose(const Array& actual, const Array& desired, double rtol = 1e-7, double atol = 0) {
  if (allclose(actual, desired, rtol, atol)) return;
  throw_failed_precondition("assert_allclose: not equal to the tolerances; the largest difference is " +
                            std::to_string(max(abs(subtract(actual, desired))).item<double>()));
}

}  // namespace testing

}  // namespace lockstep::np
