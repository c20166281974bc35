// Callbacks that watch a number: EarlyStopping, ReduceLROnPlateau, LearningRateScheduler, TerminateOnNaN.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/callbacks/reads_together.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::callbacks {

using keras::Callback;
using keras::CallbackPtr;
using keras::CallbackState;
using keras::History;
using keras::LambdaCallback;
using keras::LambdaCallbackOptions;
using keras::Logs;

// Whether a value of a log is better than the best so far. `mode` "min", "max" or "auto": the loss is to
// be small, a compiled metric decides by its direction; anything else is taken for "auto" with a warning.
class Monitor {
 public:
  Monitor(std::string owner, std::string monitor, std::string mode, double min_delta);

  // To be called once the metrics are there. Throws InvalidArgument when "auto" finds no direction.
  void resolve(keras::Trainer& trainer);
  bool is_improvement(double value, std::optional<double> reference) const;
  // The monitored value, if the logs have it.
  std::optional<double> value(const Logs& logs) const;
  const std::string& name() const { return monitor_; }

 private:
  std::string owner_, monitor_, mode_;
  double min_delta_;
  int direction_ = 0;  // -1: smaller is better, 1: larger, 0: not known yet
};

// "loss,val_loss": the names in warnings about a missing value.
std::string log_names(const Logs& logs);
// For formats: Python writes no sign of NaN.
double without_sign_of_nan(double value);
// For saved states: null for none.
Json optional_json(const std::optional<double>& value);
std::optional<double> optional_number(const Json& json);
// A line on standard output, as Keras's callbacks print.
void print_message(const std::string& message);

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int patience = 0;
  int verbose = 0;
  std::string mode = "auto";
  std::optional<double> baseline = {};
  bool restore_best_weights = false;
  int start_from_epoch = 0;
};

// Stops fit when the value has not improved for `patience` epochs. With restore_best_weights the best
// epoch's weights are put back at the end of training, stopped early or not.
class EarlyStoppingCallback : public Callback, public keras::ReadsTogether {
 public:
  explicit EarlyStoppingCallback(EarlyStoppingOptions options);
  void on_train_begin(const Logs&) override;
  void on_epoch_end(int epoch, Logs& logs) override;
  void on_train_end(const Logs&) override;
  std::string class_name() const override { return "EarlyStopping"; }
  CallbackState save_state() const override;
  void restore_state(const CallbackState& state) override;

  int stopped_epoch() const { return stopped_epoch_; }  // 0: was not stopped
  int best_epoch() const { return best_epoch_; }
  std::optional<double> best() const { return best_; }
  int wait() const { return wait_; }

 private:
  EarlyStoppingOptions options_;
  Monitor monitor_;
  int wait_ = 0, stopped_epoch_ = 0, best_epoch_ = 0;
  std::optional<double> best_;
  std::optional<Tensors> best_weights_;
};
// The handle of one, with its results: stopping.stopped_epoch().
class EarlyStoppingPtr : public std::shared_ptr<EarlyStoppingCallback> {
 public:
  using shared_ptr::shared_ptr;
  EarlyStoppingPtr(std::shared_ptr<EarlyStoppingCallback> callback) : shared_ptr(std::move(callback)) {}
  int stopped_epoch() const { return get()->stopped_epoch(); }
  int best_epoch() const { return get()->best_epoch(); }
  std::optional<double> best() const { return get()->best(); }
  int wait() const { return get()->wait(); }
};
EarlyStoppingPtr EarlyStopping(EarlyStoppingOptions options = {});

struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;
  int patience = 10;
  int verbose = 0;
  std::string mode = "auto";
  double min_delta = 1e-4;
  int cooldown = 0;
  double min_lr = 0.0;
};
// Multiplies the learning rate by `factor` when the value has not improved for `patience` epochs. Adds
// learning_rate to the logs. Throws InvalidArgument for factor >= 1, FailedPrecondition in training when
// the rate is a schedule.
CallbackPtr ReduceLROnPlateau(ReduceLROnPlateauOptions options = {});

// Sets the learning rate at the beginning of each epoch to schedule(epoch, rate).
CallbackPtr LearningRateScheduler(std::function<double(int epoch, double rate)> schedule, int verbose = 0);
// schedule(epoch).
template <std::invocable<int> Schedule>
CallbackPtr LearningRateScheduler(Schedule schedule, int verbose = 0) {
  return LearningRateScheduler([schedule](int epoch, double) -> double { return schedule(epoch); }, verbose);
}
struct VerboseKeyword {
  FieldNamesOnly names_only = {};
  int verbose = 0;
};
template <typename Schedule>
CallbackPtr LearningRateScheduler(Schedule schedule, const VerboseKeyword& o) {
  return LearningRateScheduler(std::move(schedule), o.verbose);
}

struct TerminateOnNaNOptions {
  bool raise_error = false;  // throw OutOfRange instead of ending training
};
// Ends training when a batch's loss is NaN or infinite.
CallbackPtr TerminateOnNaN(TerminateOnNaNOptions options = {});

}  // namespace lockstep::callbacks
