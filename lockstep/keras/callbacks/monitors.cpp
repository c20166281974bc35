#include "lockstep/keras/callbacks/monitors.h"

#include <cmath>
#include <iostream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::callbacks {

using keras::Trainer;

Monitor::Monitor(std::string owner, std::string monitor, std::string mode, double min_delta)
    : owner_(std::move(owner)), monitor_(std::move(monitor)), mode_(std::move(mode)), min_delta_(std::abs(min_delta)) {
  if (mode_ != "auto" && mode_ != "min" && mode_ != "max") {
    log_warning("{} mode '{}' is unknown, fallback to auto mode.", owner_, mode_);
    mode_ = "auto";
  }
}

void Monitor::resolve(Trainer& trainer) {
  if (direction_ != 0) return;
  if (mode_ != "auto") {
    direction_ = mode_ == "min" ? -1 : 1;
    return;
  }
  const std::string name = monitor_.starts_with("val_") ? monitor_.substr(4) : monitor_;
  if (name == "loss") direction_ = -1;
  for (const auto& metric : trainer.metrics()) {
    using Direction = metrics::Metric::Direction;
    if (metric->name() != name || metric->direction() == Direction::kUnknown) continue;
    direction_ = metric->direction() == Direction::kUp ? 1 : -1;
  }
  if (direction_ == 0) {
    throw_invalid_argument(
        fmt::format("{} callback received monitor={}, but whether that metric should be maximized or "
                    "minimized is not known. Pass mode='max' to monitor the highest value, or mode='min' "
                    "for the lowest.",
                    owner_, monitor_));
  }
}

bool Monitor::is_improvement(double value, std::optional<double> reference) const {
  if (!reference) return true;
  return direction_ < 0 ? value + min_delta_ < *reference : value - min_delta_ > *reference;
}

std::optional<double> Monitor::value(const Logs& logs) const {
  const auto it = logs.find(monitor_);
  return it == logs.end() ? std::nullopt : std::optional<double>(it->second);
}

std::string log_names(const Logs& logs) {
  std::string names;
  for (const auto& [name, value] : logs) names += (names.empty() ? "" : ",") + name;
  return names;
}

