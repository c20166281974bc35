// The classes of keras.ops, each a row: its name, its module, and how it reads its arguments.
#include "lockstep/keras/layers/tensor_op_rows_internal.h"

#include <algorithm>
#include <map>
#include <numbers>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/activations.h"
#include "lockstep/keras/layers/bias_add_internal.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras::tensor_ops {
namespace {

ops::SliceSpec slice_entry(const ArgValue& value) {
  using ops::SliceSpec;
  if (value.is_tensor()) bad("an index that is a tensor is not supported; use gather");
  const Json& key = value.value;
  if (key.is_null()) return SliceSpec::new_axis();
  if (key.is_number_integer()) return SliceSpec::at(key.get<std::int64_t>());
  if (key.is_object() && key.contains("class_name")) {
    if (key["class_name"] == "__ellipsis__") return SliceSpec::ellipsis();
    if (key["class_name"] == "__slice__" && key.contains("config")) {
      const Json& config = key["config"];
      const bool known = config.is_object() && std::ranges::all_of(config.items(), [](const auto& item) {
                           return item.key() == "start" || item.key() == "stop" || item.key() == "step";
                         });
      if (!known) bad(fmt::format("slice {} is not supported", dump_json(config)));
      const auto bound = [&](const char* name) -> std::optional<std::int64_t> {
        const Json bound = get(config, name);
        if (bound.is_null()) return std::nullopt;
        if (!bound.is_number_integer()) bad(fmt::format("slice {} is {}", name, dump_json(bound)));
        return bound.get<std::int64_t>();
      };
      return SliceSpec::range(bound("start"), bound("stop"), bound("step").value_or(1));
    }
  }
  bad(fmt::format("index {} is not supported", dump_json(key)));
}

Structure get_item(const CallArguments& call, const Json&) {
  const Argument& key = argument(call, 1, "key");
  std::vector<ops::SliceSpec> index;
  if (key.is_leaf()) {
    index.push_back(slice_entry(key.leaf()));
  } else {
    for (const auto& entry : key.parts()) index.push_back(slice_entry(entry.leaf()));
  }
  return ops::strided_slice(tensor_operand(call), index);
}

Tensor true_divide(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) return ops::div(a, b);
  return ops::div(ops::cast(a, DType::kFloat32), ops::cast(b, DType::kFloat32));
}
// A vector is a row on the left and a column on the right, whose axis the result has not.
Tensor matmul2(const Tensor& a, const Tensor& b) {
  const bool row = a.shape().known_rank() && a.rank() == 1, column = b.shape().known_rank() && b.rank() == 1;
  const Tensor left = row ? ops::expand_dims(a, 0) : a, right = column ? ops::expand_dims(b, -1) : b;
  Tensor out = product({left, right}, [](const Tensors& factors) { return ops::matmul(factors[0], factors[1]); });
  if (column) out = ops::squeeze(out, ops::Axes(-1));
  return row ? ops::squeeze(out, ops::Axes(column ? -1 : -2)) : out;
}
// Functions without a kernel for these dtypes, computed in another one.
Tensor sortable(const Tensor& x) {
  if (x.dtype() == DType::kBool) return ops::cast(x, DType::kInt8);
  return is_unsigned(x.dtype()) && x.dtype() != DType::kUInt64 ? ops::cast(x, DType::kInt64) : x;
}
Tensor power(const Tensor& x, const Tensor& y) {
  if (!is_unsigned(x.dtype())) return ops::pow(x, y);
  return ops::cast(ops::pow(ops::cast(x, DType::kInt32), ops::cast(y, DType::kInt32)), x.dtype());
}
Tensor sign(const Tensor& x) {
  return is_unsigned(x.dtype()) ? ops::cast(ops::sign(ops::cast(x, DType::kInt32)), x.dtype()) : ops::sign(x);
}
Tensor bool_as_int(const Tensor& x) { return x.dtype() == DType::kBool ? ops::cast(x, DType::kInt32) : x; }

