#include "lockstep/keras/layers/keras_tensor.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/scratch_internal.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/keras/naming_internal.h"

template class lockstep::Nested<lockstep::keras::ArgValue>;
template class lockstep::Nested<lockstep::keras::TensorInfo>;

namespace lockstep::keras {
namespace {

// The classes of keras.ops that Python's operators and this library's functions stand for. Their operands
// are positional.
const char* keras_class_of(std::string_view op) {
  static const std::pair<std::string_view, const char*> kClasses[] = {
      {"AddV2", "Add"},
      {"Add", "Add"},
      {"Sub", "Subtract"},
      {"Mul", "Multiply"},
      {"RealDiv", "TrueDivide"},
      {"Pow", "Power"},
      {"Neg", "Negative"},
      {"Abs", "Absolute"},
      {"Maximum", "Maximum"},
      {"Minimum", "Minimum"},
      {"NotEqual", "NotEqual"},
      {"Equal", "Equal"},
      {"Greater", "Greater"},
      {"GreaterEqual", "GreaterEqual"},
      {"Less", "Less"},
      {"LessEqual", "LessEqual"},
      {"LogicalAnd", "LogicalAnd"},
      {"LogicalOr", "LogicalOr"},
      {"LogicalNot", "LogicalNot"},
      {"FloorDiv", "FloorDivide"},
      {"FloorMod", "Mod"},
      {"Square", "Square"},
      {"Sqrt", "Sqrt"},
      {"Rsqrt", "Rsqrt"},
      {"Exp", "Exp"},
      {"Log", "Log"},
      {"Log1p", "Log1p"},
      {"Expm1", "Expm1"},
      {"Sin", "Sin"},
      {"Cos", "Cos"},
      {"Tanh", "Tanh"},
      {"Sigmoid", "Sigmoid"},
      {"Relu", "Relu"},
      {"Relu6", "Relu6"},
      {"Softplus", "Softplus"},
      {"Softsign", "Softsign"},
      {"Erf", "Erf"},
      {"Sign", "Sign"},
      {"Floor", "Floor"},
      {"Ceil", "Ceil"},
      {"SelectV2", "Where"},
  };
  for (const auto& [name, class_name] : kClasses) {
    if (name == op) return class_name;
  }
  return nullptr;
}

// A number stands for a scalar tensor, as Python's operators keep it.
ArgValue to_arg_value(const Tensor& tensor) {
  if (!tensor.is_value() || tensor.rank() != 0 || tensor.dtype() == DType::kString) return tensor;
  if (tensor.dtype() == DType::kBool) return Json(tensor.item<bool>());
  if (is_floating(tensor.dtype())) return Json(tensor.item<double>());
  if (is_integer(tensor.dtype())) return Json(tensor.item<std::int64_t>());
  return tensor;
}

// Reductions with constant axes are classes with keywords.
const char* reduction_class_of(std::string_view op) {
  static const std::pair<std::string_view, const char*> kClasses[] = {
      {"Mean", "Mean"}, {"Sum", "Sum"}, {"Max", "Max"}, {"Min", "Min"},
      {"Prod", "Prod"}, {"Any", "Any"}, {"All", "All"}};
  for (const auto& [name, class_name] : kClasses) {
    if (name == op) return class_name;
  }
  return nullptr;
}

// What Keras's class of this operation is constructed with; null when it has none.
std::optional<std::pair<const TensorOpClass*, Json>> keras_operation(const ops::Op& op, std::span<const Tensor> inputs,
                                                                     const ops::Attrs& attrs) {
  const std::string& name = op.signature->name;
  const auto ints = [](const Tensor& t) -> std::optional<Json> {
    const auto value = constant_value_as_shape(t);
    if (!value) return std::nullopt;
    Json list = Json::array();
    for (std::int64_t entry : value->dims()) list.push_back(entry);
    return list;
  };
  if (const char* reduction = reduction_class_of(name); reduction && inputs.size() == 2) {
    if (const auto axes = ints(inputs[1])) {
      Json config = Json::object();
      config["axis"] = axes->size() == 1 ? (*axes)[0] : *axes;
      config["keepdims"] = std::get<bool>(*attrs.find("keep_dims"));
      return std::pair{find_tensor_op(reduction), config};
    }
  }
  if (name == "Reshape") {
    if (const auto shape = ints(inputs[1])) return std::pair{find_tensor_op("Reshape"), Json{{"newshape", *shape}}};
  }
  if (name == "Transpose") {
    if (const auto axes = ints(inputs[1])) return std::pair{find_tensor_op("Transpose"), Json{{"axes", *axes}}};
  }
  if (name == "ExpandDims") {
    if (const auto axis = constant_value(inputs[1])) {
      return std::pair{find_tensor_op("ExpandDims"), Json{{"axis", axis->item<std::int64_t>()}}};
    }
  }
  if (name == "Cast") {
    const DType dtype = std::get<DType>(*attrs.find("DstT"));
    return std::pair{find_tensor_op("Cast"), Json{{"dtype", std::string(dtype_name(dtype))}}};
  }
  return std::nullopt;
}

// The key of x[key], as Keras writes it, of places that are known.
std::optional<Argument> slice_key(std::span<const Tensor> inputs, const ops::Attrs& attrs) {
  std::vector<std::int64_t> begin, end, strides;
  for (auto [values, input] : {std::pair{&begin, 1}, {&end, 2}, {&strides, 3}}) {
    const auto known = constant_value(inputs[static_cast<std::size_t>(input)]);
    if (!known) return std::nullopt;
    *values = ops::cast(*known, DType::kInt64).to_vector<std::int64_t>();
  }
  const auto masked = [&attrs](const char* mask, std::size_t i) {
    return (std::get<std::int64_t>(*attrs.find(mask)) >> i & 1) != 0;
  };
  Argument::List key;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (masked("ellipsis_mask", i)) {
      key.push_back(ArgValue(Json{{"class_name", "__ellipsis__"}, {"config", Json::object()}}));
    } else if (masked("new_axis_mask", i)) {
      key.push_back(ArgValue(Json(nullptr)));
    } else if (masked("shrink_axis_mask", i)) {
      key.push_back(ArgValue(Json(begin[i])));
    } else {
      const Json bounds = {{"start", masked("begin_mask", i) ? Json(nullptr) : Json(begin[i])},
                           {"stop", masked("end_mask", i) ? Json(nullptr) : Json(end[i])},
                           {"step", strides[i] == 1 ? Json(nullptr) : Json(strides[i])}};
      key.push_back(ArgValue(Json{{"class_name", "__slice__"}, {"config", bounds}}));
    }
  }
  return Argument::list(std::move(key));
}

class KerasRecorder : public ops::Recorder {
 public:
  Tensors record(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs) override {
    CallArguments arguments;
    if (const char* class_name = keras_class_of(op.signature->name)) {
      if (const TensorOpClass* row = find_tensor_op(class_name)) {
        for (const Tensor& input : inputs) arguments.args.push_back(to_arg_value(input));
        return (*std::make_shared<TensorOp>(*row, Json::object()))(std::move(arguments)).flatten();
      }
    }
    if (const auto known = keras_operation(op, inputs, attrs); known && known->first) {
      arguments.args.push_back(ArgValue(inputs[0]));
      return (*std::make_shared<TensorOp>(*known->first, known->second))(std::move(arguments)).flatten();
    }
    if (op.signature->name == "StridedSlice") {
      if (auto key = slice_key(inputs, attrs)) {
        arguments.args = {ArgValue(inputs[0]), *std::move(key)};
        return (*std::make_shared<TensorOp>(*find_tensor_op("GetItem"), Json::object()))(std::move(arguments))
            .flatten();
      }
    }
    for (const Tensor& input : inputs) {
      if (input.dtype() == DType::kResource) {
        throw_invalid_argument(
            fmt::format("{}: a Keras tensor requires a layer here: call it in call() of a class derived from Layer",
                        op.signature->name));
      }
      arguments.args.push_back(ArgValue(input));
    }
    auto operation = std::make_shared<TableOp>(op, attrs);
    Nested<TensorInfo>::List infos;
    for (auto& output : ops::infer_outputs(op, inputs, attrs)) {
      infos.push_back(TensorInfo{output.dtype, std::move(output.shape)});
    }
    return operation->add_node(std::move(arguments), Nested<TensorInfo>::list(std::move(infos))).flatten();
  }
};

}  // namespace

