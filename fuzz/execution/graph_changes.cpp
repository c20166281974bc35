#include "fuzz/execution/graph_changes.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::fuzz {

using tensorflow::AttrValue;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using Nodes = google::protobuf::RepeatedPtrField<NodeDef>;

std::vector<std::string> attr_names(const NodeDef& node) {
  std::vector<std::string> names;
  for (const auto& [name, value] : node.attr()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void change_shape(Choices& choices, tensorflow::TensorShapeProto& shape) {
  if (choices.chance(10)) shape.set_unknown_rank(!shape.unknown_rank());
  if (shape.dim_size() > 0 && choices.chance(70)) {
    shape.mutable_dim(static_cast<int>(choices.below(static_cast<std::size_t>(shape.dim_size()))))
        ->set_size(choices.integer());
  } else {
    shape.add_dim()->set_size(choices.integer());
  }
}

namespace {

void change_tensor(Choices& choices, tensorflow::TensorProto& tensor) {
  switch (choices.below(6)) {
    case 0: change_shape(choices, *tensor.mutable_tensor_shape()); break;
    case 1: tensor.set_dtype(static_cast<tensorflow::DataType>(choices.dtype())); break;
    case 2:
      if (!tensor.tensor_content().empty()) {
        std::string& bytes = *tensor.mutable_tensor_content();
        bytes[choices.below(bytes.size())] = static_cast<char>(choices.next());
      } else {
        tensor.add_float_val(static_cast<float>(choices.real()));
      }
      break;
    case 3:
      tensor.clear_int_val();
      tensor.add_int_val(static_cast<std::int32_t>(choices.integer()));
      tensor.clear_tensor_content();
      break;
    case 4:
      tensor.clear_int64_val();
      tensor.add_int64_val(choices.integer());
      tensor.clear_tensor_content();
      break;
    default: tensor.add_string_val(choices.text()); break;
  }
}

void change_attr(Choices& choices, AttrValue& value) {
  if (value.has_tensor() && choices.chance(90)) return change_tensor(choices, *value.mutable_tensor());
  if (value.has_shape() && choices.chance(90)) return change_shape(choices, *value.mutable_shape());
  if (value.has_list() && choices.chance(90)) {
    auto& list = *value.mutable_list();
    if (list.i_size() > 0 && choices.chance(70)) {
      list.set_i(static_cast<int>(choices.below(static_cast<std::size_t>(list.i_size()))), choices.integer());
    } else if (list.shape_size() > 0) {
      change_shape(choices, *list.mutable_shape(0));
    } else if (list.type_size() > 0) {
      list.set_type(0, static_cast<tensorflow::DataType>(choices.dtype()));
    } else {
      list.add_i(choices.integer());
    }
    return;
  }
  const bool same_kind = choices.chance(85);
  const std::size_t kind = choices.below(5);
  if (same_kind ? value.value_case() == AttrValue::kI : kind == 0) {
    value.set_i(choices.integer());
  } else if (same_kind ? value.value_case() == AttrValue::kB : kind == 1) {
    value.set_b(!value.b());
  } else if (same_kind ? value.value_case() == AttrValue::kF : kind == 2) {
    value.set_f(static_cast<float>(choices.real()));
  } else if (same_kind ? value.value_case() == AttrValue::kS : kind == 3) {
    value.set_s(choices.text());
  } else {
    value.set_type(static_cast<tensorflow::DataType>(choices.dtype()));
  }
}

void change_node(Choices& choices, Nodes& nodes, const std::vector<std::string>& operations) {
  const auto any = [&]() -> NodeDef& {
    return *nodes.Mutable(static_cast<int>(choices.below(static_cast<std::size_t>(nodes.size()))));
  };
  if (nodes.empty()) return;
  NodeDef& node = any();
  const std::size_t kind = choices.below(100);
  if (kind < 55 && !node.attr().empty()) {
    const std::string name = choices.pick(attr_names(node));
    if (choices.chance(5)) {
      node.mutable_attr()->erase(name);
    } else {
      change_attr(choices, node.mutable_attr()->at(name));
    }
  } else if (kind < 80 && node.input_size() > 0) {
    std::string& input =
        *node.mutable_input(static_cast<int>(choices.below(static_cast<std::size_t>(node.input_size()))));
    const NodeDef& other = any();
    // An input of another node is one that exists, in the form that this graph or function has.
    if (other.input_size() > 0 && choices.chance(60)) {
      input = other.input(static_cast<int>(choices.below(static_cast<std::size_t>(other.input_size()))));
    } else {
      input = choices.chance(80) ? other.name() : fmt::format("{}:{}", other.name(), choices.integer());
    }
  } else if (kind < 88) {
    node.set_op(choices.chance(60) ? any().op() : choices.pick(operations));
  } else if (kind < 94) {
    node.add_input(any().name());
  } else if (node.input_size() > 0) {
    node.mutable_input()->RemoveLast();
  }
}

}  // namespace

void change_graph(Choices& choices, GraphDef& graph, const std::vector<std::string>& operations) {
  auto& functions = *graph.mutable_library()->mutable_function();
  for (std::size_t changes = 1 + choices.below(4); changes > 0; --changes) {
    if (!functions.empty() && choices.chance(50)) {
      auto& function = *functions.Mutable(static_cast<int>(choices.below(static_cast<std::size_t>(functions.size()))));
      change_node(choices, *function.mutable_node_def(), operations);
    } else {
      change_node(choices, *graph.mutable_node(), operations);
    }
  }
}

}  // namespace lockstep::fuzz
