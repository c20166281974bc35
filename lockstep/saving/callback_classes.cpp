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

}  // namespace lockstep::keras

namespace lockstep::callbacks {
namespace {

using keras::Field;

// The arguments of the constructor and the options in one struct.
struct BackupAndRestoreConfig {
  std::string backup_dir;
  BackupAndRestoreOptions options;
};
template <typename V>
void fields(V& v, BackupAndRestoreConfig& c) {
  v("backup_dir", c.backup_dir, Field::kRequired);
  v("save_freq", c.options.save_freq);
  v("double_checkpoint", c.options.double_checkpoint);
  v("delete_checkpoint", c.options.delete_checkpoint);
}

struct CSVLoggerConfig {
  std::string filename;
  CSVLoggerOptions options;
};
template <typename V>
void fields(V& v, CSVLoggerConfig& c) {
  v("filename", c.filename, Field::kRequired);
  v("separator", c.options.separator);
  v("append", c.options.append);
}

struct EarlyStoppingConfig {
  EarlyStoppingOptions options;
};
template <typename V>
void fields(V& v, EarlyStoppingConfig& c) {
  v("monitor", c.options.monitor);
  v("min_delta", c.options.min_delta);
  v("patience", c.options.patience);
  v("verbose", c.options.verbose);
  v("mode", c.options.mode);
  v("baseline", c.options.baseline);
  v("restore_best_weights", c.options.restore_best_weights);
  v("start_from_epoch", c.options.start_from_epoch);
}

struct LambdaCallbackConfig {
  keras::LambdaCallbackOptions options;
};
template <typename V>
void fields(V& v, LambdaCallbackConfig& c) {
  v("on_epoch_begin", c.options.on_epoch_begin);
  v("on_epoch_end", c.options.on_epoch_end);
  v("on_train_begin", c.options.on_train_begin);
  v("on_train_end", c.options.on_train_end);
  v("on_train_batch_begin", c.options.on_train_batch_begin);
  v("on_train_batch_end", c.options.on_train_batch_end);
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

struct ModelCheckpointConfig {
  std::string filepath;
  ModelCheckpointOptions options;
};
template <typename V>
void fields(V& v, ModelCheckpointConfig& c) {
  v("filepath", c.filepath, Field::kRequired);
  v("monitor", c.options.monitor);
  v("verbose", c.options.verbose);
  v("save_best_only", c.options.save_best_only);
  v("save_weights_only", c.options.save_weights_only);
  v("mode", c.options.mode);
  v("save_freq", c.options.save_freq);
  v("initial_value_threshold", c.options.initial_value_threshold);
}

struct ReduceLROnPlateauConfig {
  ReduceLROnPlateauOptions options;
};
template <typename V>
void fields(V& v, ReduceLROnPlateauConfig& c) {
  v("monitor", c.options.monitor);
  v("factor", c.options.factor);
  v("patience", c.options.patience);
  v("verbose", c.options.verbose);
  v("mode", c.options.mode);
  v("min_delta", c.options.min_delta);
  v("cooldown", c.options.cooldown);
  v("min_lr", c.options.min_lr);
}

struct RemoteMonitorConfig {
  RemoteMonitorOptions options;
};
template <typename V>
void fields(V& v, RemoteMonitorConfig& c) {
  v("root", c.options.root);
  v("path", c.options.path);
  v("field", c.options.field);
  v("headers", c.options.headers);
  v("send_as_json", c.options.send_as_json);
}

struct SwapEMAWeightsConfig {
  SwapEMAWeightsOptions options;
};
template <typename V>
void fields(V& v, SwapEMAWeightsConfig& c) {
  v("swap_on_epoch", c.options.swap_on_epoch);
}

struct TensorBoardConfig {
  TensorBoardOptions options;
};
template <typename V>
void fields(V& v, TensorBoardConfig& c) {
  v("log_dir", c.options.log_dir);
  v("histogram_freq", c.options.histogram_freq);
  v("write_graph", c.options.write_graph);
  v("write_steps_per_second", c.options.write_steps_per_second);
  v("update_freq", c.options.update_freq);
  v.dropped("write_images", false);
  v.dropped("profile_batch", 0);
  v.dropped("embeddings_freq", 0);
  v.dropped("embeddings_metadata");
}

struct TerminateOnNaNConfig {
  TerminateOnNaNOptions options;
};
template <typename V>
void fields(V& v, TerminateOnNaNConfig& c) {
  v("raise_error", c.options.raise_error);
}

}  // namespace

const keras::ClassFamily<keras::Callback>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<keras::Callback>("callback", "keras.callbacks", keras::ClassNames::kExact);
    t->add<BackupAndRestoreConfig>("BackupAndRestore", {}, [](const BackupAndRestoreConfig& c) {
      return BackupAndRestore(c.backup_dir, c.options);
    });
    t->add<CSVLoggerConfig>("CSVLogger", {}, [](const CSVLoggerConfig& c) { return CSVLogger(c.filename, c.options); });
    t->add<EarlyStoppingConfig>("EarlyStopping", {},
                                [](const EarlyStoppingConfig& c) { return EarlyStopping(c.options); });
    t->add<keras::NoOptions>("History", {}, [](keras::NoOptions) { return std::make_shared<keras::History>(); });
    t->add<LambdaCallbackConfig>("LambdaCallback", {},
                                 [](const LambdaCallbackConfig& c) { return keras::LambdaCallback(c.options); });
    t->add<LearningRateSchedulerConfig>("LearningRateScheduler", {}, [](const LearningRateSchedulerConfig& c) {
      return LearningRateScheduler(c.schedule, c.verbose);
    });
    t->add<ModelCheckpointConfig>(
        "ModelCheckpoint", {}, [](const ModelCheckpointConfig& c) { return ModelCheckpoint(c.filepath, c.options); });
    t->add<keras::NoOptions>("ProgbarLogger", {},
                             [](keras::NoOptions) { return std::make_shared<keras::ProgbarLogger>(); });
    t->add<ReduceLROnPlateauConfig>("ReduceLROnPlateau", {},
                                    [](const ReduceLROnPlateauConfig& c) { return ReduceLROnPlateau(c.options); });
    t->add<RemoteMonitorConfig>("RemoteMonitor", {},
                                [](const RemoteMonitorConfig& c) { return RemoteMonitor(c.options); });
    t->add<SwapEMAWeightsConfig>("SwapEMAWeights", {},
                                 [](const SwapEMAWeightsConfig& c) { return SwapEMAWeights(c.options); });
    t->add<TensorBoardConfig>("TensorBoard", {}, [](const TensorBoardConfig& c) { return TensorBoard(c.options); });
    t->add<TerminateOnNaNConfig>("TerminateOnNaN", {},
                                 [](const TerminateOnNaNConfig& c) { return TerminateOnNaN(c.options); });
    return t;
  }();
  return *table;
}

}  // namespace lockstep::callbacks
