#include "lockstep/keras/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/trainer/dataset_batches_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::keras {
namespace {

void add_results(Logs& logs, Results results, const std::string& prefix) {
  std::sort(results.begin(), results.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [name, value] : results) logs[prefix + name] = std::move(value);
}

Logs to_logs(const Results& results) {
  Logs logs;
  add_results(logs, results, "");
  return logs;
}

// The callbacks of a loop in Keras's order: the user's, the history, the bar.
std::vector<CallbackPtr> complete(std::vector<CallbackPtr> callbacks, int verbose, const CallbackPtr& history) {
  const auto has = [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return std::any_of(callbacks.begin(), callbacks.end(),
                       [](const CallbackPtr& c) { return dynamic_cast<T*>(c.get()); });
  };
  const bool bar = verbose != 0 && !has(static_cast<ProgbarLogger*>(nullptr));
  if (history && !has(static_cast<History*>(nullptr))) callbacks.push_back(history);
  if (bar) callbacks.push_back(std::make_shared<ProgbarLogger>());
  return callbacks;
}

// One bar for a job: the chief's.
int resolve_verbose(int verbose, const distribute::Strategy* strategy) {
  if (strategy && !strategy->is_chief()) return 0;
  return verbose < 0 ? 1 : verbose;
}

// How many samples stay for training: the last floor part goes to validation.
std::int64_t training_rows(std::int64_t rows, double split) {
  if (!(split > 0 && split < 1))
    throw_invalid_argument(fmt::format("validation_split is {}, expected between 0 and 1", split));
  const auto kept = static_cast<std::int64_t>(std::floor(static_cast<double>(rows) * (1.0 - split)));
  if (kept == 0 || kept == rows) {
    throw_invalid_argument(
        fmt::format("validation_split {} of {} samples leaves {} for training and {} for validation; give more data "
                    "or another split",
                    split, rows, kept, rows - kept));
  }
  return kept;
}

std::int64_t batch_size_for(const std::optional<std::int64_t>& given, const std::optional<std::int64_t>& steps,
                            std::int64_t rows) {
  if (given) return *given;
  return steps && *steps > 0 ? (rows + *steps - 1) / *steps : 32;
}

}  // namespace

namespace {

// What a summary counts: the variables of a built optimizer.
std::vector<distribute::VariablePtr> built_optimizer_variables(const ModelImpl& model) {
  const optimizers::OptimizerPtr& optimizer = Trainer::of(const_cast<ModelImpl&>(model)).optimizer();
  return optimizer && optimizer->built() ? optimizer->variables() : std::vector<distribute::VariablePtr>{};
}

}  // namespace

Trainer& Trainer::of(ModelImpl& model) {
  static const bool hooked = [] {
    ModelImpl::set_optimizer_variables_reader(built_optimizer_variables);
    return true;
  }();
  static_cast<void>(hooked);
  if (!model.trainer_state().has_value()) model.trainer_state() = std::make_shared<Trainer>(model);
  return *std::any_cast<std::shared_ptr<Trainer>&>(model.trainer_state());
}

std::vector<std::string> Trainer::output_names() const {
  std::vector<std::string> names;
  if (model_.is_subclassed()) return names;
  const Structure& outputs = model_.outputs();
  if (outputs.is_dict()) {
    for (const auto& [name, value] : outputs.entries()) names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }
  outputs.visit([&](const Tensor& output) {
    const KerasTensor* symbol = as_keras_tensor(output);
    names.push_back(symbol ? symbol->operation()->name() : "output");
  });
  return names;
}

// A model without known inputs makes its variables at its first call, under the strategy it trains with.
void Trainer::build_for(const Batch& batch) {
  if (model_.built()) return require_variables_of_strategy();
  const Batch one = batch_slice(batch, 0, std::min<std::int64_t>(1, batch_rows(batch)));
  model_(one.x, {.training = false});
}

void Trainer::require_variables_of_strategy() {
  if (!strategy_ || variables_checked_) return;
  for (const auto& weight : model_.weights()) weight->require_made_under(*strategy_);
  variables_checked_ = true;
}

collectives::Communicator* Trainer::communicator() const { return strategy_ ? strategy_->communicator() : nullptr; }

std::unique_ptr<distribute::Strategy::Scope> Trainer::enter_strategy() const {
  return strategy_ ? std::make_unique<distribute::Strategy::Scope>(strategy_) : nullptr;
}

