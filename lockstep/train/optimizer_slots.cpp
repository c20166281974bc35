#include "lockstep/train/optimizer_slots_internal.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

namespace lockstep::train {
namespace {

using distribute::VariablePtr;

// In the order of Keras's attributes. Longer suffixes come before those they end with.
constexpr std::array kSlotKinds = {
    SlotKind{"", "average", "_model_variables_moving_average", "average", "average"},
    SlotKind{"", "gradient_accumulator", "_accumulated_gradients", "", ""},
    SlotKind{"SGD", "momentum", "momentums", "momentum", "m"},
    SlotKind{"RMSprop", "velocity", "_velocities", "rms", "velocity"},
    SlotKind{"RMSprop", "momentum", "_momentums", "momentum", "momentum"},
    SlotKind{"RMSprop", "average_gradient", "_average_gradients", "mg", "average_gradient"},
    SlotKind{"Adagrad", "accumulator", "_accumulators", "accumulator", "accumulator"},
    SlotKind{"Adadelta", "accumulated_grad", "_accumulated_grads", "accum_grad", "accumulated_grad"},
    SlotKind{"Adadelta", "accumulated_delta_var", "_accumulated_delta_vars", "accum_var", "accumulated_delta_var"},
    SlotKind{"Adamax", "momentum", "_m", "m", "m"},
    SlotKind{"Adamax", "norm", "_u", "v", "u"},
    SlotKind{"Ftrl", "accumulator", "_accumulators", "accumulator", "accumulator"},
    SlotKind{"Ftrl", "linear", "_linears", "linear", "linear"},
    SlotKind{"Lion", "momentum", "_momentums", "", "m"},
    SlotKind{"Adafactor", "r", "_r", "", "r", false},
    SlotKind{"Adafactor", "c", "_c", "", "c", false},
    SlotKind{"Adafactor", "velocity", "_v", "", "v", false},
    SlotKind{"Muon", "momentum", "momentums", "", "", false},
    SlotKind{"Muon", "velocity", "adam_velocities", "", "", false},
    SlotKind{"", "momentum", "_momentums", "m", "m"},
    SlotKind{"", "velocity_hat", "_velocity_hats", "vhat", "vhat"},
    SlotKind{"", "velocity", "_velocities", "v", "v"},
};

bool taken(const std::vector<OptimizerSlots>& all, const VariablePtr& variable) {
  return std::any_of(all.begin(), all.end(), [&](const OptimizerSlots& of_kind) {
    return std::find(of_kind.slots.begin(), of_kind.slots.end(), variable) != of_kind.slots.end();
  });
}

}  // namespace

std::vector<OptimizerSlots> slots_of(const optimizers::Optimizer& optimizer) {
  std::vector<OptimizerSlots> all;
  std::unordered_map<std::string, VariablePtr> by_path;
  for (const auto& variable : optimizer.trainable_variables()) {
    std::string path = variable->path();
    std::replace(path.begin(), path.end(), '/', '_');
    by_path.emplace(optimizer.name() + "/" + path, variable);
    by_path.emplace(optimizer.name() + "/" + variable->path(), variable);  // factors of Adafactor
  }
  for (const SlotKind& row : kSlotKinds) {
    if (!row.class_name.empty() && row.class_name != optimizer.class_name()) continue;
    OptimizerSlots of_kind{&row, {}, {}};
    for (const auto& variable : optimizer.variables()) {
      const std::string& path = variable->path();
      if (path.size() <= row.suffix.size() || !path.ends_with(row.suffix)) continue;
      const auto original = by_path.find(path.substr(0, path.size() - row.suffix.size() - 1));
      if (original == by_path.end() || taken(all, variable)) continue;
      of_kind.slots.push_back(variable);
      of_kind.originals.push_back(original->second);
    }
    if (!of_kind.slots.empty()) all.push_back(std::move(of_kind));
  }
  return all;
}

bool is_decay_of_each_step(const Json& rate) {
  if (!rate.is_object() || rate.value("class_name", Json()) != Json("InverseTimeDecay")) return false;
  const Json& config = rate.at("config");
  return config.value("decay_steps", Json()) == Json(1) && config.value("staircase", Json()) == Json(false);
}

std::vector<std::pair<std::string, double>> first_hyperparameters(const optimizers::Optimizer& optimizer) {
  const Json config = optimizer.get_config();
  const Json rate = config.value("learning_rate", Json());
  std::vector<std::pair<std::string, double>> all;
  const bool nadam = optimizer.class_name() == "Nadam";
  double decay = nadam && optimizer.legacy_rules() ? optimizer.legacy_rules()->schedule_decay : 0.0;
  if (rate.is_number()) {
    all.emplace_back("learning_rate", rate.get<double>());
  } else if (is_decay_of_each_step(rate) && !nadam) {
    all.emplace_back("learning_rate", rate.at("config").at("initial_learning_rate").get<double>());
    decay = rate.at("config").at("decay_rate").get<double>();
  } else if (rate.is_object() && rate.value("class_name", Json()) == Json("DecayedSchedule")) {
    decay = rate.at("config").at("decay").get<double>();
  }
  all.emplace_back("decay", decay);
  for (const char* name : {"momentum", "rho", "beta_1", "beta_2", "learning_rate_power", "l1_regularization_strength",
                           "l2_regularization_strength", "beta"}) {
    if (config.contains(name) && config.at(name).is_number()) all.emplace_back(name, config.at(name).get<double>());
  }
  return all;
}

}  // namespace lockstep::train
