// The training loop behind keras.Model's compile, fit, evaluate and predict.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/trainer/compile.h"
#include "lockstep/keras/trainer/options.h"
#include "lockstep/keras/trainer/training_state.h"

namespace lockstep::keras {

class EpochIterator;
class StepRunner;
struct TrainingSession;

// Trains one model under the strategy in whose scope compile() was called, or else the model was made: N replicas
// compute the same as one, up to rounding, also for batches that do not divide evenly.
class Trainer {
 public:
  explicit Trainer(ModelImpl& model);
  ~Trainer();

  // Throws InvalidArgument for unknown names and malformed arguments, FailedPrecondition inside the scope of a strategy
  // under which the model's variables were not made. Calling it again keeps weights and, when neither metrics nor
  // weighted_metrics are given, the metrics of the last call, as Keras does.
  void compile(CompileOptions options);
  bool compiled() const;
  // {} when not compiled.
  Json get_compile_config() const;
  void compile_from_config(const Json& config);

  // Throw FailedPrecondition before compile().
  std::shared_ptr<History> fit(const Structure& x, const Structure& y, FitOptions options = {});
  std::shared_ptr<History> fit(const BatchedData& data, FitOptions options = {});
  Results evaluate(const Structure& x, const Structure& y, EvaluateOptions options = {});
  Results evaluate(const BatchedData& data, EvaluateOptions options = {});
  // Outputs of all samples, concatenated, in the structure of the model's outputs.
  Structure predict(const Structure& x, PredictOptions options = {});
  Structure predict(const BatchedData& data, PredictOptions options = {});

  // One batch, with metrics of this batch alone, as in Keras 3. Throws InvalidArgument for class_weight with
  // sample_weight.
  Results train_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight = {},
                         const std::map<std::int64_t, double>& class_weight = {});
  Results test_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight = {});
  Structure predict_on_batch(const Structure& x);

  // The steps of Keras, on a global batch; a model may override them (Model::train_step).
  Results train_step(const Batch& batch);
  Results test_step(const Batch& batch);
  Structure predict_step(const Batch& batch);
  // Loss of predictions, in a replica or outside: compiled losses, divided by the whole batch's denominator,
  // plus the model's own losses. For custom train steps.
  Tensor compute_loss(const Structure& x, const Structure& y, const Structure& y_pred,
                      const Structure& sample_weight = {});

  // See Model::compute_metrics.
  Results compute_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight);

  ModelImpl& model();
  const optimizers::OptimizerPtr& optimizer() const;
  void set_optimizer(optimizers::OptimizerPtr optimizer);
  const CompileOptions& compile_options() const;
  const std::shared_ptr<History>& history() const { return history_; }
  // Those of Model::metrics(), which the model's class may override.
  std::vector<metrics::MetricPtr> metrics() const;
  // The loss tracker, "loss", of models whose class has custom steps, and compile's metrics once a batch has been
  // seen.
  std::vector<metrics::MetricPtr> default_metrics() const;
  std::vector<std::string> metrics_names() const;
  void reset_metrics();
  // The results of the last step, in Keras's order.
  Results metric_results() const;
  // See Model::get_metrics_result.
  Results get_metrics_result() const;
  // Builds the optimizer's slots for the model's trainable variables, as loading does.
  void build_optimizer();
  // The strategy that trains the model; null for none.
  distribute::Strategy* strategy() const;

  // Set by callbacks to end a loop after the current batch or epoch.
  bool stop_training = false;
  // Whether the last fit was ended by its FitOptions::preemption.
  bool preempted() const;
  // The position of the running fit, for Callback::after_callbacks. Throws FailedPrecondition outside fit.
  TrainingState training_state() const;
  // For a callback's on_train_begin: this fit resumes from the state after on_train_begin of all callbacks. The weights
  // and the optimizer's state must have been restored.
  void resume(TrainingState state);
  bool stop_evaluating = false;
  bool stop_predicting = false;

 private:
  struct Loop;
  EpochIterator iterate(BatchSource& source, std::optional<std::int64_t> steps) const;
  std::shared_ptr<History> run_fit(BatchSource& source, FitOptions options, BatchSource* validation_source);
  void run_loop(EpochIterator& batches, const FitOptions& options, int verbose, BatchSource* validation_source);
  Results run_epoch(Loop& loop);
  Results run_evaluate(BatchSource& source, const EvaluateOptions& options);
  Results run_evaluate(EpochIterator& batches, CallbackList& callbacks);
  Structure run_predict(BatchSource& source, const PredictOptions& options);
  void restore(Loop& loop, TrainingState state);
  // A step on a batch: that of the model's class where it has one, else the built-in one.
  Results train(const Batch& batch);
  Results test(const Batch& batch);
  Structure predict_batch(const Batch& batch);

  std::unique_ptr<TrainingSession> session_;
  std::unique_ptr<StepRunner> steps_;
  std::shared_ptr<History> history_;
  Loop* loop_ = nullptr;  // of the fit that is running
  std::optional<TrainingState> resumed_;
};

}  // namespace lockstep::keras
