// One step of training, evaluation or prediction on a global batch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/keras/callbacks/log_value.h"
#include "lockstep/keras/trainer/training_session_internal.h"

namespace lockstep::keras {

class EpochIterator;

// Runs steps for a strategy. Training loops depend on replicas and workers only through this class.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // The built-in steps.
  virtual Results train_step(const Batch& batch) = 0;
  virtual Results test_step(const Batch& batch) = 0;
  virtual Structure predict_step(const Batch& batch) = 0;
  // A step of the model's class, in each replica that gets rows: the results are averaged, as Keras does, and outputs
  // are concatenated. `training`: whether it is a train_step.
  virtual Results run_in_replicas(const Batch& batch, const std::function<Results(const Batch&)>& step,
                                  bool training) = 0;
  virtual Structure predict_in_replicas(const Batch& batch, const std::function<Structure(const Batch&)>& step) = 0;
  // Of a strategy whose workers get their steps from the chief. serve_fit() is a worker's part of a fit, of which
  // `train` does a step; it returns the state of the history. Empty, and nothing done, where this process runs the loop
  // itself; then begin_fit() comes first, begin_epoch() at the first step of an epoch with a function that returns the
  // position of the batches, end_epoch(), which returns the results of the epoch whose last step returned `last`, and
  // end_fit().
  virtual std::optional<Json> serve_fit(EpochIterator&, const std::function<Results(const Batch&)>&) { return {}; }
  virtual void begin_fit() {}
  virtual void begin_epoch(const std::function<Json()>&) {}
  virtual Results end_epoch(const Results& last) { return last; }
  virtual void end_fit(const Json&) {}
  virtual void end_fit(const Error&) {}
  // Waits for pending steps, and updates the model and its optimizer.
  virtual void wait_for_steps() {}
  // See Trainer::compute_loss.
  virtual Tensor compute_loss(const Structure& y, const Structure& y_pred, const Structure& sample_weight) = 0;
  virtual Results compute_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight) = 0;
};

// The runner named by the session's strategy, "all_reduce" without a strategy. Throws NotFound for other names than
// "all_reduce" and "parameter_server".
std::unique_ptr<StepRunner> make_step_runner(TrainingSession& session);

}  // namespace lockstep::keras