Results Trainer::call_train_step(const Batch& batch) {
  const auto scope = enter_strategy();
  build_for(batch);
  auto* const own = dynamic_cast<SubclassedImpl*>(&model_);
  return own && own->owner() ? own->owner()->train_step(batch) : train_step(batch);
}

Results Trainer::call_test_step(const Batch& batch) {
  const auto scope = enter_strategy();
  build_for(batch);
  auto* const own = dynamic_cast<SubclassedImpl*>(&model_);
  return own && own->owner() ? own->owner()->test_step(batch) : test_step(batch);
}

Structure Trainer::call_predict_step(const Batch& batch) {
  const auto scope = enter_strategy();
  build_for(batch);
  auto* const own = dynamic_cast<SubclassedImpl*>(&model_);
  return own && own->owner() ? own->owner()->predict_step(batch) : predict_step(batch);
}

ShuffleArg::ShuffleArg(const char* text) : mode(Shuffle::kBatch) {
  if (std::string_view(text) != "batch")
    throw_invalid_argument(fmt::format("shuffle is '{}', expected true, false or \"batch\"", text));
}

void Trainer::compile(CompileOptions options) {
  if (compiled_ && options.metrics.empty() && options.weighted_metrics.empty()) {
    options.metrics = compile_options_.metrics;
    options.weighted_metrics = compile_options_.weighted_metrics;
  }
  if (distribute::Strategy* const current = distribute::Strategy::current()) {
    strategy_ = current;
  } else if (!strategy_) {
    strategy_ = model_.strategy();
  }
  variables_checked_ = false;
  if (model_.built()) require_variables_of_strategy();
  optimizers::OptimizerPtr optimizer = optimizers::get(options.optimizer);
  if (!optimizer) throw_invalid_argument("compile: an optimizer is needed");
  options.optimizer = optimizer;
  if (options.auto_scale_loss && model_.dtype_policy().name() == "mixed_float16" &&
      optimizer->class_name() != "LossScaleOptimizer") {
    optimizer = optimizers::LossScaleOptimizer(optimizer);
  }
  optimizer_ = std::move(optimizer);
  compile_options_ = std::move(options);
  compiled_ = std::make_shared<Compiled>(compile_options_);
}

Json Trainer::get_compile_config() const {
  if (!compiled_) return Json::object();
  const optimizers::OptimizerPtr inner = optimizer_->inner_optimizer();
  const bool wrapped_by_compile = inner && inner == compile_options_.optimizer.object();
  return compile_config(compile_options_, wrapped_by_compile ? inner : optimizer_);
}

void Trainer::compile_from_config(const Json& config) {
  if (config.is_null() || config == Json::object()) return;
  compile(parse_compile_config(config));
}

void Trainer::build_optimizer() {
  const auto scope = enter_strategy();
  if (optimizer_ && !optimizer_->built()) optimizer_->build(model_.trainable_weights());
}

void Trainer::require_compiled(const char* what) const {
  if (!compiled_) throw_failed_precondition(fmt::format("cannot {}: call compile() before using the model", what));
}

std::vector<metrics::MetricPtr> Trainer::metrics() const {
  return compiled_ ? compiled_->metrics() : std::vector<metrics::MetricPtr>{};
}

std::vector<std::string> Trainer::metrics_names() const {
  std::vector<std::string> names{"loss"};
  if (!metrics().empty()) names.push_back("compile_metrics");
  return names;
}

void Trainer::reset_metrics() {
  if (!compiled_) return;
  const auto scope = enter_strategy();
  compiled_->reset();
}

Results Trainer::metric_results() const {
  if (!compiled_) return {};
  const auto scope = enter_strategy();
  Results results;
  run_alone([&] { results = compiled_->results(); });
  return results;
}

