#include "lockstep/keras/trainer/training_session_internal.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/build_observers_internal.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/metrics/mean_internal.h"
#include "lockstep/keras/metrics/metrics.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/trainer/metric_state_internal.h"
#include "lockstep/keras/trainer/overrides_internal.h"
#include "lockstep/ops/function.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::keras {
namespace {

std::vector<std::string> names_of(const Results& results) {
  std::vector<std::string> names;
  for (const auto& [name, value] : results) names.push_back(name);
  return names;
}

}  // namespace

void TrainingSession::compile(CompileOptions given) {
  // Keras keeps the loss and the metrics of the last compile() where it is given none.
  if (compiled && given.loss.empty()) {
    given.loss = options.loss;
    given.loss_weights = options.loss_weights;
  }
  if (compiled && given.metrics.empty() && given.weighted_metrics.empty()) {
    given.metrics = options.metrics;
    given.weighted_metrics = options.weighted_metrics;
  }
  if (distribute::Strategy* const current = distribute::Strategy::current()) {
    strategy = current;
  } else if (!strategy) {
    strategy = model.strategy();
  }
  variables_checked = false;
  make_functions();
  if (model.built()) require_variables_of_strategy();
  optimizers::OptimizerPtr used = optimizers::get(given.optimizer);
  if (!used) throw_invalid_argument("compile requires an optimizer");
  given.optimizer = used;
  if (given.auto_scale_loss && model.dtype_policy().name() == "mixed_float16" &&
      used->class_name() != "LossScaleOptimizer") {
    used = optimizers::LossScaleOptimizer(used);
  }
  optimizer = std::move(used);
  if (model.is_functional()) given.name_outputs(output_names());
  options = std::move(given);
  compiled = std::make_shared<Compiled>(options, model);
  BuildAccess::notify(model);
}

void TrainingSession::make_functions() {
  for (auto* const draws : {&train_draws, &test_draws}) *draws = std::make_unique<ops::FunctionDraws>();
  for (auto* const traces : {&train_traces, &test_traces, &predict_traces, &predict_on_batch_traces})
    *traces = std::make_unique<ops::TracedDraws>(true);
}

namespace {

ops::FunctionDraws& draws_for(ops::TracedDraws& traces, const lockstep::internal::TraceKey& key) {
  return traces.of(key.exact(), key.without_shapes());
}

}  // namespace

ops::FunctionDraws& TrainingSession::draws_of_train(const Batch& batch) const {
  return on_batch ? draws_for(*train_traces, lockstep::internal::TraceKey(batch.x, batch.y, batch.sample_weight))
                  : *train_draws;
}
ops::FunctionDraws& TrainingSession::draws_of_test(const Batch& batch) const {
  return on_batch ? draws_for(*test_traces, lockstep::internal::TraceKey(batch.x, batch.y, batch.sample_weight))
                  : *test_draws;
}
// Keras calls the function of predict() with each batch; the functions of the other loops get the iterator.
ops::FunctionDraws& TrainingSession::draws_of_predict(const Structure& x) const {
  return draws_for(on_batch ? *predict_on_batch_traces : *predict_traces, lockstep::internal::TraceKey(x));
}

std::vector<std::string> TrainingSession::output_names() const {
  std::vector<std::string> names;
  if (model.is_subclassed()) return names;
  const Structure& outputs = model.outputs();
  if (outputs.is_dict()) {
    for (const auto& [name, value] : outputs.entries()) names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }
  outputs.visit([&](const Tensor& output) {
    const KerasTensor* symbol = as_keras_tensor(output);
    names.push_back(symbol ? symbol->operation()->name() : "output");
  });
  return model.keras_version() < 3 ? numbered_names(std::move(names)) : names;
}

// A model without known inputs makes its variables at its first call, under the strategy it trains with. Keras makes
// that call symbolically, so it draws no random numbers.
void TrainingSession::build_for(const Batch& batch) {
  if (model.built()) return require_variables_of_strategy();
  if (!has_call()) return;
  const Batch one = batch_slice(batch, 0, std::min<std::int64_t>(1, first_rows(batch)));
  const random::PausedGenerators no_draws;
  const Json before = save_layer_metrics();
  if (const auto shape = shape_to_build_from(one)) {
    model.ensure_built(*shape);
  } else {
    forward(one.x, false);
  }
  restore_layer_metrics(before);
}

