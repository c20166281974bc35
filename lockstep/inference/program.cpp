#include "lockstep/inference/program_internal.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace lockstep::inference {
namespace {

constexpr std::int64_t kMostKept = 64 << 20;  // floats of memory that the next run uses again

// x · scale + shift, with one number, or one for each element of the last axis.
struct Affine {
  int value;
  std::vector<float> scale, shift;
};

// What the chain of a single instruction computes, if that is an Affine of a whole value.
std::optional<Affine> affine_of(const Chain& chain) {
  if (chain.code().size() != 1 || chain.operands().size() != 2) return std::nullopt;
  const Chain::Instruction& in = chain.code()[0];
  if (in.function != Function::kAdd && in.function != Function::kSub && in.function != Function::kMul &&
      in.function != Function::kDiv)
    return std::nullopt;
  const int constant = chain.operands()[0].constant ? 0 : 1;
  const Chain::Operand &numbers = chain.operands()[static_cast<std::size_t>(constant)],
                       &x = chain.operands()[static_cast<std::size_t>(1 - constant)];
  const std::int64_t count = product_of(numbers.dims);
  if (!numbers.constant || x.value < 0 || !chain.is_whole(1 - constant) || in.a == in.b) return std::nullopt;
  if (count != 1 && (chain.dims().empty() || count != chain.dims().back() || numbers.dims.back() != count))
    return std::nullopt;
  const bool reversed = in.a == constant;  // constant - x, constant / x
  if (reversed && in.function == Function::kDiv) return std::nullopt;
  Affine out{x.value, std::vector<float>(static_cast<std::size_t>(count), 1.0f),
             std::vector<float>(static_cast<std::size_t>(count), 0.0f)};
  for (std::size_t i = 0; i < out.scale.size(); ++i) {
    const float number = numbers.constant.data[i];
    switch (in.function) {
      case Function::kAdd: out.shift[i] = number; break;
      case Function::kSub: out.shift[i] = reversed ? number : -number, out.scale[i] = reversed ? -1.0f : 1.0f; break;
      case Function::kMul: out.scale[i] = number; break;
      default: out.scale[i] = 1 / number;
    }
    if (!std::isfinite(out.scale[i]) || !std::isfinite(out.shift[i])) return std::nullopt;
  }
  return out;
}

// Memory that is in use from one step to another.
struct Storage {
  std::int64_t size = 0, offset = -1;
  std::size_t begin = 0, end = 0;
  bool in_arena = true;
};

}  // namespace

int Program::add_value(std::int64_t floats) {
  sizes_.push_back(floats);
  return static_cast<int>(sizes_.size()) - 1;
}

int Program::add_constant(Constant constant) {
  constants_.emplace_back(add_value(0), std::move(constant));
  return constants_.back().first;
}

void Program::finish(std::vector<int> inputs, std::vector<int> outputs, WeightStore& weights) {
  inputs_ = std::move(inputs), outputs_ = std::move(outputs);
  drop_unread();
  join_elementwise();
  for (const StepPtr& step : steps_) {
    step->prepare(weights);
    alone_.push_back(step->pays_threads() ? 0 : 1);
  }
  plan_memory();
}

void Program::drop_unread() {
  std::vector<char> read(sizes_.size(), 0);
  for (const int value : outputs_) read[static_cast<std::size_t>(value)] = 1;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (!read[static_cast<std::size_t>((*step)->result())]) {
      step->reset();
      continue;
    }
    for (const int value : (*step)->reads()) read[static_cast<std::size_t>(value)] = 1;
  }
  std::erase_if(steps_, [](const StepPtr& step) { return !step; });
}

void Program::move_step(std::size_t from, std::size_t to) {
  StepPtr step = std::move(steps_[from]);
  steps_[to] = std::move(step);
}

// A step and the elementwise step that reads its result become one, in the place of the second.
void Program::join_elementwise() {
  std::vector<int> producer(sizes_.size(), -1), uses(sizes_.size(), 0);
  for (const StepPtr& step : steps_) {
    for (const int value : step->reads()) ++uses[static_cast<std::size_t>(value)];
  }
  for (const int value : outputs_) ++uses[static_cast<std::size_t>(value)];
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!fold(i, producer, uses)) {
      while (join(i, producer, uses)) {
      }
    }
    producer[static_cast<std::size_t>(steps_[i]->result())] = static_cast<int>(i);
  }
  std::erase_if(steps_, [](const StepPtr& step) { return !step; });
}

bool Program::fold(std::size_t at, const std::vector<int>& producer, const std::vector<int>& uses) {
  const auto* const step = dynamic_cast<const ElementwiseStep*>(steps_[at].get());
  const std::optional<Affine> affine = step ? affine_of(step->chain()) : std::nullopt;
  if (!affine || uses[static_cast<std::size_t>(affine->value)] != 1) return false;
  const int from = producer[static_cast<std::size_t>(affine->value)];
  if (from < 0) return false;
  Step& source = *steps_[static_cast<std::size_t>(from)];
  const bool same_channels = !source.dims().empty() && source.dims().back() == step->dims().back();
  if ((affine->scale.size() > 1 && !same_channels) || !source.fold(affine->scale, affine->shift)) return false;
  source.rename(step->result());
  move_step(static_cast<std::size_t>(from), at);
  return true;
}

