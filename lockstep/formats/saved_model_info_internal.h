// The description of a SavedModel or a frozen graph, read without LibTorch and without running anything.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/formats/op_versions_internal.h"
#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/file_system.h"

namespace tensorflow {
class MetaGraphDef;
}

namespace lockstep::formats {

struct SignatureTensor {
  std::string key;   // the name callers use; of a composite input or output, of each of its tensors
  std::string name;  // the tensor in the graph: "serving_default_x:0"
  DType dtype = DType::kInvalid;
  Shape shape;  // unknown dimensions are kUnknownDim
};

struct SignatureInfo {
  std::string name;                     // "serving_default"
  std::string method;                   // "tensorflow/serving/predict"
  std::vector<SignatureTensor> inputs;  // sorted by key
  std::vector<SignatureTensor> outputs;
};

// A function that is an attribute of the root object.
struct FunctionInfo {
  std::string name;                 // "__call__"
  std::vector<std::string> traces;  // the arguments of each: "x: float32 (None, 3), training=True"
};

// The requirements of a graph and its functions on the program that runs them.
struct GraphRequirements {
  std::map<std::string, std::int64_t> ops;  // operations, without calls of the graph's own functions, with their counts
  std::vector<std::string> devices;         // that nodes are placed on, sorted; without those that are not set
  int producer = 0, min_consumer = 0;       // GraphDef versions
  OldestTensorFlow oldest;                  // that knows these operations
};

// One of several MetaGraphs.
struct OtherGraph {
  std::vector<std::string> tags;
  std::vector<SignatureInfo> signatures;
};

// Of the MetaGraph for serving where there are several.
struct SavedModelInfo {
  std::vector<std::string> tags;
  std::vector<OtherGraph> others;         // MetaGraphs of which no more is described
  std::string tensorflow_version;         // of the writer; empty if the file does not name it
  std::string writer;                     // "lockstep 0.2.0", "TensorFlow 2.11.0"
  std::vector<SignatureInfo> signatures;  // sorted by name
  std::vector<FunctionInfo> functions;    // sorted by name
  std::vector<std::string> assets;        // file names below assets/ that the graph asks for
  std::vector<std::string> init_ops;      // nodes that are run once the variables have their values
  bool has_objects = false;               // a TensorFlow 2 file with its object graph
  bool needs_variables = false;           // its variables are read from variables/variables.index
  bool has_variables = false;             // variables/variables.index is there
  Json keras_model;                       // {"class_name", "config"} that Keras 2 noted; null without, and if damaged
  Json keras_training;                    // its training_config
  GraphRequirements requirements;
};

// Throws NotFound without saved_model.pb or saved_model.pbtxt, DataLoss when it cannot be parsed or holds no meta
// graph.
SavedModelInfo read_saved_model_info(const std::string& directory, io::FileSystem& files = io::posix_file_system());

// The nodes that a MetaGraph names as its init op or main op; a valid one names at most one.
std::vector<std::string> init_ops_of(const tensorflow::MetaGraphDef& graph);

struct FrozenGraphInfo {
  std::vector<TensorInfo> placeholders;
  std::vector<TensorInfo> constants;
  std::vector<std::string> outputs;  // nodes that feed no other
  GraphRequirements requirements;
};

// Of a GraphDef in bytes or text.
FrozenGraphInfo read_frozen_graph_info(const std::string& path, io::FileSystem& files = io::posix_file_system());

struct MetaGraphInfo {
  FrozenGraphInfo graph;
  std::string writer;  // "TensorFlow 1.4.0"
};

// Whether a graph has variables, whose values are in a checkpoint.
bool has_variables(const GraphRequirements& requirements);

// Of a MetaGraphDef in bytes or text (.meta).
MetaGraphInfo read_meta_graph_info(const std::string& path, io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::formats