std::shared_ptr<History> Trainer::fit(const Structure& x, const Structure& y, FitOptions options) {
  require_compiled("fit");
  Batch data{x, y, options.sample_weight};
  std::unique_ptr<BatchSource> validation;
  const auto* arrays = std::get_if<ValidationArrays>(&options.validation_data);
  const auto* dataset = std::get_if<data::Dataset>(&options.validation_data);
  const std::int64_t batch_size = batch_size_for(options.batch_size, options.steps_per_epoch, batch_rows(data));
  const std::int64_t validation_batch = options.validation_batch_size.value_or(batch_size);
  if (arrays) {
    validation = array_batches({arrays->x, arrays->y, arrays->sample_weight}, {.batch_size = validation_batch});
  } else if (dataset) {
    validation = dataset_batches(*dataset, communicator());
  } else if (options.validation_split != 0.0) {
    const std::int64_t rows = batch_rows(data), kept = training_rows(rows, options.validation_split);
    validation = array_batches(batch_slice(data, kept, rows), {.batch_size = validation_batch});
    data = batch_slice(data, 0, kept);
  }
  const auto source = array_batches(std::move(data), {batch_size, options.shuffle.mode, options.class_weight});
  return run_fit(*source, std::move(options), validation.get());
}

std::shared_ptr<History> Trainer::fit(const data::Dataset& dataset, FitOptions options) {
  require_compiled("fit");
  if (options.batch_size) throw_invalid_argument("batch_size cannot be given with a dataset: it gives batches itself");
  if (options.validation_split != 0.0)
    throw_invalid_argument("validation_split is for arrays only; give validation_data");
  std::unique_ptr<BatchSource> validation;
  if (const auto* arrays = std::get_if<ValidationArrays>(&options.validation_data)) {
    validation = array_batches({arrays->x, arrays->y, arrays->sample_weight},
                               {.batch_size = options.validation_batch_size.value_or(32)});
  } else if (const auto* other = std::get_if<data::Dataset>(&options.validation_data)) {
    validation = dataset_batches(*other, communicator(), options.validation_steps.has_value());
  }
  const auto source =
      dataset_batches(dataset, communicator(), options.steps_per_epoch.has_value(), options.class_weight);
  return run_fit(*source, std::move(options), validation.get());
}

namespace {

// The states of the generators of all layers, which weights files do not hold.
std::vector<distribute::VariablePtr> seed_states(ModelImpl& model) {
  std::vector<distribute::VariablePtr> states;
  for (const auto& layer : model.flatten_layers()) {
    for (const auto& generator : layer->seed_generators()) states.push_back(generator->state());
  }
  return states;
}

}  // namespace

// A fit under way.
struct Trainer::Loop {
  BatchSource& source;
  BatchSource* validation;
  const FitOptions& options;
  CallbackList& callbacks;
  int epoch = 0;          // under way, or next
  std::int64_t step = 0;  // batches of it that are done
  bool within = false;    // whether the epoch is under way
  bool exhausted = true;  // whether the source must start again before the next batch
  Results results = {};   // of the last step
};

// One epoch of training, from the step at which the loop stands.
Results Trainer::run_epoch(Loop& loop) {
  const FitOptions& options = loop.options;
  const std::int64_t group = std::max<std::int64_t>(1, compile_options_.steps_per_execution);
  std::int64_t& step = loop.step;
  while (!stop_training && (!options.steps_per_epoch || step < *options.steps_per_epoch)) {
    bool began = false;
    std::int64_t in_group = 0;
    for (; in_group < group && (!options.steps_per_epoch || step + in_group < *options.steps_per_epoch); ++in_group) {
      std::optional<Batch> batch = loop.source.next();
      if (!batch) {
        loop.exhausted = true;
        break;
      }
      if (!began) loop.callbacks.each(&Callback::on_train_batch_begin, step, Logs{});
      began = true;
      loop.results = call_train_step(*batch);
    }
    if (!began) break;
    step += in_group;
    loop.callbacks.each(&Callback::on_train_batch_end, loop.exhausted ? step - in_group + group - 1 : step - 1,
                        to_logs(loop.results));
    loop.callbacks.each(&Callback::on_settled);
    if (preempted_) return loop.results;
    if (loop.exhausted) break;
  }
  if (options.steps_per_epoch && step < *options.steps_per_epoch && !stop_training) {
    log_warning("the data ran out after {} of {} steps of this epoch; the next epoch starts it again", step,
                *options.steps_per_epoch);
  }
  return loop.results;
}