Operation::~Operation() = default;

std::string KerasTensor::name() const {
  return operation_->class_name() == "InputLayer" ? operation_->name() : "keras_tensor";
}
ops::Recorder& KerasTensor::recorder() const {
  static KerasRecorder recorder;
  return recorder;
}

const Node& KerasTensor::node() const { return *operation_->inbound_nodes()[static_cast<std::size_t>(node_index_)]; }

const KerasTensor* as_keras_tensor(const Tensor& tensor) {
  return tensor.is_symbolic() ? dynamic_cast<const KerasTensor*>(tensor.symbol_value().get()) : nullptr;
}

bool any_keras_tensor(const CallArguments& arguments) {
  for (const Tensor& tensor : arguments.tensors()) {
    if (as_keras_tensor(tensor)) return true;
  }
  return false;
}

// ---- arguments -----------------------------------------------------------------------------------------

const Argument* CallArguments::find(std::string_view keyword) const {
  for (const auto& [name, value] : kwargs) {
    if (name == keyword) return &value;
  }
  return nullptr;
}

void CallArguments::set(const std::string& keyword, Argument value) {
  for (auto& [name, old] : kwargs) {
    if (name == keyword) {
      old = std::move(value);
      return;
    }
  }
  kwargs.emplace_back(keyword, std::move(value));
}