// The graph of a Sequential is built for all batches of its data: extents that differ between batches are unknown.
// Under a strategy, Keras builds it from the first batch.
std::optional<Shape> TrainingSession::shape_to_build_from(const Batch& batch) const {
  if (!model.is_sequential() || strategy || !input_shape || !batch.x.is_leaf()) return std::nullopt;
  const Shape& first = batch.x.leaf().shape();
  if (!input_shape->known_rank() || input_shape->rank() != first.rank()) return std::nullopt;
  return input_shape;
}

bool TrainingSession::call_takes_training() const {
  using CallInContext = Structure (Model::*)(const Structure&, const CallContext&);
  return !model.is_subclassed() || object_overriding(model, CallInContext(&Model::call)) != nullptr;
}

Structure TrainingSession::forward(const Structure& x, bool training) const {
  return call_takes_training() ? model(x, {.training = training}) : model(x);
}

bool TrainingSession::has_call() const {
  using Call = Structure (Model::*)(const Structure&);
  using CallInContext = Structure (Model::*)(const Structure&, const CallContext&);
  return !model.is_subclassed() || object_overriding(model, Call(&Model::call), CallInContext(&Model::call)) != nullptr;
}

void TrainingSession::require_variables_of_strategy() {
  if (!strategy || variables_checked) return;
  for (const auto& weight : model.weights()) weight->require_made_under(*strategy);
  variables_checked = true;
}

collectives::Communicator* TrainingSession::communicator() const {
  return strategy ? strategy->communicator() : nullptr;
}

std::unique_ptr<distribute::Strategy::Scope> TrainingSession::enter_strategy() const {
  return strategy ? std::make_unique<distribute::Strategy::Scope>(strategy) : nullptr;
}

void TrainingSession::require_compiled(const char* what) const {
  if (!compiled) throw_failed_precondition(fmt::format("cannot {}: call compile() before using the model", what));
}

namespace {

// A metric of the same name that is there already gets the later one's value, as in Keras's logs.
void add_layer_metrics(Results& results, const std::vector<metrics::MetricPtr>& metrics) {
  for (const auto& metric : metrics) {
    const auto known = std::ranges::find(results, metric->name(), [](const auto& item) { return item.first; });
    if (known != results.end()) {
      known->second = metric_log_value(*metric);
    } else {
      results.emplace_back(metric->name(), metric_log_value(*metric));
    }
  }
}

}  // namespace

Results TrainingSession::metric_results() const {
  if (!compiled) return {};
  const auto scope = enter_strategy();
  Results results;
  run_alone([&] { results = compiled->results(); });
  add_layer_metrics(results, layer_metrics());
  return results;
}

void TrainingSession::run_alone(const std::function<void()>& fn) const {
  if (strategy && strategy->num_replicas_in_sync() > 1) {
    strategy->run_alone(fn);
  } else {
    fn();
  }
}

void TrainingSession::make_loss_tracker() {
  if (!loss_tracker) loss_tracker = metrics::Mean({.name = "loss"});
}

std::vector<metrics::MetricPtr> TrainingSession::metrics() const {
  Model* const object = object_overriding(model, &Model::metrics);
  return object ? object->metrics() : default_metrics();
}

std::vector<metrics::MetricPtr> TrainingSession::default_metrics() const {
  std::vector<metrics::MetricPtr> all = session_metrics();
  for (auto& metric : layer_metrics()) all.push_back(std::move(metric));
  return all;
}

std::vector<metrics::MetricPtr> TrainingSession::step_metrics() const {
  Model* const object = object_overriding(model, &Model::metrics);
  return object ? object->metrics() : session_metrics();
}

std::vector<metrics::MetricPtr> TrainingSession::session_metrics() const {
  std::vector<metrics::MetricPtr> all;
  if (loss_tracker) all.push_back(loss_tracker);
  if (compiled) {
    for (auto& metric : compiled->metrics()) all.push_back(std::move(metric));
  }
  return all;
}

std::vector<metrics::MetricPtr> TrainingSession::layer_metrics() const {
  std::vector<metrics::MetricPtr> all;
  for (const Layer* layer : model.flatten_layers()) {
    if (layer != &model && dynamic_cast<const ModelImpl*>(layer)) continue;
    for (const auto& [attribute, metric] : layer->own_metrics()) {
      if (metric && std::ranges::find(all, metric) == all.end()) all.push_back(metric);
    }
  }
  return all;
}

