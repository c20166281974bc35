// The training state of a model: the arguments of compile(), the optimizer, losses and metrics, and the strategy.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/callbacks/logs.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/trainer/batches.h"
#include "lockstep/keras/trainer/compile.h"
#include "lockstep/keras/trainer/compiled.h"
#include "lockstep/keras/trainer/model_use_internal.h"
#include "lockstep/keras/trainer/preemption.h"
#include "lockstep/ops/function_draws_internal.h"

namespace lockstep::keras {

// Shared by the loops of fit, evaluate and predict (Trainer) and the steps that they run for a batch (StepRunner).
struct TrainingSession {
  explicit TrainingSession(ModelImpl& trained) : model(trained) { make_functions(); }

  void compile(CompileOptions given);
  void make_functions();
  // Throws FailedPrecondition before compile().
  void require_compiled(const char* what) const;
  // Makes the variables of a model that has none yet.
  void build_for(const Batch& batch);
  std::optional<Shape> shape_to_build_from(const Batch& batch) const;
  // Whether the model can be called: a class whose own steps call its parts needs no call().
  bool has_call() const;
  // call(inputs, context), the one of a class's two forms that has the argument `training`.
  bool call_takes_training() const;
  // The model's outputs in a step. As in Keras 3, a call without an argument `training` is not given one.
  Structure forward(const Structure& x, bool training) const;
  // Each replica must have a copy of each variable.
  void require_variables_of_strategy();
  std::vector<std::string> output_names() const;

  // Steps run across the replicas of the strategy, whether or not the caller is in its scope.
  std::unique_ptr<distribute::Strategy::Scope> enter_strategy() const;
  collectives::Communicator* communicator() const;  // of the workers; null for one
  void run_alone(const std::function<void()>& fn) const;

  std::vector<metrics::MetricPtr> metrics() const;  // see Trainer
  std::vector<metrics::MetricPtr> default_metrics() const;
  // Those in attributes of the model and of the layers below it, each once. As in Keras, not those of other models.
  std::vector<metrics::MetricPtr> layer_metrics() const;
  std::vector<metrics::MetricPtr> session_metrics() const;  // the loss of own steps, and those of compile
  std::vector<metrics::MetricPtr> step_metrics() const;     // metrics() without those that only layers have
  void make_loss_tracker();
  void reset_metrics();
  Results metric_results() const;
  // Counts the step at the end of data of unknown length, which has no batch.
  void count_again(bool static_rows);
  // The results of metrics(), by name.
  Results get_metrics_result() const;
  // Whether results of a step contain the metrics of compile() as one entry in Keras.
  bool groups_metrics(const Results& results) const;
  // Sorted as Keras's callbacks get them.
  Logs logs_of(Results results) const;
  // The results of an epoch or an evaluation whose last step returned `last`.
  Results loop_results(Results last) const;
  // Results as Keras returns them from evaluate() and the like: of a step of the model's class those of metrics()
  // first, in their order, then the others by name.
  Results in_order(Results results) const;
  Json save_own_metrics() const;
  void restore_own_metrics(const Json& state);
  // Calls of the model that make variables, or keep an idle worker busy, are put between the two: they do not count.
  Json save_layer_metrics() const;
  void restore_layer_metrics(const Json& state);

  ModelUse::Scope use(bool trains) { return {used, trains, model.name()}; }

  ModelImpl& model;
  ModelUse used;
  CompileOptions options;
  std::shared_ptr<Compiled> compiled;
  optimizers::OptimizerPtr optimizer;
  metrics::MetricPtr loss_tracker;  // for steps of the model's class; the built-in ones count in double
  bool last_step_was_own = false;   // since reset_metrics()
  // The draws of the functions that Keras creates for the steps; compile() creates new ones.
  std::unique_ptr<ops::FunctionDraws> train_draws, test_draws;  // of the loops
  std::unique_ptr<ops::TracedDraws> train_traces, test_traces, predict_traces, predict_on_batch_traces;
  // The draws of a step on a batch: of fit(), evaluate() and predict(), or of train_on_batch(), test_on_batch() and
  // predict_on_batch().
  ops::FunctionDraws& draws_of_train(const Batch& batch) const;
  ops::FunctionDraws& draws_of_test(const Batch& batch) const;
  ops::FunctionDraws& draws_of_predict(const Structure& x) const;
  bool on_batch = false;
  // During its lifetime, steps are those of train_on_batch(), test_on_batch() and predict_on_batch().
  class OnBatch {
   public:
    explicit OnBatch(TrainingSession& session) : session_(session) { session_.on_batch = true; }
    ~OnBatch() { session_.on_batch = false; }
    OnBatch(const OnBatch&) = delete;
    OnBatch& operator=(const OnBatch&) = delete;

   private:
    TrainingSession& session_;
  };
  distribute::Strategy* strategy = nullptr;  // null: none
  std::optional<Shape> input_shape;          // of the batches of the loop that runs, as their source declares it
  bool variables_checked = false;
  PreemptionToken preemption;  // of the fit that is running; never requested outside
  bool preempted = false;      // as the workers agreed in the last step
};

}  // namespace lockstep::keras
