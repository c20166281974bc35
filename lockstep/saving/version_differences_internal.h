// What a model of one version of Keras computes otherwise in files of the other one, although the config can be
// written.
#pragma once

#include <string>

#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// Logs one warning for each layer of `model` that Keras `major` (2 or 3) gives another meaning. `path` is the file.
void warn_of_differences(const keras::ModelImpl& model, int major, const std::string& path);

}  // namespace lockstep::saving
