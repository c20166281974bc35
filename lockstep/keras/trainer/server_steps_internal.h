// Steps of a ParameterServerStrategy: the chief hands them out, the workers do them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lockstep/distribute/parameter_server_strategy_internal.h"
#include "lockstep/keras/trainer/all_reduce_steps_internal.h"

namespace lockstep::keras {

// On the chief train_step() hands out the step with the number of the batch, and returns when few steps are under way;
// its results are those of the worker that has finished a step last. A worker goes through the same batches, does the
// steps it gets, and returns with each the step's contributions to its metrics, which the chief sums.
class ServerSteps final : public AllReduceSteps {
 public:
  // Of a session whose strategy is a ParameterServerStrategy.
  explicit ServerSteps(TrainingSession& session)
      : AllReduceSteps(session),
        session_(session),
        strategy_(dynamic_cast<distribute::ParameterServerStrategy&>(*session.strategy)),
        job_(strategy_.impl()) {}

  Results train_step(const Batch& batch) override;
  Results run_in_replicas(const Batch& batch, const std::function<Results(const Batch&)>& step, bool training) override;
  std::optional<Json> serve_fit(EpochIterator& batches, const std::function<Results(const Batch&)>& train) override;
  void begin_fit() override;
  void begin_epoch(const std::function<Json()>& position) override;
  Results end_epoch(const Results& last) override;
  void wait_for_steps() override;
  void end_fit(const Json& history) override;
  void end_fit(const Error& error) override;

 private:
  struct Share {
    Results results;  // of its last step
    std::int64_t steps = 0;
  };
  Json metric_state() const;
  Results hand_out(const Batch& batch, bool own);
  Results on_servers(const std::function<Results()>& step);
  void start_from(const Batch& batch, bool own);
  void take(const distribute::TaskResult& result);
  void wait(std::size_t most);
  void upload();
  void recover();
  Results merge();
  optimizers::OptimizerPtr optimizer() const;

  TrainingSession& session_;
  distribute::ParameterServerStrategy& strategy_;
  distribute::ParameterServerStrategy::Impl& job_;
  // Of the chief's fit.
  bool fitting_ = false;
  bool own_ = false;  // steps are those of the model's class
  Json position_;     // of the batches, at the beginning of the epoch
  Json sums_;         // of metrics in this epoch
  std::int64_t epoch_ = 0, step_ = 0;
  std::map<std::int64_t, Share> shares_;  // in this epoch, by connection
  Results latest_;
  float sent_rate_ = 0;
  // Of a worker.
  std::string token_;
};

}  // namespace lockstep::keras
