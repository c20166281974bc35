#include "lockstep/distribute/gradient_tape.h"

#include "lockstep/base/error.h"
#include "lockstep/ops/autograd_internal.h"

namespace lockstep {
namespace {

thread_local GradientTape* t_tape = nullptr;

}  // namespace

GradientTape::GradientTape() : GradientTape(Options{}) {}

GradientTape::GradientTape(Options options)
    : options_(options), outer_(t_tape), previous_grad_mode_(ops::grad_enabled()) {
  t_tape = this;
  ops::set_grad_enabled(true);
}

GradientTape::~GradientTape() { stop_recording(); }

void GradientTape::stop_recording() {
  if (!recording_) return;
  recording_ = false;
  t_tape = outer_;
  ops::set_grad_enabled(previous_grad_mode_);
}

Tensor GradientTape::watch(const Tensor& tensor) {
  return ops::requires_grad(tensor) ? tensor : ops::make_leaf(tensor);
}

void GradientTape::watch(const distribute::VariablePtr& variable) {
  GradientTape* const previous = std::exchange(t_tape, this);
  const bool watch_all = std::exchange(options_.watch_accessed_variables, true);
  leaf_of(*variable, variable->copy(0));
  options_.watch_accessed_variables = watch_all;
  t_tape = previous;
}

Tensor GradientTape::leaf_of(distribute::Variable& variable, const Tensor& value) {
  // All tapes of a thread share the leaf of the outermost tape that watches the variable.
  Tensor leaf;
  for (GradientTape* tape = t_tape; tape; tape = tape->outer_) {
    const auto known = tape->leaves_.find(&variable);
    if (known != tape->leaves_.end()) leaf = known->second.second;
  }
  for (GradientTape* tape = t_tape; tape; tape = tape->outer_) {
    if (!tape->options_.watch_accessed_variables) continue;
    if (!is_floating(value.dtype()) && !is_complex(value.dtype())) continue;
    if (!leaf.defined()) leaf = ops::make_leaf(value);
    tape->leaves_.try_emplace(&variable, variable.shared_from_this(), leaf);
  }
  return leaf;
}

Tensors GradientTape::compute(const Tensor& target, const Tensors& leaves, const Tensor& output_gradients,
                              const Ready& ready) {
  if (used_ && !options_.persistent) {
    throw_failed_precondition("GradientTape.gradient was called twice; make the tape persistent to do so");
  }
  used_ = true;
  // Another tape outside of this one may differentiate the gradients again.
  const bool create_graph = recording_ ? outer_ != nullptr || options_.persistent : ops::grad_enabled();
  const bool was_recording = recording_;
  if (was_recording && !create_graph) ops::set_grad_enabled(false);
  Tensors gradients =
      ops::grad({target}, leaves, {output_gradients}, options_.persistent || create_graph, create_graph, ready);
  if (was_recording && !create_graph) ops::set_grad_enabled(true);
  return gradients;
}

Tensors GradientTape::gradient(const Tensor& target, const std::vector<distribute::VariablePtr>& sources,
                               const Tensor& output_gradients, const Ready& ready) {
  Tensors leaves;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto known = leaves_.find(sources[i].get());
    if (known == leaves_.end()) continue;
    leaves.push_back(known->second.second);
    places.push_back(i);
  }
  const auto ready_at_place = [&](std::size_t i, const Tensor& gradient) { ready(places[i], gradient); };
  Tensors found = compute(target, leaves, output_gradients, ready ? Ready(ready_at_place) : Ready());
  Tensors gradients(sources.size());
  for (std::size_t i = 0; i < places.size(); ++i) gradients[places[i]] = std::move(found[i]);
  return gradients;
}

Tensors GradientTape::gradient(const Tensor& target, const Tensors& sources, const Tensor& output_gradients) {
  return compute(target, sources, output_gradients);
}

}  // namespace lockstep
