// Sequences of steps on small tensors, which run as one program.
#include <algorithm>
#include <unordered_map>

#include "lockstep/graph/plan_internal.h"

namespace lockstep::graph {
namespace {

constexpr std::size_t kMostSteps = 4096;

// Identity is the executor's own operation because of references, which a program does not take.
bool fits(const Step& step) {
  return step.op && step.node->gradient.empty() && !step.for_gradients &&
         (!step.executor_op || step.node->op == "Identity") &&
         ops::SmallProgram::supports(*step.op, step.attrs, step.input_types);
}

}  // namespace

void Plan::find_small_regions() {
  std::unordered_map<int, const Tensor*> constants;
  for (const auto& [value, tensor] : constants_) {
    if (tensor.dtype() != DType::kString && tensor.is_value() && tensor.rank() <= ops::kSmallRank)
      constants.emplace(value, &tensor);
  }
  std::vector<std::vector<int>> groups;
  std::vector<int> group_of(steps_.size(), -1);
  bool open = false;
  for (const int id : order_) {
    const auto at = static_cast<std::size_t>(id);
    if (steps_[at].node->op == "NoOp") continue;  // the order is all that it is for
    if (!fits(steps_[at])) {
      schedule_.push_back(id);
      open = false;
      continue;
    }
    if (!open || groups.back().size() == kMostSteps) {
      schedule_.push_back(~static_cast<int>(groups.size()));
      groups.emplace_back();
      open = true;
    }
    groups.back().push_back(id);
    group_of[at] = static_cast<int>(groups.size()) - 1;
  }

  std::vector<char> wanted(static_cast<std::size_t>(num_values_), 0);  // outside of the group that computes it
  std::vector<int> group_by_value(static_cast<std::size_t>(num_values_), -1);
  for (std::size_t id = 0; id < steps_.size(); ++id) {
    for (int i = 0; i < steps_[id].num_outputs; ++i) {
      group_by_value[static_cast<std::size_t>(steps_[id].first_output + i)] = group_of[id];
    }
  }
  const auto group_of_value = [&](int value) { return group_by_value[static_cast<std::size_t>(value)]; };
  for (const Output& fetch : fetches_) {
    wanted[static_cast<std::size_t>(first_value_[static_cast<std::size_t>(fetch.node)] + fetch.output)] = 1;
  }
  for (std::size_t id = 0; id < steps_.size(); ++id) {
    for (const int value : steps_[id].inputs) {
      if (group_of[id] < 0 || group_of_value(value) != group_of[id]) wanted[static_cast<std::size_t>(value)] = 1;
    }
  }

  for (std::size_t number = 0; number < groups.size(); ++number) {
    SmallRegion region;
    std::unordered_map<int, int> places;  // number in the program by value
    for (const int id : groups[number]) {
      const Step& step = steps_[static_cast<std::size_t>(id)];
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        const int value = step.inputs[i];
        if (places.contains(value) || group_of_value(value) == static_cast<int>(number)) continue;
        if (const auto constant = constants.find(value); constant != constants.end()) {
          places.emplace(value, region.program.add_constant(*constant->second));
          region.constants.emplace_back(value, *constant->second);
        } else {
          places.emplace(value, region.program.add_input(step.input_types[i]));
          region.inputs.push_back(value);
        }
      }
    }
    for (const int id : groups[number]) {
      const Step& step = steps_[static_cast<std::size_t>(id)];
      std::vector<int> operands;
      for (const int value : step.inputs) operands.push_back(places.at(value));
      const int first =
          region.program.add_instruction(*step.op, step.attrs, step.input_types, std::move(operands), step.num_outputs);
      for (int i = 0; i < step.num_outputs; ++i) {
        const int value = step.first_output + i;
        places.emplace(value, first + i);
        if (!wanted[static_cast<std::size_t>(value)]) continue;
        region.program.add_output(first + i);
        region.outputs.push_back(value);
      }
      for (const int value : step.last_uses) {
        if (group_of_value(value) != static_cast<int>(number)) region.last_uses.push_back(value);
      }
    }
    region.steps = std::move(groups[number]);
    regions_.push_back(std::move(region));
  }
  // Constants that only regions use are not copied into each run.
  std::vector<char> used(static_cast<std::size_t>(num_values_), 0);
  for (const Output& fetch : fetches_) {
    used[static_cast<std::size_t>(first_value_[static_cast<std::size_t>(fetch.node)] + fetch.output)] = 1;
  }
  for (const int item : schedule_) {
    if (item < 0) continue;
    for (const int value : steps_[static_cast<std::size_t>(item)].inputs) used[static_cast<std::size_t>(value)] = 1;
  }
  for (const auto& constant : constants_) {
    const bool in_regions_only = !used[static_cast<std::size_t>(constant.first)] && constants.contains(constant.first);
    if (!in_regions_only) copied_constants_.push_back(constant);
  }
}

std::optional<ops::SmallLoopPart> Plan::as_loop_part() const {
  if (dataflow_ || schedule_.size() != 1 || schedule_[0] >= 0) return std::nullopt;
  const SmallRegion& region = regions_[0];
  const auto feed_of = [&](int value) {
    for (std::size_t i = 0; i < feeds_.size(); ++i) {
      const int first = first_value_[static_cast<std::size_t>(feeds_[i].node)];
      if (first >= 0 && first + feeds_[i].output == value) return static_cast<int>(i);
    }
    return -1;
  };
  ops::SmallLoopPart part;
  part.program = &region.program;
  for (const int value : region.inputs) {
    part.variables.push_back(feed_of(value));
    if (part.variables.back() < 0) return std::nullopt;
  }
  for (const Output& fetch : fetches_) {
    const int value = first_value_[static_cast<std::size_t>(fetch.node)] + fetch.output;
    const auto output = std::find(region.outputs.begin(), region.outputs.end(), value);
    if (output != region.outputs.end()) {
      part.results.push_back(static_cast<int>(output - region.outputs.begin()));
    } else if (const int feed = feed_of(value); feed >= 0) {
      part.results.push_back(~feed);
    } else {
      return std::nullopt;
    }
  }
  return part;
}

bool Plan::run_region(const SmallRegion& region, Tensors& values, RunContext& context) const {
  if (context.recording) return false;
  thread_local std::vector<const Tensor*> inputs;
  thread_local Tensors outputs;
  inputs.clear();
  for (const int value : region.inputs) inputs.push_back(&values[static_cast<std::size_t>(value)]);
  outputs.resize(region.outputs.size());
  context.budget.begin_step(steps_[static_cast<std::size_t>(region.steps[0])].node->name);
  if (!region.program.run(inputs, outputs)) return false;
  for (std::size_t i = 0; i < region.outputs.size(); ++i) {
    values[static_cast<std::size_t>(region.outputs[i])] = std::move(outputs[i]);
  }
  for (const int value : region.last_uses) values[static_cast<std::size_t>(value)] = Tensor();
  return true;
}

}  // namespace lockstep::graph
