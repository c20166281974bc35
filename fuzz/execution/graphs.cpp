#include "fuzz/execution/graphs.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fuzz/execution/choices.h"
#include "lockstep/base/error.h"
#include "lockstep/formats/proto/graph.pb.h"
#include "lockstep/graph/executor_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::fuzz {
namespace {

using tensorflow::AttrValue;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using Nodes = google::protobuf::RepeatedPtrField<NodeDef>;

void change_shape(Choices& choices, tensorflow::TensorShapeProto& shape) {
  if (choices.chance(10)) shape.set_unknown_rank(!shape.unknown_rank());
  if (shape.dim_size() > 0 && choices.chance(70)) {
    shape.mutable_dim(static_cast<int>(choices.below(static_cast<std::size_t>(shape.dim_size()))))
        ->set_size(choices.integer());
  } else {
    shape.add_dim()->set_size(choices.integer());
  }
}

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
    auto at = node.mutable_attr()->begin();
    std::advance(at, static_cast<std::ptrdiff_t>(choices.below(static_cast<std::size_t>(node.attr_size()))));
    if (choices.chance(5)) {
      node.mutable_attr()->erase(at);
    } else {
      change_attr(choices, at->second);
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

GraphDef changed(std::uint64_t seed, const std::vector<std::string>& seeds,
                 const std::vector<std::string>& operations) {
  Choices choices(seed * 0x9fb21c651e98df25u);
  GraphDef graph;
  graph.ParseFromString(seeds[seed % seeds.size()]);
  auto& functions = *graph.mutable_library()->mutable_function();
  for (std::size_t changes = 1 + choices.below(4); changes > 0; --changes) {
    if (!functions.empty() && choices.chance(50)) {
      auto& function = *functions.Mutable(static_cast<int>(choices.below(static_cast<std::size_t>(functions.size()))));
      change_node(choices, *function.mutable_node_def(), operations);
    } else {
      change_node(choices, *graph.mutable_node(), operations);
    }
  }
  return graph;
}

bool is_accepted(const Error& error) {
  switch (error.code()) {
    case Code::kInvalidArgument:
    case Code::kUnimplemented:
    case Code::kResourceExhausted:
    case Code::kDeadlineExceeded:
    case Code::kOutOfRange:
    case Code::kFailedPrecondition:
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kDataLoss: return true;
    default: return false;
  }
}

Outcome run(const GraphDef& proto) {
  try {
    const graph::GraphAndLibrary parsed = graph::parse_graph_def(proto.SerializeAsString(), "graph");
    std::vector<graph::Output> feeds, fetches;
    Tensors values;
    std::vector<char> used(static_cast<std::size_t>(parsed.graph.size()), 0);
    for (int id = 0; id < parsed.graph.size(); ++id) {
      for (const graph::Output& input : parsed.graph.node(id).inputs) used[static_cast<std::size_t>(input.node)] = 1;
      if (parsed.graph.node(id).op != "Placeholder") continue;
      feeds.push_back({id, 0});
      const ops::Attr* attr = parsed.graph.node(id).attrs.find("shape");
      const Shape* shape = attr ? std::get_if<Shape>(attr) : nullptr;
      const bool images = shape && shape->known_rank() && shape->rank() == 4;
      values.push_back(Tensor::full(images ? Shape{1, 6, 6, 3} : Shape{2, 4}, 0.5));
    }
    for (int id = 0; id < parsed.graph.size(); ++id) {
      if (!used[static_cast<std::size_t>(id)] && parsed.graph.node(id).op != "NoOp") fetches.push_back({id, 0});
    }
    const auto resources = std::make_shared<graph::Resources>();
    resources->limits = {.max_memory = 64 << 20, .max_seconds = 0.5, .max_iterations = 1000};
    graph::Executable::prepare(parsed.graph, std::make_shared<graph::FunctionLibrary>(parsed.library), resources, feeds,
                               fetches)
        ->run(values);
    return {true, ""};
  } catch (const Error& error) {
    if (is_accepted(error)) return {};
    return {false, fmt::format("{}: {}", code_name(error.code()), error.message())};
  } catch (const std::exception& error) {
    return {false, fmt::format("an exception that is not an Error: {}", error.what())};
  }
}

std::string text_of(const AttrValue& value) {
  switch (value.value_case()) {
    case AttrValue::kI: return fmt::format("{}", value.i());
    case AttrValue::kF: return fmt::format("{}", value.f());
    case AttrValue::kB: return fmt::format("{}", value.b());
    case AttrValue::kS: return value.s().substr(0, 40);
    case AttrValue::kType: return std::string(dtype_name(static_cast<DType>(value.type())));
    case AttrValue::kList: return fmt::format("[{}]", fmt::join(value.list().i(), ", "));
    case AttrValue::kShape: {
      std::vector<std::int64_t> dims;
      for (const auto& dim : value.shape().dim()) dims.push_back(dim.size());
      return value.shape().unknown_rank() ? "shape of unknown rank" : fmt::format("shape {}", dims);
    }
    case AttrValue::kTensor: {
      AttrValue shape;
      *shape.mutable_shape() = value.tensor().tensor_shape();
      return fmt::format("{} of {}", dtype_name(static_cast<DType>(value.tensor().dtype())), text_of(shape));
    }
    default: return "...";
  }
}

std::string text_of(const NodeDef& node) {
  std::string text = fmt::format("{} = {}({}", node.name(), node.op(), fmt::join(node.input(), ", "));
  for (const auto& [name, value] : node.attr()) text += fmt::format(", {}={}", name, text_of(value));
  return text + ")";
}

// The nodes that differ from the seed's.
std::string differences(const GraphDef& seed, const GraphDef& graph) {
  std::string text;
  const auto compare = [&](const Nodes& before, const Nodes& after) {
    for (int i = 0; i < after.size(); ++i) {
      if (before[i].SerializeAsString() == after[i].SerializeAsString()) continue;
      text += text_of(after[i]) + "; ";
    }
  };
  compare(seed.node(), graph.node());
  for (int i = 0; i < graph.library().function_size(); ++i) {
    compare(seed.library().function(i).node_def(), graph.library().function(i).node_def());
  }
  return text;
}

}  // namespace

Target graphs_target(std::vector<std::string> seeds) {
  const auto operations = ops::Table::instance().names_with_kernel();
  return {[seeds, operations](std::uint64_t seed) { return run(changed(seed, seeds, operations)); },
          [seeds, operations](std::uint64_t seed) {
            GraphDef before;
            before.ParseFromString(seeds[seed % seeds.size()]);
            return fmt::format("graph {}(changed: {})", seed % seeds.size(),
                               differences(before, changed(seed, seeds, operations)));
          }};
}

}  // namespace lockstep::fuzz
