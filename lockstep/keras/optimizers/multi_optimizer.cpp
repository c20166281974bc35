#include "lockstep/keras/optimizers/multi_optimizer.h"

#include <algorithm>

#include <fmt/format.h>
#include <re2/re2.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/keras/optimizers/fields_internal.h"

namespace lockstep::optimizers {
namespace {

class MultipleOptimizers final : public Optimizer {
 public:
  MultipleOptimizers(OptimizerMap map, const MultiOptimizerOptions& options)
      : Optimizer("MultiOptimizer", own_options(options)), map_(std::move(map)) {
    const auto add = [&](const OptimizerPtr& optimizer, const std::string& where) {
      if (!optimizer) throw_invalid_argument(fmt::format("{}: the optimizer of {} is missing", name(), where));
      const std::string kind = optimizer->class_name();
      if (kind == "LossScaleOptimizer" || kind == "MultiOptimizer")
        throw_invalid_argument(fmt::format("{}: the optimizer of {} cannot be a {}", name(), where, kind));
      if (std::find(optimizers_.begin(), optimizers_.end(), optimizer) != optimizers_.end()) return;
      optimizer->set_loss_scale_factor(options.loss_scale_factor);
      optimizers_.push_back(optimizer);
    };
    for (const auto& [key, optimizer] : map_.optimizer_map) {
      add(optimizer, fmt::format("'{}'", key));
      auto pattern = std::make_unique<RE2>(key, RE2::Quiet);
      if (!pattern->ok())
        throw_invalid_argument(
            fmt::format("{}: '{}' is not a regular expression of RE2: {}", name(), key, pattern->error()));
      patterns_.push_back(std::move(pattern));
    }
    add(map_.default_optimizer, "all other variables");
  }
  std::string class_name() const override { return "MultiOptimizer"; }

  void build(const Variables& variables) override {
    if (!built_) {
      groups_.assign(optimizers_.size(), {});
      for (const VariablePtr& variable : variables) groups_[place_of(*variable)].push_back(variable);
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        if (!groups_[i].empty()) optimizers_[i]->build(groups_[i]);
      }
    }
    Optimizer::build(variables);
  }

  void apply_aggregated(Tensors gradients, const Variables& variables) override {
    if (distribute::ParameterServers::current())
      throw_unimplemented(fmt::format("{}: MultiOptimizer does not work with parameter servers", name()));
    const Variables& targets = variables.empty() ? trainable_ : variables;
    if (gradients.size() != targets.size())
      throw_invalid_argument(
          fmt::format("{}: {} gradients were given for {} variables", name(), gradients.size(), targets.size()));
    build(Variables(targets));
    std::vector<std::pair<Tensors, Variables>> parts(optimizers_.size());
    for (std::size_t i = 0; i < targets.size(); ++i) {
      auto& [part, part_variables] = parts[place_of(*targets[i])];
      part.push_back(std::move(gradients[i]));
      part_variables.push_back(targets[i]);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].second.empty()) optimizers_[i]->apply_aggregated(std::move(parts[i].first), parts[i].second);
    }
    end_step({});
  }

  void finalize_variable_values(const Variables& variables) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Variables own;
      for (const VariablePtr& variable : groups_[i]) {
        if (variables.empty() || std::find(variables.begin(), variables.end(), variable) != variables.end())
          own.push_back(variable);
      }
      if (!own.empty()) optimizers_[i]->finalize_variable_values(own);
    }
  }
  void exclude_from_weight_decay(const Variables& variables, const std::vector<std::string>& names) override {
    for (const OptimizerPtr& optimizer : optimizers_) optimizer->exclude_from_weight_decay(variables, names);
  }
  float learning_rate() const override { no_learning_rate(); }
  void set_learning_rate(double) override { no_learning_rate(); }
  bool has_fixed_learning_rate() const override { return false; }
  std::vector<OptimizerPtr> optimizers() const override { return optimizers_; }

  Variables variables() const override {
    Variables all = Optimizer::variables();
    for (const OptimizerPtr& optimizer : optimizers_) {
      const Variables own = optimizer->variables();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  Json get_config() const override {
    MultiOptimizerConfig config{map_, {common().loss_scale_factor, name()}};
    return keras::with_fields({}, config);
  }

 private:
  static CommonOptions own_options(const MultiOptimizerOptions& options) {
    CommonOptions common;
    common.learning_rate = 0.0;
    common.loss_scale_factor = options.loss_scale_factor;
    common.name = options.name;
    return common;
  }
  void create_slots() override {}
  void update(Step&) override {}
  [[noreturn]] void no_learning_rate() const {
    throw_failed_precondition(
        fmt::format("{}: a MultiOptimizer has no learning rate: use those of its optimizers", name()));
  }

  std::size_t place_of(const distribute::VariableImpl& variable) const {
    const auto place = [&](const OptimizerPtr& optimizer) {
      return static_cast<std::size_t>(std::find(optimizers_.begin(), optimizers_.end(), optimizer) -
                                      optimizers_.begin());
    };
    const OptimizerPtr* found = nullptr;
    for (const auto& [key, optimizer] : map_.optimizer_map) {
      if (key == variable.path()) return place(optimizer);
    }
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (!RE2::FullMatch(variable.path(), *patterns_[i])) continue;
      if (found)
        throw_invalid_argument(fmt::format("{}: two keys of the map match variable '{}', the second is '{}'", name(),
                                           variable.path(), map_.optimizer_map[i].first));
      found = &map_.optimizer_map[i].second;
    }
    return place(found ? *found : map_.default_optimizer);
  }

  OptimizerMap map_;
  std::vector<std::unique_ptr<RE2>> patterns_;  // of the map's keys
  std::vector<OptimizerPtr> optimizers_;        // each once: in the map's order, then the default
  std::vector<Variables> groups_;               // the variables of each
};

}  // namespace

OptimizerPtr MultiOptimizer(OptimizerMap optimizer_map, MultiOptimizerOptions options) {
  return std::make_shared<MultipleOptimizers>(std::move(optimizer_map), options);
}

}  // namespace lockstep::optimizers

namespace lockstep::keras {

bool FieldType<optimizers::OptimizerMap>::read(const Json& found, optimizers::OptimizerMap& v) {
  const auto config = found.is_object() ? found.find("config") : found.end();
  if (!found.is_object() || config == found.end() || !config->is_object()) return false;
  const auto usual = config->find("default_optimizer"), others = config->find("optimizer_map");
  if (usual == config->end() || others == config->end() || !others->is_object()) return false;
  v.default_optimizer = optimizers::deserialize(*usual);
  v.optimizer_map.clear();
  for (const auto& [key, optimizer] : others->items())
    v.optimizer_map.emplace_back(key, optimizers::deserialize(optimizer));
  return true;
}

Json FieldType<optimizers::OptimizerMap>::write(const optimizers::OptimizerMap& v) {
  Json others = Json::object();
  for (const auto& [key, optimizer] : v.optimizer_map) others[key] = optimizers::serialize(optimizer);
  Json config = {{"default_optimizer", optimizers::serialize(v.default_optimizer)}, {"optimizer_map", others}};
  return {
      {"module", "keras.optimizers"}, {"class_name", "OptimizerMap"}, {"config", config}, {"registered_name", nullptr}};
}

}  // namespace lockstep::keras
