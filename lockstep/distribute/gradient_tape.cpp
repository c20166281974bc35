#include "lockstep/distribute/gradient_tape.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/distribute/variable_memory_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/autograd_leaf_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep {

template class Nested<GradientSource>;

namespace {

thread_local GradientTape* t_tape = nullptr;    // the innermost that records
thread_local GradientTape* t_newest = nullptr;  // the newest that lives

}  // namespace

GradientTape::GradientTape() : GradientTape(Options{}) {}

GradientTape::GradientTape(Options options)
    : options_(options), outer_(t_tape), older_(t_newest), previous_grad_mode_(ops::grad_enabled()) {
  t_tape = t_newest = this;
  ops::set_grad_enabled(true);
}

GradientTape::~GradientTape() {
  end_recording();
  GradientTape** link = &t_newest;
  while (*link && *link != this) link = &(*link)->older_;
  if (*link) *link = older_;
}

void GradientTape::end_recording() {
  if (!recording_) return;
  recording_ = false;
  if (t_tape == this) {
    t_tape = outer_;
    ops::set_grad_enabled(previous_grad_mode_);
    return;
  }
  // Tapes inside of this one record on, for whoever is around it.
  for (GradientTape* tape = t_tape; tape; tape = tape->outer_) {
    if (tape->outer_ != this) continue;
    tape->outer_ = outer_;
    tape->previous_grad_mode_ = previous_grad_mode_;
  }
}

GradientTape::Pause::Pause(GradientTape& tape) : tape_(tape) {
  if (t_tape != &tape) {
    throw_failed_precondition(tape.recording_ ? "GradientTape.stop_recording: an inner tape records; it must end first"
                                              : "GradientTape.stop_recording: the tape does not record");
  }
  tape.recording_ = false;
  t_tape = tape.outer_;
  ops::set_grad_enabled(tape.previous_grad_mode_);
}

GradientTape::Pause::~Pause() {
  tape_.recording_ = true;
  tape_.previous_grad_mode_ = ops::grad_enabled();
  tape_.outer_ = t_tape;
  t_tape = &tape_;
  ops::set_grad_enabled(true);
}

void GradientTape::watch(const Tensor& tensor) {
  if (!tensor.defined()) throw_invalid_argument("GradientTape.watch: the tensor is undefined");
  if (!is_floating(tensor.dtype()) && !is_complex(tensor.dtype())) {
    log_warning(
        "GradientTape.watch: the dtype of a watched tensor must be floating, e.g. float32; found {}, which has no "
        "gradient",
        dtype_name(tensor.dtype()));
    return;
  }
  if (!ops::requires_grad(tensor)) ops::require_grad(tensor);
  watched_tensors_.push_back(tensor);
}

void GradientTape::watch(const distribute::Variable& variable) {
  GradientTape* const previous = std::exchange(t_tape, this);
  leaves_.try_emplace(&*variable);
  leaf_of(*variable, variable->copy(0));
  t_tape = previous;
}

bool GradientTape::takes(distribute::VariableImpl& variable) const {
  if (options_.watch_accessed_variables && (trained_only_ ? variable.trainable() : variable.made_trainable()))
    return true;
  return !leaves_.empty() && leaves_.contains(&variable);  // by watch()
}

Tensor GradientTape::leaf_of(distribute::VariableImpl& variable, const Tensor& value) {
  bool taken = false;
  for (const GradientTape* tape = t_tape; tape && !taken; tape = tape->outer_) taken = tape->takes(variable);
  if (!taken) return {};
  // All tapes of a thread share the leaf of the outermost tape that watches the variable. After an assignment there is
  // a new one. A read of a value in the memory of workers copies it.
  const bool one_value =
      variable.num_copies() == 1 && variable.synchronization() != distribute::VariableSynchronization::kOnRead;
  const Tensor current = one_value ? distribute::VariableMemory::value_without_copy(variable) : value;
  Tensor leaf;
  for (GradientTape* tape = t_tape; tape; tape = tape->outer_) {
    const auto known = tape->leaves_.find(&variable);
    if (known != tape->leaves_.end() && !known->second.empty() && same(known->second.back().first, current))
      leaf = known->second.back().second;
  }
  for (GradientTape* tape = t_tape; tape; tape = tape->outer_) {
    if (!tape->takes(variable)) continue;
    if (!is_floating(value.dtype()) && !is_complex(value.dtype())) continue;
    if (!leaf.defined()) leaf = ops::make_leaf(value);
    auto& leaves = tape->leaves_[&variable];
    if (leaves.empty()) tape->watched_.push_back(variable.shared_from_this());
    if (leaves.empty() || !same(leaves.back().second, leaf)) leaves.emplace_back(current, leaf);
  }
  return leaf;
}

