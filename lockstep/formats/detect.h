// Detects the kind of artifact at a path from its content.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/io/file_system.h"

namespace lockstep::formats {

enum class Kind {
  kKeras,         // a .keras zip, or its unzipped folder
  kKerasH5,       // a whole model in HDF5
  kWeightsH5,     // weights in HDF5, of Keras 3 or 2, or the .weights.json of several such files
  kSavedModel,    // a folder with saved_model.pb or saved_model.pbtxt
  kFrozenGraph,   // a GraphDef in a file, in bytes or text
  kMetaGraph,     // a MetaGraphDef in a file (.meta), in bytes or text
  kTfCheckpoint,  // a prefix, its .index file, or a folder with a state file
  kSafetensors,
  kNpy,
  kNpz,
  kIdx,          // an array as MNIST has it, plain or gzipped
  kTFRecord,     // plain or gzipped
  kKerasConfig,  // the architecture of a model in JSON or YAML
};

// "keras", "h5", "weights_h5", "saved_model", "graph_def", "meta_graph", "tf_checkpoint", "safetensors", "npy",
// "npz", "idx", "tfrecord", "keras_config".
std::string_view kind_name(Kind kind) noexcept;

struct Detected {
  Kind kind;
  std::string path;  // to open: a checkpoint's prefix, else the given path
};

// Throws NotFound when nothing is there, InvalidArgument with the known kinds when it is nothing
// lockstep knows, DataLoss for a zip archive that cannot be read.
Detected detect(const std::string& path, io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::formats
