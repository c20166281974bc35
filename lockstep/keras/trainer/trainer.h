// The training loop behind keras.Model's compile, fit, evaluate and predict.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/trainer/compile.h"
#include "lockstep/keras/trainer/compiled.h"
#include "lockstep/keras/trainer/options.h"
#include "lockstep/keras/trainer/training_state.h"

namespace lockstep::keras {

// Trains one model. The strategy in whose scope compile() was called, or else the model was made, spreads
// the work: every step gives each replica its rows of the global batch, losses are divided by what the whole
// batch divides by, gradients are added and applied once. So N replicas compute what one computes, to
// rounding, also for batches that do not divide evenly.
class Trainer {
 public:
  explicit Trainer(ModelImpl& model) : model_(model) {}
  // The trainer of a model, made when first asked for.
  static Trainer& of(ModelImpl& model);

  // Throws InvalidArgument for unknown names and malformed arguments, FailedPrecondition inside the scope of a strategy
  // under which the model's variables were not made. Calling it again keeps weights and, when neither metrics nor
  // weighted_metrics are given, the metrics of the last call, as Keras does.
  void compile(CompileOptions options);
  bool compiled() const { return compiled_ != nullptr; }
  // {} when not compiled.
  Json get_compile_config() const;
  void compile_from_config(const Json& config);

  // Throw FailedPrecondition before compile().
  std::shared_ptr<History> fit(const Structure& x, const Structure& y, FitOptions options = {});
  std::shared_ptr<History> fit(const data::Dataset& dataset, FitOptions options = {});
  Results evaluate(const Structure& x, const Structure& y, EvaluateOptions options = {});
  Results evaluate(const data::Dataset& dataset, EvaluateOptions options = {});
  // Outputs of all samples, concatenated, in the structure of the model's outputs.
  Structure predict(const Structure& x, PredictOptions options = {});
  Structure predict(const data::Dataset& dataset, PredictOptions options = {});

  // One batch; metrics go on from call to call for training, as in Keras.
  Results train_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight = {});
  Results test_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight = {});
  Structure predict_on_batch(const Structure& x);

  // The steps of Keras, on a global batch; a model may put its own in their place (Model::train_step).
  Results train_step(const Batch& batch);
  Results test_step(const Batch& batch);
  Structure predict_step(const Batch& batch);
  // Loss of predictions, in a replica or outside: compiled losses, divided by the whole batch's denominator,
  // plus the model's own losses. For custom train steps.
  Tensor compute_loss(const Structure& x, const Structure& y, const Structure& y_pred,
                      const Structure& sample_weight = {});

  ModelImpl& model() { return model_; }
  const optimizers::OptimizerPtr& optimizer() const { return optimizer_; }
  void set_optimizer(optimizers::OptimizerPtr optimizer) { optimizer_ = std::move(optimizer); }
  const CompileOptions& compile_options() const { return compile_options_; }
  const std::shared_ptr<History>& history() const { return history_; }
  // Loss tracker, compiled metrics and the model's own, as Keras lists them.
  std::vector<metrics::MetricPtr> metrics() const;
  std::vector<std::string> metrics_names() const;
  void reset_metrics();
  // What the last step left, in Keras's order.
  Results metric_results() const;
  // Builds the optimizer's slots for the model's trainable variables, as loading does.
  void build_optimizer();
  distribute::Strategy* strategy() const { return strategy_; }

  // Set by callbacks to end a loop after the batch or epoch at hand.
  bool stop_training = false;
  // Asks fit to end after the step at hand; for signal handlers. Workers agree on the step: when one is asked,
  // preempted() becomes true on all after the same step, and callbacks see it in on_settled, the last that is called:
  // fit returns within the epoch.
  static void request_preemption() noexcept;
  bool preempted() const { return preempted_; }
  // Where the running fit stands; to be asked for in Callback::on_settled. Throws FailedPrecondition outside fit.
  TrainingState training_state() const;
  // For a callback's on_train_begin: this fit goes on from there, once all callbacks have begun. The weights and the
  // optimizer's state must have been restored.
  void resume(TrainingState state);
  bool stop_evaluating = false;
  bool stop_predicting = false;

 private:
  struct StepOutput;
  struct Loop;
  void take_up(Loop& loop, TrainingState state);
  std::shared_ptr<History> run_fit(BatchSource& source, FitOptions options, BatchSource* validation);
  Results run_evaluate(BatchSource& source, std::optional<std::int64_t> steps, CallbackList& callbacks);
  Results run_epoch(Loop& loop);
  Structure run_predict(BatchSource& source, const PredictOptions& options);
  void require_compiled(const char* what) const;
  StepOutput forward_loss(const Batch& part, const Batch& whole, std::int64_t offset, bool training);
  Tensors train_replicas(const Batch& batch, std::vector<StepOutput>& outputs, collectives::GradientSum* sum);
  std::unique_ptr<collectives::GradientSum> gradient_sum(const Batch& batch, std::size_t count) const;
  void test_replicas(const Batch& batch, std::vector<StepOutput>& outputs);
  Results finish_step(const Batch& batch, const StepOutput& whole);
  // This worker's part of a batch.
  struct Share {
    int replicas = 1;                          // that take part, over all workers
    std::vector<distribute::RowRange> ranges;  // of this worker's replicas
    bool idle() const { return ranges.empty(); }
  };
  Share share_of(const Batch& batch) const;
  using Updates = std::vector<collectives::ShardedUpdate>;
  StepOutput join(const Batch& batch, const std::vector<StepOutput>& outputs, Tensors& gradients,
                  collectives::GradientSum* sum, const Updates& updates = {});
  void join_workers(const Batch& batch, StepOutput& whole, Tensors& gradients, collectives::GradientSum& sum,
                    const Updates& updates = {});
  static Tensors sum_replicas(std::vector<Tensors>& gradients);
  void run_alone(const std::function<void()>& fn) const;
  void spread(const Batch& batch, const std::function<void(std::size_t, const Batch&, std::int64_t)>& step,
              const std::function<void(std::size_t)>& prepare);
  std::vector<std::string> output_names() const;
  void build_for(const Batch& batch);
  // Each replica must have a copy of each variable.
  void require_variables_of_strategy();
  // Steps run across the replicas of the strategy, whether or not the caller is in its scope.
  std::unique_ptr<distribute::Strategy::Scope> enter_strategy() const;
  collectives::Communicator* communicator() const;  // of the workers; null for one
  // The model's own step where its class has one, else the one above.
  Results call_train_step(const Batch& batch);
  Results call_test_step(const Batch& batch);
  Structure call_predict_step(const Batch& batch);

  ModelImpl& model_;
  bool preempted_ = false;

  CompileOptions compile_options_;
  std::shared_ptr<Compiled> compiled_;
  optimizers::OptimizerPtr optimizer_;
  std::shared_ptr<History> history_;
  Loop* loop_ = nullptr;  // of the fit that is running
  std::optional<TrainingState> resumed_;
  distribute::Strategy* strategy_ = nullptr;
  bool variables_checked_ = false;
};

}  // namespace lockstep::keras
