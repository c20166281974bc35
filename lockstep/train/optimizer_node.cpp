// Optimizers as Keras 3.15 on TensorFlow shows them to a checkpoint; files of Keras 2 are read too.
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/train/optimizer_slots_internal.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep::train {
namespace {

using distribute::VariablePtr;
using Variables = std::vector<VariablePtr>;

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
    if (inner_) all.emplace_back("base_optimizer", inner_);
    for (const OptimizerSlots& of_kind : slots_of(*optimizer_)) {
      if (of_kind.kind->attribute == "_momentums") all.emplace_back("momentums", list("momentums", of_kind.slots));
    }
    for (const auto& variable : product()) all.emplace_back("momentum_cache", variable);
    return all;
  }
  bool hides(const formats::CheckpointNode& saved, std::string_view name) const override {
    return name == "_variables" && is_keras2(saved);
  }

  std::vector<NamedSlot> named_slots() const override {
    std::vector<NamedSlot> all;
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
    if (!optimizer_->legacy_rules()) return all;
    const Variables own = own_variables();
    all.emplace_back("iter", optimizer_iterations(own));
    if (const VariablePtr rate = learning_rate(own)) all.emplace_back("learning_rate", rate);
    return all;
  }

  bool unbuilt_optimizer() const override { return !optimizer_->built(); }
  void build(const Variables& variables) const override { optimizer_->build(variables); }

  VariablePtr slot(std::string_view name, const VariablePtr& of) const override {
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

NodePtr Tracked::of_optimizer(optimizers::OptimizerPtr optimizer) {
  if (!optimizer) throw_invalid_argument("Checkpoint: invalid optimizer: found null, expected an object");
  return std::make_shared<OptimizerNode>(std::move(optimizer));
}

}  // namespace lockstep::train
