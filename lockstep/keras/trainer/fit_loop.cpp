// The loops of fit, evaluate and predict.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/data/distributed_dataset.h"
#include "lockstep/distribute/variable_memory_internal.h"
#include "lockstep/keras/callbacks/reads_together.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/trainer/epoch_iterator_internal.h"
#include "lockstep/keras/trainer/overrides_internal.h"
#include "lockstep/keras/trainer/step_runner_internal.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/keras/utils.h"
#include "lockstep/ops/pooled_loops_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::keras {
namespace {

// The callbacks of a loop in Keras's order: the user's, the history, the bar.
std::vector<CallbackPtr> complete(const std::vector<CallbackArg>& given, int verbose, const CallbackPtr& history) {
  std::vector<CallbackPtr> callbacks(given.begin(), given.end());
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

// Callbacks may read the optimizer's state on the chief alone, so workers that keep parts of it gather them before,
// unless all callbacks of all ranks are known to read it together.
bool callbacks_read_alone(const TrainingSession& session, const FitOptions& options) {
  if (!session.strategy || !session.strategy->workers()) return false;
  const bool mine = std::any_of(options.callbacks.begin(), options.callbacks.end(), [](const CallbackPtr& each) {
    return !dynamic_cast<const ReadsTogether*>(each.get()) && !dynamic_cast<const History*>(each.get()) &&
           !dynamic_cast<const ProgbarLogger*>(each.get());
  });
  const auto own = Tensor::from_vector<std::int64_t>({mine ? 1 : 0});
  const Tensors all = collectives::gather(*session.strategy->workers(), own, "whether callbacks may read state alone");
  return std::any_of(all.begin(), all.end(), [](const Tensor& flag) { return flag.to_vector<std::int64_t>()[0] != 0; });
}

void gather_state(const TrainingSession& session) {
  for (const VariablePtr& variable : session.optimizer->variables())
    distribute::VariableMemory::value_without_copy(*variable);
}

// One bar for a job: the chief's.
int resolve_verbose(int verbose, const distribute::Strategy* strategy) {
  if (strategy && !strategy->is_chief()) return 0;
  return verbose < 0 ? 1 : verbose;
}

}  // namespace

// A fit under way.
struct Trainer::Loop {
  EpochIterator& batches;
  EpochIterator* validation;
  const FitOptions& options;
  CallbackList& callbacks;
  int epoch = 0;         // under way, or next
  bool within = false;   // whether the epoch is under way
  Results results = {};  // of the last step
};

std::shared_ptr<History> Trainer::run_fit(BatchSource& source, FitOptions options, BatchSource* validation_source) {
  const auto use = session_->use(true);
  const int verbose = resolve_verbose(options.verbose, session_->strategy);
  history_ = std::make_shared<History>();
  for (const CallbackPtr& callback : options.callbacks) {
    if (const auto own = std::dynamic_pointer_cast<History>(callback)) history_ = own;  // as Keras returns it
  }
  EpochIterator batches = iterate(source, options.steps_per_epoch);
  batches.set_epochs(options.epochs - options.initial_epoch);
  stop_training = session_->preempted = false;
  if (const auto served = steps_->serve_fit(batches, [this](const Batch& batch) { return train(batch); })) {
    history_->restore_state({*served, {}});
    return history_;
  }
  steps_->begin_fit();
  try {
    run_loop(batches, options, verbose, validation_source);
  } catch (const Error& error) {
    steps_->end_fit(error);
    throw;
  }
  steps_->end_fit(history_->save_state().values);
  return history_;
}

// The epochs of a fit.
void Trainer::run_loop(EpochIterator& batches, const FitOptions& options, int verbose, BatchSource* validation_source) {
  std::optional<EpochIterator> validation;
  if (validation_source) validation.emplace(iterate(*validation_source, options.validation_steps));
  if (session_->strategy) batches.peek();
  batches.reset();
  const bool gathers = callbacks_read_alone(*session_, options);
  CallbackList callbacks(complete(options.callbacks, verbose, history_), this,
                         {verbose, options.epochs, batches.num_batches()});
  Loop loop{batches, validation ? &*validation : nullptr, options, callbacks, options.initial_epoch};
  resumed_.reset();
  callbacks.each(&Callback::on_train_begin, Logs{});
  struct Running {
    Trainer& trainer;
    ~Running() {
      trainer.loop_ = nullptr;
      trainer.session_->preemption = {};
    }
  } running{*this};
  loop_ = &loop;
  session_->preemption = options.preemption;
  if (resumed_) {
    try {
      restore(loop, *std::exchange(resumed_, std::nullopt));
    } catch (const JsonError& error) {
      throw_data_loss(fmt::format("invalid saved state of training: {}", error.what()));
    }
  }
  Logs logs = session_->logs_of(loop.results);
  while (loop.epoch < options.epochs && (!stop_training || loop.within) && !batches.exhausted()) {
    if (loop.within) {
      callbacks.each(&Callback::on_epoch_resume, loop.epoch, loop.batches.batches_done());
    } else {
      session_->reset_metrics();
      Logs begun;
      callbacks.each<int, Logs&>(&Callback::on_epoch_begin, loop.epoch, begun);
      batches.begin_epoch();
      loop.within = true;
      loop.results = session_->metric_results();
    }
    steps_->begin_epoch([&] { return batches.save_state(); });
    Results results = run_epoch(loop);
    if (session_->preempted) return;  // within the epoch: a resumed fit ends it
    if (validation && options.validation_freq.includes(loop.epoch)) {
      for (auto& [name, value] : run_evaluate(*validation, callbacks))
        results.emplace_back("val_" + name, std::move(value));
    }
    logs = session_->logs_of(std::move(results));
    if (gathers) gather_state(*session_);
    const auto end_epoch = [&] {
      ++loop.epoch;
      loop.within = false;
      callbacks.each(&Callback::after_callbacks);
    };
    try {
      callbacks.each<int, Logs&>(&Callback::on_epoch_end, loop.epoch, logs);
    } catch (...) {
      // A backup that stands in front of the callback that fails has the epoch, as in Keras. Not of several workers, as
      // the others may not come to this point.
      if (!session_->strategy || !session_->strategy->workers()) end_epoch();
      throw;
    }
    end_epoch();
  }
  {
    const auto scope = session_->enter_strategy();
    session_->optimizer->finalize_variable_values(session_->model.trainable_weights());
  }
  callbacks.each(&Callback::on_train_end, logs);
}

namespace {

// The counters of a training step that do not depend on its data: the optimizer's and those of the seeds. Keras learns
// that a dataset of unknown length has ended by a step whose batch does not come, in which TensorFlow counts these; not
// with several steps per execution.
class CountersWithoutData {
 public:
  explicit CountersWithoutData(TrainingSession& session) : optimizer_(session.optimizer) {
    for (const Layer* layer : session.model.flatten_layers()) {
      for (const random::SeedGeneratorPtr& generator : layer->seed_generators()) states_.push_back(generator->state());
    }
  }
  void before_step() {
    before_.clear();
    for (const distribute::VariablePtr& state : states_) before_.push_back(state->value());
  }
  // As much as the last step did.
  void advance() {
    for (std::size_t i = 0; i < before_.size(); ++i)
      states_[i]->assign(states_[i]->value() + (states_[i]->value() - before_[i]));
    const distribute::VariablePtr& iterations = optimizer_->iterations_variable();
    if (iterations) iterations->assign(iterations->value() + lockstep::Number(1));
  }

