// keras.ops: functions of tensors, and of the symbolic tensors of functional models, which Keras reads back from files.
//
//   namespace kops = lockstep::keras::ops;               // with <lockstep/lockstep.h>
//   auto x = kops::concatenate({a, b}, {.axis = -1});    // or kops::concatenate({a, b}, -1)
//   auto y = kops::sum(kops::square(x), {.axis = 1, .keepdims = true});
//
// Names, order of arguments, defaults, dtypes and shapes are those of Keras 3.15. Arguments that are not tensors take
// numbers, strings, dtypes, shapes and lists, nullptr for None. Functions throw InvalidArgument for arguments that do
// not fit.
#pragma once

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/dtype_arg.h"
#include "lockstep/keras/operations/functions_image.h"
#include "lockstep/keras/operations/functions_math.h"
#include "lockstep/keras/operations/functions_nn.h"
#include "lockstep/keras/operations/functions_numpy_a_l.h"
#include "lockstep/keras/operations/functions_numpy_m_z.h"
#include "lockstep/ops/composed.h"

namespace lockstep::keras_ops {

namespace internal {
Tensor select(const std::vector<Operand>& conditions, const std::vector<Operand>& choices, const Operand& otherwise);
}
using lockstep::ops::eye;
using lockstep::ops::linspace;
using lockstep::ops::shape;
using lockstep::ops::size;

// Shapes may have extents of tensors: reshape(x, {ops::shape(x)[0], -1, 8}).
Tensor zeros(const ShapeArg& shape, DTypeLike dtype = DType::kFloat32);
Tensor ones(const ShapeArg& shape, DTypeLike dtype = DType::kFloat32);
Tensor full(const ShapeArg& shape, Number fill_value, DTypeLike dtype = DType::kInvalid);  // float32, as in Keras
struct DTypeOptions {
  FieldNamesOnly names_only = {};
  keras::DTypeArg dtype = DType::kFloat32;
};
inline Tensor zeros(const ShapeArg& shape, const DTypeOptions& o) {
  return zeros(shape, o.dtype.get().value_or(DType::kFloat32));
}
inline Tensor ones(const ShapeArg& shape, const DTypeOptions& o) {
  return ones(shape, o.dtype.get().value_or(DType::kFloat32));
}
Tensor reshape(const Operand& x, const ShapeArg& newshape);
Tensor broadcast_to(const Operand& x, const ShapeArg& shape);
Tensor tile(const Operand& x, const ShapeArg& repeats);
// x1 where the condition is true, else x2.
template <int = 0>
Tensor where(const Operand& condition, const Operand& x1, const Operand& x2) {
  return internal::run("Where", {condition, x1, x2}, {});
}
struct WhereKeywords {
  FieldNamesOnly names_only = {};
  Operand x1 = nullptr;
  Operand x2 = nullptr;
};
inline Tensor where(const Operand& condition, const WhereKeywords& o) { return where(condition, o.x1, o.x2); }
// Limits of which one or both are tensors, which broadcast to x.
template <typename Min, typename Max>
requires(std::convertible_to<const Min&, Operand>&& std::convertible_to<const Max&, Operand> &&
         ((std::is_class_v<Min> && std::convertible_to<const Min&, Tensor>) ||
          (std::is_class_v<Max> && std::convertible_to<const Max&, Tensor>))) Tensor
    clip(const Operand& x, const Min& x_min, const Max& x_max) {
  return maximum(minimum(x, x_max), x_min);
}
// The indices where the condition is true: an int32 vector for each of its axes.
inline Structure where(const Operand& condition) { return internal::run_several("Nonzero", {condition}, {}); }
// Numbers from `start`, or 0, to before `stop`: int32 of whole numbers, else float32.
Tensor arange(Number stop);
Tensor arange(Number start, Number stop, Number step = 1);
Tensor arange(Number start, Number stop, Number step, DTypeLike dtype);
template <typename... N>
requires((std::is_arithmetic_v<N> && ...) && sizeof...(N) > 0 && sizeof...(N) <= 3) Tensor arange(N... numbers) {
  return arange(Number(numbers)...);
}
// Up to an integer tensor, ops::shape(x)[1]: of its dtype.
Tensor arange(const Tensor& stop);
Tensor arange(Number start, const Tensor& stop, Number step = 1);
// A number, an integer tensor, or nothing.
class ArangeStop {
 public:
  ArangeStop(std::nullopt_t = std::nullopt) {}
  template <typename T>
  requires std::is_arithmetic_v<T> ArangeStop(T number) : number_(number) {}
  template <std::convertible_to<Tensor> T>
  requires std::is_class_v<T> ArangeStop(const T& tensor) : tensor_(static_cast<Tensor>(tensor)) {}
  const std::optional<Number>& number() const { return number_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  std::optional<Number> number_;
  Tensor tensor_;
};
struct ArangeOptions {
  FieldNamesOnly names_only = {};
  Number start = 0;
  ArangeStop stop = {};
  Number step = 1;
  keras::DTypeArg dtype = {};
};
Tensor arange(const ArangeOptions& o);
inline Tensor arange(Number start, const ArangeOptions& o) {
  return arange(ArangeOptions{{}, start, o.stop, o.step, o.dtype});
}
struct LinspaceOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num = 50;
  bool endpoint = true;
  keras::DTypeArg dtype = {};  // default: that of the bounds, float32 of numbers
};
Tensor linspace(const Tensor& start, const Tensor& stop, const LinspaceOptions& o);
// Of numbers, or of tensors.
template <typename A, typename B>
Tensor linspace(const A& start, const B& stop, const LinspaceOptions& o) {
  const auto tensor = [](const auto& bound) -> Tensor {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(bound)>>) {
      return Tensor::scalar(static_cast<float>(bound));
    } else {
      return bound;
    }
  };
  return linspace(tensor(start), tensor(stop), o);
}
template <typename A, typename B>
Tensor linspace(const A& start, const B& stop, std::int64_t num, LinspaceOptions o) {
  o.num = num;
  return linspace(start, stop, o);
}
struct LogspaceOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num = 50;
  bool endpoint = true;
  double base = 10;
  keras::DTypeArg dtype = {};
};
Tensor logspace(const Operand& start, const Operand& stop, const LogspaceOptions& o = {});
template <std::integral I>
Tensor logspace(const Operand& start, const Operand& stop, I num, LogspaceOptions o = {}) {
  o.num = num;
  return logspace(start, stop, o);
}
inline Tensor empty(const ShapeArg& shape, DTypeLike dtype = DType::kFloat32) { return zeros(shape, dtype); }
inline Tensor empty(const ShapeArg& shape, const DTypeOptions& o) { return zeros(shape, o); }
// Of each element the choice of the first condition that is true there.
inline Tensor select(const std::vector<Operand>& condlist, const std::vector<Operand>& choicelist,
                     const Operand& default_value = 0) {
  return internal::select(condlist, choicelist, default_value);
}
// How many values are in each of `bins` intervals of equal width, and the ends of the intervals.
struct HistogramOptions {
  FieldNamesOnly names_only = {};
  std::int64_t bins = 10;
  std::optional<std::pair<double, double>> range = std::nullopt;  // default: from the smallest to the largest value
};
struct Histogram {
  Tensor hist, bin_edges;
};
Histogram histogram(const Operand& x, const HistogramOptions& o = {});
template <std::integral I>
Histogram histogram(const Operand& x, I bins, HistogramOptions o = {}) {
  o.bins = bins;
  return histogram(x, o);
}
// Numbers with a constant ratio.
struct GeomspaceOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num = 50;
  bool endpoint = true;
  keras::DTypeArg dtype = {};
};
Tensor geomspace(const Operand& start, const Operand& stop, const GeomspaceOptions& o = {});
template <std::integral I>
Tensor geomspace(const Operand& start, const Operand& stop, I num, GeomspaceOptions o = {}) {
  o.num = num;
  return geomspace(start, stop, o);
}
// Windows of n numbers, float32, symmetric.
Tensor bartlett(std::int64_t n);
Tensor blackman(std::int64_t n);
Tensor hamming(std::int64_t n);
Tensor hanning(std::int64_t n);
Tensor kaiser(std::int64_t n, double beta);
template <int = 0>
Tensor conj(const Operand& x) {
  return internal::run("Conj", {x}, {});
}
template <int = 0>
Tensor saturate_cast(const Operand& x, const OpArgument& dtype) {
  return internal::run("SaturateCast", {x}, {{"dtype", dtype}});
}
struct LayerNormOptions {
  FieldNamesOnly names_only = {};
  Operand gamma = nullptr;
  Operand beta = nullptr;
  OpArgument axis = -1;
  OpArgument epsilon = nullptr;
};
Tensor layer_normalization(const Operand& x, const LayerNormOptions& o = {});
inline std::string dtype(const Tensor& x) { return std::string(dtype_name(x.dtype())); }
struct FullKeywords {
  FieldNamesOnly names_only = {};
  std::optional<Number> fill_value = std::nullopt;  // a missing one is an InvalidArgument
  keras::DTypeArg dtype = {};
};
Tensor full(const ShapeArg& shape, const FullKeywords& o);
// All by name: ones({.shape = {2, 3}, .dtype = "int64"}). Templates, so that ones({}) is a scalar.
struct FilledKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  keras::DTypeArg dtype = DType::kFloat32;
};
template <typename = void>
Tensor zeros(const FilledKeywords& o) {
  return zeros(o.shape, DTypeOptions{{}, o.dtype});
}
template <typename = void>
Tensor ones(const FilledKeywords& o) {
  return ones(o.shape, DTypeOptions{{}, o.dtype});
}
struct FullArguments {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  std::optional<Number> fill_value = std::nullopt;  // a missing one is an InvalidArgument
  keras::DTypeArg dtype = {};
};
template <typename = void>
Tensor full(const FullArguments& o) {
  return full(o.shape, FullKeywords{{}, o.fill_value, o.dtype});
}
namespace internal {
// A number as float32, int32 or bool, the tensor, or those of a list, stacked.
Tensor tensor_of(const Operand& x);
}  // namespace internal
// Of a number, a list in braces or a tensor, cast to the dtype.
template <int = 0>
Tensor convert_to_tensor(const Operand& x, const OpArgument& dtype = nullptr) {
  const Tensor value = internal::tensor_of(x);
  return dtype.value().is_null() ? value : internal::run("Cast", {value}, {{"dtype", dtype}});
}
inline Tensor convert_to_tensor(const Operand& x, const DtypeOptions& o) { return convert_to_tensor(x, o.dtype); }
template <int = 0>
Tensor array(const Operand& x, const OpArgument& dtype = nullptr) {
  return convert_to_tensor(x, dtype);
}
inline Tensor array(const Operand& x, const DtypeOptions& o) { return convert_to_tensor(x, o.dtype); }
// A vector is a list of Python here: of fractions it is float32.
template <typename T>
requires std::is_arithmetic_v<T> Tensor convert_to_tensor(const std::vector<T>& list, const DtypeOptions& o = {}) {
  return convert_to_tensor(lockstep::ops::convert_to_tensor(list), o.dtype);
}
template <typename T>
requires std::is_arithmetic_v<T> Tensor array(const std::vector<T>& list, const DtypeOptions& o = {}) {
  return convert_to_tensor(list, o);
}
// Ones on and below the k-th diagonal.
Tensor tri(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, std::int64_t k = 0,
           DTypeLike dtype = DType::kFloat32);
