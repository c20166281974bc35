#include "lockstep/keras/operations/operations.h"

#include <functional>
#include <map>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/ops/audio_functions.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/spectral_functions.h"

namespace lockstep::keras_ops {

ArgumentItem::ArgumentItem(std::initializer_list<ArgumentItem> items) : value_(Json::array()) {
  for (const ArgumentItem& item : items) value_.push_back(item.value());
}

std::int64_t ArgumentItem::known_extent(const Tensor& extent) {
  const Extent found(extent);
  if (found.known() == kUnknownDim)
    throw_invalid_argument("an argument in a list must be known, found a tensor without a value");
  return found.known();
}

void OpArgument::set(const Tensor& integers) {
  if (!integers.is_value() || !is_integer(integers.dtype()) || integers.rank() > 1) {
    throw_invalid_argument(
        fmt::format("invalid argument: found a {} tensor of shape {}, expected integers whose "
                    "values are known",
                    dtype_name(integers.dtype()), integers.shape().to_string()));
  }
  const auto numbers = ops::cast(integers, DType::kInt64).to_vector<std::int64_t>();
  value_ = integers.rank() == 0 ? Json(numbers[0]) : Json(numbers);
}

OpArgument::OpArgument(std::initializer_list<ArgumentItem> items) : value_(Json::array()) {
  for (const ArgumentItem& item : items) value_.push_back(item.value());
}

namespace {

Structure run_call(std::string_view class_name, keras::CallArguments call, const Json& settings) {
  const keras::TensorOpClass* row = keras::find_tensor_op(class_name);
  if (!row) throw_unimplemented(fmt::format("keras.ops has no class {} here", class_name));
  if (keras::any_keras_tensor(call)) return (*std::make_shared<keras::TensorOp>(*row, settings))(std::move(call));
  try {
    return row->run(call, settings);
  } catch (const JsonError& error) {
    throw_invalid_argument(
        fmt::format("keras.ops.{}: invalid argument in {}: {}", class_name, dump_json(settings), error.what()));
  }
}

}  // namespace

namespace internal {

Structure run_several(std::string_view class_name, std::initializer_list<Operand> operands, Keywords config,
                      std::initializer_list<std::pair<const char*, Operand>> named) {
  keras::CallArguments call;
  for (const Operand& operand : operands) call.args.push_back(operand.value());
  for (const auto& [name, operand] : named) call.set(name, operand.value());
  Json settings = Json::object();
  for (const auto& [name, value] : config) settings[name] = value.value();
  return run_call(class_name, std::move(call), settings);
}

Tensor run(std::string_view class_name, std::initializer_list<Operand> operands, Keywords config,
           std::initializer_list<std::pair<const char*, Operand>> named) {
  return run_several(class_name, operands, config, named).leaf();
}

Tensor tensor_of(const Operand& x) {
  if (x.value().is_leaf() && !x.value().leaf().is_tensor()) {
    const Json& number = x.value().leaf().value;
    if (number.is_boolean()) return Tensor::scalar(number.get<bool>());
    if (number.is_number_float()) return Tensor::scalar(number.get<float>());
    if (number.is_number()) return Tensor::scalar(number.get<std::int32_t>());
  }
  const Structure value = keras::to_structure(x.value());
  if (!value.is_list()) return value.leaf();
  std::vector<Structure> rows;
  for (const Structure& item : value) rows.emplace_back(tensor_of(item));
  return run("Stack", {Operand(Structure::list(rows))}, {{"axis", 0}});
}

}  // namespace internal

namespace {

// An operation with a shape: Keras's where the shape is known, else the one of graphs.
Tensor shaped(const char* class_name, const char* key, const Operand& x, const ShapeArg& shape,
              Tensor (*of_graph)(const Tensor&, const ShapeArg&)) {
  if (shape.is_known()) return internal::run(class_name, {x}, {{key, OpArgument(shape.shape())}});
  return of_graph(keras::to_structure(x.value()).leaf(), shape);
}

// As Keras's: the shorter one of the shape and the repeats has ones in front.
Tensor tile_of_graph(const Tensor& x, const ShapeArg& repeats) {
  const Tensor multiples = ops::shape_tensor(repeats);
  const std::int64_t missing = multiples.dim(0) - x.rank();
  if (missing == 0) return ops::tile(x, multiples);
  if (missing < 0) return ops::tile(x, ops::concat({ops::ones({-missing}, multiples.dtype()), multiples}, 0));
  Tensor wider = x;
  for (std::int64_t i = 0; i < missing; ++i) wider = ops::expand_dims(wider, 0);
  return ops::tile(wider, multiples);
}

}  // namespace

Tensor zeros(const ShapeArg& shape, DTypeLike dtype) { return ops::zeros(shape, dtype); }
Tensor ones(const ShapeArg& shape, DTypeLike dtype) { return ops::ones(shape, dtype); }
Tensor full(const ShapeArg& shape, Number fill_value, DTypeLike dtype) {
  return ops::fill(shape,
                   Tensor::scalar(fill_value.value(), dtype == DType::kInvalid ? DTypeLike(DType::kFloat32) : dtype));
}
Tensor reshape(const Operand& x, const ShapeArg& newshape) {
  return shaped("Reshape", "newshape", x, newshape, ops::reshape);
}
Tensor broadcast_to(const Operand& x, const ShapeArg& shape) {
  return shaped("BroadcastTo", "shape", x, shape, ops::broadcast_to);
}
Tensor tile(const Operand& x, const ShapeArg& repeats) { return shaped("Tile", "repeats", x, repeats, tile_of_graph); }
Tensor rearrange(const Operand& tensor, const std::string& pattern,
                 const std::map<std::string, std::int64_t>& axes_lengths) {
  keras::CallArguments call;
  call.args = {tensor.value(), keras::Argument(keras::ArgValue(Json(pattern)))};
  for (const auto& [name, length] : axes_lengths) call.set(name, keras::Argument(keras::ArgValue(Json(length))));
  return run_call("Rearrange", std::move(call), Json::object()).leaf();
}
Tensor arange(Number stop) { return ops::range(0, stop); }
Tensor arange(Number start, Number stop, Number step) { return ops::range(start, stop, step); }
Tensor arange(Number start, Number stop, Number step, DTypeLike dtype) {
  return ops::cast(arange(start, stop, step), dtype);
}
Tensor arange(const Tensor& stop) { return arange(0, stop); }
Tensor arange(Number start, const Tensor& stop, Number step) {
  return ops::range(Tensor::scalar(start.value(), stop.dtype()), stop, Tensor::scalar(step.value(), stop.dtype()));
}
Tensor arange(const ArangeOptions& o) {
  const Tensor all = o.stop.tensor().defined() ? arange(o.start, o.stop.tensor(), o.step)
                     : o.stop.number()         ? arange(o.start, *o.stop.number(), o.step)
                                               : arange(0, o.start, o.step);
  return o.dtype.get() ? ops::cast(all, *o.dtype.get()) : all;
}
Tensor linspace(const Tensor& start, const Tensor& stop, const LinspaceOptions& o) {
  const OpArgument dtype = o.dtype.get() ? OpArgument(*o.dtype.get()) : OpArgument(nullptr);
  return internal::run("Linspace", {start, stop}, {{"num", o.num}, {"endpoint", o.endpoint}, {"dtype", dtype}});
}
Tensor logspace(const Operand& start, const Operand& stop, const LogspaceOptions& o) {
  const OpArgument dtype = o.dtype.get() ? OpArgument(*o.dtype.get()) : OpArgument(nullptr);
  return internal::run("Logspace", {start, stop},
                       {{"num", o.num}, {"endpoint", o.endpoint}, {"base", o.base}, {"dtype", dtype}});
}
Tensor geomspace(const Operand& start, const Operand& stop, const GeomspaceOptions& o) {
  const OpArgument dtype = o.dtype.get() ? OpArgument(*o.dtype.get()) : OpArgument(nullptr);
  return internal::run("Geomspace", {start, stop}, {{"num", o.num}, {"endpoint", o.endpoint}, {"dtype", dtype}});
}
namespace {

// Places from 0 to 1; of one number a window is 1.
Tensor window(const char* function, std::int64_t n, const std::function<Tensor(const Tensor& place)>& curve) {
  if (n < 0) throw_invalid_argument(fmt::format("{}: invalid length: found {}, expected 0 or more", function, n));
  if (n == 1) return ops::ones({1});
  const Tensor places = ops::cast(ops::range(n), DType::kFloat32);
  return curve(n == 0 ? places : places / static_cast<double>(n - 1));
}

}  // namespace
Tensor bartlett(std::int64_t n) {
  return window("bartlett", n, [](const Tensor& x) { return 1.0 - ops::abs(2.0 * x - 1.0); });
}
Tensor blackman(std::int64_t n) {
  return window("blackman", n, [](const Tensor& x) {
    const double turn = 2 * std::numbers::pi;
    return 0.42 - 0.5 * ops::cos(turn * x) + 0.08 * ops::cos(2 * turn * x);
  });
}
Tensor hamming(std::int64_t n) { return signal::hamming_window(n, false); }
Tensor hanning(std::int64_t n) { return signal::hann_window(n, false); }
Tensor kaiser(std::int64_t n, double beta) { return signal::kaiser_window(n, beta); }
Tensor layer_normalization(const Operand& x, const LayerNormOptions& o) {
  const internal::Keywords config = {{"axis", o.axis}, {"epsilon", o.epsilon}};
  return internal::run("LayerNorm", {x}, config, {{"gamma", o.gamma}, {"beta", o.beta}});
}
Tensor internal::select(const std::vector<Operand>& conditions, const std::vector<Operand>& choices,
                        const Operand& otherwise) {
  const auto list = [](const std::vector<Operand>& items) {
    std::vector<Structure> parts;
    for (const Operand& item : items) parts.emplace_back(tensor_of(item));
    return Operand(Structure::list(parts));
  };
  return run("Select", {list(conditions), list(choices), otherwise}, {});
}
Histogram histogram(const Operand& operand, const HistogramOptions& o) {
  if (o.bins < 1) throw_invalid_argument(fmt::format("histogram: invalid bins: found {}, expected 1 or more", o.bins));
  if (o.range && o.range->second < o.range->first) throw_invalid_argument("histogram: the range ends before it begins");
  Tensor x = ops::reshape(internal::tensor_of(operand), {-1});
  const auto limit = [&x](double number) { return ops::cast(Tensor::scalar(number), x.dtype()); };
  const Tensor low = o.range ? limit(o.range->first) : ops::reduce_min(x);
  const Tensor high = o.range ? limit(o.range->second) : ops::reduce_max(x);
  x = ops::boolean_mask(x, ops::logical_and(ops::greater_equal(x, low), ops::less_equal(x, high)));
  const DType exact = is_floating(x.dtype()) ? x.dtype() : DType::kFloat32;
  const Tensor edges = ops::cast(ops::linspace(ops::cast(low, exact), ops::cast(high, exact), o.bins + 1), x.dtype());
  const Tensor places = ops::searchsorted(ops::slice(edges, {1}, {o.bins - 1}), x, "right");
  return {ops::scatter_nd(ops::expand_dims(places, -1), ops::ones_like(x), ops::constant_ints({o.bins})), edges};
}
Tensor eye(std::int64_t N, const EyeOptions& o) {
  return triu(tri(N, o), o.k);  // the k-th diagonal alone
}
Tensor tri(std::int64_t N, const EyeOptions& o) { return tri(N, o.M, o.k, o.dtype.get().value_or(DType::kFloat32)); }
Tensor identity(std::int64_t n, DTypeLike dtype) { return ops::eye(n, n, dtype); }

Tensor pad(const Operand& x, const PadKeywords& o) {
  const internal::Keywords config = {{"pad_width", o.pad_width}, {"mode", o.mode}};
  if (o.constant_values.value().is_null()) return internal::run("Pad", {x}, config);
  return internal::run("Pad", {x}, config, {{"constant_values", Operand(o.constant_values.value().get<double>())}});
}

Tensor full(const ShapeArg& shape, const FullKeywords& o) {
  if (!o.fill_value) throw_invalid_argument("keras.ops.full requires fill_value");
  return full(shape, *o.fill_value, o.dtype.get().value_or(DType::kInvalid));
}
Tensor tri(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, DTypeLike dtype) {
  return tril(ops::cast(ops::ones({rows, columns.value_or(rows)}), dtype), k);
}
Structure meshgrid(const Tensors& vectors, const MeshgridOptions& o) {
  if (o.indexing != "xy" && o.indexing != "ij") {
    throw_invalid_argument(
        fmt::format("keras.ops.meshgrid: invalid indexing: found '{}', expected 'xy' or 'ij'", o.indexing));
  }
  const bool swapped = o.indexing == "xy" && vectors.size() > 1;
  std::vector<Extent> extents;
  for (const Tensor& vector : vectors) extents.emplace_back(ops::size(vector));
  if (swapped) std::swap(extents[0], extents[1]);
  Tensors grids;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    const std::size_t axis = swapped && i < 2 ? 1 - i : i;
    std::vector<std::int64_t> shape(vectors.size(), 1);
    shape[axis] = -1;
    grids.push_back(ops::broadcast_to(ops::reshape(vectors[i], Shape(shape)), ShapeArg(extents)));
  }
  return Structure(grids);
}
Tensor multi_hot(const Tensor& inputs, const MultiHotOptions& o) {
  const Tensor rows = one_hot(inputs, o.num_classes, {.axis = o.axis, .dtype = "int32"});
  const int reduced = inputs.rank() > 1 ? 1 : 0;
  return ops::cast(ops::reduce_max(rows, reduced), o.dtype.get().value_or(DType::kFloat32));
}

}  // namespace lockstep::keras_ops