TrainingState Trainer::training_state() const {
  if (!loop_) throw_failed_precondition("Trainer::training_state: no fit is running");
  CallbackState callbacks = loop_->callbacks.save_state();
  TrainingState state{{{"epoch", loop_->epoch},
                       {"batch", loop_->step},
                       {"within", loop_->within},
                       {"exhausted", loop_->exhausted},
                       {"stop", stop_training},
                       {"results", loop_->results},
                       {"metrics", loop_->within ? compiled_->save_state() : Json(nullptr)},
                       {"source", loop_->source.save_state()},
                       {"validation", loop_->validation ? loop_->validation->save_state() : Json(nullptr)},
                       {"random", random::save_state()},
                       {"seed_generators", Json::array()},
                       {"callbacks", std::move(callbacks.values)}},
                      std::move(callbacks.tensors)};
  for (const auto& seed : seed_states(model_)) {
    state.values["seed_generators"].push_back(seed->numpy().to_vector<std::int64_t>());
  }
  return state;
}

void Trainer::resume(TrainingState state) { resumed_ = std::move(state); }

// Brings a loop that has just begun to where `state` was taken.
void Trainer::take_up(Loop& loop, TrainingState state) {
  const Json& values = state.values;
  const auto saved = [&](const char* name) { return values.contains(name) && !values[name].is_null(); };
  loop.epoch = state.epoch();
  if (saved("callbacks")) loop.callbacks.restore_state({values["callbacks"], state.tensors});
  loop.within = values.value("within", false);
  stop_training = values.value("stop", false);
  if (!saved("random")) return;
  const bool goes_on = loop.within || (loop.options.steps_per_epoch && !values.at("exhausted").get<bool>());
  if (saved("validation") && loop.validation) loop.validation->restore_state(values["validation"]);
  if (saved("source")) {
    loop.source.restore_state(values["source"]);
  } else if (goes_on) {
    loop.source.reset();
    for (std::int64_t i = 0; i < state.batches() && loop.source.next(); ++i) {
    }
  }
  loop.exhausted = values.at("exhausted").get<bool>();
  if (loop.within) {
    loop.step = state.batches();
    loop.results = values.at("results").get<Results>();
    compiled_->restore_state(values.at("metrics"));
  }
  const auto seeds = seed_states(model_);
  const auto states = values.at("seed_generators").get<std::vector<std::vector<std::int64_t>>>();
  for (std::size_t i = 0; i < seeds.size() && seeds.size() == states.size(); ++i)
    seeds[i]->assign(Tensor::from_vector(states[i]));
  random::restore_state(values["random"]);
}

std::shared_ptr<History> Trainer::run_fit(BatchSource& source, FitOptions options, BatchSource* validation) {
  const int verbose = resolve_verbose(options.verbose, strategy_);
  history_ = std::make_shared<History>();
  std::optional<std::int64_t> steps = options.steps_per_epoch ? options.steps_per_epoch : source.num_batches();
  CallbackList callbacks(complete(options.callbacks, verbose, history_), this, {verbose, options.epochs, steps});
  Loop loop{source, validation, options, callbacks, options.initial_epoch};
  stop_training = preempted_ = false;
  resumed_.reset();
  callbacks.each(&Callback::on_train_begin, Logs{});
  struct Running {
    Trainer& trainer;
    ~Running() { trainer.loop_ = nullptr; }
  } running{*this};
  loop_ = &loop;
  if (resumed_) {
    try {
      take_up(loop, *std::exchange(resumed_, std::nullopt));
    } catch (const Json::exception& error) {
      throw_data_loss(fmt::format("the saved state of training cannot be used: {}", error.what()));
    }
  }
  Logs logs = to_logs(loop.results);
  while (loop.epoch < options.epochs && (!stop_training || loop.within)) {
    if (loop.within) {
      callbacks.each(&Callback::on_epoch_resume, loop.epoch, loop.step);
    } else {
      reset_metrics();
      callbacks.each(&Callback::on_epoch_begin, loop.epoch, Logs{});
      if (loop.exhausted || !options.steps_per_epoch) source.reset();
      loop.exhausted = false;
      loop.within = true;
      loop.results = metric_results();
    }
    logs = to_logs(run_epoch(loop));
    if (preempted_) return history_;  // within the epoch: a resumed fit ends it
    if (validation && (loop.epoch + 1) % std::max(1, options.validation_freq) == 0) {
      validation->reset();
      add_results(logs, run_evaluate(*validation, options.validation_steps, callbacks), "val_");
    }
    callbacks.each(&Callback::on_epoch_end, loop.epoch, logs);
    ++loop.epoch;
    loop.step = 0;
    loop.within = false;
    callbacks.each(&Callback::on_settled);
  }
  {
    const auto scope = enter_strategy();
    optimizer_->finalize_variable_values(model_.trainable_weights());
  }
  callbacks.each(&Callback::on_train_end, logs);
  return history_;
}

