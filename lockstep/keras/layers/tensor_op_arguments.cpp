#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/fields_internal.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"

namespace lockstep::keras {
namespace {

int rank_of_dtype(DType dtype) {
  static const DType kOrder[] = {DType::kBool,     DType::kUInt8,   DType::kInt8,   DType::kUInt16, DType::kInt16,
                                 DType::kUInt32,   DType::kInt32,   DType::kUInt64, DType::kInt64,  DType::kFloat16,
                                 DType::kBFloat16, DType::kFloat32, DType::kFloat64};
  for (int i = 0; i < 13; ++i) {
    if (kOrder[i] == dtype) return i;
  }
  return 99;
}

}  // namespace

DType common_dtype(DType a, DType b) {
  using tensor_ops::is_unsigned;
  if (rank_of_dtype(a) < rank_of_dtype(b)) std::swap(a, b);
  if (a == DType::kBFloat16 && b == DType::kFloat16) return DType::kFloat32;
  if (!is_integer(a) || !is_integer(b) || is_unsigned(a) == is_unsigned(b)) return a;
  const auto bits = [](DType dtype) { return dtype_size(dtype); };
  const DType with_sign = is_unsigned(a) ? b : a, without = is_unsigned(a) ? a : b;
  if (bits(with_sign) > bits(without)) return with_sign;
  switch (without) {
    case DType::kUInt8: return DType::kInt16;
    case DType::kUInt16: return DType::kInt32;
    case DType::kUInt32: return DType::kInt64;
    default: return DType::kFloat32;
  }
}

}  // namespace lockstep::keras

