// ModelCheckpoint: saves the model, or its weights, during training.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/text_arg.h"
#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/callbacks/save_frequency.h"

namespace lockstep::callbacks {

struct ModelCheckpointOptions {
  std::string filepath = {};  // see below
  std::string monitor = "val_loss";
  int verbose = 0;
  bool save_best_only = false;
  bool save_weights_only = false;
  std::string mode = "auto";
  SaveFrequency save_freq = "epoch";
  std::optional<double> initial_value_threshold = {};
};

// The callback, and its handle: checkpoint.best() is the best value so far, with save_best_only.
class ModelCheckpointCallback : public keras::Callback {
 public:
  virtual std::optional<double> best() const = 0;
};
class ModelCheckpointPtr : public std::shared_ptr<ModelCheckpointCallback> {
 public:
  template <std::derived_from<ModelCheckpointCallback> C>
  ModelCheckpointPtr(std::shared_ptr<C> callback) : shared_ptr(std::move(callback)) {}
  std::optional<double> best() const { return get()->best(); }
};

// `filepath` ends in ".keras" or ".h5", with save_weights_only in ".weights.h5"; it is a template in
// Python's format: "{epoch:02d}-{val_loss:.2f}.keras" (epoch and batch count from 1, other names are those
// of the logs). Missing folders are created. Throws InvalidArgument for another suffix and for names in the
// template that are not in the logs. Of several workers the chief writes.
ModelCheckpointPtr ModelCheckpoint(ModelCheckpointOptions options);
inline ModelCheckpointPtr ModelCheckpoint(const TextArg& filepath, ModelCheckpointOptions options = {}) {
  options.filepath = filepath;
  return ModelCheckpoint(std::move(options));
}

// Fills a template as Python's str.format does.
std::string format_filepath(const std::string& filepath, int epoch, std::optional<std::int64_t> batch,
                            const keras::Logs& logs);

}  // namespace lockstep::callbacks