void TrainingSession::reset_metrics() {
  if (!compiled) return;
  const auto scope = enter_strategy();
  compiled->reset();
  for (const auto& metric : metrics()) metric->reset_state();
  last_step_was_own = false;
}

void TrainingSession::count_again(bool static_rows) {
  if (!compiled || model.keras_version() < 3) return;
  compiled->count_again(static_rows);
  const std::vector<metrics::MetricPtr> counted = compiled->metrics();
  for (const auto& metric : metrics()) {
    if (std::ranges::find(counted, metric) != counted.end()) continue;
    if (auto* mean = dynamic_cast<metrics::MeanMetric*>(metric.get())) mean->count_again(static_rows);
  }
}

Results TrainingSession::get_metrics_result() const {
  if (!loss_tracker && !object_overriding(model, &Model::metrics)) return metric_results();
  Results results;
  results.set_flat();
  for (const auto& metric : metrics()) results.emplace_back(metric->name(), metric_log_value(*metric));
  return results;
}

bool TrainingSession::groups_metrics(const Results& results) const {
  if (!last_step_was_own || results.flat() || !compiled) return false;
  const auto compile_metrics = compiled->metrics();
  return !compile_metrics.empty() && std::ranges::all_of(compile_metrics, [&](const auto& metric) {
    return std::ranges::any_of(results, [&](const auto& item) { return item.first == metric->name(); });
  });
}

Logs TrainingSession::logs_of(Results results) const {
  std::set<std::string> grouped;
  if (groups_metrics(results)) {
    for (const auto& metric : compiled->metrics()) grouped.insert(metric->name());
  }
  std::ranges::sort(results, {}, [&](const auto& item) {
    return std::pair(grouped.contains(item.first) ? std::string("compile_metrics") : item.first, item.first);
  });
  Logs logs;
  for (auto& [name, value] : results) logs[name] = std::move(value);
  return logs;
}

// Keras's _get_metrics_result_or_logs: where a step of the model's class returned results by the names of its metrics,
// those of all replicas.
Results TrainingSession::loop_results(Results last) const {
  if (!last_step_was_own || groups_metrics(last)) return last;
  const auto scope = enter_strategy();
  const Results results = get_metrics_result();
  const auto returned = names_of(last), named = names_of(results);
  const bool same = std::set(returned.begin(), returned.end()) == std::set(named.begin(), named.end());
  return same ? results : last;
}

Results TrainingSession::in_order(Results results) const {
  if (!last_step_was_own) return compiled ? compiled->with_repeated_names(std::move(results)) : results;
  std::vector<std::string> names;
  for (const auto& metric : metrics()) names.push_back(metric->name());
  const auto place = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  std::stable_sort(results.begin(), results.end(), [&](const auto& a, const auto& b) {
    const auto left = place(a.first), right = place(b.first);
    return left != right ? left < right : a.first < b.first;
  });
  return results;
}

Json TrainingSession::save_own_metrics() const {
  Json state = Json::array();
  if (loss_tracker || object_overriding(model, &Model::metrics)) {
    for (const auto& metric : step_metrics()) state.push_back(save_metric_state(*metric));
  }
  return state;
}

void TrainingSession::restore_own_metrics(const Json& state) {
  make_loss_tracker();
  const auto all = step_metrics();
  // Those of compile are missing at the end before the first batch.
  for (std::size_t i = 0; i < all.size() && i < state.size(); ++i) restore_metric_state(*all[i], state[i]);
  for (std::size_t i = state.size(); i < all.size(); ++i) clear_metric_state(*all[i]);
}

Json TrainingSession::save_layer_metrics() const {
  Json state = Json::array();
  for (const auto& metric : layer_metrics()) state.push_back(save_metric_state(*metric));
  return state;
}

void TrainingSession::restore_layer_metrics(const Json& state) {
  const auto all = layer_metrics();
  for (std::size_t i = 0; i < all.size(); ++i) {
    // One that had not seen a batch may have got its variables since.
    if (i < state.size() && state[i].size() == all[i]->variables().size()) {
      restore_metric_state(*all[i], state[i]);
    } else {
      clear_metric_state(*all[i]);
    }
  }
}

}  // namespace lockstep::keras