namespace lockstep::keras::tensor_ops {

void bad(std::string_view what) { throw_invalid_argument(fmt::format("keras.ops: {}", what)); }

const Argument* find_argument(const CallArguments& call, std::size_t index, std::string_view keyword) {
  return index < call.args.size() ? &call.args[index] : call.find(keyword);
}

const Argument& argument(const CallArguments& call, std::size_t index, std::string_view keyword) {
  const Argument* found = find_argument(call, index, keyword);
  if (!found) bad(fmt::format("argument '{}' is missing", keyword));
  return *found;
}

bool is_given(const CallArguments& call, std::size_t index, std::string_view keyword) {
  const Argument* found = find_argument(call, index, keyword);
  return found && !(found->is_leaf() && !found->leaf().is_tensor() && found->leaf().value.is_null());
}

double number_argument(const CallArguments& call, std::size_t index, std::string_view keyword, double otherwise) {
  if (!is_given(call, index, keyword)) return otherwise;
  const Argument* found = find_argument(call, index, keyword);
  if (!found->is_leaf() || found->leaf().is_tensor() || !found->leaf().value.is_number())
    bad(fmt::format("argument '{}' must be a number", keyword));
  return found->leaf().value.get<double>();
}

namespace {

// Keras's dtype of a number that is combined with a tensor of dtype `other`: a float makes integers float32.
Tensor number_tensor(const Json& value, DType other) {
  if (value.is_boolean()) return Tensor::scalar(value.get<bool>());
  if (!value.is_number()) bad(fmt::format("{} is not an operand", dump_json(value)));
  DType dtype = other;
  if (other == DType::kInvalid || (value.is_number_float() && !is_floating(other))) {
    dtype = value.is_number_float() ? DType::kFloat32 : DType::kInt32;
  }
  if (other == DType::kBool && !value.is_number_float()) dtype = DType::kInt32;
  return Tensor::scalar(value.get<double>(), dtype);
}

// A tensor, a number, or nested lists of them.
Tensor tensor_of(const Argument& given, DType other) {
  if (given.is_leaf()) {
    const ArgValue& value = given.leaf();
    return value.is_tensor() ? value.tensor : number_tensor(value.value, other);
  }
  Tensors items;
  bool any_float = false;
  for (const Argument& item : given.parts()) {
    items.push_back(tensor_of(item, other));
    any_float = any_float || is_floating(items.back().dtype());
  }
  if (items.empty()) bad("an operand is an empty list");
  for (Tensor& item : items) {
    if (any_float && !is_floating(item.dtype())) item = ops::cast(item, DType::kFloat32);
  }
  return ops::stack(items, 0);
}

DType dtype_of_tensor(const Argument& given) {
  return given.is_leaf() && given.leaf().is_tensor() ? given.leaf().tensor.dtype() : DType::kInvalid;
}

}  // namespace

std::pair<Tensor, Tensor> operands(const CallArguments& call, std::string_view first, std::string_view second) {
  const Argument& a = argument(call, 0, first);
  const Argument& b = argument(call, 1, second);
  const DType other = dtype_of_tensor(a) != DType::kInvalid ? dtype_of_tensor(a) : dtype_of_tensor(b);
  Tensor x = tensor_of(a, other), y = tensor_of(b, other);
  if (x.dtype() != y.dtype() && x.dtype() != DType::kString && y.dtype() != DType::kString) {
    const DType common = common_dtype(x.dtype(), y.dtype());
    x = ops::cast(x, common);
    y = ops::cast(y, common);
  }
  return {x, y};
}

Tensor tensor_operand(const CallArguments& call, std::size_t index, std::string_view keyword) {
  return tensor_of(argument(call, index, keyword), DType::kInvalid);
}

Tensor to_floating(const Tensor& x) { return is_floating(x.dtype()) ? x : ops::cast(x, DType::kFloat32); }

Tensor floating_operand(const CallArguments& call, std::size_t index, std::string_view keyword) {
  return to_floating(tensor_operand(call, index, keyword));
}

Tensors tensor_list(const Argument& given) {
  Tensors out;
  if (given.is_leaf()) bad("a list of tensors is expected");
  for (const auto& item : given.parts()) out.push_back(tensor_of(item, DType::kInvalid));
  return out;
}

bool keepdims_of(const Json& config) { return get(config, "keepdims", false).get<bool>(); }

int positive_axis(const Tensor& x, std::int64_t axis) {
  if (axis < -x.rank() || axis >= x.rank()) bad(fmt::format("axis {} of a tensor with {} axes", axis, x.rank()));
  return static_cast<int>(axis < 0 ? axis + x.rank() : axis);
}

std::int64_t extent(const Tensor& x, int axis, std::string_view op) {
  const std::int64_t size = x.dim(axis);
  if (size == kUnknownDim) bad(fmt::format("{} along axis {}, whose extent is not known", op, axis));
  return size;
}

Structure split_at(const Tensor& x, const ops::Ints& places, int axis) {
  Structure::List out;
  std::int64_t begin = 0;
  for (const std::int64_t end : places) {
    out.emplace_back(ops::slice_axis(x, axis, begin, end));
    begin = end;
  }
  out.emplace_back(ops::slice_axis(x, axis, begin, std::nullopt));
  return Structure::list(std::move(out));
}

ops::Ints int_list(const Json& value, std::string_view what) {
  ops::Ints out;
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& entry : list) {
    if (entry.is_null()) {
      out.push_back(-1);
    } else if (entry.is_number_integer()) {
      out.push_back(entry.get<std::int64_t>());
    } else {
      bad(fmt::format("{} is {}, expected integers", what, dump_json(value)));
    }
  }
  return out;
}

Json get(const Json& config, const char* key, Json otherwise) {
  const auto it = config.find(key);
  return it == config.end() ? otherwise : *it;
}

ops::Axes axes_of(const Json& config) {
  const Json axis = get(config, "axis");
  if (axis.is_null()) return std::nullopt;
  return int_list(axis, "axis");
}