Structure where_op(const CallArguments& call, const Json&) {
  const Tensor condition = logical(tensor_operand(call, 0, "condition"));
  CallArguments rest;
  rest.args = {argument(call, 1, "x1"), argument(call, 2, "x2")};
  const auto [x, y] = operands(rest, "x1", "x2");
  return ops::where(condition, x, y);
}

Structure split_op(const CallArguments& call, const Json& config) {
  const Tensor x = tensor_operand(call);
  const int axis = axis_or(config, 0);
  const Json parts = get(config, "indices_or_sections");
  if (!parts.is_number_integer()) return split_at(x, int_list(parts, "indices_or_sections"), axis);
  const std::int64_t count = parts.get<std::int64_t>();
  if (count < 1 || count > 65536) bad(fmt::format("Split into {} parts", count));
  Structure::List out;
  for (Tensor& piece : ops::split(x, static_cast<int>(count), axis)) out.emplace_back(std::move(piece));
  return Structure::list(std::move(out));
}

// Mean of squared distances from the mean.
Tensor variance(const Tensor& x, const ops::Axes& axes, bool keepdims) {
  return ops::reduce_mean(ops::square(x - ops::reduce_mean(x, axes, true)), axes, keepdims);
}
Tensor deviation(const Tensor& x, const ops::Axes& axes, bool keepdims) {
  return ops::sqrt(variance(x, axes, keepdims));
}

// "axis" None: of all elements in their order.
Tensor along_axis(const Tensor& x, const Json& config, Tensor (*fn)(const Tensor&, int)) {
  if (get(config, "axis").is_null()) return fn(ops::reshape(x, ops::Ints{-1}), 0);
  return fn(x, axis_or(config, -1));
}

Tensor best_place(const Tensor& x, const Json& config, Tensor (*fn)(const Tensor&, int)) {
  const Tensor place = along_axis(x, config, fn);
  if (!keepdims_of(config)) return place;
  if (get(config, "axis").is_null()) return ops::reshape(place, ops::Ints(static_cast<std::size_t>(x.rank()), 1));
  return ops::expand_dims(place, axis_or(config, -1));
}

// Sums and products up to each element, in the dtype that is given.
Run running(Tensor (*fn)(const Tensor&, int)) {
  return [fn](const CallArguments& call, const Json& config) {
    const Tensor x = ops::cast(tensor_operand(call), dtype_or(config, tensor_operand(call).dtype()));
    return Structure(along_axis(x.dtype() == DType::kBool ? summable(x) : x, config, fn));
  };
}

// The maximum (minimum) of the elements and of "initial".
Run extremum(Reduce fn, Binary choose) {
  return [fn, choose](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call), found = fn(x, axes_of(config), keepdims_of(config));
    const Json initial = get(config, "initial");
    if (initial.is_null()) return Structure(found);
    if (!initial.is_number()) bad(fmt::format("initial is {}, expected a number", dump_json(initial)));
    const DType counted = x.dtype() == DType::kBool ? DType::kInt32 : x.dtype();
    return Structure(
        ops::cast(choose(ops::cast(found, counted), Tensor::scalar(initial.get<double>(), counted)), x.dtype()));
  };
}

