#include "lockstep/keras/optimizers/fused_optimizer_internal.h"

#include <cstring>
#include <unordered_map>

#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/gradient_sums_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/distribute/variable_memory_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"

namespace lockstep::optimizers {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t bytes_of(const distribute::VariableImpl& variable) {
  return static_cast<std::size_t>(variable.shape().num_elements().value()) * dtype_size(variable.dtype());
}

}  // namespace

// A place for each slot in memory that the workers of one machine see.
struct FusedOptimizer::SlotMemory {
  struct Place {
    std::byte* at;
    Tensor value;
  };
  collectives::CommunicatorPtr workers;
  std::shared_ptr<std::byte> memory;  // null: not available
  std::unordered_map<const distribute::VariableImpl*, Place> places;

  SlotMemory(collectives::CommunicatorPtr group, const Variables& slots) : workers(std::move(group)) {
    std::size_t size = kAlignment;
    for (const VariablePtr& slot : slots) size += io::align_up(bytes_of(*slot), kAlignment);
    memory = collectives::Transport::shared_memory(*workers, size);
    std::byte* at = memory.get();
    for (const VariablePtr& slot : slots) {
      if (!memory) break;
      places[slot.get()] = {
          at, Tensor::from_data(formats::TensorData{slot->dtype(), slot->shape(), {at, bytes_of(*slot)}, {}, memory})};
      at += io::align_up(bytes_of(*slot), kAlignment);
    }
  }
};

// A step while it is made. It knows memory and no variables, as these wait for what it makes.
struct FusedOptimizer::Shards {
  struct Slot {
    SlotMemory::Place place;
    formats::TensorData before;  // its value, unless that is in place already
  };
  struct Shard {
    ops::FusedUpdate update;
    const std::byte* value;
    std::vector<Slot> slots;
  };
  ops::FusedRule rule;
  std::vector<Shard> shards;

  void make(std::size_t shard, std::int64_t begin, std::int64_t count, float* piece) const {
    const Shard& mine = shards[shard];
    const auto offset = static_cast<std::size_t>(begin) * sizeof(float),
               bytes = static_cast<std::size_t>(count) * sizeof(float);
    for (const Slot& slot : mine.slots) {
      if (!slot.before.bytes.empty()) std::memcpy(slot.place.at + offset, slot.before.bytes.data() + offset, bytes);
    }
    ops::update_piece(mine.update, rule, begin, count, piece);
    std::memcpy(piece, mine.value + offset, bytes);
  }
};

bool set_hyperparameter(Optimizer& optimizer, std::string_view name, double value) {
  if (name != "learning_rate") {
    auto* const fused = dynamic_cast<FusedOptimizer*>(&optimizer);
    return fused && fused->set_hyperparameter(name, value);
  }
  LearningRate& rate = StepAccess::learning_rate(optimizer);
  const Json config = rate.schedule() ? (*rate.schedule())->get_config() : Json();
  if (!config.is_object() || !config.contains("decay_rate")) return false;
  rate = schedules::InverseTimeDecay(value, 1, config.at("decay_rate").get<double>());
  return true;
}

void FusedOptimizer::keep_ranges() {
  auto* const strategy = is_elementwise() ? distribute::Strategy::current() : nullptr;
  if (!strategy || !strategy->workers() || !distribute::GradientSums::begin(*strategy, 0, false)->shards_state())
    return;
  for (const VariablePtr& slot : slots_) {
    if (slot->dtype() == DType::kFloat32 && bytes_of(*slot) >= static_cast<std::size_t>(collectives::kBytesOfLarge))
      keep_range(*slot, strategy->workers(), true);
  }
}

