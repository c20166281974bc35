// Variables, losses and scopes of layers.
#include <algorithm>
#include <atomic>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/keras/layers/weight_limit_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

thread_local std::optional<bool> t_training, t_inherited;
thread_local int t_calls = 0;
constexpr std::int64_t kMaxCalls = 100'000;
thread_local std::int64_t t_calls_left = -1;  // negative without a limit
constexpr std::int64_t kMaxLayers = 100'000;
thread_local std::int64_t t_layers_left = kMaxLayers;
thread_local std::string t_scope;
thread_local const DirectCalls* t_direct = nullptr;
thread_local LoadScope* t_load = nullptr;
thread_local WeightLimit* t_weights = nullptr;
std::atomic<std::uint64_t> g_changed_layers{0};

}  // namespace

// ---- scopes --------------------------------------------------------------------------------------------

CallScope::CallScope(std::optional<bool> training) : previous_(t_training) {
  if (t_calls_left == 0) {
    throw_resource_exhausted(fmt::format(
        "the model calls layers more than {} times, with the calls in the models that it calls", kMaxCalls));
  }
  if (t_calls_left > 0) --t_calls_left;
  t_training = t_inherited = training;
  ++t_calls;
}
CallScope::~CallScope() {
  t_training = previous_;
  if (--t_calls == 0) t_inherited.reset();
}
bool CallScope::active() { return t_calls > 0; }
std::optional<bool> CallScope::training() { return t_training; }
std::optional<bool> CallScope::inherited() { return t_inherited; }

DirectCalls::DirectCalls(const Layer& layer, std::optional<DType> autocast, DType inputs)
    : layer_(layer), autocast_(autocast), dtype_(inputs), previous_(std::exchange(t_direct, this)) {
  for (const Weight& weight : layer.own_weights()) {
    if (!weight.autocast || !is_floating(weight.variable->dtype())) continue;
    const DType read = autocast.value_or(weight.variable->dtype());
    dtype_ = is_floating(dtype_) ? common_dtype(dtype_, read) : read;
  }
}
DirectCalls::~DirectCalls() { t_direct = previous_; }
const DirectCalls* DirectCalls::of(const Layer& layer) {
  return t_direct && &t_direct->layer_ == &layer ? t_direct : nullptr;
}

ScopedInheritance::ScopedInheritance(std::optional<bool> inherited)
    : previous_(std::exchange(t_inherited, inherited)) {}
ScopedInheritance::~ScopedInheritance() { t_inherited = previous_; }

ScopedCallLimit::ScopedCallLimit() : outermost_(t_calls_left < 0) {
  if (!outermost_) return;
  t_calls_left = kMaxCalls;
  t_layers_left = kMaxLayers;
}
ScopedCallLimit::~ScopedCallLimit() {
  if (outermost_) t_calls_left = -1;
}
void ScopedCallLimit::count_layer() {
  if (t_calls_left >= 0 && --t_layers_left < 0)
    throw_resource_exhausted(fmt::format("the model has more than {} layers", kMaxLayers));
}

std::vector<PendingLoss>& pending_losses() {
  thread_local std::vector<PendingLoss> losses;
  return losses;
}

std::uint64_t changed_layers() { return g_changed_layers.load(); }
void note_changed_layer() { ++g_changed_layers; }

PausedLosses::PausedLosses() { saved_.swap(pending_losses()); }
PausedLosses::~PausedLosses() { saved_.swap(pending_losses()); }

NameScope::NameScope(const std::string& name) : previous_(t_scope.size()) {
  if (!t_scope.empty()) t_scope += '/';
  t_scope += name;
}
NameScope::~NameScope() { t_scope.resize(previous_); }
std::string NameScope::current() { return t_scope; }

LoadScope::LoadScope(std::int64_t max_bytes) : left_(max_bytes), previous_(t_load) { t_load = this; }
LoadScope::~LoadScope() { t_load = previous_; }
LoadScope* LoadScope::current() { return t_load; }
void LoadScope::take(std::int64_t bytes, const std::string& what) {
  if (bytes > left_) {
    throw_resource_exhausted(
        fmt::format("{} needs {} bytes, more than the file holds values for ({} bytes left): its config does not "
                    "belong to the file",
                    what, bytes, left_));
  }
  left_ -= bytes;
}

WeightLimit::WeightLimit(std::int64_t bytes) : limit_(bytes), left_(bytes), previous_(t_weights) { t_weights = this; }
WeightLimit::~WeightLimit() { t_weights = previous_; }
void WeightLimit::take(std::int64_t bytes, const std::string& what) {
  if (!t_weights) return;
  if (bytes > t_weights->left_) {
    throw_resource_exhausted(
        fmt::format("{} needs {} bytes: the new weights of the config exceed the limit of {} bytes; raise max_memory "
                    "(--max-memory) if there is more",
                    what, bytes, t_weights->limit_));
  }
  t_weights->left_ -= bytes;
}

