#include "lockstep/graph/late_reads_internal.h"

#include <algorithm>
#include <set>

#include "lockstep/graph/plan_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {
namespace {

constexpr int kMostIdentities = 16;  // behind each other

bool is_variable(const Node& node) { return node.op == "VariableV2" || node.op == "Variable"; }

std::vector<int> needed_nodes(const Graph& graph, const std::vector<char>& fed, const std::vector<Output>& fetches,
                              const std::vector<int>& targets) {
  std::vector<char> seen(graph.nodes().size(), 0);
  std::vector<int> stack = targets, found;
  for (const Output& fetch : fetches) stack.push_back(fetch.node);
  while (!stack.empty()) {
    const int id = stack.back();
    stack.pop_back();
    if (std::exchange(seen[static_cast<std::size_t>(id)], 1) || fed[static_cast<std::size_t>(id)]) continue;
    found.push_back(id);
    for (const Output& input : graph.node(id).inputs) stack.push_back(input.node);
    for (const int control : graph.node(id).control_inputs) stack.push_back(control);
  }
  return found;
}

// Variables that one of the nodes assigns to.
std::set<int> assigned_variables(const Graph& graph, const std::vector<int>& nodes) {
  std::set<int> assigned;
  for (const int id : nodes) {
    const Node& node = graph.node(id);
    const ops::Op* op = ops::Table::instance().find(node.op);
    if (!op || node.op == "IsVariableInitialized") continue;
    const auto& arguments = op->signature->inputs;
    for (std::size_t i = 0; i < std::min(arguments.size(), node.inputs.size()); ++i) {
      if (arguments[i].is_ref && is_variable(graph.node(node.inputs[i].node))) assigned.insert(node.inputs[i].node);
    }
  }
  return assigned;
}

// Nodes that read a reference when they run.
bool takes_references(const Node& node) {
  if (node.op == "Identity") return true;
  const ops::Op* op = ops::Table::instance().find(node.op);
  return op && op->kernel && !find_executor_op(node.op) &&
         std::none_of(op->signature->inputs.begin(), op->signature->inputs.end(), [](const ops::ArgDef& argument) {
           return argument.dtype == DType::kResource || !argument.type_list_attr.empty();
         });
}

}  // namespace

std::optional<Graph> with_late_reads(const Graph& graph, const std::vector<char>& fed,
                                     const std::vector<Output>& fetches, const std::vector<int>& targets) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_variable)) return std::nullopt;
  const std::vector<int> needed = needed_nodes(graph, fed, fetches, targets);
  const std::set<int> assigned = assigned_variables(graph, needed);
  if (assigned.empty()) return std::nullopt;
  const auto variable_behind = [&](Output output) -> std::optional<Output> {
    for (int i = 0; i < kMostIdentities; ++i) {
      const Node& node = graph.node(output.node);
      if (node.op != "Identity" || node.inputs.size() != 1 || fed[static_cast<std::size_t>(output.node)]) break;
      output = node.inputs[0];
      if (assigned.contains(output.node)) return output;
    }
    return std::nullopt;
  };
  std::optional<Graph> changed;
  for (const int id : needed) {
    const Node& node = graph.node(id);
    if (!takes_references(node)) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto variable = variable_behind(node.inputs[i]);
      if (!variable) continue;
      if (!changed) changed = graph;
      Node& reader = changed->node(id);
      reader.control_inputs.push_back(node.inputs[i].node);  // still after what the Identity waits for
      reader.inputs[i] = *variable;
    }
  }
  return changed;
}

}  // namespace lockstep::graph