std::optional<ShardedStep> FusedOptimizer::shard(const collectives::CommunicatorPtr& workers,
                                                 const collectives::GradientSum& sum, const Tensors& gradients,
                                                 const Variables& variables) {
  if (!is_elementwise()) return std::nullopt;
  build(variables);
  if (sum.shards_state()) return shard_ranges(workers, gradients, variables);
  std::vector<std::size_t> indices, places, whole, places_of_whole;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const bool shared = !ops::slices_of(gradients[i]) && ops::fusable(variables[i]->shared_value(), gradients[i]) &&
                        sum.takes_update(gradients[i]);
    (shared ? places : places_of_whole).push_back(i);
    (shared ? indices : whole).push_back(index_of(variables[i]));
  }
  if (indices.empty()) return std::nullopt;
  if (!memory_ || memory_->workers != workers) memory_ = std::make_shared<SlotMemory>(workers, slots_);
  if (!memory_->memory) return std::nullopt;

  const Step step = begin_step(std::move(indices), {});
  auto shards = std::make_shared<Shards>();
  shards->rule = rule(step);
  ShardedStep sharded;
  sharded.updates.resize(gradients.size());
  Variables updated;
  std::vector<std::pair<VariablePtr, Tensor>> common;
  for (std::size_t k = 0; k < places.size(); ++k) {
    Shards::Shard shard;
    updated.push_back(variables[places[k]]);
    shard.update.value = writable(updated.back());
    shard.update.decay = step.decays[k];
    shard.value = shard.update.value.to_data().bytes.data();
    const Slots slots = slots_of(step.indices[k]);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!slots[i]) continue;
      Shards::Slot slot{memory_->places.at(slots[i].get()), {}};
      shard.update.slots[i] = slot.place.value;
      common.emplace_back(slots[i], slot.place.value);
      if (!same(slots[i]->shared_value(), slot.place.value)) slot.before = slots[i]->numpy().to_data();
      shard.slots.push_back(std::move(slot));
    }
    sharded.updates[places[k]] = {
        shard.update.value,
        [shards, k](std::int64_t begin, std::int64_t count, float* piece) { shards->make(k, begin, count, piece); }};
    shards->shards.push_back(std::move(shard));
  }
  sharded.commit = [this, updated, common, indices = step.indices, whole, places_of_whole](
                       const Tensors& sums, const std::shared_ptr<collectives::Pending>& others) {
    for (const VariablePtr& variable : updated) distribute::VariableMemory::set_pending_update(*variable, others);
    for (const auto& [slot, value] : common) {
      distribute::VariableMemory::set(*slot, value);
      distribute::VariableMemory::set_pending_update(*slot, others);
    }
    Tensors of_whole;
    for (const std::size_t place : places_of_whole) of_whole.push_back(sums[place]);
    end_step(indices, whole, std::move(of_whole));
  };
  return sharded;
}

// Every worker gets the sums of the gradients, updates its range of each large variable and gathers the others'
// weights.
std::optional<ShardedStep> FusedOptimizer::shard_ranges(const collectives::CommunicatorPtr& workers,
                                                        const Tensors& gradients, const Variables& variables) {
  std::vector<std::size_t> indices, places, whole, places_of_whole;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const bool shared = !ops::slices_of(gradients[i]) && ops::fusable(variables[i]->shared_value(), gradients[i]) &&
                        bytes_of(*variables[i]) >= static_cast<std::size_t>(collectives::kBytesOfLarge);
    (shared ? places : places_of_whole).push_back(i);
    (shared ? indices : whole).push_back(index_of(variables[i]));
  }
  if (indices.empty()) return std::nullopt;
  ShardedStep sharded;
  sharded.commit = [this, workers, indices, places, whole, places_of_whole](const Tensors& sums, const auto&) {
    const Step step = begin_step(indices, {});
    for (std::size_t k = 0; k < indices.size(); ++k) {
      const VariablePtr& variable = trainable_[indices[k]];
      const ElementRanges range(variable->shape(), workers->rank(), workers->size());
      ops::FusedUpdate update{writable(variable), sums[places[k]], {}, step.decays[k]};
      const Slots slots = slots_of(indices[k]);
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (!slots[i]) continue;
        const auto slot = keep_range(*slots[i], workers);
        slot->release();
        update.slots[i] = slot->value();
      }
      const auto* const sum = reinterpret_cast<const float*>(sums[places[k]].to_data().bytes.data());
      ops::update_piece(update, rule(step), range.begin, range.end - range.begin, sum + range.begin);
      const auto weights = update.value.to_data().bytes;
      collectives::gather_ranges(*workers, {const_cast<std::byte*>(weights.data()), weights.size()}, range.ends);
    }
    Tensors of_whole;
    for (const std::size_t place : places_of_whole) of_whole.push_back(sums[place]);
    end_step(indices, whole, std::move(of_whole));
  };
  return sharded;
}

void FusedOptimizer::update(Step& step) {
  prepare(step);
  std::vector<ops::FusedUpdate> fused;
  for (std::size_t i = 0; i < step.indices.size(); ++i) {
    const std::size_t index = step.indices[i];
    const VariablePtr& variable = trainable_[index];
    const Tensor& gradient = step.gradients[i];
    const Slots slots = slots_of(index);
    const bool rows_only = changes_rows_only() && ops::slices_of(gradient);
    for (const VariablePtr& slot : slots) {
      if (slot) keep_whole(*slot);
    }
    const bool taken = takes_slices() || !ops::slices_of(gradient);
    if (!fuses() || !taken || !ops::fusable(variable->shared_value(), gradient)) {
      Tensor& value = variable->shared_value();
      const auto update_all = [&](const Tensor& g) { update_one(index, value, g, step.decays[i], step); };
      if (rows_only) {
        update_rows(gradient, value, slots, update_all);
      } else {
        update_all(gradient);
      }
      continue;
    }
    ops::FusedUpdate update{writable(variable), gradient, {}, step.decays[i], rows_only};
    for (std::size_t k = 0; k < slots.size(); ++k) {
      if (slots[k]) update.slots[k] = writable(slots[k]);
    }
    fused.push_back(std::move(update));
  }
  ops::update_fused(fused, rule(step));
}

}  // namespace lockstep::optimizers
