#include "lockstep/saving/model_checkpoint.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/keras/callbacks/reads_together.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/saving/keras_saving.h"

namespace lockstep::callbacks {
namespace {

[[noreturn]] void bad_template(const std::string& filepath, const std::string& reason) {
  throw_invalid_argument(fmt::format("Failed to format this callback filepath: \"{}\". Reason: {}", filepath, reason));
}

// One field, "epoch:02d".
std::string format_field(const std::string& filepath, const std::string& field,
                         const std::map<std::string, std::int64_t>& numbers, const Logs& logs) {
  const std::size_t colon = field.find(':');
  const std::string name = field.substr(0, colon);
  const std::string spec = colon == std::string::npos ? "" : field.substr(colon + 1);
  const std::string pattern = "{:" + spec + "}";
  try {
    if (const auto number = numbers.find(name); number != numbers.end()) {
      const bool floating = !spec.empty() && std::string_view("eEfFgG").find(spec.back()) != std::string_view::npos;
      return floating ? fmt::format(fmt::runtime(pattern), static_cast<double>(number->second))
                      : fmt::format(fmt::runtime(pattern), number->second);
    }
    if (const auto value = logs.find(name); value != logs.end()) {
      return spec.empty() ? python_float(value->second)
                          : fmt::format(fmt::runtime(pattern), without_sign_of_nan(value->second));
    }
  } catch (const fmt::format_error& error) {
    bad_template(filepath, fmt::format("'{}': {}", field, error.what()));
  }
  bad_template(filepath, fmt::format("'{}'; there are epoch, {}{}", name, numbers.contains("batch") ? "batch, " : "",
                                     log_names(logs)));
}

class ModelSaver final : public ModelCheckpointCallback, public keras::ReadsTogether {
 public:
  explicit ModelSaver(ModelCheckpointOptions options)
      : options_(std::move(options)),
        monitor_("ModelCheckpoint", options_.monitor, options_.mode, 0),
        best_(options_.initial_value_threshold) {
    if (options_.save_weights_only && !options_.filepath.ends_with(".weights.h5")) {
      throw_invalid_argument(
          fmt::format("When using save_weights_only=True in ModelCheckpoint, the filepath provided must end "
                      "in `.weights.h5`. Received: filepath={}",
                      options_.filepath));
    }
    if (!options_.save_weights_only && !options_.filepath.ends_with(".keras") && !options_.filepath.ends_with(".h5")) {
      throw_invalid_argument(
          fmt::format("ModelCheckpoint: the filepath provided must end in `.keras` (Keras model format). "
                      "Received: filepath={}",
                      options_.filepath));
    }
  }

  void on_epoch_begin(int epoch, const Logs&) override { epoch_ = epoch; }
  void on_train_batch_end(std::int64_t batch, const Logs& logs) override {
    if (!options_.save_freq.due(batch)) return;
    if (options_.save_best_only) monitor_.resolve(*trainer_);
    save(epoch_, batch, logs);
  }
  void on_epoch_end(int epoch, Logs& logs) override {
    monitor_.resolve(*trainer_);
    if (!options_.save_freq.batches) save(epoch, std::nullopt, logs);
  }

  std::string class_name() const override { return "ModelCheckpoint"; }
  std::optional<double> best() const override { return best_; }
  CallbackState save_state() const override {
    return {{{"best", optional_json(best_)}, {"save_freq", options_.save_freq.save_state()}}, {}};
  }
  void restore_state(const CallbackState& state) override {
    best_ = optional_number(state.values.at("best"));
    options_.save_freq.restore_state(state.values.at("save_freq"));
  }

 private:
  void print(int epoch, const std::string& what) const {
    if (options_.verbose > 0) print_message(fmt::format("\nEpoch {}: {}", epoch + 1, what));
  }

  bool should_save(int epoch, const Logs& logs, const std::string& path) {
    if (!options_.save_best_only) {
      print(epoch, fmt::format("saving model to {}", path));
      return true;
    }
    const auto current = monitor_.value(logs);
    if (!current) {
      log_warning("Can save best model only with {} available.", monitor_.name());
      return true;
    }
    const std::string best = best_ ? fmt::format("{:.5f}", *best_) : "None";
    if (!monitor_.is_improvement(*current, best_)) {
      print(epoch, fmt::format("{} did not improve from {}", monitor_.name(), best));
      return false;
    }
    print(epoch, fmt::format("{} improved from {} to {:.5f}, saving model to {}", monitor_.name(), best,
                             without_sign_of_nan(*current), path));
    best_ = current;
    return true;
  }

  void save(int epoch, std::optional<std::int64_t> batch, const Logs& logs) {
    const std::string path = format_filepath(options_.filepath, epoch, batch, logs);
    if (!should_save(epoch, logs, path)) return;
    auto& files = io::posix_file_system();
    if (io::is_directory(files, path)) {
      throw_already_exists(
          fmt::format("Please specify a non-directory filepath for ModelCheckpoint. Filepath used is an "
                      "existing directory: {}",
                      path));
    }
    const auto write = [&] {
      io::make_directories(files, io::parent_directory(path));
      if (options_.save_weights_only) {
        saving::save_weights(trainer_->model(), path);
      } else {
        saving::save_model(trainer_->model(), path);
      }
    };
    const auto workers = trainer_->strategy() ? trainer_->strategy()->workers() : nullptr;
    optimizers::run_on_chief(workers.get(), fmt::format("saving {}", path), trainer_->optimizer()->variables(), write);
    print(epoch, fmt::format("finished saving model to {}", path));
  }

  ModelCheckpointOptions options_;
  Monitor monitor_;
  std::optional<double> best_;
  int epoch_ = 0;
};

}  // namespace

std::string format_filepath(const std::string& filepath, int epoch, std::optional<std::int64_t> batch,
                            const Logs& logs) {
  std::map<std::string, std::int64_t> numbers{{"epoch", epoch + 1}};
  if (batch) numbers.emplace("batch", *batch + 1);
  std::string out;
  for (std::size_t i = 0; i < filepath.size(); ++i) {
    const char c = filepath[i];
    if (c != '{' && c != '}') {
      out.push_back(c);
      continue;
    }
    if (i + 1 < filepath.size() && filepath[i + 1] == c) {
      out.push_back(c);
      ++i;
      continue;
    }
    const std::size_t end = filepath.find('}', i);
    if (c == '}' || end == std::string::npos) bad_template(filepath, fmt::format("single '{}' encountered", c));
    out += format_field(filepath, filepath.substr(i + 1, end - i - 1), numbers, logs);
    i = end;
  }
  return out;
}

ModelCheckpointPtr ModelCheckpoint(ModelCheckpointOptions options) {
  return std::make_shared<ModelSaver>(std::move(options));
}

}  // namespace lockstep::callbacks
