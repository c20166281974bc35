#include "lockstep/keras/layers/tensor_ops_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/graph/scratch_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/keras/object_config.h"

namespace lockstep::keras {

TensorOp::TensorOp(const TensorOpClass& row, Json config) : row_(row), config_(std::move(config)) {
  if (!config_.is_object()) throw_invalid_argument(fmt::format("{}: config is not an object", row.name));
  const auto given = config_.find("name");
  set_name(given != config_.end() && given->is_string() ? given->get<std::string>() : auto_name(row.name));
}

Json TensorOp::get_config() const {
  Json config = {{"name", name()}};
  for (const auto& [key, value] : config_.items()) {
    if (key != "name") config[key] = value;
  }
  return config;
}

Structure TensorOp::run(const CallArguments& arguments, std::optional<bool>) {
  try {
    return row_.run(arguments, config_);
  } catch (const JsonError& error) {
    throw_invalid_argument(fmt::format("operation '{}' ({}): bad argument in {}: {}", name(), row_.name,
                                       dump_json(config_), error.what()));
  }
}

Structure TensorOp::operator()(CallArguments arguments) {
  if (!any_keras_tensor(arguments)) return run(arguments, std::nullopt);
  graph::ScratchScope scratch;
  const Structure outputs = run(
      arguments.map_tensors([&](const Tensor& t) { return t.is_symbolic() ? scratch.input(t.dtype(), t.shape()) : t; }),
      std::nullopt);
  return add_node(std::move(arguments), outputs.map([](const Tensor& t) { return TensorInfo{t.dtype(), t.shape()}; }));
}

TableOp::TableOp(const ops::Op& op, ops::Attrs attrs) : op_(op), attrs_(std::move(attrs)) {
  set_name(auto_name(op.signature->name));
}

std::string TableOp::class_name() const { return op_.signature->name; }

Json TableOp::get_config() const {
  throw_unimplemented(fmt::format(
      "operation '{}' ({}) of a functional model has no Keras class, so the model cannot be written as a config: wrap "
      "it in a layer of your own",
      name(), op_.signature->name));
}

Structure TableOp::run(const CallArguments& arguments, std::optional<bool>) {
  const Tensors inputs = arguments.tensors();
  Tensors outputs = ops::call(op_.signature->name, inputs, attrs_);
  Structure::List items(outputs.begin(), outputs.end());
  return Structure::list(std::move(items));
}

bool is_ops_module(std::string_view module) {
  return module.starts_with("keras.src.ops.") || module.starts_with("keras.ops");
}

OperationPtr deserialize_tensor_op(const Json& object) {
  const auto parsed = parse_object_config(object);
  if (!parsed) throw_invalid_argument(fmt::format("{} is not an operation", dump_json(object)));
  const TensorOpClass* row = find_tensor_op(parsed->class_name);
  if (!row) {
    throw_not_found(fmt::format("unknown operation '{}' of module {}{}", parsed->class_name, parsed->module,
                                did_you_mean(parsed->class_name, tensor_op_names())));
  }
  return std::make_shared<TensorOp>(*row, parsed->config);
}

}  // namespace lockstep::keras
