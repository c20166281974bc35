// Keras models <-> legacy whole-model .h5 files.
#pragma once

#include <string>

#include "lockstep/base/json.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/saving/assign_internal.h"
#include "lockstep/saving/keras_saving.h"

namespace lockstep::saving {

void save_legacy_model(keras::ModelImpl& model, const std::string& path, bool include_optimizer, H5Dialect dialect);
keras::Model load_legacy_model(const std::string& path, bool compile);

// Compiles from a training_config of Keras 2 or 3. User-defined losses, metrics and optimizers are not in a file, and
// the model is whole without them: it is then not compiled, with a warning.
void compile_if_known(keras::Trainer& trainer, const Json& config, const std::string& path);

// True for an .h5 of weights as Keras 1 and 2 wrote it. Throws DataLoss for a damaged file.
bool is_legacy_weights(const std::string& path);
void plan_legacy_weights(keras::ModelImpl& model, const std::string& path, const LoadWeightsOptions& options,
                         Assignment& assignment);

}  // namespace lockstep::saving