bool GradientTape::others_may_differentiate() const {
  for (const GradientTape* tape = t_newest; tape; tape = tape->older_) {
    if (tape != this && (!tape->used_ || tape->options_.persistent)) return true;
  }
  return false;
}

Tensors GradientTape::compute(const Tensors& targets, const Tensors& leaves, const Tensor& output_gradients,
                              const Ready& ready) {
  if (used_ && !options_.persistent) {
    throw_failed_precondition("GradientTape.gradient was called twice; make the tape persistent to do so");
  }
  used_ = true;
  // Other recording tapes, created before or after this one, may differentiate the gradients again.
  bool create_graph = ops::grad_enabled();
  if (recording_) {
    create_graph = options_.persistent;
    for (const GradientTape* tape = t_tape; tape; tape = tape->outer_)
      create_graph = create_graph || (tape != this && (!tape->used_ || tape->options_.persistent));
  }
  const bool was_recording = recording_;
  if (was_recording && !create_graph) ops::set_grad_enabled(false);
  // A tensor that no tape watches has no gradient, as in TensorFlow.
  Tensors watched;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].defined() || !ops::requires_grad(leaves[i])) continue;
    watched.push_back(leaves[i]);
    places.push_back(i);
  }
  const auto ready_at_place = [&](std::size_t i, const Tensor& gradient) { ready(places[i], gradient); };
  const bool retain = options_.persistent || create_graph || others_may_differentiate();
  Tensors weights(targets.size());
  if (output_gradients.defined()) {
    if (targets.size() != 1) throw_invalid_argument("GradientTape.gradient: output_gradients requires one target");
    weights[0] = output_gradients;
  }
  Tensors found = ops::grad(targets, watched, weights, retain, create_graph,
                            ready ? ops::GradientReady(ready_at_place) : ops::GradientReady());
  if (was_recording && !create_graph) ops::set_grad_enabled(true);
  Tensors gradients(leaves.size());
  for (std::size_t i = 0; i < places.size(); ++i) gradients[places[i]] = std::move(found[i]);
  return gradients;
}

namespace {

// Either may be undefined.
Tensor sum_of(const Tensor& a, Tensor b) {
  if (!a.defined()) return b;
  return b.defined() ? ops::add(a, b) : a;
}

}  // namespace

Tensor GradientTape::known(const Tensor& source) const {
  if (!source.defined() || !ops::requires_grad(source) || !ops::is_leaf(source)) return source;
  for (const Tensor& tensor : watched_tensors_) {
    if (same(tensor, source)) return source;
  }
  for (const auto& [variable, leaves] : leaves_) {
    for (const auto& [value, leaf] : leaves) {
      if (same(leaf, source)) return source;
    }
  }
  return {};
}

// The leaves that stand for those of the variables that the tape has seen, and their places in the list.
Tensors GradientTape::leaves_of(const Variables& sources, std::vector<std::size_t>& places) const {
  Tensors leaves;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto known = leaves_.find(sources[i].get());
    if (known != leaves_.end()) {
      for (const auto& [value, leaf] : known->second) {
        leaves.push_back(leaf);
        places.push_back(i);
      }
    } else if (sources[i]->num_copies() > 1 && distribute::in_cross_replica_context()) {
      throw_failed_precondition(
          fmt::format("GradientTape.gradient: variable '{}' has a copy for each of {} replicas, and a tape across "
                      "replicas does not record reads of it; call the function that holds the tape with strategy.run()",
                      sources[i].path(), sources[i]->num_copies()));
    }
  }
  return leaves;
}