// ---- variables -----------------------------------------------------------------------------------------

void Layer::set_trainable(bool trainable) {
  // As in Keras 3 on TensorFlow, assigning the current value has no effect, so sublayers that were frozen individually
  // stay frozen.
  if (trainable_ == trainable) return;
  trainable_ = trainable;
  for (const Weight& weight : own_weights_) {
    if (weight.trainable) weight.variable->set_trainable(trainable);
  }
  for (const LayerPtr& layer : sublayers()) layer->set_trainable(trainable);
  trainable_changed();
}

std::vector<VariablePtr> Layer::own_variables() const {
  std::vector<VariablePtr> out;
  for (const bool trainable : {true, false}) {
    for (const Weight& weight : own_weights_) {
      if (weight.trainable == trainable) out.push_back(weight.variable);
    }
  }
  return out;
}

void Layer::remove_weight(const VariablePtr& variable) {
  std::erase_if(own_weights_, [&](const Weight& weight) { return weight.variable == variable; });
}

OwnState Layer::own_state() const {
  OwnState state;
  for (const VariablePtr& variable : own_variables()) state.entries.push_back({variable});
  return state;
}

void Layer::save_own_variables(VariableStore& store) const {
  const OwnState state = own_state();
  for (std::size_t i = 0; i < state.entries.size(); ++i) {
    const OwnState::Entry& entry = state.entries[i];
    store[std::to_string(i)] = entry.value ? entry.value() : entry.variable->numpy();
  }
}

void Layer::save_assets(const std::string&) {}
void Layer::load_assets(const std::string&) {}

void Layer::load_own_variables(const VariableStore& store) {
  const OwnState state = own_state();
  if (store.size() != state.entries.size()) {
    throw_invalid_argument(fmt::format("layer '{}' expects {} variables, but the file holds {}", name(),
                                       state.entries.size(), store.size()));
  }
  for (std::size_t i = 0; i < state.entries.size(); ++i) {
    const auto found = store.find(std::to_string(i));
    const VariablePtr& variable = state.entries[i].variable;
    if (found == store.end())
      throw_invalid_argument(fmt::format("layer '{}': the file has no variable '{}'", name(), i));
    if (!(found->second.shape() == variable->shape())) {
      throw_invalid_argument(fmt::format("layer '{}': variable '{}' has shape {}, the file holds {}", name(),
                                         variable->path(), variable->shape().to_string(),
                                         found->second.shape().to_string()));
    }
    variable->assign(ops::cast(found->second, variable->dtype()));
  }
  for (const VariablePtr& variable : state.zeroed)
    variable->assign(Tensor::zeros(variable->shape(), variable->dtype()));
}

std::vector<LayerPtr> Layer::sublayers() const {
  std::vector<LayerPtr> out;
  std::unordered_set<const Layer*> seen;
  for (const auto& [attribute, tree] : children_) {
    tree.visit([&](const LayerPtr& layer) {
      if (layer && seen.insert(layer.get()).second) out.push_back(layer);
    });
  }
  return out;
}

namespace {
void flatten_into(Layer* layer, std::vector<Layer*>& out, std::unordered_set<const Layer*>& seen) {
  if (!seen.insert(layer).second) return;
  out.push_back(layer);
  for (const LayerPtr& child : layer->sublayers()) flatten_into(child.get(), out, seen);
}
}  // namespace

std::vector<Layer*> Layer::flatten_layers() {
  std::vector<Layer*> out;
  std::unordered_set<const Layer*> seen;
  flatten_into(this, out, seen);
  return out;
}

void Layer::collect_weights(std::vector<VariablePtr>& out, bool with_seeds, std::vector<const Layer*>& seen) const {
  if (std::find(seen.begin(), seen.end(), this) != seen.end()) return;
  seen.push_back(this);
  const auto add = [&](const VariablePtr& variable) {
    if (std::find(out.begin(), out.end(), variable) == out.end()) out.push_back(variable);
  };
  for (const VariablePtr& variable : own_variables()) add(variable);
  if (with_seeds) {
    for (const auto& generator : seed_generators_) add(generator->state());
  }
  for (const LayerPtr& layer : sublayers()) layer->collect_weights(out, with_seeds, seen);
}

