// Keras's callbacks as classes, to derive from.
//
//   class Announced : public callbacks::ModelCheckpoint {
//    public:
//     using ModelCheckpoint::ModelCheckpoint;
//     void on_epoch_end(int epoch, keras::Logs& logs) override {
//       std::cout << "epoch " << epoch << "\n";
//       ModelCheckpoint::on_epoch_end(epoch, logs);
//     }
//   };
//   model.fit(x, y, {.callbacks = {Announced("best.keras", {.save_best_only = true})}});
#pragma once

#include <string>
#include <utility>

#include "lockstep/keras/callbacks/callbacks.h"
#include "lockstep/saving/backup_and_restore.h"
#include "lockstep/saving/model_checkpoint.h"

namespace lockstep::callbacks {

// Forwards each call to the built-in callback that it contains.
class BuiltInCallback : public keras::Callback {
 public:
  void on_train_begin(const Logs& logs) override;
  void on_train_end(const Logs& logs) override;
  void on_epoch_begin(int epoch, const Logs& logs) override;
  void on_train_batch_begin(std::int64_t batch, const Logs& logs) override;
  void on_train_batch_end(std::int64_t batch, const Logs& logs) override;
  void on_test_begin(const Logs& logs) override;
  void on_test_end(const Logs& logs) override;
  void on_test_batch_begin(std::int64_t batch, const Logs& logs) override;
  void on_test_batch_end(std::int64_t batch, const Logs& logs) override;
  void on_predict_begin(const Logs& logs) override;
  void on_predict_end(const Logs& logs) override;
  void on_predict_batch_begin(std::int64_t batch, const Logs& logs) override;
  void on_predict_batch_end(std::int64_t batch, const Logs& logs) override;
  void on_epoch_resume(int epoch, std::int64_t batches) override;
  void after_callbacks() override;
  void on_epoch_end(int epoch, Logs& logs) override;
  // What the held callback adds to the logs is lost here.
  void on_epoch_end(int epoch, const Logs& logs) override;
  keras::CallbackState save_state() const override { return built_in_->save_state(); }
  void restore_state(const keras::CallbackState& state) override { held().restore_state(state); }

 protected:
  explicit BuiltInCallback(keras::CallbackPtr built_in) : built_in_(std::move(built_in)) {}
  const keras::CallbackPtr& built_in() const { return built_in_; }

 private:
  static const BuiltInCallback& plain();
  // With the loop of this one.
  keras::Callback& held();

  keras::CallbackPtr built_in_;
};

#define LOCKSTEP_BASE(Name, parameters, arguments)                           \
  class Name : public BuiltInCallback {                                      \
   public:                                                                   \
    explicit Name parameters : BuiltInCallback(callbacks::Name arguments) {} \
  };
LOCKSTEP_BASE(BackupAndRestore, (const std::string& backup_dir, BackupAndRestoreOptions options = {}),
              (backup_dir, std::move(options)))
LOCKSTEP_BASE(CSVLogger, (const std::string& filename, CSVLoggerOptions options = {}), (filename, std::move(options)))
LOCKSTEP_BASE(LearningRateScheduler, (std::function<double(int, double)> schedule, int verbose = 0),
              (std::move(schedule), verbose))
LOCKSTEP_BASE(ModelCheckpoint, (const std::string& filepath, ModelCheckpointOptions options = {}),
              (filepath, std::move(options)))
LOCKSTEP_BASE(ReduceLROnPlateau, (ReduceLROnPlateauOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RemoteMonitor, (RemoteMonitorOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(SwapEMAWeights, (SwapEMAWeightsOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(TensorBoard, (TensorBoardOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(TerminateOnNaN, (TerminateOnNaNOptions options = {}), (std::move(options)))
#undef LOCKSTEP_BASE

class EarlyStopping : public BuiltInCallback {
 public:
  explicit EarlyStopping(EarlyStoppingOptions options = {})
      : BuiltInCallback(callbacks::EarlyStopping(std::move(options))) {}
  int stopped_epoch() const { return stopping().stopped_epoch(); }
  int best_epoch() const { return stopping().best_epoch(); }
  std::optional<double> best() const { return stopping().best(); }

 private:
  const EarlyStoppingCallback& stopping() const { return static_cast<const EarlyStoppingCallback&>(*built_in()); }
};

}  // namespace lockstep::callbacks
