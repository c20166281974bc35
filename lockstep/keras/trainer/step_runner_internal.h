// One step of training, evaluation or prediction on a global batch.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/keras/callbacks/log_value.h"
#include "lockstep/keras/trainer/training_session_internal.h"

namespace lockstep::keras {

// How a strategy runs steps. The loops know nothing else of replicas and workers.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // The built-in steps.
  virtual Results train_step(const Batch& batch) = 0;
  virtual Results test_step(const Batch& batch) = 0;
  virtual Structure predict_step(const Batch& batch) = 0;
  // A step of the model's class, in each replica that gets rows: the results are averaged, as Keras does, and outputs
  // are concatenated.
  virtual Results run_in_replicas(const Batch& batch, const std::function<Results(const Batch&)>& step) = 0;
  virtual Structure predict_in_replicas(const Batch& batch, const std::function<Structure(const Batch&)>& step) = 0;
  // See Trainer::compute_loss.
  virtual Tensor compute_loss(const Structure& y, const Structure& y_pred, const Structure& sample_weight) = 0;
};

using MakeStepRunner = std::function<std::unique_ptr<StepRunner>(TrainingSession&)>;
// For strategies whose step_runner() has this name. Throws AlreadyExists for a name that is taken; "all_reduce" is.
void register_step_runner(const std::string& name, MakeStepRunner make);
// What the session's strategy names, "all_reduce" without a strategy. Throws NotFound for a name that nobody has
// registered.
std::unique_ptr<StepRunner> make_step_runner(TrainingSession& session);

}  // namespace lockstep::keras
