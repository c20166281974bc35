#include "lockstep/graph/reciprocals_internal.h"

#include <algorithm>
#include <array>

#include "lockstep/ops/attributes_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 16;
constexpr int kMostNodes = 8;  // between the constant and the quotient
// Of one input, whose shape the output has.
constexpr std::array<std::string_view, 6> kFolded = {"Identity", "Cast", "Sqrt", "Rsqrt", "Square", "Neg"};

std::optional<Tensor> constant_of(const Graph& graph, const std::vector<char>& fed, Output output, int left) {
  if (output.node < 0 || output.node >= graph.size() || output.output != 0) return std::nullopt;
  const Node& node = graph.node(output.node);
  if (left == 0 || fed[static_cast<std::size_t>(output.node)]) return std::nullopt;
  if (node.op == "Const") {
    const auto* value = ops::find_attribute<Tensor>(node.attrs, "value");
    if (!value || !value->defined() || !value->is_value() || value->num_elements() > kMostElements) return std::nullopt;
    return *value;
  }
  if (node.inputs.size() != 1 || std::find(kFolded.begin(), kFolded.end(), node.op) == kFolded.end())
    return std::nullopt;
  const auto input = constant_of(graph, fed, node.inputs[0], left - 1);
  const ops::Op* op = ops::Table::instance().find(node.op);
  if (!input || input->dtype() == DType::kString) return std::nullopt;
  try {
    const std::array inputs{*input};
    return ops::run_kernel(*op, inputs, ops::complete_attrs(*op->signature, inputs, node.attrs))[0];
  } catch (const Error&) {
    return std::nullopt;  // reported when the node runs
  }
}

}  // namespace

std::optional<Graph> with_reciprocals(const Graph& graph, const std::vector<char>& fed) {
  std::optional<Graph> changed;
  const ops::Op* reciprocal = ops::Table::instance().find("Reciprocal");
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if ((node.op != "RealDiv" && node.op != "Div") || node.inputs.size() != 2 || !node.gradient.empty()) continue;
    const auto divisor = constant_of(graph, fed, node.inputs[1], kMostNodes);
    if (!divisor || (!is_floating(divisor->dtype()) && !is_complex(divisor->dtype()))) continue;
    if (constant_of(graph, fed, node.inputs[0], kMostNodes)) continue;  // both are folded into the quotient
    const std::array inputs{*divisor};
    const Tensor factor =
        ops::run_kernel(*reciprocal, inputs, ops::complete_attrs(*reciprocal->signature, inputs, {}))[0];
    if (!changed) changed = graph;
    Node constant{changed->unique_name(node.name + "/reciprocal"), "Const", {}, {}, {}, {}, {}};
    constant.attrs = {{"dtype", factor.dtype()}, {"value", factor}};
    const int added = changed->add(std::move(constant));
    changed->node(id).op = "Mul";
    changed->node(id).inputs[1] = {added, 0};
  }
  return changed;
}

}  // namespace lockstep::graph
