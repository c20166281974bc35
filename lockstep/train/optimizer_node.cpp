// Optimizers as Keras 3.15 on TensorFlow shows them to a checkpoint; files of Keras 2 are read too.
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/keras/optimizers/fields_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/train/optimizer_slots_internal.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep::train {
namespace {

using distribute::VariablePtr;
using Variables = std::vector<VariablePtr>;

constexpr std::string_view kLastRate = "_current_learning_rate";  // of a schedule

// A number of an optimizer of Keras 2 that is a variable in checkpoints only.
class HyperparameterNode final : public TrackedNode {
 public:
  HyperparameterNode(optimizers::OptimizerPtr optimizer, std::string name, double value)
      : optimizer_(std::move(optimizer)),
        identity_{optimizer_.get(), std::move(name)},
        own_(static_cast<float>(value)),
        variable_(number_variable(identity_.part, value)) {}
  Identity identity() const override { return identity_; }
  VariablePtr variable() const override { return variable_; }
  bool is_number() const override { return identity_.part != kLastRate; }
  void set_number(double stored) const override {
    if (stored == own_ || optimizers::set_hyperparameter(*optimizer_, identity_.part, stored)) return;
    log_warning("optimizer {} has {} = {}, the checkpoint {}: that of the optimizer is kept", optimizer_->name(),
                identity_.part, own_, stored);
  }

 private:
  optimizers::OptimizerPtr optimizer_;
  Identity identity_;
  float own_;
  VariablePtr variable_;
};

class OptimizerNode final : public TrackedNode {
 public:
  explicit OptimizerNode(optimizers::OptimizerPtr optimizer) : optimizer_(std::move(optimizer)) {
    inner_ = optimizers::inner_optimizer(optimizer_);
    if (inner_ == optimizer_) inner_ = nullptr;
    several_ = optimizer_->optimizers();
  }
  Identity identity() const override { return {optimizer_.get(), {}}; }
  void observe(const std::shared_ptr<keras::BuildObserver>& observer) const override {
    keras::BuildAccess::observe(*optimizer_, observer);
    if (inner_) keras::BuildAccess::observe(*inner_, observer);
    for (const auto& each : several_) keras::BuildAccess::observe(*each, observer);
  }

  Children edges() const override {
    const Variables own = own_variables();
    Children all;
    all.emplace_back("_variables", list("_variables", own));
    all.emplace_back("_trainable_variables", list("_trainable_variables", optimizer_->trainable_variables()));
    all.emplace_back("_iterations", optimizer_iterations(own));
    if (auto rate = learning_rate(own)) all.emplace_back("_learning_rate", rate);
    for (const OptimizerSlots& of_kind : slots_of(*optimizer_))
      all.emplace_back(of_kind.kind->attribute, list(of_kind.kind->attribute, of_kind.slots));
    for (const auto& variable : product()) all.emplace_back("_u_product", variable);
    if (!several_.empty()) all.emplace_back("_inner_optimizers", several());
    if (!inner_) return all;
    all.emplace_back("inner_optimizer", inner_);
    for (const auto& variable : own) {
      for (const char* name : {"step_counter", "dynamic_scale"}) {
        if (variable->path().ends_with(std::string("/") + name)) all.emplace_back(name, variable);
      }
    }
    return all;
  }

  // Keras 2.11 and later count the slots without the learning rate; earlier ones had names for everything.
  Children aliases(const formats::CheckpointNode& saved) const override {
    if (is_joined(saved)) return joined(saved);
    const Variables own = own_variables();
    Children all;
    const VariablePtr rate = learning_rate(own);
    if (is_keras2(saved)) {
      Variables without_rate;
      for (const auto& variable : own) {
        if (variable != rate && !is_placeholder(*variable)) without_rate.push_back(variable);
      }
      all.emplace_back("_variables", list("_variables of Keras 2", without_rate));
    }
    all.emplace_back("iter", optimizer_iterations(own));
    if (rate) all.emplace_back("learning_rate", rate);
    for (const OptimizerSlots& of_kind : slots_of(*optimizer_)) {
      if (of_kind.kind->attribute == "_momentums") all.emplace_back("momentums", list("momentums", of_kind.slots));
    }
    for (const auto& variable : product()) all.emplace_back("momentum_cache", variable);
    if (saved.child(kLastRate)) {
      const std::string name(kLastRate);
      all.emplace_back(name, Tracked(NodePtr(std::make_shared<HyperparameterNode>(optimizer_, name, 0.0))));
    }
    if (saved.child("iter")) {
      for (auto& number : hyperparameters()) all.push_back(std::move(number));
    }
    return all;
  }
  bool hides(const formats::CheckpointNode& saved, std::string_view name) const override {
    if (is_joined(saved)) return true;
    return name == "_variables" && is_keras2(saved);
  }

  Variables idle(const formats::CheckpointNode& saved) const override {
    if (!is_joined(saved)) return {};
    Variables all = own_variables();
    if (saved.child("loss_scale"))
      std::erase_if(all, [&](const VariablePtr& v) { return v == scale() || v == good_steps(); });
    return all;
  }

  std::vector<NamedSlot> named_slots() const override {
    std::vector<NamedSlot> all;
    if (inner_ && inner_->legacy_rules()) return OptimizerNode(inner_).named_slots();
    if (!optimizer_->legacy_rules()) return all;
    for (const OptimizerSlots& of_kind : slots_of(*optimizer_)) {
      if (of_kind.kind->keras2_first.empty()) continue;
      for (std::size_t i = 0; i < of_kind.slots.size(); ++i)
        all.push_back({of_kind.kind->keras2_first, of_kind.originals[i], of_kind.slots[i]});
    }
    return all;
  }
  Children first_names() const override {
    Children all;
    if (inner_ && inner_->legacy_rules()) {
      all = OptimizerNode(inner_).first_names();
      all.emplace_back("base_optimizer", Tracked(container_node({optimizer_.get(), "base_optimizer"}, {})));
      if (!has_fixed_scale()) all.emplace_back("loss_scale", loss_scale());
    }
    if (!optimizer_->legacy_rules()) return all;
    const Variables own = own_variables();
    all.emplace_back("iter", optimizer_iterations(own));
    for (const auto& variable : product()) all.emplace_back("momentum_cache", variable);
    if (const VariablePtr rate = learning_rate(own)) all.emplace_back("learning_rate", rate);
    for (auto& number : hyperparameters()) all.push_back(std::move(number));
    return all;
  }

  bool unbuilt_optimizer() const override { return !optimizer_->built(); }
  void build(const Variables& variables) const override { optimizer_->build(variables); }

  VariablePtr slot(std::string_view name, const VariablePtr& of) const override {
    if (inner_) return OptimizerNode(inner_).slot(name, of);
    for (const OptimizerSlots& of_kind : slots_of(*optimizer_)) {
      if (of_kind.kind->keras2_first != name) continue;
      for (std::size_t i = 0; i < of_kind.slots.size(); ++i) {
        if (of_kind.originals[i] == of) return of_kind.slots[i];
      }
    }
    return nullptr;
  }

 private:
  // Adafactor's factors of vectors, which Keras 2 does not list.
  bool is_placeholder(const distribute::VariableImpl& variable) const {
    return optimizer_->class_name() == "Adafactor" && variable.dtype() == DType::kInt32;
  }
  static bool is_keras2(const formats::CheckpointNode& saved) {
    return saved.child("_variables") && !saved.child("_trainable_variables");
  }
  // In checkpoints of Keras 2 an optimizer that scales losses stands in the place of the one within it.
  bool is_joined(const formats::CheckpointNode& saved) const {
    return inner_ && !saved.child("inner_optimizer") && (saved.child("iter") || saved.child("_iterations"));
  }
  Children joined(const formats::CheckpointNode& saved) const {
    const OptimizerNode inner(inner_);
    Children all = inner.aliases(saved);
    for (auto& edge : inner.edges()) {
      if (!inner.hides(saved, edge.first)) all.push_back(std::move(edge));
    }
    all.emplace_back("loss_scale", loss_scale());
    return all;
  }
  VariablePtr scale() const { return optimizer_->dynamic_scale(); }
  VariablePtr good_steps() const { return optimizer_->step_counter(); }
  Tracked loss_scale() const {
    return Tracked(container_node({optimizer_.get(), "loss_scale"},
                                  {{"current_loss_scale", scale()}, {"good_steps", good_steps()}}));
  }
  bool has_fixed_scale() const {
    return optimizer_->get_config().value("dynamic_growth_steps", Json()) == Json(optimizers::kFixedScale);
  }
  // Those of Keras 2's first optimizers that have no variable here.
  Children hyperparameters() const {
    Children all;
    if (!optimizer_->legacy_rules()) return all;
    for (auto& [name, value] : first_hyperparameters(*optimizer_)) {
      if (name == "learning_rate" && learning_rate(own_variables())) continue;
      all.emplace_back(name, Tracked(NodePtr(std::make_shared<HyperparameterNode>(optimizer_, name, value))));
    }
    return all;
  }
  Tracked list(std::string_view part, const Variables& variables) const {
    return Tracked(variable_list({optimizer_.get(), std::string(part)}, variables));
  }
  // What Keras lists in optimizer._variables.
  Variables own_variables() const {
    Variables inner = inner_ ? inner_->variables() : Variables{};
    for (const optimizers::OptimizerPtr& each : several_) {
      const Variables own = each->variables();
      inner.insert(inner.end(), own.begin(), own.end());
    }
    for (const auto& variable : product()) inner.push_back(variable);
    Variables own;
    for (const auto& variable : optimizer_->variables()) {
      if (std::find(inner.begin(), inner.end(), variable) == inner.end()) own.push_back(variable);
    }
    return own;
  }
  // Nadam's.
  Variables product() const { return optimizer_->attribute_variables(); }
  Tracked several() const {
    Children each;
    for (std::size_t i = 0; i < several_.size(); ++i) each.emplace_back(std::to_string(i), several_[i]);
    return Tracked(container_node({optimizer_.get(), "_inner_optimizers"}, std::move(each)));
  }
  VariablePtr optimizer_iterations(const Variables& own) const { return own.at(0); }
  static VariablePtr learning_rate(const Variables& own) {
    return own.size() > 1 && own[1]->path().ends_with("/learning_rate") && own[1]->shape().rank() == 0 ? own[1]
                                                                                                       : nullptr;
  }

  optimizers::OptimizerPtr optimizer_;
  optimizers::OptimizerPtr inner_;
  std::vector<optimizers::OptimizerPtr> several_;
};

}  // namespace

distribute::VariablePtr number_variable(std::string name, double value) {
  const distribute::ScopedOwnInitialValues alone;
  return distribute::Variable::create(Tensor::scalar(static_cast<float>(value)),
                                      {.trainable = false, .name = std::move(name)});
}

NodePtr Tracked::of_optimizer(optimizers::OptimizerPtr optimizer) {
  if (!optimizer) throw_invalid_argument("Checkpoint: invalid optimizer: found null, expected an object");
  return std::make_shared<OptimizerNode>(std::move(optimizer));
}

}  // namespace lockstep::train