struct EyeOptions {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> M = std::nullopt;  // columns
  std::int64_t k = 0;                            // the diagonal of ones (eye), or the last one (tri)
  keras::DTypeArg dtype = DType::kFloat32;
};
Tensor eye(std::int64_t N, const EyeOptions& o);
Tensor tri(std::int64_t N, const EyeOptions& o);
inline Tensor eye(std::int64_t N, std::int64_t M, EyeOptions o) {
  o.M = M;
  return eye(N, o);
}
inline Tensor tri(std::int64_t N, std::int64_t M, EyeOptions o) {
  o.M = M;
  return tri(N, o);
}
// The grids of coordinates of vectors.
struct MeshgridOptions {
  FieldNamesOnly names_only = {};
  std::string indexing = "xy";  // or "ij"
};
Structure meshgrid(const Tensors& vectors, const MeshgridOptions& o = {});
inline Structure meshgrid(const Tensor& x, const Tensor& y, const MeshgridOptions& o = {}) {
  return meshgrid(Tensors{x, y}, o);
}
// A vector of zeros with a one at each of the classes, for each row of integers (batch, n): (batch, num_classes).
struct MultiHotOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num_classes = 0;
  int axis = -1;
  keras::DTypeArg dtype = {};
};
Tensor multi_hot(const Tensor& inputs, const MultiHotOptions& o);
inline Tensor multi_hot(const Tensor& inputs, std::int64_t num_classes) {
  return multi_hot(inputs, MultiHotOptions{{}, num_classes});
}
Tensor identity(std::int64_t n, DTypeLike dtype = DType::kFloat32);