 private:
  optimizers::OptimizerPtr optimizer_;
  std::vector<distribute::VariablePtr> states_;
  Tensors before_;
};

// Whether such a step shows Keras the end of the data.
bool ends_by_a_step(const EpochIterator& batches, const TrainingSession& session) {
  return batches.may_run_out() && !session.strategy && session.options.steps_per_execution == 1 &&
         !session.options.run_eagerly;
}

// The results after that step. If the data declares its number of rows, the means count these rows without their
// values, so Keras's means are too small.
Results results_at_the_end(const EpochIterator& batches, TrainingSession& session, Results last) {
  session.count_again(batches.has_static_rows());
  return session.last_step_was_own ? last : session.metric_results();
}

}  // namespace

// One epoch of training, from the step at which the loop stands.
Results Trainer::run_epoch(Loop& loop) {
  std::optional<CountersWithoutData> counters;
  const bool of_unknown_length = ends_by_a_step(loop.batches, *session_);
  while (!stop_training) {
    std::optional<Batch> batch = loop.batches.next_execution();
    if (!batch) {
      if (counters && loop.batches.ran_out()) {
        counters->advance();
        loop.results = results_at_the_end(loop.batches, *session_, std::move(loop.results));
      }
      break;
    }
    if (of_unknown_length && !counters) counters.emplace(*session_);
    if (counters) counters->before_step();
    loop.callbacks.each<std::int64_t, const Logs&>(&Callback::on_train_batch_begin, loop.batches.begin_step(), Logs{});
    do {
      loop.results = train(*batch);
      batch = loop.batches.next_in_execution();
    } while (batch);
    loop.callbacks.each<std::int64_t, const Logs&>(&Callback::on_train_batch_end, loop.batches.end_step(),
                                                   session_->logs_of(loop.results));
    loop.callbacks.each(&Callback::after_callbacks);
    if (session_->preempted) break;
  }
  if (!session_->preempted) loop.results = steps_->end_epoch(loop.results);
  return session_->loop_results(loop.results);
}

EpochIterator Trainer::iterate(BatchSource& source, std::optional<std::int64_t> steps) const {
  if (session_->model.is_sequential() && !session_->model.built()) {
    session_->input_shape = source.declared_input_shape();
  }
  return EpochIterator(source, {steps, session_->options.steps_per_execution, session_->model.keras_version() < 3});
}

Results Trainer::run_evaluate(BatchSource& source, const EvaluateOptions& options) {
  EpochIterator batches = iterate(source, options.steps);
  const int verbose = resolve_verbose(options.verbose, session_->strategy);
  CallbackList callbacks(complete(options.callbacks, verbose, nullptr), this, {verbose, 1, batches.num_batches()});
  return run_evaluate(batches, callbacks);
}

// An evaluation begins a pass, also where a fit repeats it with validation_steps.
Results Trainer::run_evaluate(EpochIterator& batches, CallbackList& callbacks) {
  if (session_->strategy) batches.peek();
  batches.reset();
  stop_evaluating = false;
  callbacks.each(&Callback::on_test_begin, Logs{});
  session_->reset_metrics();
  Results results;
  batches.begin_epoch();
  while (!stop_evaluating) {
    std::optional<Batch> batch = batches.next_execution();
    if (!batch) {
      if (batches.ran_out() && !results.empty() && ends_by_a_step(batches, *session_))
        results = results_at_the_end(batches, *session_, std::move(results));
      break;
    }
    callbacks.each<std::int64_t, const Logs&>(&Callback::on_test_batch_begin, batches.begin_step(), Logs{});
    do {
      results = test(*batch);
      batch = batches.next_in_execution();
    } while (batch);
    callbacks.each<std::int64_t, const Logs&>(&Callback::on_test_batch_end, batches.end_step(),
                                              session_->logs_of(results));
  }
  results = results.empty() ? session_->metric_results() : session_->loop_results(std::move(results));
  callbacks.each(&Callback::on_test_end, session_->logs_of(results));
  return results;
}

Structure Trainer::run_predict(BatchSource& source, const PredictOptions& options) {
  const auto use = session_->use(false);
  const int verbose = resolve_verbose(options.verbose, session_->strategy);
  EpochIterator batches = iterate(source, options.steps);
  CallbackList callbacks(complete(options.callbacks, verbose, nullptr), this, {verbose, 1, batches.num_batches()});
  stop_predicting = false;
  callbacks.each(&Callback::on_predict_begin, Logs{});
  std::vector<Structure> parts;
  batches.begin_epoch();
  while (!stop_predicting) {
    std::optional<Batch> batch = batches.next_execution();
    if (!batch) break;
    callbacks.each<std::int64_t, const Logs&>(&Callback::on_predict_batch_begin, batches.begin_step(), Logs{});
    const std::size_t before = parts.size();
    do {
      parts.push_back(predict_batch(*batch));
      batch = batches.next_in_execution();
    } while (batch);
    Logs logs;
    if (!options.callbacks.empty()) {
      const std::vector<Structure> outputs(parts.begin() + static_cast<std::ptrdiff_t>(before), parts.end());
      logs["outputs"] = LogValue::of_outputs(outputs.size() == 1 ? outputs[0] : distribute::joined_rows(outputs));
    }
    callbacks.each<std::int64_t, const Logs&>(&Callback::on_predict_batch_end, batches.end_step(), logs);
  }
  callbacks.each(&Callback::on_predict_end, Logs{});
  if (parts.empty()) throw_invalid_argument("predict requires data: found no batches");
  return distribute::joined_rows(parts);
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

TrainingState Trainer::training_state() const {
  if (!loop_) throw_failed_precondition("Trainer::training_state requires a running fit");
  steps_->wait_for_steps();
  CallbackState callbacks = loop_->callbacks.save_state();
  TrainingState state{{{"epoch", loop_->epoch},
                       {"batch", loop_->within ? loop_->batches.batches_done() : 0},
                       {"within", loop_->within},
                       {"stop", stop_training},
                       {"results", loop_->results},
                       {"own_step", session_->last_step_was_own},
                       {"metrics", loop_->within ? session_->compiled->save_state() : Json(nullptr)},
                       {"own_metrics", loop_->within ? session_->save_own_metrics() : Json(nullptr)},
                       {"layer_metrics", loop_->within ? session_->save_layer_metrics() : Json(nullptr)},
                       {"batches", loop_->batches.save_state()},
                       {"validation", loop_->validation ? loop_->validation->save_state() : Json(nullptr)},
                       {"random", random::save_state()},
                       {"draws", {{"train", session_->train_draws->save()}, {"test", session_->test_draws->save()}}},
                       {"seed_generators", Json::array()},
                       {"callbacks", std::move(callbacks.values)}},
                      std::move(callbacks.tensors)};
  for (const auto& seed : seed_states(session_->model)) {
    state.values["seed_generators"].push_back(seed->numpy().to_vector<std::int64_t>());
  }
  return state;
}

void Trainer::resume(TrainingState state) { resumed_ = std::move(state); }

// Brings a loop that has just begun to where `state` was taken.
void Trainer::restore(Loop& loop, TrainingState state) {
  const Json& values = state.values;
  const auto saved = [&](const char* name) { return values.contains(name) && !values[name].is_null(); };
  loop.epoch = state.epoch();
  if (saved("callbacks")) loop.callbacks.restore_state({values["callbacks"], state.tensors});
  loop.within = values.value("within", false);
  stop_training = values.value("stop", false);
  if (!saved("random")) return;
  if (saved("validation") && loop.validation) loop.validation->restore_state(values["validation"]);
  loop.batches.restore_state(values.at("batches"));
  if (loop.within) {
    loop.results = values.at("results").get<Results>();
    session_->compiled->restore_state(values.at("metrics"));
    const auto scope = session_->enter_strategy();
    if (const Json own = values.value("own_metrics", Json::array()); !own.empty()) session_->restore_own_metrics(own);
    if (saved("layer_metrics")) session_->restore_layer_metrics(values["layer_metrics"]);
    session_->last_step_was_own = values.value("own_step", false);
  }
  const auto seeds = seed_states(session_->model);
  const auto states = values.at("seed_generators").get<std::vector<std::vector<std::int64_t>>>();
  for (std::size_t i = 0; i < seeds.size() && seeds.size() == states.size(); ++i)
    seeds[i]->assign(Tensor::from_vector(states[i]));
  random::restore_state(values["random"]);
  if (saved("draws")) {
    session_->train_draws->restore(values["draws"].at("train"));
    session_->test_draws->restore(values["draws"].at("test"));
  }
}

namespace {
// A step in the form that the class of `object` overrides.
template <typename Result>
Result step_of(Model& object, const Batch& batch, Result (Model::*of_data)(const Structure&),
               Result (Model::*of_batch)(const Batch&)) {
  static const Model plain{ModelPtr()};
  if (!overrides(object, plain, of_data)) return (object.*of_batch)(batch);
  return (object.*of_data)(utils::pack_x_y_sample_weight(batch.x, batch.y, batch.sample_weight));
}

using StepOfBatch = Results (Model::*)(const Batch&);
using StepOfData = Results (Model::*)(const Structure&);
using PredictionOfBatch = Structure (Model::*)(const Batch&);
using PredictionOfData = Structure (Model::*)(const Structure&);
constexpr StepOfBatch kTrainBatch = &Model::train_step, kTestBatch = &Model::test_step;
constexpr StepOfData kTrainData = &Model::train_step, kTestData = &Model::test_step;
constexpr PredictionOfBatch kPredictBatch = &Model::predict_step;
constexpr PredictionOfData kPredictData = &Model::predict_step;

// A user-defined step may take batches on which the model itself cannot be called; it makes the variables then.
void build_for_step(TrainingSession& session, const Batch& batch, bool own_step) {
  try {
    session.build_for(batch);
  } catch (const Error&) {
    if (!own_step || session.strategy) throw;
  }
}
}  // namespace

Results Trainer::train(const Batch& batch) {
  std::optional<ops::FunctionDraws::Call> function;
  if (!session_->options.run_eagerly) function.emplace(session_->draws_of_train(batch));
  const ops::PooledLoops loops(true);
  const auto scope = session_->enter_strategy();
  build_for_step(*session_, batch, object_overriding(session_->model, kTrainBatch, kTrainData) != nullptr);
  Model* const object = object_overriding(session_->model, kTrainBatch, kTrainData, kComputeLoss, kComputeMetrics);
  if (!object && !session_->optimizer->has_own_apply()) return steps_->train_step(batch);
  return steps_->run_in_replicas(
      batch,
      [&](const Batch& part) {
        return object ? step_of(*object, part, kTrainData, kTrainBatch) : steps_->train_step(part);
      },
      true);
}

Results Trainer::test(const Batch& batch) {
  std::optional<ops::FunctionDraws::Call> function;
  if (!session_->options.run_eagerly) function.emplace(session_->draws_of_test(batch));
  const ops::PooledLoops loops(true);
  const auto scope = session_->enter_strategy();
  build_for_step(*session_, batch, object_overriding(session_->model, kTestBatch, kTestData) != nullptr);
  Model* const object = object_overriding(session_->model, kTestBatch, kTestData, kComputeLoss, kComputeMetrics);
  if (!object) return steps_->test_step(batch);
  return steps_->run_in_replicas(
      batch, [object](const Batch& part) { return step_of(*object, part, kTestData, kTestBatch); }, false);
}

Structure Trainer::predict_batch(const Batch& batch) {
  std::optional<ops::FunctionDraws::Call> function;
  if (!session_->options.run_eagerly) function.emplace(session_->draws_of_predict(batch.x));
  const ops::PooledLoops loops(true);
  const auto scope = session_->enter_strategy();
  Model* const object = object_overriding(session_->model, kPredictBatch, kPredictData);
  build_for_step(*session_, batch, object != nullptr);
  if (!object) return steps_->predict_step(batch);
  return steps_->predict_in_replicas(
      batch, [object](const Batch& part) { return step_of(*object, part, kPredictData, kPredictBatch); });
}

}  // namespace lockstep::keras