List<Tensor> GradientTape::gradient(const Targets& targets, const Variables& sources, const Tensor& output_gradients,
                                    const Ready& ready) {
  std::vector<std::size_t> places;
  const Tensors leaves = leaves_of(sources, places);
  // Of a variable that was assigned to while the tape recorded, the parts are added up at the end.
  const auto in_parts = [&](std::size_t i) {
    return (i > 0 && places[i - 1] == places[i]) || (i + 1 < places.size() && places[i + 1] == places[i]);
  };
  const auto ready_at_place = [&](std::size_t i, const Tensor& gradient) {
    if (!in_parts(i)) ready(places[i], gradient);
  };
  Tensors found = compute(targets, leaves, output_gradients, ready ? Ready(ready_at_place) : Ready());
  Tensors gradients(sources.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    Tensor& gradient = gradients[places[i]];
    gradient = sum_of(gradient, std::move(found[i]));
  }
  return gradients;
}

List<Tensor> GradientTape::gradient_of_tensors(const Targets& targets, const Tensors& sources,
                                               const Tensor& output_gradients) {
  Tensors leaves;
  for (const Tensor& source : sources) leaves.push_back(known(source));
  return compute(targets, leaves, output_gradients);
}

Nested<Tensor> GradientTape::gradient_of(const Targets& targets, const Nested<GradientSource>& sources,
                                         const Tensor& output_gradients) {
  // All of them in one pass, as a tape that is not persistent gives its gradients once.
  std::vector<std::size_t> places;  // of the leaves among the sources
  Tensors leaves;
  const std::vector<GradientSource> all = sources.flatten();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::size_t> unused;
    const Tensors found = all[i].variable() ? leaves_of({all[i].variable()}, unused) : Tensors{known(all[i].tensor())};
    leaves.insert(leaves.end(), found.begin(), found.end());
    places.insert(places.end(), found.size(), i);
  }
  Tensors found = compute(targets, leaves, output_gradients), gradients(all.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    Tensor& gradient = gradients[places[i]];
    gradient = sum_of(gradient, std::move(found[i]));
  }
  return sources.pack(gradients);
}

