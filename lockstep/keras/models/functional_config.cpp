#include <functional>

#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

Json tensor_values(const Tensor& tensor) {
  const Tensor flat = ops::cast(tensor, is_floating(tensor.dtype()) ? DType::kFloat64 : DType::kInt64);
  Json numbers = Json::array();
  if (is_floating(tensor.dtype())) {
    for (double v : flat.to_vector<double>()) numbers.push_back(v);
  } else {
    for (std::int64_t v : flat.to_vector<std::int64_t>()) numbers.push_back(v);
  }
  for (int axis = tensor.rank() - 1; axis > 0; --axis) {
    Json rows = Json::array();
    const auto width = static_cast<std::size_t>(tensor.dim(axis));
    for (std::size_t i = 0; width > 0 && i < numbers.size(); i += width) {
      Json row = Json::array();
      for (std::size_t j = 0; j < width; ++j) row.push_back(numbers[i + j]);
      rows.push_back(std::move(row));
    }
    numbers = std::move(rows);
  }
  return tensor.rank() == 0 ? numbers[0] : numbers;
}

}  // namespace

Json FunctionalImpl::serialize_argument(const Argument& argument) const {
  if (argument.is_list()) {
    Json out = Json::array();
    for (const auto& item : argument.parts()) out.push_back(serialize_argument(item));
    return out;
  }
  if (argument.is_dict()) {
    Json out = Json::object();
    for (const auto& [key, item] : argument.entries()) out[key] = serialize_argument(item);
    return out;
  }
  const ArgValue& value = argument.leaf();
  if (!value.is_tensor()) return value.value;
  if (const KerasTensor* symbol = as_keras_tensor(value.tensor)) {
    return {{"class_name", "__keras_tensor__"},
            {"config",
             {{"shape", shape_to_json(symbol->shape())},
              {"dtype", std::string(dtype_name(symbol->dtype()))},
              {"keras_history", {symbol->operation()->name(), node_number(&symbol->node()), symbol->tensor_index()}}}}};
  }
  return {
      {"class_name", "__tensor__"},
      {"config", {{"value", tensor_values(value.tensor)}, {"dtype", std::string(dtype_name(value.tensor.dtype()))}}}};
}

Json FunctionalImpl::get_config() const {
  Json layers = Json::array();
  for (const OperationPtr& operation : operations_) {
    Json calls = Json::array();
    for (const auto& node : operation->inbound_nodes()) {
      if (!owns(node.get()) || node->arguments.tensors().empty()) continue;
      Json args = Json::array();
      for (const Argument& argument : node->arguments.args) args.push_back(serialize_argument(argument));
      Json kwargs = Json::object();
      for (const auto& [key, argument] : node->arguments.kwargs) kwargs[key] = serialize_argument(argument);
      calls.push_back({{"args", std::move(args)}, {"kwargs", std::move(kwargs)}});
    }
    Json entry = serialize_operation(*operation);
    entry["name"] = operation->name();
    entry["inbound_nodes"] = std::move(calls);
    layers.push_back(std::move(entry));
  }
  const std::function<Json(const Structure&)> history = [&](const Structure& s) -> Json {
    if (s.is_leaf()) {
      const KerasTensor& symbol = *as_keras_tensor(s.leaf());
      const bool nested = dynamic_cast<const FunctionalImpl*>(symbol.operation().get()) != nullptr;
      return Json::array(
          {symbol.operation()->name(), node_number(&symbol.node()) + (nested ? 1 : 0), symbol.tensor_index()});
    }
    Json out = s.is_list() ? Json::array() : Json::object();
    if (s.is_list()) {
      for (const auto& item : s.parts()) out.push_back(history(item));
    } else {
      for (const auto& [key, item] : s.entries()) out[key] = history(item);
    }
    return out;
  };
  return {{"name", name()},
          {"trainable", trainable()},
          {"layers", std::move(layers)},
          {"input_layers", history(inputs_)},
          {"output_layers", history(outputs_)}};
}

Json FunctionalImpl::get_build_config() const { return {{"input_shape", nullptr}}; }

}  // namespace lockstep::keras
