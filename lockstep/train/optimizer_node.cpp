// Optimizers as Keras 3.15 on TensorFlow shows them to a checkpoint; files of Keras 2 are read too.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep::train {
namespace {

using distribute::VariablePtr;
using Variables = std::vector<VariablePtr>;

struct SlotList {
  std::string_view class_name;  // "" for every optimizer
  std::string_view suffix;      // of the variable's path
  std::string_view attribute;   // Keras's list of these slots
  std::string_view keras2;      // the slot's name in Keras 2's first optimizers
};
// In the order of Keras's attributes. Longer suffixes come before those they end with.
constexpr std::array kSlotLists = {
    SlotList{"", "average", "_model_variables_moving_average", "average"},
    SlotList{"", "gradient_accumulator", "_accumulated_gradients", ""},
    SlotList{"SGD", "momentum", "momentums", "momentum"},
    SlotList{"RMSprop", "velocity", "_velocities", "rms"},
    SlotList{"RMSprop", "momentum", "_momentums", "momentum"},
    SlotList{"RMSprop", "average_gradient", "_average_gradients", "mg"},
    SlotList{"Adagrad", "accumulator", "_accumulators", "accumulator"},
    SlotList{"Adadelta", "accumulated_grad", "_accumulated_grads", "accum_grad"},
    SlotList{"Adadelta", "accumulated_delta_var", "_accumulated_delta_vars", "accum_var"},
    SlotList{"Adamax", "momentum", "_m", "m"},
    SlotList{"Adamax", "norm", "_u", "v"},
    SlotList{"Ftrl", "accumulator", "_accumulators", "accumulator"},
    SlotList{"Ftrl", "linear", "_linears", "linear"},
    SlotList{"Lion", "momentum", "_momentums", "m"},
    SlotList{"Adafactor", "r", "_r", ""},
    SlotList{"Adafactor", "c", "_c", ""},
    SlotList{"Adafactor", "velocity", "_v", ""},
    SlotList{"Muon", "momentum", "momentums", ""},
    SlotList{"Muon", "velocity", "velocities", ""},
    SlotList{"", "momentum", "_momentums", "m"},
    SlotList{"", "velocity_hat", "_velocity_hats", "vhat"},
    SlotList{"", "velocity", "_velocities", "v"},
};
constexpr std::string_view kProduct = "/u_product";

// Slots of one kind, and the variables they belong to.
struct Slots {
  const SlotList* list = nullptr;
  Variables slots;
  Variables originals;
};

class OptimizerNode final : public TrackedNode {
 public:
  explicit OptimizerNode(optimizers::OptimizerPtr optimizer) : optimizer_(std::move(optimizer)) {
    inner_ = optimizers::inner_optimizer(optimizer_);
    if (inner_ == optimizer_) inner_ = nullptr;
    several_ = optimizer_->optimizers();
  }
  Identity identity() const override { return {optimizer_.get(), {}}; }

  Children edges() const override {
    const Variables own = own_variables();
    Children all;
    all.emplace_back("_variables", list("_variables", own));
    all.emplace_back("_trainable_variables", list("_trainable_variables", optimizer_->trainable_variables()));
    all.emplace_back("_iterations", optimizer_iterations(own));
    if (auto rate = learning_rate(own)) all.emplace_back("_learning_rate", rate);
    for (const Slots& kind : slots()) all.emplace_back(kind.list->attribute, list(kind.list->attribute, kind.slots));
    for (const auto& variable : optimizer_->variables()) {
      if (variable->path().ends_with(kProduct)) all.emplace_back("_u_product", variable);
    }
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
        if (variable != rate) without_rate.push_back(variable);
      }
      all.emplace_back("_variables", list("_variables of Keras 2", without_rate));
    }
    all.emplace_back("iter", optimizer_iterations(own));
    if (rate) all.emplace_back("learning_rate", rate);
    if (inner_) all.emplace_back("base_optimizer", inner_);
    return all;
  }
  bool hides(const formats::CheckpointNode& saved, std::string_view name) const override {
    return name == "_variables" && is_keras2(saved);
  }

  bool unbuilt_optimizer() const override { return !optimizer_->built(); }
  void build(const Variables& variables) const override { optimizer_->build(variables); }

  VariablePtr slot(std::string_view name, const VariablePtr& of) const override {
    for (const Slots& kind : slots()) {
      if (kind.list->keras2 != name) continue;
      for (std::size_t i = 0; i < kind.slots.size(); ++i) {
        if (kind.originals[i] == of) return kind.slots[i];
      }
    }
    return nullptr;
  }

 private:
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
    Variables own;
    for (const auto& variable : optimizer_->variables()) {
      if (variable->path().ends_with(kProduct)) continue;
      if (std::find(inner.begin(), inner.end(), variable) == inner.end()) own.push_back(variable);
    }
    return own;
  }
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

  std::vector<Slots> slots() const {
    std::vector<Slots> all;
    std::unordered_map<std::string, VariablePtr> by_path;
    for (const auto& variable : optimizer_->trainable_variables()) {
      std::string path = variable->path();
      std::replace(path.begin(), path.end(), '/', '_');
      by_path.emplace(optimizer_->name() + "/" + path, variable);
    }
    for (const SlotList& row : kSlotLists) {
      if (!row.class_name.empty() && row.class_name != optimizer_->class_name()) continue;
      Slots kind{&row, {}, {}};
      for (const auto& variable : optimizer_->variables()) {
        const std::string& path = variable->path();
        if (path.size() <= row.suffix.size() || !path.ends_with(row.suffix)) continue;
        const auto original = by_path.find(path.substr(0, path.size() - row.suffix.size() - 1));
        if (original == by_path.end() || taken(all, variable)) continue;
        kind.slots.push_back(variable);
        kind.originals.push_back(original->second);
      }
      if (!kind.slots.empty()) all.push_back(std::move(kind));
    }
    return all;
  }
  static bool taken(const std::vector<Slots>& all, const VariablePtr& variable) {
    return std::any_of(all.begin(), all.end(), [&](const Slots& kind) {
      return std::find(kind.slots.begin(), kind.slots.end(), variable) != kind.slots.end();
    });
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
