#include "lockstep/keras/operations/operations.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"

namespace lockstep::keras_ops {

OpArgument::OpArgument(std::initializer_list<std::initializer_list<std::int64_t>> value) : value_(Json::array()) {
  for (const auto& row : value) value_.push_back(std::vector<std::int64_t>(row));
}

namespace internal {

Structure run_several(std::string_view class_name, std::initializer_list<Operand> operands, Keywords config,
                      std::initializer_list<std::pair<const char*, Operand>> named) {
  const keras::TensorOpClass* row = keras::find_tensor_op(class_name);
  if (!row) throw_unimplemented(fmt::format("keras.ops has no class {} here", class_name));
  keras::CallArguments call;
  for (const Operand& operand : operands) call.args.push_back(operand.value());
  for (const auto& [name, operand] : named) call.set(name, operand.value());
  Json settings = Json::object();
  for (const auto& [name, value] : config) settings[name] = value.value();
  if (keras::any_keras_tensor(call)) return (*std::make_shared<keras::TensorOp>(*row, settings))(std::move(call));
  try {
    return row->run(call, settings);
  } catch (const JsonError& error) {
    throw_invalid_argument(
        fmt::format("keras.ops.{}: invalid argument in {}: {}", class_name, dump_json(settings), error.what()));
  }
}

Tensor run(std::string_view class_name, std::initializer_list<Operand> operands, Keywords config,
           std::initializer_list<std::pair<const char*, Operand>> named) {
  return run_several(class_name, operands, config, named).leaf();
}

}  // namespace internal

namespace {

// An operation with a shape: Keras's where the shape is known, else the one of graphs.
Tensor shaped(const char* class_name, const char* key, const Operand& x, const ShapeArg& shape,
              Tensor (*of_graph)(const Tensor&, const ShapeArg&)) {
  if (shape.is_known()) return internal::run(class_name, {x}, {{key, OpArgument(shape.shape())}});
  return of_graph(keras::to_structure(x.value()).leaf(), shape);
}

}  // namespace

Tensor zeros(const ShapeArg& shape, DType dtype) { return ops::zeros(shape, dtype); }
Tensor ones(const ShapeArg& shape, DType dtype) { return ops::ones(shape, dtype); }
Tensor full(const ShapeArg& shape, Number fill_value, DType dtype) {
  return ops::fill(shape, Tensor::scalar(fill_value.value(), dtype == DType::kInvalid ? DType::kFloat32 : dtype));
}
Tensor reshape(const Operand& x, const ShapeArg& newshape) {
  return shaped("Reshape", "newshape", x, newshape, ops::reshape);
}
Tensor broadcast_to(const Operand& x, const ShapeArg& shape) {
  return shaped("BroadcastTo", "shape", x, shape, ops::broadcast_to);
}
Tensor tile(const Operand& x, const ShapeArg& repeats) { return shaped("Tile", "repeats", x, repeats, ops::tile); }
Tensor arange(Number stop) { return ops::range(0, stop); }
Tensor arange(Number start, Number stop, Number step) { return ops::range(start, stop, step); }
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
Tensor identity(std::int64_t n, DType dtype) { return ops::eye(n, n, dtype); }

Tensor pad(const Operand& x, const OpArgument& pad_width, const OpArgument& mode, const OpArgument& constant_values) {
  const internal::Keywords config = {{"pad_width", pad_width}, {"mode", mode}};
  if (constant_values.value().is_null()) return internal::run("Pad", {x}, config);
  return internal::run("Pad", {x}, config, {{"constant_values", Operand(constant_values.value().get<double>())}});
}

}  // namespace lockstep::keras_ops