Results Trainer::run_evaluate(BatchSource& source, std::optional<std::int64_t> steps, CallbackList& callbacks) {
  stop_evaluating = false;
  reset_metrics();
  callbacks.each(&Callback::on_test_begin, Logs{});
  Results results;
  for (std::int64_t step = 0; !stop_evaluating && (!steps || step < *steps); ++step) {
    const std::optional<Batch> batch = source.next();
    if (!batch) break;
    callbacks.each(&Callback::on_test_batch_begin, step, Logs{});
    results = call_test_step(*batch);
    callbacks.each(&Callback::on_test_batch_end, step, to_logs(results));
  }
  if (results.empty()) results = metric_results();
  callbacks.each(&Callback::on_test_end, to_logs(results));
  return results;
}

Results Trainer::evaluate(const Structure& x, const Structure& y, EvaluateOptions options) {
  require_compiled("evaluate");
  Batch data{x, y, options.sample_weight};
  const std::int64_t batch_size = batch_size_for(options.batch_size, options.steps, batch_rows(data));
  const auto source = array_batches(std::move(data), {.batch_size = batch_size});
  source->reset();
  const int verbose = resolve_verbose(options.verbose, strategy_);
  CallbackList callbacks(complete(options.callbacks, verbose, nullptr), this,
                         {verbose, 1, options.steps ? options.steps : source->num_batches()});
  return run_evaluate(*source, options.steps, callbacks);
}

Results Trainer::evaluate(const data::Dataset& dataset, EvaluateOptions options) {
  require_compiled("evaluate");
  const auto source = dataset_batches(dataset, communicator(), options.steps.has_value());
  source->reset();
  const int verbose = resolve_verbose(options.verbose, strategy_);
  CallbackList callbacks(complete(options.callbacks, verbose, nullptr), this,
                         {verbose, 1, options.steps ? options.steps : source->num_batches()});
  return run_evaluate(*source, options.steps, callbacks);
}

Structure Trainer::run_predict(BatchSource& source, const PredictOptions& options) {
  const int verbose = resolve_verbose(options.verbose, strategy_);
  CallbackList callbacks(complete(options.callbacks, verbose, nullptr), this,
                         {verbose, 1, options.steps ? options.steps : source.num_batches()});
  source.reset();
  stop_predicting = false;
  callbacks.each(&Callback::on_predict_begin, Logs{});
  std::vector<Structure> parts;
  for (std::int64_t step = 0; !stop_predicting && (!options.steps || step < *options.steps); ++step) {
    const std::optional<Batch> batch = source.next();
    if (!batch) break;
    callbacks.each(&Callback::on_predict_batch_begin, step, Logs{});
    parts.push_back(call_predict_step(*batch));
    callbacks.each(&Callback::on_predict_batch_end, step, Logs{});
  }
  callbacks.each(&Callback::on_predict_end, Logs{});
  if (parts.empty()) throw_invalid_argument("predict: the data has no batches");
  std::vector<Tensors> leaves;
  for (const Structure& part : parts) leaves.push_back(part.flatten());
  Tensors joined;
  for (std::size_t i = 0; i < leaves[0].size(); ++i) {
    Tensors rows;
    for (const Tensors& part : leaves) rows.push_back(part[i]);
    joined.push_back(rows.size() == 1 ? rows[0] : ops::concat(rows, 0));
  }
  return parts[0].pack(joined);
}

Structure Trainer::predict(const Structure& x, PredictOptions options) {
  Batch data{x, {}, {}};
  const std::int64_t batch_size = batch_size_for(options.batch_size, options.steps, batch_rows(data));
  return run_predict(*array_batches(std::move(data), {.batch_size = batch_size}), options);
}

Structure Trainer::predict(const data::Dataset& dataset, PredictOptions options) {
  return run_predict(*dataset_batches(dataset, communicator(), options.steps.has_value()), options);
}

Results Trainer::train_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight) {
  return call_train_step({x, y, sample_weight});
}
Results Trainer::test_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight) {
  return call_test_step({x, y, sample_weight});
}
Structure Trainer::predict_on_batch(const Structure& x) { return call_predict_step({x, {}, {}}); }

}  // namespace lockstep::keras
