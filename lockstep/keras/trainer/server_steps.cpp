#include "lockstep/keras/trainer/server_steps_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"
#include "lockstep/keras/trainer/epoch_iterator_internal.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::keras {
namespace {

using distribute::ParameterServers;

constexpr std::size_t kStepsAhead = 2;  // for each worker

// Adds numbers of equal places.
void add_numbers(Json& sum, const Json& other) {
  if (sum.is_array()) {
    for (std::size_t i = 0; i < sum.size() && i < other.size(); ++i) add_numbers(sum[i], other[i]);
  } else if (sum.is_object()) {
    for (const auto& [key, value] : other.items()) {
      if (sum.contains(key)) add_numbers(sum[key], value);
    }
  } else if (sum.is_number() && other.is_number()) {
    sum = sum.get<double>() + other.get<double>();
  }
}

}  // namespace

optimizers::OptimizerPtr ServerSteps::optimizer() const {
  const optimizers::OptimizerPtr inner = session_.optimizer->inner_optimizer();
  return inner ? inner : session_.optimizer;
}

// ---- A worker ------------------------------------------------------------------------------------------

std::optional<Json> ServerSteps::serve_fit(EpochIterator& batches, const std::function<Results(const Batch&)>& train) {
  if (strategy_.is_chief()) return std::nullopt;
  std::int64_t epoch = -1, next = 0;
  const auto work = [&](std::int64_t section, const std::string& input, distribute::TaskResult& result) {
    const Json task = parse_json(input, "the chief's task");
    const auto step = task.at("step").get<std::int64_t>();
    if (task.at("epoch").get<std::int64_t>() != epoch || step < next) {
      if (task.at("epoch").get<std::int64_t>() != epoch) session_.reset_metrics();
      batches.restore_state(task.at("position"));
      epoch = task.at("epoch").get<std::int64_t>();
      next = batches.batches_done();
    }
    std::optional<Batch> batch;
    for (; next <= step; ++next) {
      batch = batches.next_in_execution();
      if (!batch) batch = batches.next_execution();
      if (!batch) {
        throw_failed_precondition(fmt::format("step {} has no batch on {}: all processes must have the same data", step,
                                              job_.tasks.own_name));
      }
    }
    token_ = fmt::format("{}/{}/{}", section, epoch, step);
    const Results results = train(*batch);
    result.value = Json::object();
    result.value["results"] = results;
    result.value["metrics"] = session_.last_step_was_own ? Json(nullptr) : session_.compiled->save_state();
  };
  const Json history = parse_json(job_.client->serve(work), "the chief's history");
  if (session_.model.built()) {
    job_.servers->place(session_.model.weights());
    job_.servers->pull();
  }
  return history;
}

Results ServerSteps::on_servers(const std::function<Results()>& step) {
  job_.servers->place(session_.model.weights());
  const ParameterServers::Closure closure(*job_.servers, token_);
  job_.servers->pull(true);
  return step();
}

// ---- The chief -----------------------------------------------------------------------------------------

Results ServerSteps::train_step(const Batch& batch) {
  if (strategy_.is_chief()) return hand_out(batch, false);
  return on_servers([&] { return AllReduceSteps::train_step(batch); });
}

Results ServerSteps::run_in_replicas(const Batch& batch, const std::function<Results(const Batch&)>& step,
                                     bool training) {
  if (!training) return AllReduceSteps::run_in_replicas(batch, step, training);
  if (strategy_.is_chief()) return hand_out(batch, true);
  return on_servers([&] { return AllReduceSteps::run_in_replicas(batch, step, training); });
}

void ServerSteps::begin_fit() {
  fitting_ = true;
  job_.board->on_result = [this](const distribute::TaskResult& result) { take(result); };
  job_.uploaded = false;
}

// Makes all that a first step makes.
void ServerSteps::start_from(const Batch& batch, bool own) {
  own_ = own;
  if (!own && !session_.compiled->resolved()) {
    const Batch one = batch_slice(batch, 0, std::min<std::int64_t>(1, batch_rows(batch)));
    const random::PausedGenerators no_draws;
    test_step(one);
    session_.compiled->reset();
  }
  if (!session_.optimizer->built()) session_.optimizer->build(session_.model.trainable_weights());
  job_.servers->place(session_.model.weights());
  upload();
}

