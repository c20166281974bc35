// Fits with callbacks, for the judged tests:
//   callback_probe MODEL.keras DATA.npz CALLBACKS.json OUT.keras HISTORY.json
// DATA has x, y, vx and vy. CALLBACKS is {"epochs", "batch_size", "seed", "callbacks": [{"class_name", "config"}, …]}.
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/json.h"
#include "lockstep/formats/npy.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/callbacks/csv_logger.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/random/seeds.h"
#include "lockstep/saving/backup_and_restore.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/model_checkpoint.h"

namespace {

using namespace lockstep;

// Reads what is given over what is there.
template <typename T>
void take(const Json& config, const char* name, T& field) {
  if (config.contains(name)) field = config.at(name).get<T>();
}
template <typename T>
void take(const Json& config, const char* name, std::optional<T>& field) {
  if (config.contains(name)) field = config.at(name).get<T>();
}
void take(const Json& config, const char* name, callbacks::SaveFrequency& field) {
  if (config.contains(name) && config.at(name).is_number()) field = config.at(name).get<int>();
}

keras::CallbackPtr early_stopping(const Json& c) {
  callbacks::EarlyStoppingOptions o;
  take(c, "monitor", o.monitor);
  take(c, "min_delta", o.min_delta);
  take(c, "patience", o.patience);
  take(c, "mode", o.mode);
  take(c, "baseline", o.baseline);
  take(c, "restore_best_weights", o.restore_best_weights);
  take(c, "start_from_epoch", o.start_from_epoch);
  take(c, "verbose", o.verbose);
  return callbacks::EarlyStopping(o);
}

keras::CallbackPtr reduce_on_plateau(const Json& c) {
  callbacks::ReduceLROnPlateauOptions o;
  take(c, "monitor", o.monitor);
  take(c, "factor", o.factor);
  take(c, "patience", o.patience);
  take(c, "mode", o.mode);
  take(c, "min_delta", o.min_delta);
  take(c, "cooldown", o.cooldown);
  take(c, "min_lr", o.min_lr);
  take(c, "verbose", o.verbose);
  return callbacks::ReduceLROnPlateau(o);
}

keras::CallbackPtr model_checkpoint(const Json& c) {
  callbacks::ModelCheckpointOptions o;
  take(c, "monitor", o.monitor);
  take(c, "save_best_only", o.save_best_only);
  take(c, "save_weights_only", o.save_weights_only);
  take(c, "mode", o.mode);
  take(c, "save_freq", o.save_freq);
  take(c, "initial_value_threshold", o.initial_value_threshold);
  take(c, "verbose", o.verbose);
  return callbacks::ModelCheckpoint(c.at("filepath").get<std::string>(), o);
}

keras::CallbackPtr csv_logger(const Json& c) {
  callbacks::CSVLoggerOptions o;
  take(c, "separator", o.separator);
  take(c, "append", o.append);
  return callbacks::CSVLogger(c.at("filename").get<std::string>(), o);
}

keras::CallbackPtr backup(const Json& c) {
  callbacks::BackupAndRestoreOptions o;
  take(c, "save_freq", o.save_freq);
  take(c, "delete_checkpoint", o.delete_checkpoint);
  return callbacks::BackupAndRestore(c.at("backup_dir").get<std::string>(), o);
}

// Halves the rate every `every` epochs.
keras::CallbackPtr scheduler(const Json& c) {
  const int every = c.at("every").get<int>();
  return callbacks::LearningRateScheduler(
      [every](int epoch, double rate) { return epoch > 0 && epoch % every == 0 ? rate * 0.5 : rate; },
      c.value("verbose", 0));
}

keras::CallbackPtr make(const Json& row) {
  static const std::map<std::string, std::function<keras::CallbackPtr(const Json&)>> kinds = {
      {"EarlyStopping", early_stopping},
      {"ReduceLROnPlateau", reduce_on_plateau},
      {"ModelCheckpoint", model_checkpoint},
      {"CSVLogger", csv_logger},
      {"BackupAndRestore", backup},
      {"LearningRateScheduler", scheduler},
      {"TerminateOnNaN", [](const Json&) { return callbacks::TerminateOnNaN(); }},
  };
  return kinds.at(row.at("class_name").get<std::string>())(row.at("config"));
}

void fit(const std::vector<std::string>& args) {
  const Json job = parse_json(io::read_text(io::posix_file_system(), args.at(2)), args.at(2));
  random::set_random_seed(job.at("seed").get<std::int64_t>());
  const keras::Model model = saving::load_model(args.at(0));
  const formats::NpzReader data(args.at(1));
  const auto array = [&](const char* name) { return Tensor::from_data(data.read(name)); };
  keras::FitOptions options{
      .batch_size = job.at("batch_size").get<std::int64_t>(), .epochs = job.at("epochs").get<int>(), .verbose = 0};
  options.validation_data = keras::ValidationArrays{array("vx"), array("vy"), {}};
  for (const Json& row : job.at("callbacks")) options.callbacks.push_back(make(row));
  const auto history = model.fit(array("x"), array("y"), options);
  Json out = Json::object();
  for (const auto& [name, values] : history.history) out[name] = values;
  io::write_atomically(args.at(4), dump_json(out));
  saving::save_model(model, args.at(3));
}

}  // namespace

int main(int count, char** values) {
  try {
    fit({values + 1, values + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "callback_probe: {}\n", error.what());
    return 1;
  }
}
