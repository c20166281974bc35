// keras.ops: functions of tensors, and of the symbolic tensors of functional models, which Keras reads back from files.
//
//   namespace kops = lockstep::keras::ops;               // with <lockstep/lockstep.h>
//   auto x = kops::concatenate({a, b}, {.axis = -1});    // or kops::concatenate({a, b}, -1)
//   auto y = kops::sum(kops::square(x), {.axis = 1, .keepdims = true});
//
// Names, order of arguments, defaults, dtypes and shapes are those of Keras 3.15. Arguments that are not tensors take
// numbers, texts, dtypes, shapes and lists, nullptr for None. Functions throw InvalidArgument for arguments that do not
// fit.
#pragma once

#include "lockstep/keras/operations/functions_image.h"
#include "lockstep/keras/operations/functions_math.h"
#include "lockstep/keras/operations/functions_nn.h"
#include "lockstep/keras/operations/functions_numpy_a_l.h"
#include "lockstep/keras/operations/functions_numpy_m_z.h"
#include "lockstep/ops/composed.h"

namespace lockstep::keras_ops {

using lockstep::ops::convert_to_tensor;
using lockstep::ops::eye;
using lockstep::ops::linspace;
using lockstep::ops::shape;
using lockstep::ops::size;

// Shapes may have extents of tensors: reshape(x, {ops::shape(x)[0], -1, 8}).
Tensor zeros(const ShapeArg& shape, DType dtype = DType::kFloat32);
Tensor ones(const ShapeArg& shape, DType dtype = DType::kFloat32);
Tensor full(const ShapeArg& shape, Number fill_value, DType dtype = DType::kInvalid);  // float32, as in Keras
Tensor reshape(const Operand& x, const ShapeArg& newshape);
Tensor broadcast_to(const Operand& x, const ShapeArg& shape);
Tensor tile(const Operand& x, const ShapeArg& repeats);
// Numbers from `start`, or 0, to before `stop`: int32 of whole numbers, else float32.
Tensor arange(Number stop);
Tensor arange(Number start, Number stop, Number step = 1);
// Up to an integer tensor, ops::shape(x)[1]: of its dtype.
Tensor arange(const Tensor& stop);
Tensor arange(Number start, const Tensor& stop, Number step = 1);
Tensor identity(std::int64_t n, DType dtype = DType::kFloat32);

inline Tensor abs(const Operand& x) { return internal::run("Absolute", {x}, {}); }
inline Tensor cast(const Operand& x, const OpArgument& dtype) { return internal::run("Cast", {x}, {{"dtype", dtype}}); }
inline Tensor diff(const Operand& a, const OpArgument& n = 1, const OpArgument& axis = -1) {
  return internal::run("Diff", {a}, {{"n", n}, {"axis", axis}});
}
// pad_width: a pair for each axis, {{1, 1}, {0, 2}}.
Tensor pad(const Operand& x, const OpArgument& pad_width, const OpArgument& mode = "constant",
           const OpArgument& constant_values = nullptr);
template <typename... Operands>
Tensor einsum(const std::string& subscripts, const Operands&... operands) {
  return internal::run("Einsum", {Operand(operands)...}, {{"subscripts", subscripts}});
}
inline bool is_tensor(const Tensor& x) { return x.defined(); }
inline std::int64_t ndim(const Tensor& x) { return x.rank(); }
inline Tensor convert_to_numpy(const Tensor& x) { return x; }

// keras.ops.nn.relu and the like are the same functions.
namespace image = lockstep::keras_ops;
namespace linalg = lockstep::keras_ops;
namespace math = lockstep::keras_ops;
namespace nn = lockstep::keras_ops;
namespace numpy = lockstep::keras_ops;

}  // namespace lockstep::keras_ops
