// Arguments of the operations of keras.ops, and the forms that their rows share.
#pragma once

#include <limits>
#include <map>
#include <optional>
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

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// "keras.ops: …" as InvalidArgument.
[[noreturn]] void bad(std::string_view what);

// Of a call: by position, or by keyword.
const Argument* find_argument(const CallArguments& call, std::size_t index, std::string_view keyword);
// Whether it is there and not null.
bool is_given(const CallArguments& call, std::size_t index, std::string_view keyword);
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
// The diagonals of matrices, `k` above the main one.
Tensor diagonal_part(const Tensor& x, std::int64_t k);
// NaN and infinities replaced, these by the largest numbers of the dtype unless others are given.
Tensor finite_numbers(const Tensor& x, double nan, std::optional<double> posinf = std::nullopt,
                      std::optional<double> neginf = std::nullopt);
Tensor to_floating(const Tensor& x);
// As float32, or float64 if it is that.
Tensor widened(const Tensor& x);
// As Keras adds and multiplies it up: narrow integers and bool with 32 bits.
Tensor summable(const Tensor& x);
bool is_unsigned(DType dtype);
// A product of tensors as Keras computes it: of int8 with 32 bits, of bool and unsigned integers in float32.
Tensor product(const Tensors& factors, const std::function<Tensor(const Tensors&)>& multiply);
// The maximum and minimum, also of bool.
Tensor greatest(const Tensor& x, const ops::Axes& axes, bool keepdims);
Tensor least(const Tensor& x, const ops::Axes& axes, bool keepdims);
// keras.ops.norm: of vectors along one axis, or of matrices on two.
Tensor norm(const Tensor& x, const Json& order, const ops::Axes& axes, bool keepdims);
// Between 0 and the rank.
int positive_axis(const Tensor& x, std::int64_t axis);
// The extent of an axis, which must be known.
std::int64_t extent(const Tensor& x, int axis, std::string_view op);

// The parts of an axis before, between and after these places.
Structure split_at(const Tensor& x, const ops::Ints& places, int axis);
// Images (batch, …, channels) as the row takes them; where they have channels first, or no batch, so does the result.
// `ranks` are those that include a batch.
Tensor on_channels_last(const Tensor& x, const Json& config, int least_rank, int most_rank, bool single,
                        const std::function<Tensor(const Tensor&)>& run);
// A number for each of `rank` axes.
ops::Ints per_axis(const Json& value, int rank, std::string_view what);
std::string_view padding_of(const Json& config);  // "VALID" or "SAME"

Run unary(Unary fn);
// As numpy does, integers become floating first.
Run floating(Unary fn);
Run binary(Binary fn);
Run floating_binary(Binary fn);
// Numbers are int32 or float32 here, whatever the dtype of the other operand.
Run strict_binary(Binary fn);
Run reduction(Reduce fn, bool to_bool = false, bool to_float = false);

// The rows by modules of keras.ops.
void add_numpy(Rows& rows);
void add_more_numpy(Rows& rows);
void add_nn(Rows& rows);
void add_math_and_core(Rows& rows);
void add_quantiles(Rows& rows);
void add_arrays(Rows& rows);
void add_indexing(Rows& rows);
void add_fourier(Rows& rows);
void add_linalg(Rows& rows);
void add_windows(Rows& rows);
void add_images(Rows& rows);
void add_einops(Rows& rows);

}  // namespace lockstep::keras::tensor_ops
