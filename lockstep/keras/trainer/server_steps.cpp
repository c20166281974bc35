#include "lockstep/keras/trainer/server_steps_internal.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"
#include "lockstep/keras/trainer/epoch_iterator_internal.h"
#include "lockstep/keras/trainer/metric_state_internal.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::keras {
namespace {

using distribute::ParameterServers;

constexpr std::size_t kStepsAhead = 2;  // for each worker
constexpr const char* kCall = "fit()";

// Adds the states of metrics, times `sign`: numbers in equal places. A metric that had not seen a batch may lack
// variables.
void add(Json& sum, const Json& other, double sign) {
  if (sum.is_null()) {
    sum = other;
  } else if (sum.is_array()) {
    for (std::size_t i = 0; i < other.size(); ++i) {
      if (i < sum.size()) {
        add(sum[i], other[i], sign);
      } else {
        sum.push_back(other[i]);
      }
    }
  } else if (sum.is_object()) {
    for (const auto& [key, value] : other.items()) add(sum[key], value, sign);
  } else if (sum.is_number() && other.is_number()) {
    sum = sum.get<double>() + sign * other.get<double>();
  }
}

}  // namespace

optimizers::OptimizerPtr ServerSteps::optimizer() const {
  const optimizers::OptimizerPtr inner = session_.optimizer->inner_optimizer();
  return inner ? inner : session_.optimizer;
}

// The metrics' sums in this process: losses and metrics of compile(), those of the model's class, of layers.
Json ServerSteps::metric_state() const {
  return {{"compiled", session_.compiled->save_state()},
          {"own", session_.save_own_metrics()},
          {"layers", session_.save_layer_metrics()}};
}

// ---- A worker ------------------------------------------------------------------------------------------

std::optional<Json> ServerSteps::serve_fit(EpochIterator& batches, const std::function<Results(const Batch&)>& train) {
  if (strategy_.is_chief()) return std::nullopt;
  std::int64_t epoch = -1, next = 0;
  Json known = nullptr;  // the state of the metrics after the last step
  const auto work = [&](std::int64_t section, const std::string& input, distribute::TaskResult& result) {
    const Json task = parse_json(input, "the chief's task");
    const auto step = task.at("step").get<std::int64_t>();
    if (task.at("epoch").get<std::int64_t>() != epoch || step < next) {
      if (task.at("epoch").get<std::int64_t>() != epoch) {
        session_.reset_metrics();
        known = nullptr;
      }
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
    Json before = std::exchange(known, nullptr);
    if (before.is_null()) before = metric_state();
    const Results results = train(*batch);
    known = metric_state();
    result.value = Json::object();
    result.value["results"] = results;
    result.value["metrics"] = known;
    add(result.value["metrics"], before, -1);
  };
  const Json history = parse_json(job_.client->serve(kCall, work), "the chief's history");
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
  job_.board->open_section(kCall);
  job_.board->on_result = [this](const distribute::TaskResult& result) { take(result); };
  job_.uploaded = false;
}

// Makes all that a first step makes.
void ServerSteps::start_from(const Batch& batch, bool own) {
  own_ = own;
  if (!own && !session_.compiled->resolved()) {
    const Batch one = batch_slice(batch, 0, std::min<std::int64_t>(1, batch_rows(batch)));
    const random::PausedGenerators no_draws;
    const Json layers_before = session_.save_layer_metrics();
    test_step(one);
    session_.compiled->reset();
    session_.restore_layer_metrics(layers_before);
  }
  if (own) {
    session_.make_loss_tracker();
    prepare_metrics(batch);
  }
  if (!session_.optimizer->built()) session_.optimizer->build(session_.model.trainable_weights());
  job_.servers->place(session_.model.weights());
  upload();
}

void ServerSteps::upload() {
  job_.servers->upload({optimizers::StepAccess::remote(*optimizer())});
  job_.uploaded = true;
  sent_rate_ = optimizer()->learning_rate();
  if (optimizer()->has_fixed_learning_rate()) job_.servers->set_learning_rate(optimizer()->name(), sent_rate_);
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
  ++share.steps;
  add(sums_, result.value["metrics"], 1);
  latest_ = share.results;
}

void ServerSteps::begin_epoch(const std::function<Json()>& position) {
  position_ = position();
  step_ = position_.at("done").get<std::int64_t>();
  sums_ = step_ > 0 ? metric_state() : Json(nullptr);  // of an epoch that was resumed
  shares_.clear();
  latest_.clear();
  ++epoch_;
}

// Brings the workers' metrics into those of this process. Of what a step of the model's class returns, the values of
// metrics are theirs, and others are averaged.
Results ServerSteps::merge() {
  if (shares_.empty()) return latest_.empty() ? session_.metric_results() : latest_;
  session_.compiled->set_state(sums_.at("compiled"));
  session_.restore_layer_metrics(sums_.at("layers"));
  if (!own_) return session_.metric_results();
  session_.last_step_was_own = true;
  session_.restore_own_metrics(sums_.at("own"));
  Results mean = latest_;
  double steps = 0;
  for (const auto& [connection, share] : shares_) steps += static_cast<double>(share.steps);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const auto& [connection, share] : shares_)
      sum += static_cast<double>(share.results.at(i).second) * static_cast<double>(share.steps);
    if (!mean.at(i).second.is_vector()) mean.at(i).second = sum / steps;
  }
  for (const auto& metric : session_.metrics()) {
    const auto found = std::ranges::find(mean, metric->name(), [](const auto& item) { return item.first; });
    if (found != mean.end()) found->second = metric_log_value(*metric);
  }
  return mean;
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
