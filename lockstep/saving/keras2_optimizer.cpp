#include "lockstep/saving/keras2_optimizer_internal.h"

#include <algorithm>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/keras/optimizers/fields_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/saving/assign_internal.h"
#include "lockstep/train/optimizer_slots_internal.h"

namespace lockstep::saving {
namespace {

using distribute::VariablePtr;
using optimizers::Optimizer;
using train::OptimizerSlots;
using train::SlotKind;

// The first optimizers that computed what those of today compute, except for embeddings. RMSprop added epsilon to the
// square root and Nadam had another momentum schedule, so those of today are written as the later ones.
constexpr std::string_view kSameRule[] = {"SGD", "Adam", "Adagrad", "Adadelta", "Adamax", "Ftrl"};
constexpr std::string_view kNotInKeras2[] = {"Lamb", "Muon", "ScheduleFreeAdamW", "MultiOptimizer"};
// Whose slots stand variable by variable also in the form of the first optimizers.
constexpr std::string_view kInterleaved = "Ftrl";

bool contains(const auto& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

std::string_view without_number(std::string_view name) {
  return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name;
}
std::string_view last_part(std::string_view name) { return name.substr(name.rfind('/') + 1); }

std::string_view second_part(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return {};
  name.remove_prefix(slash + 1);
  return name.substr(0, name.find('/'));
}

// Adafactor has row and column statistics of matrices only; ours has placeholders for the others.
bool saved_by_keras2(const OptimizerSlots& slots, std::size_t i) {
  const bool part = slots.kind->class_name == "Adafactor" && slots.kind->keras2 != "v";
  return !part || slots.originals[i]->shape().rank() >= 2;
}

std::vector<VariablePtr> saved_slots(const OptimizerSlots& slots) {
  std::vector<VariablePtr> saved;
  for (std::size_t i = 0; i < slots.slots.size(); ++i) {
    if (saved_by_keras2(slots, i)) saved.push_back(slots.slots[i]);
  }
  return saved;
}

enum class Form { kStandalone, kFirst, kLater };

Form form_of(const std::vector<std::string_view>& names) {
  if (names.empty()) return Form::kStandalone;
  const std::string_view first = without_number(names[0]);
  if (last_part(first) == "iter") return Form::kFirst;
  return first == "iteration" || first.ends_with("/iteration") ? Form::kLater : Form::kStandalone;
}

// Keras before TensorFlow 2 named slots "training/Adam/Variable_3:0": kind by kind, after the number of iterations,
// which some optimizers lack.
std::vector<VariablePtr> standalone_targets(const Optimizer& optimizer, const std::vector<std::string_view>& names) {
  std::vector<OptimizerSlots> kinds = train::slots_of(optimizer);
  std::stable_sort(kinds.begin(), kinds.end(), [](const OptimizerSlots& a, const OptimizerSlots& b) {
    return (a.kind->keras2_first == "vhat") < (b.kind->keras2_first == "vhat");
  });
  std::vector<VariablePtr> targets;
  if (const VariablePtr product = momentum_product(optimizer)) targets.push_back(product);
  for (const OptimizerSlots& slots : kinds) targets.insert(targets.end(), slots.slots.begin(), slots.slots.end());
  // Adam without amsgrad has placeholders after its slots, SGD without momentum has zeros.
  const std::size_t n = optimizer.trainable_variables().size();
  const bool more = optimizer.class_name() == "Adam" || optimizer.class_name() == "SGD";
  // Keras 1 gave no variable its own name.
  const bool named = !names.empty() && last_part(without_number(names[0])).starts_with("iterations");
  const bool counted = names.size() == targets.size() + 1 || (more && names.size() == targets.size() + 1 + n);
  if (named || counted) targets.insert(targets.begin(), optimizer.iterations_variable());
  if (more && names.size() == targets.size() + n) targets.resize(names.size());
  return targets.size() == names.size() ? targets : std::vector<VariablePtr>{};
}

std::string slot_name(Form form, const std::string& optimizer, std::string_view kind, const VariablePtr& of) {
  return form == Form::kFirst ? fmt::format("{}/{}/{}:0", optimizer, of->path(), kind)
                              : fmt::format("{}/{}/{}:0", optimizer, kind, of->path());
}

void add_slots(Keras2Optimizer& out, const Optimizer& optimizer, Form form, const std::string& name) {
  const std::vector<OptimizerSlots> kinds = train::slots_of(optimizer);
  const bool by_kind = form == Form::kFirst && optimizer.class_name() != kInterleaved;
  const auto add = [&](const VariablePtr& variable) {
    for (const OptimizerSlots& slots : kinds) {
      for (std::size_t i = 0; i < slots.slots.size(); ++i) {
        if (slots.slots[i] != variable || !saved_by_keras2(slots, i)) continue;
        const std::string_view kind = form == Form::kFirst ? slots.kind->keras2_first : slots.kind->keras2;
        out.weights.push_back(weight_entry(slot_name(form, name, kind, slots.originals[i]), variable));
      }
    }
  };
  if (by_kind) {
    for (const bool hats : {false, true}) {
      for (const OptimizerSlots& slots : kinds) {
        if ((slots.kind->keras2_first == "vhat") != hats) continue;
        for (const VariablePtr& variable : slots.slots) add(variable);
      }
    }
    return;
  }
  for (const VariablePtr& variable : optimizer.variables()) add(variable);
  if (form == Form::kLater && optimizer.class_name() == "SGD" && kinds.empty()) {
    for (const VariablePtr& of : optimizer.trainable_variables()) {
      out.weights.push_back({slot_name(form, name, "m", of), of->dtype(), of->shape(),
                             [of] { return ops::zeros(of->shape(), of->dtype()).to_data(); }});
    }
  }
}

bool is_null(const Json& config, const char* key) { return config.value(key, Json()).is_null(); }

}  // namespace

VariablePtr momentum_product(const Optimizer& optimizer) {
  const std::vector<VariablePtr> found = optimizer.attribute_variables();
  return found.empty() ? nullptr : found.front();
}

std::vector<VariablePtr> keras2_targets(const Optimizer& optimizer, const std::vector<std::string_view>& names) {
  const Form form = form_of(names);
  if (form == Form::kStandalone) return standalone_targets(optimizer, names);
  const std::vector<VariablePtr> ours = optimizer.variables();
  std::vector<VariablePtr> targets(names.size());
  const std::vector<OptimizerSlots> kinds = train::slots_of(optimizer);
  std::map<std::string_view, std::vector<std::size_t>> places;  // of each kind of slot
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = without_number(names[i]);
    if (i == 0) {
      targets[i] = optimizer.iterations_variable();
    } else if (last_part(name) == "learning_rate") {
      if (optimizer.has_fixed_learning_rate()) targets[i] = ours.at(1);
    } else if (last_part(name) == "momentum_cache") {
      targets[i] = momentum_product(optimizer);
    } else if (form == Form::kFirst) {
      places[last_part(name)].push_back(i);
    } else {  // "Adam/m/dense/kernel"; without the optimizer where that is one that scales losses
      const std::string_view first = name.substr(0, name.find('/'));
      const auto is_first = [&](const OptimizerSlots& slots) { return slots.kind->keras2 == first; };
      const bool of_sgd = optimizer.class_name() == "SGD" && first == "m";  // also without momentum, as zeros
      places[of_sgd || std::ranges::any_of(kinds, is_first) ? first : second_part(name)].push_back(i);
    }
  }
  for (const OptimizerSlots& slots : kinds) {
    const std::string_view kind = form == Form::kFirst ? slots.kind->keras2_first : slots.kind->keras2;
    const std::vector<VariablePtr> saved = saved_slots(slots);
    const auto found = places.find(kind);
    if (found == places.end() ? !saved.empty() : found->second.size() != saved.size()) return {};
    for (std::size_t i = 0; i < saved.size(); ++i) targets[found->second[i]] = saved[i];
    if (found != places.end()) places.erase(found);
  }
  const bool zeros = optimizer.class_name() == "SGD" && places.size() == 1;
  return places.empty() || zeros ? targets : std::vector<VariablePtr>{};
}

bool is_decayed_schedule(const Json& rate) {
  return rate.is_object() && rate.value("class_name", Json()) == Json("DecayedSchedule");
}

namespace {
// The optimizers of Keras before TensorFlow 2, which have no names, clip by the norm of all gradients, and Adagrad
// begins with zeros.
void keep_rules_before_tensorflow_2(const Json& class_name, Json& arguments) {
  if (arguments.contains("name")) return;
  if (const auto clipnorm = arguments.find("clipnorm"); clipnorm != arguments.end()) {
    arguments["global_clipnorm"] = *clipnorm;
    arguments.erase("clipnorm");
  }
  if (class_name == Json("Adagrad") && !arguments.contains("initial_accumulator_value"))
    arguments["initial_accumulator_value"] = 0.0;
}

}  // namespace

Json with_module_of_optimizer(Json config) {
  if (!config.is_object() || !config.value("class_name", Json()).is_string()) return config;
  Json arguments = config.value("config", Json());
  if (!arguments.is_object()) return config;
  const bool later = config.at("class_name").text().find('>') != std::string::npos ||
                     !arguments.value("is_legacy_optimizer", Json(true)).get<bool>();
  if (!later) {
    config["module"] = "keras.optimizers.legacy";
    keep_rules_before_tensorflow_2(config["class_name"], config["config"]);
  }
  if (arguments.contains("loss_scale") && arguments.contains("optimizer")) {  // until TensorFlow 2.3
    const Json& scale = arguments.at("loss_scale");
    const Json given = scale.is_object() ? scale.value("config", Json()) : Json();
    const bool dynamic = given.is_object() && scale.value("class_name", Json()) == Json("DynamicLossScale") &&
                         given.value("multiplier", Json(2.0)) == Json(2.0);
    const bool fixed = given.is_object() && scale.value("class_name", Json()) == Json("FixedLossScale");
    if (!dynamic && !fixed) return config;
    if (fixed) {
      config["config"] = {{"inner_optimizer", arguments.at("optimizer")},
                          {"initial_scale", given.value("loss_scale_value", Json())},
                          {"dynamic", false}};
    } else {
      config["config"] = {{"inner_optimizer", arguments.at("optimizer")},
                          {"initial_scale", given.value("initial_loss_scale", Json(32768.0))},
                          {"dynamic_growth_steps", given.value("increment_period", Json(2000))}};
    }
    arguments = config.at("config");
  }
  if (arguments.contains("inner_optimizer")) {
    config.erase("module");  // one class scales the losses of both
    config["class_name"] = "LossScaleOptimizer";
    if (arguments.value("dynamic", Json(true)) == Json(false)) {
      config["config"].erase("dynamic");
      config["config"]["dynamic_growth_steps"] = optimizers::kFixedScale;
    }
    config["config"]["inner_optimizer"] = with_module_of_optimizer(arguments["inner_optimizer"]);
  }
  return config;
}

Keras2Optimizer keras2_optimizer(const Optimizer& optimizer, const Json& config, bool embeddings, bool scaled) {
  const std::string class_name = optimizer.class_name();
  if (const auto inner = optimizer.inner_optimizer()) {
    // tf-keras has a class for each form, and reads the inner optimizer by its module.
    const bool later = !inner->legacy_rules();
    const Json own = optimizer.get_config();
    Keras2Optimizer out = keras2_optimizer(*inner, own.at("inner_optimizer").at("config"), embeddings, true);
    if (!later) out.config["module"] = "keras.optimizers.legacy";
    const bool dynamic = own.at("dynamic_growth_steps") != Json(optimizers::kFixedScale);
    out.config = {{"class_name", later ? "LossScaleOptimizerV3" : "LossScaleOptimizer"},
                  {"config",
                   {{"inner_optimizer", out.config},
                    {"dynamic", dynamic},
                    {"initial_scale", own.at("initial_scale")},
                    {"dynamic_growth_steps", dynamic ? own.at("dynamic_growth_steps") : Json()}}}};
    return out;
  }
  if (contains(kNotInKeras2, class_name)) throw_unimplemented(fmt::format("Keras 2 has no optimizer {}", class_name));
  for (const char* key : {"loss_scale_factor", "gradient_accumulation_steps"}) {
    if (!is_null(config, key)) throw_unimplemented(fmt::format("optimizers of Keras 2 have no {}", key));
  }
  const optimizers::LegacyRules* const legacy = optimizer.legacy_rules();
  const bool plain = is_null(config, "weight_decay") && config.value("use_ema", Json(false)) == Json(false);
  const bool stateless = class_name == "SGD" && train::slots_of(optimizer).empty();
  const Json rate = config.value("learning_rate", Json());
  // The first Adagrad does not load a schedule, also not its own decay.
  const bool scheduled = class_name == "Adagrad" && rate.is_object() && !train::is_decay_of_each_step(rate);
  const bool same =
      contains(kSameRule, class_name) && (!embeddings || class_name == "Adam" || stateless) && !scaled && !scheduled;
  const bool first = legacy || (plain && same);
  const Form form = first ? Form::kFirst : Form::kLater;
  Json arguments = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (key == "loss_scale_factor" || key == "gradient_accumulation_steps") continue;
    const bool later = key == "weight_decay" || key.starts_with("ema_") || key == "use_ema";
    const bool clipping = key.starts_with("clip") || key == "global_clipnorm";
    if (first && (later || (clipping && value.is_null()))) continue;
    arguments[key] = value;
  }
  const bool decayed = is_decayed_schedule(rate);
  if (decayed && !first) throw_unimplemented(fmt::format("{} with a schedule and decay is not written", class_name));
  if (!first) {
    arguments["jit_compile"] = false;
    arguments["is_legacy_optimizer"] = false;
  } else {
    arguments["decay"] = class_name == "Nadam" ? legacy->schedule_decay : 0.0;
    if (decayed) {
      for (const char* key : {"learning_rate", "decay"}) arguments[key] = rate.at("config").at(key);
    } else if (train::is_decay_of_each_step(rate) && class_name != "Nadam") {
      arguments["learning_rate"] = rate.at("config").at("initial_learning_rate");
      arguments["decay"] = rate.at("config").at("decay_rate");
    }
  }
  Keras2Optimizer out;
  out.config = {{"class_name", first ? class_name : "Custom>" + class_name}, {"config", std::move(arguments)}};
  if (!optimizer.built()) return out;
  out.weights.push_back(
      weight_entry(first ? fmt::format("{}/iter:0", class_name) : "iteration:0", optimizer.iterations_variable()));
  const VariablePtr product = momentum_product(optimizer);
  if (first && product) out.weights.push_back(weight_entry(fmt::format("{}/momentum_cache:0", class_name), product));
  add_slots(out, optimizer, form, class_name);
  return out;
}

}  // namespace lockstep::saving
