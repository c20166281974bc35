// Operations that connect the devices of a job. Graphs saved under a strategy contain them; here one process runs the
// whole graph, so a group of one device is the identity, and a group whose members are all in one graph is joined when
// the graph is read. Every other group is reported.
#include <map>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/collective_ops_internal.h"
#include "lockstep/ops/call.h"

namespace lockstep::graph {
namespace {

[[noreturn]] void throw_group(std::string_view op, std::string_view size) {
  throw_unimplemented(
      fmt::format("{} connects {} devices, and a graph runs on one: export the model for one replica (call "
                  "tf.saved_model.save outside of strategy.run, or under a strategy of one device)",
                  op, size));
}

Tensors forward_alone(const Step& step, const Tensors& inputs, std::int64_t size) {
  if (size != 1) throw_group(step.node->op, std::to_string(size));
  return {inputs[0]};
}

Tensors by_attribute(const Step& step, const Tensors& inputs, RunContext&) {
  return forward_alone(step, inputs,
                       step.attr<std::int64_t>(step.attrs.find("num_devices") ? "num_devices" : "group_size"));
}

Tensors by_input(const Step& step, const Tensors& inputs, RunContext&) {
  if (!inputs[1].is_value()) throw_group(step.node->op, "an unknown number of");
  return forward_alone(step, inputs, inputs[1].item<std::int32_t>());
}

Tensors of_many(const Step& step, const Tensors&, RunContext&) { throw_group(step.node->op, "several"); }

std::string text_attr(const Node& node, std::string_view name) {
  const ops::Attr* attr = node.attrs.find(name);
  const auto* text = attr ? std::get_if<std::string>(attr) : nullptr;
  return text ? *text : "";
}

std::int64_t integer_attr(const Node& node, std::string_view name) {
  const ops::Attr* attr = node.attrs.find(name);
  const auto* number = attr ? std::get_if<std::int64_t>(attr) : nullptr;
  return number ? *number : -1;
}

// The number that a constant input is, or -1.
std::int64_t constant_input(const Graph& graph, const Node& node, std::size_t input) {
  if (input >= node.inputs.size()) return -1;
  const Node& source = graph.node(node.inputs[input].node);
  const ops::Attr* attr = source.op == "Const" ? source.attrs.find("value") : nullptr;
  const auto* value = attr ? std::get_if<Tensor>(attr) : nullptr;
  return value && value->is_value() && value->dtype() == DType::kInt32 && value->num_elements() == 1
             ? value->item<std::int32_t>()
             : -1;
}

struct Group {
  std::int64_t size = 0;
  std::string merge;  // an operation of two operands
  bool mean = false;
  std::vector<int> nodes;
};

const char* merge_operation(const std::string& name) {
  if (name == "sum" || name == "Add") return "AddV2";
  if (name == "prod" || name == "Mul") return "Mul";
  if (name == "max" || name == "Max") return "Maximum";
  return name == "min" || name == "Min" ? "Minimum" : "";
}

// The reductions of a graph by what identifies their group.
std::map<std::string, Group> groups_of(const Graph& graph) {
  std::map<std::string, Group> groups;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const bool nccl = node.op == "NcclAllReduce", first = node.op == "CollectiveReduce",
               second = node.op == "CollectiveReduceV2";
    if (!nccl && !first && !second) continue;
    const std::string merge = merge_operation(text_attr(node, nccl ? "reduction" : "merge_op"));
    std::string key = fmt::format("{} {} ", node.op, merge);
    std::int64_t size = 0;
    if (nccl) {
      key += text_attr(node, "shared_name");
      size = integer_attr(node, "num_devices");
    } else if (first) {
      key += fmt::format("{} {}", integer_attr(node, "group_key"), integer_attr(node, "instance_key"));
      size = integer_attr(node, "group_size");
    } else {
      const std::int64_t group = constant_input(graph, node, 2), instance = constant_input(graph, node, 3);
      if (group < 0 || instance < 0) continue;
      key += fmt::format("{} {}", group, instance);
      size = constant_input(graph, node, 1);
    }
    Group& found = groups[key];
    if (found.nodes.empty()) found.size = size, found.merge = merge, found.mean = text_attr(node, "final_op") == "Div";
    if (found.size != size) found.size = -1;
    found.nodes.push_back(id);
  }
  return groups;
}

int add_binary(Graph& graph, const std::string& base, const std::string& op, Output x, Output y,
               const ops::Attr& type) {
  Node node;
  node.name = graph.unique_name(base);
  node.op = op;
  node.inputs = {x, y};
  node.attrs.set("T", type);
  return graph.add(std::move(node));
}

}  // namespace

void join_collectives(Graph& graph) {
  for (const auto& [key, group] : groups_of(graph)) {
    if (group.size < 2 || group.merge.empty() || static_cast<std::int64_t>(group.nodes.size()) != group.size) continue;
    const ops::Attr* attr = graph.node(group.nodes[0]).attrs.find("T");
    if (!attr || group.mean) continue;
    const ops::Attr type = *attr;
    const std::string base = graph.node(group.nodes[0]).name + "/joined";
    Output total = graph.node(group.nodes[0]).inputs.at(0);
    for (std::size_t i = 1; i < group.nodes.size(); ++i) {
      total = {add_binary(graph, base, group.merge, total, graph.node(group.nodes[i]).inputs.at(0), type), 0};
    }
    for (const int id : group.nodes) {
      Node& node = graph.node(id);
      node.op = "Identity";
      node.inputs = {total};
      node.attrs = {{"T", type}};
    }
  }
}

ExecutorOp find_collective_operation(std::string_view op) {
  static const std::unordered_map<std::string_view, ExecutorOp> table = {
      {"NcclAllReduce", by_attribute},       {"NcclReduce", by_attribute},
      {"CollectiveReduce", by_attribute},    {"CollectiveGather", by_attribute},
      {"CollectiveBcastSend", by_attribute}, {"CollectiveReduceV2", by_input},
      {"CollectiveGatherV2", by_input},      {"CollectiveBcastSendV2", by_input},
      {"CollectiveAllToAllV2", by_input},    {"CollectiveReduceScatterV2", by_input},
      {"CollectiveBcastRecv", of_many},      {"CollectiveBcastRecvV2", of_many},
      {"CollectiveReduceV3", of_many},       {"CollectiveInitializeCommunicator", of_many},
      {"CollectiveAssignGroupV2", of_many},  {"NcclBroadcast", of_many},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::graph
