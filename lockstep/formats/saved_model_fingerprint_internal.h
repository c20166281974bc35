// fingerprint.pb of a SavedModel: hashes of its graph, signatures, objects and checkpoint.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/io/file_system.h"

namespace tensorflow {
class SavedModel;
}

namespace lockstep::formats {

// The contents of fingerprint.pb for a model, the bytes of its saved_model.pb, and those of its checkpoint's index.
std::string saved_model_fingerprint(const tensorflow::SavedModel& model, std::string_view bytes,
                                    std::string_view index);

// Compares the fingerprint.pb of the SavedModel in `directory` with the other files; TensorFlow writes one since 2.11,
// and a model without one is not checked. Throws DataLoss naming the file that does not match.
void check_saved_model_fingerprint(const std::string& directory, io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::formats
