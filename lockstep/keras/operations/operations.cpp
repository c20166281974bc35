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

Tensor zeros(const Shape& shape, DType dtype) { return Tensor::zeros(shape, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return Tensor::full(shape, 1, dtype); }
Tensor full(const Shape& shape, Number fill_value, DType dtype) {
  return Tensor::full(shape, fill_value.value(), dtype == DType::kInvalid ? DType::kFloat32 : dtype);
}
Tensor arange(Number stop) { return ops::range(0, stop); }
Tensor arange(Number start, Number stop, Number step) { return ops::range(start, stop, step); }
Tensor identity(std::int64_t n, DType dtype) { return ops::eye(n, n, dtype); }

Tensor pad(const Operand& x, const OpArgument& pad_width, const OpArgument& mode, const OpArgument& constant_values) {
  const internal::Keywords config = {{"pad_width", pad_width}, {"mode", mode}};
  if (constant_values.value().is_null()) return internal::run("Pad", {x}, config);
  return internal::run("Pad", {x}, config, {{"constant_values", Operand(constant_values.value().get<double>())}});
}

}  // namespace lockstep::keras_ops
