// A Keras model <-> .keras, .weights.h5 and legacy .h5 files (keras.saving).
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/collectives/communicator.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/saving/saved_model.h"

namespace lockstep::saving {

// Whose .h5 file is written. Keras 2 (tf-keras) does not read the files of Keras 3; Keras 3 reads those of Keras 2
// without nested models and without operations of TensorFlow.
enum class H5Dialect {
  kOriginal,  // Keras 2 for a model from a file of Keras 1 or 2 if Keras 2 has all of it, else Keras 3
  kKeras2,
  kKeras3,
};

struct SaveModelOptions {
  bool overwrite = true;                        // false: AlreadyExists if the target exists
  bool include_optimizer = true;                // for .h5; .keras always has the state of a built optimizer
  H5Dialect h5_dialect = H5Dialect::kOriginal;  // for .h5
  // The workers of the job, which all make this call: the chief writes, and every worker gets its error. Null: this
  // process writes, without communication.
  collectives::CommunicatorPtr workers = nullptr;
};

// Writes a whole model as one transaction; the format follows the suffix: ".keras", or ".h5" / ".hdf5". The bytes
// depend on the model's state only, not on strategy, replicas or time.
// Throws InvalidArgument for another suffix, FailedPrecondition for a model that cannot be written: a subclassed one
// without get_config(), or one without variables yet; Unimplemented for layers and arguments that Keras 2 lacks, with
// H5Dialect::kKeras2.
void save_model(keras::ModelImpl& model, const std::string& path, const SaveModelOptions& options = {});
inline void save_model(const keras::Model& model, const std::string& path, const SaveModelOptions& options = {}) {
  save_model(*model.impl(), path, options);
}

struct LoadModelOptions {
  // Classes and functions that the file names: {{"MyLayer", keras::custom_object<MyLayer>()}}. Those that are
  // registered are found without it.
  keras::CustomObjects custom_objects = {};
  bool compile = true;                    // restore compile arguments and the optimizer's state
  saved_model::LoadOptions options = {};  // of a SavedModel
  // Bytes of the new weights of an architecture without values; ResourceExhausted for one that asks for more.
  std::int64_t max_memory = std::int64_t{1} << 34;
};

// Reads a .keras file (or its unzipped folder), a whole-model .h5, an architecture in JSON or YAML, or a SavedModel
// with the Keras metadata of Keras 2. Variables belong to the current strategy. Throws NotFound; DataLoss for damaged
// files; InvalidArgument for invalid configs and for weights that do not fit, naming the layer; Unimplemented for
// Lambda layers and others that would execute code.
keras::Model load_model(const TextArg& path, const LoadModelOptions& options = {});
struct LoadModelKeywords {
  FieldNamesOnly names_only = {};
  std::string filepath = {};
  keras::CustomObjects custom_objects = {};
  bool compile = true;
};
inline keras::Model load_model(const LoadModelKeywords& o) {
  return load_model(o.filepath, {.custom_objects = o.custom_objects, .compile = o.compile});
}

// The content of config.json.
Json model_config(keras::ModelImpl& model);
// The architecture with new weights, from the result of Model::to_json() or of Keras's. Throws as load_model does.
keras::Model model_from_json(const std::string& json, const LoadModelOptions& options = {});

// Weights and, when compiled and built, the optimizer's state, to a ".weights.h5".
void save_weights(keras::ModelImpl& model, const std::string& path, bool overwrite = true);

struct LoadWeightsOptions {
  bool skip_mismatch = false;  // skip variables with other shapes, with a warning
  bool by_name = false;        // legacy .h5 only: match layers by name
};
// From .weights.h5, .weights.json, .keras, a legacy .h5, a TensorFlow checkpoint or a SavedModel (the folder, or the
// prefix of a checkpoint). Every weight of the model must have a value. Changes nothing if it throws.
void load_weights(keras::ModelImpl& model, const std::string& path, const LoadWeightsOptions& options = {});

}  // namespace lockstep::saving

namespace lockstep::keras {
using saving::load_model;
using saving::model_from_json;
using LoadModelOptions = saving::LoadModelOptions;
}  // namespace lockstep::keras