Tensor widened(const Tensor& x) {
  return ops::cast(x, x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
}
Tensor summable(const Tensor& x) {
  switch (x.dtype()) {
    case DType::kBool:
    case DType::kInt8:
    case DType::kInt16: return ops::cast(x, DType::kInt32);
    case DType::kUInt8:
    case DType::kUInt16: return ops::cast(x, DType::kUInt32);
    default: return x;
  }
}

bool is_unsigned(DType dtype) { return is_integer(dtype) && dtype_name(dtype).starts_with('u'); }
Tensor product(const Tensors& factors, const std::function<Tensor(const Tensors&)>& multiply) {
  Tensors values = in_common_dtype(factors);
  const DType dtype = values.at(0).dtype();
  const bool wrapped = dtype == DType::kBool || is_unsigned(dtype);
  if (!wrapped && dtype != DType::kInt8) return multiply(values);
  for (Tensor& value : values) value = ops::cast(value, wrapped ? DType::kFloat32 : DType::kInt32);
  return wrapped ? ops::cast(multiply(values), dtype) : multiply(values);
}

Tensor greatest(const Tensor& x, const ops::Axes& axes, bool keepdims) {
  return x.dtype() == DType::kBool ? ops::reduce_any(x, axes, keepdims) : ops::reduce_max(x, axes, keepdims);
}
Tensor least(const Tensor& x, const ops::Axes& axes, bool keepdims) {
  return x.dtype() == DType::kBool ? ops::reduce_all(x, axes, keepdims) : ops::reduce_min(x, axes, keepdims);
}

Run unary(Unary fn) {
  return [fn](const CallArguments& call, const Json&) { return Structure(fn(tensor_operand(call))); };
}
Run floating(Unary fn) {
  return [fn](const CallArguments& call, const Json&) { return Structure(fn(floating_operand(call))); };
}
Run binary(Binary fn) {
  return [fn](const CallArguments& call, const Json&) {
    const auto [x, y] = operands(call, "x1", "x2");
    return Structure(fn(x, y));
  };
}
Run floating_binary(Binary fn) {
  return [fn](const CallArguments& call, const Json&) {
    const auto [x, y] = operands(call, "x1", "x2");
    return Structure(fn(to_floating(x), to_floating(y)));
  };
}
Run strict_binary(Binary fn) {
  return [fn](const CallArguments& call, const Json&) {
    const Tensors both = in_common_dtype({tensor_operand(call, 0, "x1"), tensor_operand(call, 1, "x2")});
    return Structure(fn(both[0], both[1]));
  };
}
Run reduction(Reduce fn, bool to_bool, bool to_float) {
  return [=](const CallArguments& call, const Json& config) {
    Tensor x = tensor_operand(call);
    if (to_bool && x.dtype() != DType::kBool) x = ops::cast(x, DType::kBool);
    if (to_float && !is_floating(x.dtype())) x = ops::cast(x, DType::kFloat32);
    return Structure(fn(x, axes_of(config), keepdims_of(config)));
  };
}

DType dtype_of(const Json& name) {
  if (name.is_string()) {
    if (const auto dtype = find_dtype(name.get<std::string>())) return *dtype;
  }
  bad(fmt::format("{} is not a dtype", dump_json(name)));
}

DType dtype_or(const Json& config, DType otherwise) {
  const Json name = get(config, "dtype");
  return name.is_null() ? otherwise : dtype_of(name);
}

int axis_or(const Json& config, int otherwise) {
  const Json axis = get(config, "axis", otherwise);
  int value = 0;
  if (!axis.is_number_integer() || !FieldType<int>::read(axis, value))
    bad(fmt::format("axis is {}, expected an integer", dump_json(axis)));
  return value;
}

Tensor logical(const Tensor& x) { return ops::cast(x, DType::kBool); }

}  // namespace lockstep::keras::tensor_ops

namespace lockstep::keras {

Tensors in_common_dtype(Tensors tensors) {
  DType common = tensors.empty() ? DType::kInvalid : tensors[0].dtype();
  for (const Tensor& x : tensors) {
    if (x.dtype() == DType::kString) return tensors;
    common = common_dtype(common, x.dtype());
  }
  for (Tensor& x : tensors) {
    if (x.dtype() == common) continue;
    const Tensor mask = x.mask();
    x = ops::cast(x, common);
    if (mask.defined()) x.set_mask(mask);
  }
  return tensors;
}

}  // namespace lockstep::keras
