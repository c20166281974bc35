// Models from configs of all versions of Keras.
#pragma once

#include <string_view>

#include "lockstep/base/json.h"
#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// The model of a config that Keras `keras_version` wrote ("2.21.0"; "" when the file has no version); null where it is
// the config of a layer. Classes and arguments of Keras 1 and 2 that have another name or meaning in Keras 3 get its
// terms (old_config_table.cpp).
keras::ModelPtr model_of_config(const Json& config, std::string_view keras_version);

}  // namespace lockstep::saving
