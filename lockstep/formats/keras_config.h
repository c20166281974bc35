// Architectures of Keras models in files of JSON or YAML, as model.to_json() and model.to_yaml() give them.
#pragma once

#include <string>

#include "lockstep/base/json.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// {"class_name", "config", …}. Throws DataLoss for malformed text, InvalidArgument for text of something else.
Json read_keras_config(const std::string& path, io::FileSystem& files = io::posix_file_system());
// The version of Keras that wrote it; "1" for configs without one that are not of Keras 3.
std::string version_of_keras_config(const Json& config);

}  // namespace lockstep::formats
