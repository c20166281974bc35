// What a model of one version of Keras computes otherwise in files of the other one, although the config can be
// written.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// Logs one warning for each layer of `model` that Keras `major` (2 or 3) gives another meaning. `path` is the file.
void warn_of_differences(const keras::ModelImpl& model, int major, const std::string& path);

// Models of Keras 3 have the rules of its newest release, as when that reads their files. Logs one warning for each
// layer of a model from a file of Keras `version` ("3.8.0") that its release computed otherwise.
void warn_of_older_release(const keras::ModelImpl& model, std::string_view version, const std::string& path);

}  // namespace lockstep::saving