Structure pad_op(const CallArguments& call, const Json& config) {
  const Tensor x = tensor_operand(call);
  std::vector<std::pair<std::int64_t, std::int64_t>> widths;
  const Json given = get(config, "pad_width");
  if (!given.is_array()) bad(fmt::format("pad_width is {}, expected a pair for each axis", dump_json(given)));
  for (const Json& each : given) {
    const ops::Ints pair = int_list(each, "pad_width");
    if (pair.size() != 2) bad(fmt::format("pad_width is {}, expected a pair for each axis", dump_json(given)));
    widths.emplace_back(pair[0], pair[1]);
  }
  if (widths.size() == 1) widths.resize(static_cast<std::size_t>(x.rank()), widths[0]);
  const Json mode = get(config, "mode", "constant");
  if (mode == "reflect" || mode == "symmetric")
    return ops::mirror_pad(x, widths, mode == "reflect" ? "REFLECT" : "SYMMETRIC");
  const Argument* value = call.args.size() > 1 ? &call.args[1] : call.find("constant_values");
  if (mode != "constant" || (value && value->leaf().is_tensor()))
    bad(fmt::format("Pad with mode {} is not supported", dump_json(mode)));
  return ops::pad(x, widths, value && value->leaf().value.is_number() ? value->leaf().value.get<double>() : 0.0);
}

// Rows of numpy that make, move and pick elements.
void add_shapes_of_numpy(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.numpy", std::move(run)}; };
  for (const char* name : {"ZerosLike", "EmptyLike"}) {
    row(name, [](const CallArguments& call, const Json& config) {
      const Tensor x = tensor_operand(call);
      return Structure(ops::cast(ops::zeros_like(x), dtype_or(config, x.dtype())));
    });
  }
  row("OnesLike", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    return Structure(ops::cast(ops::ones_like(x), dtype_or(config, x.dtype())));
  });
  row("FullLike", [](const CallArguments& call, const Json& config) {
    const auto [x, value] = operands(call, "x", "fill_value");
    return Structure(ops::cast(ops::zeros_like(x) + value, dtype_or(config, tensor_operand(call).dtype())));
  });
  row("BroadcastTo", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    ops::Ints shape = int_list(get(config, "shape"), "shape");
    Tensors sizes;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const int at = static_cast<int>(i) - static_cast<int>(shape.size()) + x.rank();
      sizes.push_back(shape[i] >= 0 || at < 0 ? Tensor::scalar(static_cast<std::int32_t>(shape[i]))
                                              : ops::dim_of(x, at));
    }
    return Structure(ops::broadcast_to(x, ops::stack(sizes)));
  });
  row("Var", reduction(variance, false, true));
  row("Std", reduction(deviation, false, true));
  row("Argmax", [](const CallArguments& call, const Json& config) {
    return Structure(best_place(tensor_operand(call), config,
                                [](const Tensor& x, int axis) { return ops::argmax(x, axis, DType::kInt32); }));
  });
  row("Argmin", [](const CallArguments& call, const Json& config) {
    return Structure(best_place(tensor_operand(call), config,
                                [](const Tensor& x, int axis) { return ops::argmin(x, axis, DType::kInt32); }));
  });
  row("Sort", [](const CallArguments& call, const Json& config) {
    return Structure(along_axis(tensor_operand(call), config, [](const Tensor& x, int axis) {
      return ops::cast(ops::sort(sortable(x), axis), x.dtype());
    }));
  });
  row("Argsort", [](const CallArguments& call, const Json& config) {
    return Structure(along_axis(tensor_operand(call), config,
                                [](const Tensor& x, int axis) { return ops::argsort(sortable(x), axis); }));
  });
  row("Cumsum", running([](const Tensor& x, int axis) { return ops::cumsum(x, axis); }));
  row("Cumprod", running([](const Tensor& x, int axis) { return ops::cumprod(x, axis); }));
  row("Flip", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    ops::Ints axes;
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
    const Json axis = get(config, "axis");
    return Structure(ops::reverse(x, axis.is_null() ? axes : int_list(axis, "axis")));
  });
  row("Tile", [](const CallArguments& call, const Json& config) {
    Tensor x = tensor_operand(call);
    ops::Ints repeats = int_list(get(config, "repeats"), "repeats");
    while (static_cast<int>(repeats.size()) < x.rank()) repeats.insert(repeats.begin(), 1);
    while (x.rank() < static_cast<int>(repeats.size())) x = ops::expand_dims(x, 0);
    return Structure(ops::tile(x, repeats));
  });
  row("Roll", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    const Json axis = get(config, "axis");
    ops::Ints shift = int_list(get(config, "shift"), "shift");
    if (axis.is_null()) {
      const Tensor rolled = ops::roll(ops::reshape(x, ops::Ints{-1}), shift, {0});
      return Structure(ops::reshape(rolled, ops::shape_of(x)));
    }
    const ops::Ints axes = int_list(axis, "axis");
    if (shift.size() == 1) shift.resize(axes.size(), shift[0]);
    return Structure(ops::roll(x, shift, axes));
  });
  row("Swapaxes", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    ops::Ints order;
    for (int i = 0; i < x.rank(); ++i) order.push_back(i);
    const auto at = [&](const char* key) {
      const std::int64_t axis = get(config, key).get<std::int64_t>();
      if (axis < -x.rank() || axis >= x.rank())
        bad(fmt::format("Swapaxes: {} is {}, the tensor has {} axes", key, axis, x.rank()));
      return static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis);
    };
    std::swap(order[at("axis1")], order[at("axis2")]);
    return Structure(ops::transpose(x, order));
  });
  row("Moveaxis", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    const auto axes = [&](const char* key) {
      ops::Ints found = int_list(get(config, key), key);
      for (std::int64_t& axis : found) {
        if (axis < -x.rank() || axis >= x.rank())
          bad(fmt::format("Moveaxis: {} has {}, the tensor has {} axes", key, axis, x.rank()));
        if (axis < 0) axis += x.rank();
      }
      return found;
    };
    const ops::Ints from = axes("source"), to = axes("destination");
    if (from.size() != to.size()) bad("Moveaxis: source and destination differ in length");
    std::map<std::int64_t, std::int64_t> moved;
    for (std::size_t i = 0; i < from.size(); ++i) moved[to[i]] = from[i];
    ops::Ints order;
    for (int i = 0; i < x.rank(); ++i) {
      if (std::find(from.begin(), from.end(), i) == from.end()) order.push_back(i);
    }
    for (const auto& [place, axis] : moved)
      order.insert(order.begin() + std::min<std::ptrdiff_t>(place, std::ssize(order)), axis);
    return Structure(ops::transpose(x, order));
  });
  row("Ravel", [](const CallArguments& call, const Json&) {
    return Structure(ops::reshape(tensor_operand(call), ops::Ints{-1}));
  });
  row("Pad", pad_op);
  row("Take", [](const CallArguments& call, const Json& config) {
    const Tensor given = tensor_operand(call), places = tensor_operand(call, 1, "indices");
    const bool flat = get(config, "axis").is_null();
    const Tensor x = flat ? ops::reshape(given, ops::Ints{-1}) : given;
    const int axis = flat ? 0 : axis_or(config, -1);
    const Tensor from_end = places + ops::cast(ops::dim_of(x, axis), places.dtype());
    const Tensor negative = ops::less(places, ops::zeros_like(places));
    return Structure(ops::gather(x, ops::where(negative, from_end, places), axis));
  });
}

}  // namespace