List<Tensor> GradientTape::gradient(const Targets& targets, const Variables& sources, const GradientOptions& options) {
  Tensors gradients = gradient(targets, sources, options.output_gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = filled(gradients[i], sources[i], options);
  return gradients;
}

Nested<Tensor> GradientTape::gradient_of(const Targets& targets, const Nested<GradientSource>& sources,
                                         const GradientOptions& options) {
  auto gradients = gradient_of(targets, sources, options.output_gradients);
  const auto fill = [&](const auto& self, Nested<Tensor>& part, const Nested<GradientSource>& source) -> void {
    if (part.is_list()) {
      for (std::size_t i = 0; i < part.size(); ++i) self(self, part.parts()[i], source.parts()[i]);
    } else if (part.is_dict()) {
      for (auto& [name, entry] : part.entries()) self(self, entry, source.at(name));
    } else {
      const GradientSource& leaf = source.leaf();
      part = filled(part.leaf(), leaf.variable() ? Tensor(leaf.variable()) : leaf.tensor(), options);
    }
  };
  fill(fill, gradients, sources);
  return gradients;
}

Tensor GradientTape::filled(const Tensor& gradient, const Tensor& source, const GradientOptions& options) {
  const bool zero = options.unconnected_gradients == "zero";
  if (!zero && options.unconnected_gradients != "none") {
    throw_invalid_argument(
        fmt::format("GradientTape.gradient: invalid unconnected_gradients: '{}'; expected none or zero",
                    options.unconnected_gradients));
  }
  return zero && !gradient.defined() ? ops::zeros_like(source) : gradient;
}

GradientTape::Variables GradientTape::watched_variables() const { return watched_; }

void GradientTape::reset() {
  leaves_.clear();
  watched_.clear();
  watched_tensors_.clear();
}

Tensor GradientTape::jacobian(const Tensor& target, const Tensor& source) { return jacobian_of(target, known(source)); }

Tensor GradientTape::jacobian(const Tensor& target, const distribute::Variable& source) {
  std::vector<std::size_t> places;
  const Tensors leaves = leaves_of({source}, places);
  Tensor sum;
  for (const Tensor& leaf : leaves) sum = sum_of(sum, jacobian_of(target, leaf));
  return sum;
}

List<Tensor> GradientTape::jacobian(const Tensor& target, const Variables& sources) {
  List<Tensor> all;
  for (const bool used = used_; const distribute::Variable& source : sources) {
    used_ = used;  // all of them are one call
    all.push_back(jacobian(target, source));
  }
  return all;
}
List<Tensor> GradientTape::jacobians_of_tensors(const Tensor& target, const Tensors& sources) {
  List<Tensor> all;
  for (const bool used = used_; const Tensor& source : sources) {
    used_ = used;
    all.push_back(jacobian(target, source));
  }
  return all;
}
Tensor GradientTape::zero_jacobian(const Tensor& target, const Tensor& source) {
  std::vector<std::int64_t> dims = target.shape().dims();
  for (const std::int64_t dim : source.shape().dims()) dims.push_back(dim);
  return ops::zeros(dims, source.dtype());
}

// The gradients of `count` weighted sums of the target's elements; none for a leaf without a connection.
Tensors GradientTape::gradients_of_picks(std::string_view function, const Tensor& target, const Tensor& leaf,
                                         std::int64_t count, const std::function<Tensor(std::int64_t)>& pick) {
  if (used_ && !options_.persistent) {
    throw_failed_precondition(
        fmt::format("GradientTape.{}: gradient() was called before; make the tape persistent to do so", function));
  }
  struct Restore {
    bool& option;
    bool value;
    ~Restore() { option = value; }
  } const restore{options_.persistent, std::exchange(options_.persistent, true)};
  Tensors gradients;
  for (std::int64_t i = 0; i < count; ++i) {
    Tensor gradient = compute({target}, {leaf}, pick(i))[0];
    if (!gradient.defined()) return {};
    gradients.push_back(std::move(gradient));
  }
  return gradients;
}

// One row of the derivative for each element of the target.
Tensor GradientTape::jacobian_of(const Tensor& target, const Tensor& leaf) {
  const std::int64_t count = target.num_elements();
  const Tensors rows = gradients_of_picks("jacobian", target, leaf, count, [&](std::int64_t i) {
    return ops::reshape(ops::one_hot(Tensor::scalar(i), count, target.dtype()), target.shape().dims());
  });
  if (rows.empty()) return {};
  std::vector<std::int64_t> dims = target.shape().dims();
  for (const std::int64_t dim : leaf.shape().dims()) dims.push_back(dim);
  return ops::reshape(ops::stack(rows), dims);
}

// One gradient for each element of a row: as rows are independent, that of all rows at once.
Tensor GradientTape::batch_jacobian(const Tensor& target, const Tensor& source) {
  const Shape &rows = target.shape(), &sources = source.shape();
  if (rows.rank() < 1 || sources.rank() < 1 || rows[0] != sources[0]) {
    throw_invalid_argument(
        fmt::format("GradientTape.batch_jacobian: target of shape {} and source of shape {}; expected "
                    "the same number of rows",
                    rows.to_string(), sources.to_string()));
  }
  const std::int64_t count = rows[0] > 0 ? target.num_elements() / rows[0] : 0;
  const Tensors columns = gradients_of_picks("batch_jacobian", target, known(source), count, [&](std::int64_t i) {
    const Tensor of_row = ops::one_hot(Tensor::scalar(i), count, target.dtype());
    return ops::reshape(ops::tile(ops::expand_dims(of_row, 0), {rows[0], 1}), rows.dims());
  });
  if (columns.empty()) return {};
  std::vector<std::int64_t> dims = rows.dims();
  dims.insert(dims.end(), sources.dims().begin() + 1, sources.dims().end());
  return ops::reshape(ops::stack(columns, 1), dims);
}

}  // namespace lockstep
