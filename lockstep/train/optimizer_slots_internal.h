// An optimizer's slots by kind, and what Keras 2 and 3 call the kinds.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/keras/optimizers/optimizers.h"

namespace lockstep::train {

struct SlotKind {
  std::string_view class_name;    // "" for every optimizer
  std::string_view suffix;        // of the variable's path
  std::string_view attribute;     // Keras 3's list of these slots
  std::string_view keras2_first;  // in Keras 2's first optimizers, until 2.10; "" if they lacked it
  std::string_view keras2;        // in the optimizers of Keras 2.11 and later
  // Whether Keras 3 finds slots of a checkpoint by this list: not where it fills the list after assigning it.
  bool in_checkpoints = true;
};

// Slots of one kind, and the variables they belong to.
struct OptimizerSlots {
  const SlotKind* kind = nullptr;
  std::vector<distribute::VariablePtr> slots;
  std::vector<distribute::VariablePtr> originals;
};

// In the order of Keras's attributes; kinds without slots are left out.
std::vector<OptimizerSlots> slots_of(const optimizers::Optimizer& optimizer);

// Whether a learning rate is what `decay` of Keras 2's first optimizers is read as.
bool is_decay_of_each_step(const Json& rate);
// The numbers that Keras 2's first optimizers have in checkpoints, with their names there: decay, beta_1, …; the
// learning rate unless it is a schedule.
std::vector<std::pair<std::string, double>> first_hyperparameters(const optimizers::Optimizer& optimizer);

}  // namespace lockstep::train
