// Configs of Keras 1 and 2 in the terms of Keras 3.
#pragma once

#include <string_view>

#include "lockstep/base/json.h"

namespace lockstep::saving {

// The config of a model that Keras `keras_version` wrote ("2.21.0"; "" when the file does not say), with the names of
// Keras 3 for the classes and arguments that have another name or meaning there (old_config_table.cpp). Configs of
// Keras 3 are returned as they are.
Json upgraded_config(Json config, std::string_view keras_version);

}  // namespace lockstep::saving