std::vector<VariablePtr> Layer::weights() const {
  std::vector<VariablePtr> out;
  std::vector<const Layer*> seen;
  collect_weights(out, false, seen);
  return out;
}

std::vector<VariablePtr> Layer::non_trainable_variables() const {
  std::vector<VariablePtr> others;
  const std::vector<VariablePtr> trained = trainable_weights();
  for (const VariablePtr& variable : variables()) {
    if (std::find(trained.begin(), trained.end(), variable) == trained.end()) others.push_back(variable);
  }
  return others;
}

std::vector<VariablePtr> Layer::variables() const {
  std::vector<VariablePtr> out;
  std::vector<const Layer*> seen;
  collect_weights(out, true, seen);
  return out;
}

std::vector<VariablePtr> Layer::trainable_weights() const {
  std::vector<VariablePtr> out;
  if (!trainable_) return out;
  for (const VariablePtr& variable : weights()) {
    if (variable->trainable()) out.push_back(variable);
  }
  return out;
}

std::vector<VariablePtr> Layer::non_trainable_weights() const {
  std::vector<VariablePtr> out;
  for (const VariablePtr& variable : weights()) {
    if (!trainable_ || !variable->trainable()) out.push_back(variable);
  }
  return out;
}

std::vector<Tensor> Layer::get_weights() const {
  std::vector<Tensor> out;
  for (const VariablePtr& variable : weights()) out.push_back(variable->numpy().numpy());
  return out;
}

void Layer::set_weights(const std::vector<Tensor>& values) {
  const auto variables = weights();
  if (variables.size() != values.size()) {
    throw_invalid_argument(
        fmt::format("'{}' has {} weights, {} values were given", name(), variables.size(), values.size()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (variables[i]->shape() != values[i].shape()) {
      throw_invalid_argument(fmt::format("weight '{}' of '{}' has shape {}, the value given has {}",
                                         variables[i]->path(), name(), variables[i]->shape().to_string(),
                                         values[i].shape().to_string()));
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) variables[i]->assign(ops::cast(values[i], variables[i]->dtype()));
}

std::int64_t Layer::count_params() const {
  std::int64_t count = 0;
  for (const VariablePtr& variable : weights()) count += variable->shape().num_elements().value_or(0);
  return count;
}

constraints::ConstraintPtr Layer::constraint_of(const distribute::VariableImpl* variable) const {
  for (const Weight& weight : own_weights_) {
    if (weight.variable.get() == variable && weight.constraint) return weight.constraint;
  }
  for (const LayerPtr& layer : sublayers()) {
    if (auto found = layer->constraint_of(variable)) return found;
  }
  return nullptr;
}

regularizers::RegularizerPtr Layer::regularizer_of(const distribute::VariableImpl* variable) const {
  for (const Weight& weight : own_weights_) {
    if (weight.variable.get() == variable && weight.regularizer) return weight.regularizer;
  }
  for (const LayerPtr& layer : sublayers()) {
    if (auto found = layer->regularizer_of(variable)) return found;
  }
  return nullptr;
}

// ---- losses --------------------------------------------------------------------------------------------

void Layer::add_loss(const Tensor& loss) { pending_losses().push_back({weak_from_this(), this, loss}); }

void Layer::add_activity_losses(const Structure& outputs) {
  outputs.visit([&](const Tensor& output) {
    if (!output.defined()) return;
    Tensor loss = (*activity_regularizer_)(output);
    if (output.shape().rank() > 0) {
      loss = ops::div_no_nan(loss, ops::cast(ops::dim_of(output, 0), loss.dtype()));
    }
    add_loss(loss);
  });
}

std::vector<Tensor> Layer::losses() {
  std::vector<Tensor> out;
  const std::vector<Layer*> layers = flatten_layers();
  for (const PendingLoss& pending : pending_losses()) {
    if (!pending.owner.expired() && std::find(layers.begin(), layers.end(), pending.layer) != layers.end()) {
      out.push_back(pending.value);
    }
  }
  for (const VariablePtr& variable : trainable_weights()) {
    for (const Layer* layer : layers) {
      for (const Weight& weight : layer->own_weights()) {
        if (weight.variable == variable && weight.regularizer) out.push_back((*weight.regularizer)(variable->read()));
      }
    }
  }
  return out;
}

void Layer::clear_losses() {
  std::vector<PendingLoss>& losses = pending_losses();
  if (losses.empty()) return;
  const std::vector<Layer*> layers = flatten_layers();
  std::erase_if(losses, [&](const PendingLoss& pending) {
    return pending.owner.expired() || std::find(layers.begin(), layers.end(), pending.layer) != layers.end();
  });
}

}  // namespace lockstep::keras
