// What Keras 2 noted about a model in a SavedModel.
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/json.h"
#include "lockstep/io/file_system.h"

namespace tensorflow {
class SavedModel;
}

namespace lockstep::formats {

struct KerasMetadata {
  std::string identifier;  // "_tf_keras_network", "_tf_keras_sequential", "_tf_keras_model"
  Json json;               // class_name, config, keras_version, training_config, …
};

// Of the object that was saved: from keras_metadata.pb (since TensorFlow 2.5), else from saved_model.pb, which is read
// where `model` is null. Empty without Keras metadata. Throws DataLoss for damaged files.
std::optional<KerasMetadata> read_keras_metadata(const std::string& directory, const tensorflow::SavedModel* model,
                                                 io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::formats