void add_numpy(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.numpy", std::move(run)}; };
  row("Add", binary([](const Tensor& x, const Tensor& y) {
        // What has a batch axis has an unknown extent in Keras.
        const bool constant = y.rank() < x.rank() || (x.rank() > 1 && y.rank() > 0 && y.dim(0) == 1 && x.dim(0) != 1);
        return constant ? add_as_keras(x, y) : ops::add(x, y);
      }));
  row("Subtract", binary(ops::sub));
  row("Multiply", binary(ops::mul));
  row("Divide", binary(true_divide));
  row("TrueDivide", binary(true_divide));
  row("FloorDivide", binary(ops::floor_div));
  row("Mod",
      strict_binary([](const Tensor& x, const Tensor& y) { return ops::floor_mod(bool_as_int(x), bool_as_int(y)); }));
  row("Power", binary(power));
  row("Maximum", binary(ops::maximum));
  row("Minimum", binary(ops::minimum));
  row("Matmul", binary(matmul2));
  row("Equal", binary(ops::equal));
  row("NotEqual", binary(ops::not_equal));
  row("Greater", binary(ops::greater));
  row("GreaterEqual", binary(ops::greater_equal));
  row("Less", binary(ops::less));
  row("LessEqual", binary(ops::less_equal));
  row("LogicalAnd", binary([](const Tensor& a, const Tensor& b) { return ops::logical_and(logical(a), logical(b)); }));
  row("LogicalOr", binary([](const Tensor& a, const Tensor& b) { return ops::logical_or(logical(a), logical(b)); }));
  row("LogicalNot", unary([](const Tensor& x) { return ops::logical_not(logical(x)); }));
  row("Negative", unary(ops::neg));
  row("Sign", unary(sign));
  row("Square", unary([](const Tensor& x) { return ops::square(bool_as_int(x)); }));
  row("Sqrt", floating(ops::sqrt));
  row("Reciprocal", floating(ops::reciprocal));
  row("Exp", floating(ops::exp));
  row("Expm1", floating(ops::expm1));
  row("Log", floating(ops::log));
  row("Log1p", floating(ops::log1p));
  row("Sin", floating(ops::sin));
  row("Cos", floating(ops::cos));
  row("Tan", floating(ops::tan));
  row("Tanh", floating(ops::tanh));
  row("Arctan", floating(ops::atan));
  row("Floor", floating(ops::floor));
  row("Ceil", floating(ops::ceil));
  row("Mean", reduction(ops::reduce_mean, false, true));
  row("Sum", reduction([](const Tensor& x, const ops::Axes& axes, bool keepdims) {
        return ops::reduce_sum(summable(x), axes, keepdims);
      }));
  row("Prod", [](const CallArguments& call, const Json& config) {
    // With a dtype Keras multiplies the elements as they are.
    const Tensor x = tensor_operand(call);
    return Structure(
        ops::reduce_prod(get(config, "dtype").is_null() ? summable(x) : x, axes_of(config), keepdims_of(config)));
  });
  row("Max", extremum(greatest, ops::maximum));
  row("Min", extremum(least, ops::minimum));
  row("Amax", reduction(greatest));
  row("Amin", reduction(least));
  row("Any", reduction(ops::reduce_any, true));
  row("All", reduction(ops::reduce_all, true));
  for (const auto& [name, fn] : {std::pair<const char*, Unary>{"Arcsin", ops::asin},
                                 {"Arccos", ops::acos},
                                 {"Sinh", ops::sinh},
                                 {"Cosh", ops::cosh},
                                 {"Arcsinh", ops::asinh},
                                 {"Arccosh", ops::acosh},
                                 {"Arctanh", ops::atanh}}) {
    row(name, floating(fn));
  }
  for (const auto& [name, fn] :
       {std::pair<const char*, Unary>{"Isnan", ops::is_nan}, {"Isinf", ops::is_inf}, {"Isfinite", ops::is_finite}}) {
    row(name, floating(fn));
  }
  row("Log2", floating([](const Tensor& x) { return ops::log(x) / std::numbers::ln2; }));
  row("Log10", floating([](const Tensor& x) { return ops::log(x) / std::numbers::ln10; }));
  row("Exp2", floating([](const Tensor& x) { return ops::exp(x * std::numbers::ln2); }));
  row("Copy", unary(ops::identity));
  row("Arctan2",
      strict_binary([](const Tensor& a, const Tensor& b) { return ops::atan2(to_floating(a), to_floating(b)); }));
  row("LogicalXor", binary([](const Tensor& a, const Tensor& b) { return ops::not_equal(logical(a), logical(b)); }));
  row("GetItem", get_item);
  add_shapes_of_numpy(rows);
  row("Where", where_op);
  row("Split", split_op);
  row("Clip", [](const CallArguments& call, const Json& config) {
    const Tensor x = bool_as_int(tensor_operand(call));
    return Structure(ops::clip_by_value(x, get(config, "x_min").get<double>(), get(config, "x_max").get<double>()));
  });
  row("Reshape", [](const CallArguments& call, const Json& config) {
    return Structure(ops::reshape(tensor_operand(call), int_list(get(config, "newshape"), "newshape")));
  });
  row("Transpose", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    const Json axes = get(config, "axes");
    return Structure(axes.is_null() ? ops::transpose(x) : ops::transpose(x, int_list(axes, "axes")));
  });
  row("ExpandDims", [](const CallArguments& call, const Json& config) {
    Tensor x = tensor_operand(call);
    ops::Ints axes = int_list(get(config, "axis"), "axis");
    for (std::int64_t axis : axes) x = ops::expand_dims(x, static_cast<int>(axis));
    return Structure(x);
  });
  row("Squeeze", [](const CallArguments& call, const Json& config) {
    const Json axis = get(config, "axis");
    return Structure(ops::squeeze(tensor_operand(call), axis.is_null() ? ops::Ints{} : int_list(axis, "axis")));
  });
  row("Concatenate", [](const CallArguments& call, const Json& config) {
    return Structure(ops::concat(in_common_dtype(tensor_list(argument(call, 0, "xs"))), axis_or(config, 0)));
  });
  row("Stack", [](const CallArguments& call, const Json& config) {
    return Structure(ops::stack(in_common_dtype(tensor_list(argument(call, 0, "x"))), axis_or(config, 0)));
  });
  row("Repeat", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    const Json given = get(config, "repeats"), axis = config.value("axis", Json());
    const ops::Ints repeats = given.is_array() ? given.get<ops::Ints>() : ops::Ints{given.get<std::int64_t>()};
    for (const std::int64_t times : repeats) {
      if (times < 0 || times > 1 << 20) bad(fmt::format("Repeat {} times", times));
    }
    const std::optional<int> at = axis.is_null() ? std::nullopt : std::optional(axis_or(config, 0));
    return Structure(ops::repeat(x, repeats, at));
  });
  row("Einsum", [](const CallArguments& call, const Json& config) {
    Tensors operands;
    for (const Argument& given : call.args) {
      for (const ArgValue& value : given.flatten()) operands.push_back(value.tensor);
    }
    const auto subscripts = get(config, "subscripts").get<std::string>();
    return Structure(product(operands, [&](const Tensors& factors) { return ops::einsum(subscripts, factors); }));
  });
}

}  // namespace lockstep::keras::tensor_ops

namespace lockstep::keras {
namespace {

const tensor_ops::Rows& table() {
  static const auto* rows = [] {
    auto* made = new tensor_ops::Rows();
    tensor_ops::add_numpy(*made);
    tensor_ops::add_more_numpy(*made);
    tensor_ops::add_nn(*made);
    tensor_ops::add_math_and_core(*made);
    tensor_ops::add_quantiles(*made);
    tensor_ops::add_arrays(*made);
    tensor_ops::add_indexing(*made);
    tensor_ops::add_fourier(*made);
    tensor_ops::add_linalg(*made);
    tensor_ops::add_windows(*made);
    tensor_ops::add_images(*made);
    tensor_ops::add_einops(*made);
    return made;
  }();
  return *rows;
}

}  // namespace

const TensorOpClass* find_tensor_op(std::string_view class_name) {
  const auto it = table().find(class_name);
  return it == table().end() ? nullptr : &it->second;
}

std::vector<std::string> tensor_op_names() {
  std::vector<std::string> names;
  for (const auto& [name, unused] : table()) names.push_back(name);
  return names;
}

}  // namespace lockstep::keras