inline Tensor abs(const Operand& x) { return internal::run("Absolute", {x}, {}); }
template <int = 0>
Tensor cast(const Operand& x, const OpArgument& dtype) {
  return internal::run("Cast", {x}, {{"dtype", dtype}});
}
inline Tensor cast(const Operand& x, const DtypeOptions& o) { return cast(x, o.dtype); }
inline Tensor diff(const Operand& a, const OpArgument& n = 1, const OpArgument& axis = -1) {
  return internal::run("Diff", {a}, {{"n", n}, {"axis", axis}});
}
// pad_width: a pair for each axis, {{1, 1}, {0, 2}}.
struct PadModeOptions {
  FieldNamesOnly names_only = {};
  OpArgument mode = "constant";
  OpArgument constant_values = nullptr;
};
struct PadKeywords {
  FieldNamesOnly names_only = {};
  OpArgument pad_width = nullptr;
  OpArgument mode = "constant";
  OpArgument constant_values = nullptr;
};
Tensor pad(const Operand& x, const PadKeywords& o);
inline Tensor pad(const Operand& x, const OpArgument& pad_width, const PadModeOptions& o) {
  return pad(x, PadKeywords{{}, pad_width, o.mode, o.constant_values});
}
template <int = 0>
Tensor pad(const Operand& x, const OpArgument& pad_width, const OpArgument& mode = "constant",
           const OpArgument& constant_values = nullptr) {
  return pad(x, PadKeywords{{}, pad_width, mode, constant_values});
}
template <typename... Operands>
Tensor einsum(const std::string& subscripts, const Operands&... operands) {
  return internal::run("Einsum", {Operand(operands)...}, {{"subscripts", subscripts}});
}
// Splits, moves and merges axes: rearrange(images, "b (h1 h) (w1 w) c -> (b h1 w1) h w c", {{"h1", 2}, {"w1", 2}}). Of
// each group in parentheses one length may be left out; one extent of the tensor may be unknown.
Tensor rearrange(const Operand& tensor, const std::string& pattern,
                 const std::map<std::string, std::int64_t>& axes_lengths = {});
inline bool is_tensor(const Tensor& x) { return x.defined(); }
inline std::int64_t ndim(const Tensor& x) { return x.rank(); }
inline Tensor convert_to_numpy(const Tensor& x) { return x.numpy(); }

// keras.ops.nn.relu and the like are the same functions.
namespace image = lockstep::keras_ops;
namespace linalg = lockstep::keras_ops;
namespace math = lockstep::keras_ops;
namespace nn = lockstep::keras_ops;
namespace numpy = lockstep::keras_ops;

}  // namespace lockstep::keras_ops