void CallArguments::erase(std::string_view keyword) {
  std::erase_if(kwargs, [&](const auto& entry) { return entry.first == keyword; });
}

Tensors CallArguments::tensors() const {
  Tensors out;
  const auto add = [&](const ArgValue& value) {
    if (value.is_tensor()) out.push_back(value.tensor);
  };
  for (const Argument& argument : args) argument.visit(add);
  for (const auto& [name, argument] : kwargs) argument.visit(add);
  return out;
}

CallArguments CallArguments::map_tensors(const std::function<Tensor(const Tensor&)>& fn) const {
  const auto replace = [&](const ArgValue& value) { return value.is_tensor() ? ArgValue(fn(value.tensor)) : value; };
  CallArguments out;
  for (const Argument& argument : args) out.args.push_back(argument.map(replace));
  for (const auto& [name, argument] : kwargs) out.kwargs.emplace_back(name, argument.map(replace));
  return out;
}

Argument to_argument(const Structure& structure) {
  return structure.map([](const Tensor& t) { return ArgValue(t); });
}

Structure to_structure(const Argument& argument) {
  return argument.map([](const ArgValue& value) {
    if (!value.is_tensor() && !value.value.is_null()) {
      throw_invalid_argument(fmt::format("a call was given {} where a tensor is needed", dump_json(value.value)));
    }
    return value.tensor;
  });
}

// ---- operations ----------------------------------------------------------------------------------------

void Operation::set_name(std::string name) {
  if (name.empty() || name.find('/') != std::string::npos) {
    throw_invalid_argument(fmt::format("invalid layer name '{}': it must not be empty or contain a '/'", name));
  }
  name_ = std::move(name);
}

void Operation::take_auto_name() const { name_ = auto_name(class_name()); }

Structure Operation::add_node(CallArguments arguments, Nested<TensorInfo> outputs, Tensors masks) {
  if (weak_from_this().expired()) {
    throw_failed_precondition(
        fmt::format("layer '{}' is not held by a handle and cannot be part of a model: use make_layer<{}>(...)", name(),
                    class_name()));
  }
  auto node = std::make_shared<Node>();
  node->operation = this;
  node->arguments = std::move(arguments);
  node->outputs = std::move(outputs);
  node->masks = std::move(masks);
  node->index = static_cast<int>(inbound_nodes_.size());
  inbound_nodes_.push_back(std::move(node));
  return outputs_of(static_cast<int>(inbound_nodes_.size()) - 1);
}

Structure Operation::outputs_of(int node_index) {
  if (node_index < 0 || node_index >= static_cast<int>(inbound_nodes_.size())) {
    throw_out_of_range(
        fmt::format("'{}' has {} calls, call {} was requested", name(), inbound_nodes_.size(), node_index));
  }
  const Node& node = *inbound_nodes_[static_cast<std::size_t>(node_index)];
  int index = 0;
  return node.outputs.map([&](const TensorInfo& info) {
    Tensor tensor =
        Tensor::symbol(std::make_shared<KerasTensor>(info.dtype, info.shape, shared_from_this(), node_index, index));
    if (index < static_cast<int>(node.masks.size()) && node.masks[static_cast<std::size_t>(index)].defined()) {
      tensor.set_mask(node.masks[static_cast<std::size_t>(index)]);
    }
    ++index;
    return tensor;
  });
}

}  // namespace lockstep::keras
