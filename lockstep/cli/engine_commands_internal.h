// The commands that compute.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/cli/options_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/formats/detect.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/saving/keras_saving.h"

namespace lockstep::cli {

int predict(const Arguments& arguments);
int evaluate(const Arguments& arguments);
int fit(const Arguments& arguments);
int summary(const Arguments& arguments);
int plot(const Arguments& arguments);
int convert_model(const Arguments& arguments);
// Writes a new model of an architecture of keras.applications, or lists their names.
int new_model(const Arguments& arguments);
// Whether a command is the name of a family of classes: layers, optimizers, …
bool is_class_family(const std::string& command);
// Lists the classes of a family, or one class's arguments.
int list_classes(const std::string& family, const Arguments& arguments);
// Lists TensorFlow's operations that lockstep runs, or the signature of one.
int list_ops(const Arguments& arguments);
// convert --to without output: diff compares artifacts of different kinds with it.
int rewrite_model(const Arguments& arguments);

// Bytes of the weights of an architecture without values, where --max-memory does not say more.
inline constexpr std::int64_t kMaxNewWeights = std::int64_t{1} << 30;
// A model that can be trained, under the current strategy. Throws InvalidArgument, with the reason, for artifacts that
// contain none.
keras::Model load_trainable(const std::string& path, bool compile, std::int64_t max_new_weights = kMaxNewWeights);
// --max-memory, where it was given.
std::optional<std::int64_t> max_memory_of(const Arguments& arguments);
// Loads --weights into the model, if given.
void apply_weights(const keras::Model& model, const Arguments& arguments);
// Recompiles the model if --optimizer, --loss or --metrics is given; the other arguments remain the model's.
void apply_compile_overrides(const keras::Model& model, const Arguments& arguments);
struct WriteOptions {
  saving::H5Dialect dialect = saving::H5Dialect::kOriginal;  // of .h5 files
  bool by_name = false;                                      // checkpoints without an object graph
};
// Writes a model as a kind, the optimizer's state too where the kind holds it.
void write_model(const keras::Model& model, const std::string& path, formats::Kind kind,
                 const WriteOptions& options = {});

}  // namespace lockstep::cli
