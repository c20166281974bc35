// Arguments of the operations of keras.ops, and the forms that their rows share.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras::tensor_ops {

using Run = std::function<Structure(const CallArguments&, const Json&)>;
using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using Reduce = Tensor (*)(const Tensor&, const ops::Axes&, bool);
using Rows = std::map<std::string, TensorOpClass, std::less<>>;

// "keras.ops: …" as InvalidArgument.
[[noreturn]] void bad(std::string_view what);

// Of a call: by position, or by keyword.
const Argument* find_argument(const CallArguments& call, std::size_t index, std::string_view keyword);
const Argument& argument(const CallArguments& call, std::size_t index, std::string_view keyword);
Tensor tensor_operand(const CallArguments& call, std::size_t index = 0, std::string_view keyword = "x");
// Integers become float32.
Tensor floating_operand(const CallArguments& call, std::size_t index = 0, std::string_view keyword = "x");
Tensors tensor_list(const Argument& given);
// Two operands in the dtype that Keras gives their result.
std::pair<Tensor, Tensor> operands(const CallArguments& call, std::string_view first, std::string_view second);
// A number that is given in the call, or `otherwise`.
double number_argument(const CallArguments& call, std::size_t index, std::string_view keyword, double otherwise);

// Of a constructor.
Json get(const Json& config, const char* key, Json otherwise = nullptr);
ops::Ints int_list(const Json& value, std::string_view what);
ops::Axes axes_of(const Json& config);
int axis_or(const Json& config, int otherwise);
bool keepdims_of(const Json& config);
DType dtype_of(const Json& name);
DType dtype_or(const Json& config, DType otherwise);

Tensor logical(const Tensor& x);
Tensor to_floating(const Tensor& x);
// Between 0 and the rank.
int positive_axis(const Tensor& x, std::int64_t axis);
// The extent of an axis, which must be known.
std::int64_t extent(const Tensor& x, int axis, std::string_view op);

Run unary(Unary fn);
// As numpy does, integers become floating first.
Run floating(Unary fn);
Run binary(Binary fn);
Run floating_binary(Binary fn);
Run reduction(Reduce fn, bool to_bool = false, bool to_float = false);

// The rows by modules of keras.ops.
void add_numpy(Rows& rows);
void add_more_numpy(Rows& rows);
void add_nn(Rows& rows);
void add_math_and_core(Rows& rows);
void add_images(Rows& rows);

}  // namespace lockstep::keras::tensor_ops