void ServerSteps::upload() {
  job_.servers->upload({optimizers::StepAccess::remote(*optimizer())});
  job_.uploaded = true;
  sent_rate_ = optimizer()->learning_rate();
}

void ServerSteps::recover() {
  constexpr int kAttempts = 3;  // a server may be lost again
  for (int attempt = 1;; ++attempt) {
    try {
      job_.servers->connect();
      upload();
      break;
    } catch (const Error& error) {
      if (error.code() != Code::kUnavailable || attempt == kAttempts) throw;
      log_warning("{}", error.message());
    }
  }
  log_warning("the parameter servers have got the values of the last epoch or checkpoint again");
}

void ServerSteps::wait(std::size_t most) {
  job_.board->wait(most, [this] { recover(); });
}

Results ServerSteps::hand_out(const Batch& batch, bool own) {
  session_.require_compiled("train");
  if (!fitting_) {
    throw_unimplemented(
        "train_on_batch under a ParameterServerStrategy is not supported; use fit, or a ClusterCoordinator");
  }
  if (!job_.uploaded) start_from(batch, own);
  if (optimizer()->has_fixed_learning_rate() && optimizer()->learning_rate() != sent_rate_) {
    sent_rate_ = optimizer()->learning_rate();
    job_.servers->set_learning_rate(optimizer()->name(), sent_rate_);
  }
  job_.board->add(dump_json(Json{{"epoch", epoch_}, {"step", step_++}, {"position", position_}}));
  wait(kStepsAhead * static_cast<std::size_t>(std::max(1, job_.board->num_connected())));
  session_.preempted = session_.preemption.requested();
  return latest_.empty() ? session_.metric_results() : latest_;
}

void ServerSteps::take(const distribute::TaskResult& result) {
  if (!result.value.is_object() || !result.value.contains("results") || !result.value.contains("metrics"))
    throw_data_loss("invalid message: found no results of a step");
  Share& share = shares_[result.connection];
  share.results = result.value["results"].get<Results>();
  share.metrics = result.value["metrics"];
  ++share.steps;
  latest_ = share.results;
}

void ServerSteps::begin_epoch(const std::function<Json()>& position) {
  position_ = position();
  step_ = position_.at("done").get<std::int64_t>();
  before_ = step_ > 0 ? session_.compiled->save_state() : Json(nullptr);
  shares_.clear();
  latest_.clear();
  ++epoch_;
}

// The workers' metrics in one: sums are added; of steps of the model's class, results are averaged.
Results ServerSteps::merge() {
  if (own_) {
    Results mean = latest_;
    double steps = 0;
    for (const auto& [connection, share] : shares_) steps += static_cast<double>(share.steps);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      double sum = 0;
      for (const auto& [connection, share] : shares_)
        sum += static_cast<double>(share.results.at(i).second) * static_cast<double>(share.steps);
      if (!mean.at(i).second.is_vector()) mean.at(i).second = sum / steps;
    }
    return mean;
  }
  Json sum = before_;
  for (const auto& [connection, share] : shares_) {
    if (sum.is_null()) {
      sum = share.metrics;
    } else {
      add_numbers(sum, share.metrics);
    }
  }
  if (!sum.is_null()) session_.compiled->set_state(sum);
  return session_.compiled->results();
}

void ServerSteps::wait_for_steps() {
  if (!fitting_ || !job_.uploaded) return;
  wait(0);
  merge();
  for (;;) {
    try {
      return job_.servers->download({optimizers::StepAccess::remote(*optimizer())});
    } catch (const Error& error) {
      if (error.code() != Code::kUnavailable && error.code() != Code::kDeadlineExceeded &&
          error.code() != Code::kAborted) {
        throw;
      }
      log_warning("{}", error.message());
      recover();
    }
  }
}

Results ServerSteps::end_epoch(const Results& last) {
  if (!fitting_ || !job_.uploaded) return last;
  wait_for_steps();
  return merge();
}

void ServerSteps::end_fit(const Json& history) {
  if (!std::exchange(fitting_, false)) return;
  wait(0);
  job_.board->close_section(dump_json(history));
}

void ServerSteps::end_fit(const Error& error) {
  if (std::exchange(fitting_, false)) job_.board->close_section(error);
}

}  // namespace lockstep::keras
