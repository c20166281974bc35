// Steps of strategies whose replicas add up their gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/keras/trainer/step_runner_internal.h"

namespace lockstep::keras {

// Every step gives each replica its rows of the global batch, losses are divided by the denominator of the whole batch,
// gradients are added and applied once. So N replicas compute the same as one, up to rounding, also for batches that do
// not divide evenly.
class AllReduceSteps : public StepRunner {
 public:
  explicit AllReduceSteps(TrainingSession& session) : session_(session) {}

  Results train_step(const Batch& batch) override;
  Results test_step(const Batch& batch) override;
  Structure predict_step(const Batch& batch) override;
  Results run_in_replicas(const Batch& batch, const std::function<Results(const Batch&)>& step, bool training) override;
  Structure predict_in_replicas(const Batch& batch, const std::function<Structure(const Batch&)>& step) override;
  Tensor compute_loss(const Structure& y, const Structure& y_pred, const Structure& sample_weight) override;
  Results compute_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight) override;

 protected:
  // Makes the variables of metrics before a step of the model's class.
  void prepare_metrics(const Batch& batch);

 private:
  // The result of a forward pass.
  struct StepOutput {
    Structure y_pred;
    Tensor loss;                        // a replica's share of the batch's loss
    double total_loss = 0;              // once joined: the batch's loss
    std::vector<double> output_losses;  // each output's own loss, or the share of it
    // The number of values of a loss without reduction for each row; 0 if losses are scalars. The loss is then their
    // sum, of which Keras takes the gradient; the logs have the mean, also for the loss of each output.
    double numbers_per_row = 0;
    // Parts of weights and slots that other workers still compute; see GradientSum::finish.
    std::shared_ptr<collectives::Pending> others;
  };
  // This worker's part of a batch.
  struct Share {
    int replicas = 1;                          // that take part, over all workers
    std::vector<distribute::RowRange> ranges;  // of this worker's replicas
    bool idle() const { return ranges.empty(); }
  };
  using Updates = std::vector<collectives::ShardedUpdate>;

  bool one_replica() const;
  Share share_of(const Batch& batch) const;
  void spread(const Batch& batch, const std::function<void(std::size_t, const Batch&, std::int64_t)>& step,
              const std::function<void(std::size_t)>& prepare);
  StepOutput forward_loss(const Batch& part, const Batch& whole, std::int64_t offset, bool training);
  Tensors train_replicas(const Batch& batch, std::vector<StepOutput>& outputs, collectives::GradientSum* sum);
  void test_replicas(const Batch& batch, std::vector<StepOutput>& outputs);
  std::unique_ptr<collectives::GradientSum> gradient_sum(const Batch& batch, std::size_t count) const;
  static Tensors sum_replicas(std::vector<Tensors>& gradients);
  StepOutput join(const Batch& batch, const std::vector<StepOutput>& outputs, Tensors& gradients,
                  collectives::GradientSum* sum, const Updates& updates = {});
  void join_workers(const Batch& batch, StepOutput& whole, Tensors& gradients, collectives::GradientSum& sum,
                    const Updates& updates = {});
  Results finish_step(const Batch& batch, const StepOutput& whole);
  [[noreturn]] static void throw_no_loss();
  Results step_of_replica(const Batch& batch, bool training);
  Results mean_of_replicas(const std::vector<Results>& parts, const Share& share);

  TrainingSession& session_;
  std::int64_t own_rows_ = 0;  // of the batch whose step of the model's class is running; 0: none is
};

}  // namespace lockstep::keras