double without_sign_of_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::optional<double> optional_number(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

void print_message(const std::string& message) { std::cout << message << "\n" << std::flush; }

EarlyStoppingCallback::EarlyStoppingCallback(EarlyStoppingOptions options)
    : options_(std::move(options)), monitor_("EarlyStopping", options_.monitor, options_.mode, options_.min_delta) {}

void EarlyStoppingCallback::on_train_begin(const Logs&) {
  wait_ = stopped_epoch_ = best_epoch_ = 0;
  best_.reset();
  best_weights_.reset();
}

void EarlyStoppingCallback::on_epoch_end(int epoch, Logs& logs) {
  monitor_.resolve(*trainer_);
  const auto current = monitor_.value(logs);
  if (!current) {
    log_warning("Early stopping conditioned on metric `{}` which is not available. Available metrics are: {}",
                monitor_.name(), log_names(logs));
    return;
  }
  if (epoch < options_.start_from_epoch) return;
  if (options_.restore_best_weights && !best_weights_) {
    best_weights_ = trainer_->model().get_weights();
    best_epoch_ = epoch;
  }
  ++wait_;
  if (monitor_.is_improvement(*current, best_)) {
    best_ = current;
    best_epoch_ = epoch;
    if (options_.restore_best_weights) best_weights_ = trainer_->model().get_weights();
    if (!options_.baseline || monitor_.is_improvement(*current, options_.baseline)) wait_ = 0;
    return;
  }
  if (wait_ >= options_.patience && epoch > 0) {
    stopped_epoch_ = epoch;
    trainer_->stop_training = true;
  }
}

void EarlyStoppingCallback::on_train_end(const Logs&) {
  if (stopped_epoch_ > 0 && options_.verbose > 0)
    print_message(fmt::format("Epoch {}: early stopping", stopped_epoch_ + 1));
  if (!best_weights_) return;
  if (options_.verbose > 0) {
    print_message(fmt::format("Restoring model weights from the end of the best epoch: {}.", best_epoch_ + 1));
  }
  trainer_->model().set_weights(*best_weights_);
}

CallbackState EarlyStoppingCallback::save_state() const {
  CallbackState state;
  state.values = {{"wait", wait_},
                  {"stopped_epoch", stopped_epoch_},
                  {"best_epoch", best_epoch_},
                  {"best", optional_json(best_)},
                  {"best_weights", best_weights_.has_value()}};
  for (std::size_t i = 0; best_weights_ && i < best_weights_->size(); ++i) {
    state.tensors.emplace_back(fmt::format("{:06}", i), (*best_weights_)[i]);  // in the order of names too
  }
  return state;
}

void EarlyStoppingCallback::restore_state(const CallbackState& state) {
  wait_ = state.values.at("wait").get<int>();
  stopped_epoch_ = state.values.at("stopped_epoch").get<int>();
  best_epoch_ = state.values.at("best_epoch").get<int>();
  best_ = optional_number(state.values.at("best"));
  best_weights_.reset();
  if (!state.values.at("best_weights").get<bool>()) return;
  best_weights_.emplace();
  for (const auto& [name, tensor] : state.tensors) best_weights_->push_back(tensor);
}

EarlyStoppingPtr EarlyStopping(EarlyStoppingOptions options) {
  return std::make_shared<EarlyStoppingCallback>(std::move(options));
}

namespace {

optimizers::Optimizer& optimizer_of(Trainer* trainer, const char* who) {
  if (!trainer->optimizer())
    throw_failed_precondition(fmt::format("{}: the model has no optimizer; compile it first", who));
  return *trainer->optimizer();
}

class Plateau final : public Callback, public keras::ReadsTogether {
 public:
  explicit Plateau(ReduceLROnPlateauOptions options)
      : options_(std::move(options)),
        monitor_("ReduceLROnPlateau", options_.monitor, options_.mode, options_.min_delta) {
    if (options_.factor >= 1.0) {
      throw_invalid_argument(fmt::format("ReduceLROnPlateau does not support a factor >= 1.0. Received factor={}",
                                         python_float(options_.factor)));
    }
  }

  void on_train_begin(const Logs&) override {
    best_.reset();
    cooldown_ = wait_ = 0;
  }

  void on_epoch_end(int epoch, Logs& logs) override {
    monitor_.resolve(*trainer_);
    logs["learning_rate"] = optimizer_of(trainer_, "ReduceLROnPlateau").learning_rate();
    const auto current = monitor_.value(logs);
    if (!current) {
      log_warning(
          "Learning rate reduction is conditioned on metric `{}` which is not available. Available metrics are: {}.",
          monitor_.name(), log_names(logs));
      return;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      wait_ = 0;
    }
    if (monitor_.is_improvement(*current, best_)) {
      best_ = current;
      wait_ = 0;
    } else if (cooldown_ == 0 && ++wait_ >= options_.patience && reduce(epoch)) {
      cooldown_ = options_.cooldown;
      wait_ = 0;
    }
  }

  std::string class_name() const override { return "ReduceLROnPlateau"; }
  CallbackState save_state() const override {
    return {{{"best", optional_json(best_)}, {"cooldown", cooldown_}, {"wait", wait_}}, {}};
  }
  void restore_state(const CallbackState& state) override {
    best_ = optional_number(state.values.at("best"));
    cooldown_ = state.values.at("cooldown").get<int>();
    wait_ = state.values.at("wait").get<int>();
  }

 private:
  bool reduce(int epoch) const {
    auto& optimizer = optimizer_of(trainer_, "ReduceLROnPlateau");
    const double old_rate = optimizer.learning_rate();
    if (old_rate <= static_cast<float>(options_.min_lr)) return false;
    const double rate = std::max(old_rate * options_.factor, options_.min_lr);
    optimizer.set_learning_rate(rate);
    if (options_.verbose > 0) {
      print_message(
          fmt::format("\nEpoch {}: ReduceLROnPlateau reducing learning rate to {}.", epoch + 1, python_float(rate)));
    }
    return true;
  }

  ReduceLROnPlateauOptions options_;
  Monitor monitor_;
  std::optional<double> best_;
  int cooldown_ = 0, wait_ = 0;
};

class Scheduler final : public Callback, public keras::ReadsTogether {
 public:
  Scheduler(std::function<double(int, double)> schedule, int verbose)
      : schedule_(std::move(schedule)), verbose_(verbose) {
    if (!schedule_)
      throw_invalid_argument("LearningRateScheduler: the schedule is empty; give a function of (epoch, rate)");
  }
  void on_epoch_begin(int epoch, const Logs&) override {
    auto& optimizer = optimizer_of(trainer_, "LearningRateScheduler");
    const double rate = schedule_(epoch, optimizer.learning_rate());
    optimizer.set_learning_rate(rate);
    if (verbose_ > 0) {
      print_message(
          fmt::format("\nEpoch {}: LearningRateScheduler setting learning rate to {}.", epoch + 1, python_float(rate)));
    }
  }
  // The rate was set when the epoch began, and the optimizer still has it.
  void on_epoch_resume(int, std::int64_t) override {}
  void on_epoch_end(int, Logs& logs) override {
    logs["learning_rate"] = optimizer_of(trainer_, "LearningRateScheduler").learning_rate();
  }
  std::string class_name() const override { return "LearningRateScheduler"; }

 private:
  std::function<double(int, double)> schedule_;
  int verbose_;
};

class NaNTerminator final : public Callback, public keras::ReadsTogether {
 public:
  explicit NaNTerminator(bool raise_error) : raise_error_(raise_error) {}
  void on_train_batch_end(std::int64_t batch, const Logs& logs) override {
    const auto loss = logs.find("loss");
    if (loss == logs.end() || std::isfinite(loss->second)) return;
    if (raise_error_) {
      throw_out_of_range(
          fmt::format("NaN or Inf loss encountered at batch {}. Loss value: {}. Terminating training immediately.",
                      batch, python_float(loss->second)));
    }
    print_message(fmt::format("Batch {}: Invalid loss, terminating training", batch));
    trainer_->stop_training = true;
  }

 private:
  bool raise_error_;
};

}  // namespace

CallbackPtr ReduceLROnPlateau(ReduceLROnPlateauOptions options) {
  return std::make_shared<Plateau>(std::move(options));
}
CallbackPtr LearningRateScheduler(std::function<double(int, double)> schedule, int verbose) {
  return std::make_shared<Scheduler>(std::move(schedule), verbose);
}
CallbackPtr TerminateOnNaN(TerminateOnNaNOptions options) {
  return std::make_shared<NaNTerminator>(options.raise_error);
}

}  // namespace lockstep::callbacks
