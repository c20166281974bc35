// Models of Keras and SavedModels with random changes.
#pragma once

#include <string>
#include <vector>

#include "fuzz/execution/isolated.h"

namespace lockstep::fuzz {

// `configs` are the JSON of compiled models. Case 1 + i writes model i to `folder`/i as .keras (unzipped), .h5 and
// SavedModel. SavedModel. Each must load, save and export.
Target model_files_target(std::vector<std::string> configs, std::string folder);

// Loads a model file, predicts and trains one step.
Outcome run_model_file(const std::string& path);

// A case takes a file of `folder` (or a config), changes it, loads it, predicts, trains one step and saves it, or runs
// the signatures of a SavedModel. It must end with values or an Error.
Target models_target(std::vector<std::string> configs, std::string folder);

}  // namespace lockstep::fuzz
