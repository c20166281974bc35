#include "lockstep/saving/callback_classes_internal.h"

#include <functional>

#include "lockstep/keras/callbacks/csv_logger.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/keras/callbacks/remote_monitor.h"
#include "lockstep/keras/callbacks/swap_ema_weights.h"
#include "lockstep/keras/callbacks/tensor_board.h"
#include "lockstep/saving/backup_and_restore.h"
#include "lockstep/saving/model_checkpoint.h"

namespace lockstep::keras {

template <>
struct FieldType<callbacks::SaveFrequency> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "\"epoch\" or integer"; }
  static bool read(const Json& found, callbacks::SaveFrequency& v) {
    if (found.is_string() && found.get<std::string>() == "epoch") {
      v = "epoch";
      return true;
    }
    int batches = 0;
    if (!FieldType<int>::read(found, batches)) return false;
    v = batches;
    return true;
  }
  static Json write(const callbacks::SaveFrequency& v) { return v.batches ? Json(*v.batches) : Json("epoch"); }
};

// Functions are not in configs.
template <typename Signature>
struct FieldType<std::function<Signature>> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "function"; }
  static bool read(const Json& found, const std::function<Signature>&) { return found.is_null(); }
  static Json write(const std::function<Signature>&) { return nullptr; }
};

template <typename V>
void fields(V& v, LambdaCallbackOptions& c) {
  v("on_epoch_begin", c.on_epoch_begin);
  v("on_epoch_end", c.on_epoch_end);
  v("on_train_begin", c.on_train_begin);
  v("on_train_end", c.on_train_end);
  v("on_train_batch_begin", c.on_train_batch_begin);
  v("on_train_batch_end", c.on_train_batch_end);
}

}  // namespace lockstep::keras

namespace lockstep::callbacks {

using keras::Field;

template <typename V>
void fields(V& v, BackupAndRestoreOptions& c) {
  v("backup_dir", c.backup_dir, Field::kRequired);
  v("save_freq", c.save_freq);
  v("double_checkpoint", c.double_checkpoint);
  v("delete_checkpoint", c.delete_checkpoint);
}

template <typename V>
void fields(V& v, CSVLoggerOptions& c) {
  v("filename", c.filename, Field::kRequired);
  v("separator", c.separator);
  v("append", c.append);
}

template <typename V>
void fields(V& v, EarlyStoppingOptions& c) {
  v("monitor", c.monitor);
  v("min_delta", c.min_delta);
  v("patience", c.patience);
  v("verbose", c.verbose);
  v("mode", c.mode);
  v("baseline", c.baseline);
  v("restore_best_weights", c.restore_best_weights);
  v("start_from_epoch", c.start_from_epoch);
}

struct LearningRateSchedulerConfig {
  std::function<double(int, double)> schedule;
  int verbose = 0;
};
template <typename V>
void fields(V& v, LearningRateSchedulerConfig& c) {
  v("schedule", c.schedule, Field::kRequired);
  v("verbose", c.verbose);
}

template <typename V>
void fields(V& v, ModelCheckpointOptions& c) {
  v("filepath", c.filepath, Field::kRequired);
  v("monitor", c.monitor);
  v("verbose", c.verbose);
  v("save_best_only", c.save_best_only);
  v("save_weights_only", c.save_weights_only);
  v("mode", c.mode);
  v("save_freq", c.save_freq);
  v("initial_value_threshold", c.initial_value_threshold);
}

template <typename V>
void fields(V& v, ReduceLROnPlateauOptions& c) {
  v("monitor", c.monitor);
  v("factor", c.factor);
  v("patience", c.patience);
  v("verbose", c.verbose);
  v("mode", c.mode);
  v("min_delta", c.min_delta);
  v("cooldown", c.cooldown);
  v("min_lr", c.min_lr);
}

template <typename V>
void fields(V& v, RemoteMonitorOptions& c) {
  v("root", c.root);
  v("path", c.path);
  v("field", c.field);
  v("headers", c.headers);
  v("send_as_json", c.send_as_json);
}

template <typename V>
void fields(V& v, SwapEMAWeightsOptions& c) {
  v("swap_on_epoch", c.swap_on_epoch);
}

template <typename V>
void fields(V& v, TensorBoardOptions& c) {
  v("log_dir", c.log_dir);
  v("histogram_freq", c.histogram_freq);
  v("write_graph", c.write_graph);
  v("write_steps_per_second", c.write_steps_per_second);
  v("update_freq", c.update_freq);
  v.dropped("write_images", false);
  v.dropped("profile_batch", 0);
  v.dropped("embeddings_freq", 0);
  v.dropped("embeddings_metadata");
}

template <typename V>
void fields(V& v, TerminateOnNaNOptions& c) {
  v("raise_error", c.raise_error);
}

const keras::ClassFamily<keras::Callback>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<keras::Callback>("callback", "keras.callbacks", keras::ClassNames::kExact);
    t->add<BackupAndRestoreOptions>("BackupAndRestore", {},
                                    [](const BackupAndRestoreOptions& c) { return BackupAndRestore(c); });
    t->add<CSVLoggerOptions>("CSVLogger", {}, [](const CSVLoggerOptions& c) { return CSVLogger(c); });
    t->add<EarlyStoppingOptions>("EarlyStopping", {}, [](const EarlyStoppingOptions& c) { return EarlyStopping(c); });
    t->add<keras::NoOptions>("History", {}, [](keras::NoOptions) { return std::make_shared<keras::History>(); });
    t->add<keras::LambdaCallbackOptions>(
        "LambdaCallback", {}, [](const keras::LambdaCallbackOptions& c) { return keras::LambdaCallback(c); });
    t->add<LearningRateSchedulerConfig>("LearningRateScheduler", {}, [](const LearningRateSchedulerConfig& c) {
      return LearningRateScheduler(c.schedule, c.verbose);
    });
    t->add<ModelCheckpointOptions>("ModelCheckpoint", {},
                                   [](const ModelCheckpointOptions& c) { return ModelCheckpoint(c); });
    t->add<keras::NoOptions>("ProgbarLogger", {},
                             [](keras::NoOptions) { return std::make_shared<keras::ProgbarLogger>(); });
    t->add<ReduceLROnPlateauOptions>("ReduceLROnPlateau", {},
                                     [](const ReduceLROnPlateauOptions& c) { return ReduceLROnPlateau(c); });
    t->add<RemoteMonitorOptions>("RemoteMonitor", {}, [](const RemoteMonitorOptions& c) { return RemoteMonitor(c); });
    t->add<SwapEMAWeightsOptions>("SwapEMAWeights", {},
                                  [](const SwapEMAWeightsOptions& c) { return SwapEMAWeights(c); });
    t->add<TensorBoardOptions>("TensorBoard", {}, [](const TensorBoardOptions& c) { return TensorBoard(c); });
    t->add<TerminateOnNaNOptions>("TerminateOnNaN", {},
                                  [](const TerminateOnNaNOptions& c) { return TerminateOnNaN(c); });
    return t;
  }();
  return *table;
}

}  // namespace lockstep::callbacks
