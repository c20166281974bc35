#include "lockstep/keras/optimizers/bases.h"

#include "lockstep/base/overrides_internal.h"

namespace lockstep::optimizers {
namespace {

CommonOptions with_name(CommonOptions options, std::string name) {
  options.name = std::move(name);
  return options;
}

Json without_name(Json config) {
  config["name"] = "built_in";
  return config;
}

}  // namespace

BuiltInOptimizer::BuiltInOptimizer(OptimizerPtr built_in, std::string given)
    : Optimizer(with_name(built_in->common(), std::move(given))), built_in_(std::move(built_in)) {}
BuiltInOptimizer::BuiltInOptimizer(const char* class_name, const Json& config)
    : BuiltInOptimizer(
          deserialize({{"module", "keras.optimizers"}, {"class_name", class_name}, {"config", without_name(config)}}),
          config.value("name", std::string())) {}
OptimizerPtr BuiltInOptimizer::of_class(const char* class_name, const Json& config) {
  return deserialize({{"module", "keras.optimizers"}, {"class_name", class_name}, {"config", config}});
}
BuiltInOptimizer::BuiltInOptimizer(std::nullptr_t) : Optimizer(nullptr) {}

const BuiltInOptimizer& BuiltInOptimizer::plain() {
  static const auto* const optimizer = new BuiltInOptimizer(nullptr);
  return *optimizer;
}

// The held rule works on the variables and slots of this optimizer.
void BuiltInOptimizer::create_slots() {
  built_in_->name_ = name_;
  built_in_->trainable_ = trainable_;
  built_in_->index_ = index_;
  built_in_->slots_.clear();
  built_in_->create_slots();
  built_in_->built_ = true;
  slots_ = built_in_->slots_;
}

void BuiltInOptimizer::update(Step& step) {
  using Update = void (BuiltInOptimizer::*)(const Tensor&, const VariablePtr&, const Tensor&);
  const bool own = overrides<Optimizer>(*this, plain(), Update(&BuiltInOptimizer::update_step));
  if (own) return Optimizer::update(step);
  built_in_->update(step);
}

void BuiltInOptimizer::update_step(const Tensor& gradient, const VariablePtr& variable, const Tensor& learning_rate) {
  Step step{{index_of(variable)}, {gradient}, {0.0f}, updates_made() + 1, learning_rate.item<float>()};
  built_in_->update(step);
}

Json BuiltInOptimizer::get_config() const {
  Json config = built_in_->get_config();
  config.update(base_config());
  return config;
}

}  // namespace lockstep::optimizers
