// Numbers of classes that follow from their limits alone, and the steps that are not needed then.
#include <optional>
#include <set>

#include "lockstep/graph/lowering_internal.h"

namespace lockstep::graph {
namespace {

std::optional<std::int64_t> scalar_of(const Tensor& tensor) {
  if (!tensor.is_value() || tensor.rank() != 0) return std::nullopt;
  if (tensor.dtype() == DType::kInt64) return tensor.item<std::int64_t>();
  if (tensor.dtype() == DType::kInt32) return tensor.item<std::int32_t>();
  return std::nullopt;
}

}  // namespace

// The size of a DenseBincount is Minimum(a, Maximum(b, x)) in the graphs of Keras, where x is computed from the largest
// index of all rows. It is `a` if a <= b; without x, a program can work on some rows of a batch.
std::map<int, Tensor> Lowering::find_settled(const Plan& plan) {
  std::map<int, Tensor> settled;
  const auto step_of = [&](const Output& output, std::string_view op) -> const Step* {
    const auto id = static_cast<std::size_t>(output.node);
    return plan.fed_[id] || plan.graph_.node(output.node).op != op ? nullptr : &plan.steps_[id];
  };
  std::vector<int> uses(static_cast<std::size_t>(plan.num_values_), 0), sizes = uses;
  for (const int id : plan.order_) {
    const Step& step = plan.steps_[static_cast<std::size_t>(id)];
    for (const int value : step.inputs) ++uses[static_cast<std::size_t>(value)];
    if (step.node->op == "DenseBincount") ++sizes[static_cast<std::size_t>(step.inputs[1])];
  }
  for (const Output& output : plan.fetches_)
    ++uses[static_cast<std::size_t>(plan.first_value_[static_cast<std::size_t>(output.node)] + output.output)];
  // The constant operand of Minimum or Maximum, and the other one.
  const auto limit = [&](const Step& step) -> std::pair<const Tensor*, const Output*> {
    for (std::size_t i = 0; i < 2; ++i) {
      const Step* const constant = step_of(step.node->inputs[i], "Const");
      const Tensor* const tensor = constant ? &constant->attr<Tensor>("value") : nullptr;
      if (tensor && scalar_of(*tensor)) return {tensor, &step.node->inputs[1 - i]};
    }
    return {nullptr, nullptr};
  };
  std::vector<int> cut;
  for (const int id : plan.order_) {
    const Step& step = plan.steps_[static_cast<std::size_t>(id)];
    const auto result = static_cast<std::size_t>(step.first_output);
    if (step.node->op != "Minimum" || sizes[result] == 0 || sizes[result] != uses[result]) continue;
    const auto [highest, inner] = limit(step);
    const Step* const maximum = highest ? step_of(*inner, "Maximum") : nullptr;
    const Tensor* const lowest = maximum ? limit(*maximum).first : nullptr;
    if (!lowest || *scalar_of(*highest) > *scalar_of(*lowest)) continue;
    settled.emplace(id, *highest);
    cut.push_back(id);
  }
  // Steps without effects that only those read.
  while (!cut.empty()) {
    const Step& step = plan.steps_[static_cast<std::size_t>(cut.back())];
    cut.pop_back();
    for (std::size_t i = 0; i < step.node->inputs.size(); ++i) {
      const int id = step.node->inputs[i].node;
      if (--uses[static_cast<std::size_t>(step.inputs[i])] > 0 || plan.fed_[static_cast<std::size_t>(id)]) continue;
      const Step& source = plan.steps_[static_cast<std::size_t>(id)];
      const bool is_pure = source.op && !source.executor_op && !source.op->signature->stateful &&
                           source.num_outputs == 1 && source.node->op != "Const";
      if (is_pure && settled.emplace(id, Tensor()).second) cut.push_back(id);
    }
  }
  return settled;
}

}  // namespace lockstep::graph
