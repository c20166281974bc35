// Variables that a graph sets to what follows from variables and constants alone.
#include <algorithm>

#include "lockstep/graph/lowering_internal.h"
#include "lockstep/ops/call.h"

namespace lockstep::graph {
namespace {

bool sets_variable(std::string_view op) {
  return op == "AssignVariableOp" || op == "AssignAddVariableOp" || op == "AssignSubVariableOp";
}

const VariableResource* variable_of(const Lowered& resource) {
  if (!resource.is_constant() || resource.dtype != DType::kResource) return nullptr;
  return dynamic_cast<const VariableResource*>(resource.constant.resource_value().get());
}

}  // namespace

int Effects::add(const Step& step, std::span<const Lowered> inputs) {
  Item item{step.op, step.attrs, {}, {}, num_values_, step.num_outputs};
  for (const Lowered& input : inputs) item.constants.push_back(input.constant), item.values.push_back(input.later);
  items_.push_back(std::move(item));
  num_values_ += step.num_outputs;
  return num_values_ - step.num_outputs;
}

void Effects::finish() {
  std::vector<char> needed(static_cast<std::size_t>(num_values_), 0);
  std::vector<Item> kept;
  for (auto item = items_.rbegin(); item != items_.rend(); ++item) {
    bool stays = item->num_outputs == 0;
    for (int i = 0; i < item->num_outputs; ++i) stays |= needed[static_cast<std::size_t>(item->first_output + i)] != 0;
    if (!stays) continue;
    for (const int value : item->values) {
      if (value >= 0) needed[static_cast<std::size_t>(value)] = 1;
    }
    kept.push_back(std::move(*item));
  }
  std::ranges::reverse(kept);
  items_ = std::move(kept);
}

void Effects::run() const {
  if (items_.empty()) return;
  Tensors values(static_cast<std::size_t>(num_values_));
  for (const Item& item : items_) {
    Tensors inputs = item.constants;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) inputs[i] = values[static_cast<std::size_t>(item.values[i])];
    }
    Tensors outputs = ops::run_kernel(*item.op, inputs, item.attrs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      values[static_cast<std::size_t>(item.first_output) + i] = std::move(outputs[i]);
  }
}

bool Lowering::is_for_later(const Step& step, std::span<const Lowered> inputs) const {
  const std::string& op = step.node->op;
  if (sets_variable(op) || std::ranges::any_of(inputs, &Lowered::is_later)) return true;
  return op == "ReadVariableOp" && set_.contains(variable_of(inputs[0]));
}

std::vector<Lowered> Lowering::lower_later(const Step& step, std::vector<Lowered> inputs) {
  if (passes_on(step.node->op)) return inputs;
  require(step.op && step.op->kernel && !step.executor_op && !frame_);
  const bool known = std::ranges::all_of(inputs, [](const Lowered& input) {
    return (input.is_constant() && !input.other.defined() && !input.series) || input.later >= 0;
  });
  if (sets_variable(step.node->op)) {
    const VariableResource* const variable = variable_of(inputs[0]);
    require(variable && variable->is_initialized() && known);
    if (set_.insert(variable).second) throw SetsVariable{};
    effects_.add(step, inputs);
    return {};
  }
  const bool reads = step.node->op == "ReadVariableOp";
  const auto is_resource = [](const Lowered& input) { return input.dtype == DType::kResource; };
  require(reads || (!step.op->signature->stateful && std::ranges::none_of(inputs, is_resource)));
  std::vector<Lowered> outputs;
  const int first = known ? effects_.add(step, inputs) : 0;
  for (const ops::OutputType& type : ops::infer_outputs(*step.op, symbols_of(inputs, false), step.attrs)) {
    require(type.shape.fully_known());
    Lowered& output = outputs.emplace_back();
    output.dtype = type.dtype, output.dims = output.other_dims = type.shape.dims();
    output.later = known ? first + static_cast<int>(outputs.size()) - 1 : Lowered::kLost;
  }
  return outputs;
}

}  // namespace lockstep::graph