// One of the steps whose results the elementwise step at `at` reads, if there is one that can: elementwise steps come
// first, since nothing can be joined with the step at `at` when it is another one. Then the latest.
bool Program::join(std::size_t at, const std::vector<int>& producer, std::vector<int>& uses) {
  const auto* const step = dynamic_cast<const ElementwiseStep*>(steps_[at].get());
  if (!step) return false;
  const std::vector<int> reads = step->reads();
  std::pair<bool, int> best = {false, -1};
  int own = -1;
  for (const int value : reads) {
    const auto v = static_cast<std::size_t>(value);
    const int operand = step->chain().whole_operand(value);
    if (uses[v] != 1 || producer[v] < 0 || operand < 0) continue;
    const Step* const source = steps_[static_cast<std::size_t>(producer[v])].get();
    const std::pair candidate = {dynamic_cast<const ElementwiseStep*>(source) != nullptr, producer[v]};
    if (candidate > best) best = candidate, own = operand;
  }
  if (best.second < 0) return false;
  const auto from = static_cast<std::size_t>(best.second);
  const std::vector<int> others = steps_[from]->reads();
  if (!steps_[from]->follow(step->chain(), own, step->result())) return false;
  // What both read has one reader now.
  for (const int value : others) uses[static_cast<std::size_t>(value)] -= std::ranges::count(reads, value) > 0;
  move_step(from, at);
  return true;
}

void Program::plan_memory() {
  std::vector<Storage> storages(sizes_.size());
  std::vector<std::size_t> storage_of(sizes_.size());
  std::vector<std::size_t> last_read(sizes_.size(), 0);
  for (std::size_t v = 0; v < sizes_.size(); ++v) storages[v].size = aligned(sizes_[v]), storage_of[v] = v;
  for (const int value : inputs_) storages[static_cast<std::size_t>(value)].in_arena = false;
  for (const int value : outputs_) storages[static_cast<std::size_t>(value)].in_arena = false;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for (const int value : steps_[i]->reads()) last_read[static_cast<std::size_t>(value)] = i;
  }
  std::vector<char> written(sizes_.size(), 0);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto result = static_cast<std::size_t>(steps_[i]->result());
    written[result] = 1;
    storages[result].begin = i;
    storages[result].end = std::max(last_read[result], i);
    const auto* const elementwise = dynamic_cast<const ElementwiseStep*>(steps_[i].get());
    if (!elementwise || !storages[result].in_arena) continue;
    for (const int value : elementwise->reads()) {  // in the place of an operand that nobody reads later
      const auto v = static_cast<std::size_t>(value);
      Storage& storage = storages[storage_of[v]];
      if (!storage.in_arena || last_read[v] != i || storage.end != i || elementwise->chain().whole_operand(value) < 0)
        continue;
      storage_of[result] = storage_of[v];
      storage.end = storages[result].end;
      break;
    }
  }
  std::vector<std::size_t> order;
  for (std::size_t v = 0; v < sizes_.size(); ++v) {
    if (written[v] && storage_of[v] == v && storages[v].in_arena) order.push_back(v);
  }
  const std::size_t first_workspace = storages.size();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    storages.push_back({aligned(steps_[i]->workspace()), -1, i, i, true});
    if (steps_[i]->workspace() > 0) order.push_back(first_workspace + i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return storages[a].size > storages[b].size; });
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t s : order) {
    Storage& storage = storages[s];
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      const Storage& o = storages[other];
      if (o.end < storage.begin || storage.end < o.begin) continue;
      if (offset + storage.size <= o.offset) break;
      offset = std::max(offset, o.offset + o.size);
    }
    storage.offset = offset;
    arena_size_ = std::max(arena_size_, offset + storage.size);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), s,
                         [&](std::size_t a, std::size_t b) { return storages[a].offset < storages[b].offset; }),
        s);
  }
  for (std::size_t v = 0; v < sizes_.size(); ++v) offsets_.push_back(storages[storage_of[v]].offset);
  for (std::size_t i = 0; i < steps_.size(); ++i)
    workspaces_.push_back(std::max<std::int64_t>(0, storages[first_workspace + i].offset));
}

Floats Program::take_arena() const {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return allocate(arena_size_);
  Floats arena = std::move(free_.back());
  free_.pop_back();
  return arena;
}

Run Program::begin(float* arena, bool alone, const std::function<void()>& before_step) const {
  Run run;
  run.arena = arena, run.alone = alone, run.before_step = &before_step;
  run.memory.resize(sizes_.size());
  for (std::size_t v = 0; v < sizes_.size(); ++v) {
    if (offsets_[v] >= 0) run.memory[v] = arena + offsets_[v];
  }
  // Steps do not write to inputs and constants.
  for (const auto& [value, constant] : constants_)
    run.memory[static_cast<std::size_t>(value)] = const_cast<float*>(constant.data);
  return run;
}

void Program::set_input(Run& run, std::size_t i, const void* memory) const {
  run.memory[static_cast<std::size_t>(inputs_[i])] = const_cast<float*>(static_cast<const float*>(memory));
}
void Program::set_output(Run& run, std::size_t i, float* memory) const {
  run.memory[static_cast<std::size_t>(outputs_[i])] = memory;
}

void Program::run_steps(Run& run) const {
  const bool alone = run.alone;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    (*run.before_step)();
    run.workspace = run.arena + workspaces_[i];
    run.alone = alone || alone_[i];
    steps_[i]->run(run);
  }
  run.alone = alone;
}

std::int64_t Program::weights_read() const {
  std::int64_t floats = 0;
  for (const StepPtr& step : steps_) floats += step->weights_read();
  return floats;
}

bool Program::pays_threads() const {
  return std::ranges::any_of(alone_, [](char alone) { return !alone; });
}

void Program::run(const std::vector<const void*>& inputs, const std::vector<float*>& outputs, bool alone,
                  const std::function<void()>& before_step) const {
  Floats arena = take_arena();
  Run run = begin(arena.begin, alone, before_step);
  for (std::size_t i = 0; i < inputs.size(); ++i) set_input(run, i, inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) set_output(run, i, outputs[i]);
  run_steps(run);
  if (arena_size_ > kMostKept) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(arena));
}

}  // namespace lockstep::inference
