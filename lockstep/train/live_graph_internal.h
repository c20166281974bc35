// The objects below a root as a checkpoint's object graph, and the values that are stored in addition to that graph.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep::train {

// A variable and the tensor it is stored as.
struct StoredVariable {
  std::string key;
  distribute::VariablePtr variable;
};

struct LiveGraph {
  std::vector<NodePtr> nodes;         // breadth first from the root, as in `graph`
  std::size_t required = 0;           // nodes from here on are of first_names() only
  formats::CheckpointGraph graph;     // with keys
  std::vector<StoredVariable> extra;  // values that TensorFlow does not store: read by key only
};

LiveGraph build_live_graph(const NodePtr& root);

// Values of which each worker holds a range, by key. Those in `contents` are whole only while a range is.
using Ranges = std::map<std::string, std::shared_ptr<optimizers::SlotRange>>;
struct LiveValues {
  formats::NamedTensors contents;  // in the order in which TensorFlow writes them
  Ranges ranges;
};

// The live objects' values, then `more`, the graph last. Values share the variables' memory; those of ranges are not
// gathered.
LiveValues values_of(const LiveGraph& live, formats::NamedTensors more = {});
// Writes a checkpoint as one transaction. Workers with ranges each write one, at the same point of their programs.
void write_values(const LiveValues& values, const std::string& prefix, io::FileSystem& files = io::posix_file_system());

// Names that begin so belong to the job, not to objects; TensorFlow does not look at them. Strings are lists with
// one entry for each worker.
inline constexpr std::string_view kWorkerStateMark = "/.LOCKSTEP_STATE/";
// The user's metadata, JSON.
inline constexpr std::string_view kMetadataKey = "/.LOCKSTEP_STATE/metadata";

inline constexpr std::string_view kExtraMark = "/.LOCKSTEP/";
// "path/.LOCKSTEP/name": no path of TensorFlow's has a '.' before a capital other than its own two.
std::string extra_key(const std::string& path, const std::string& name);

// The variables below the hidden edges of a node, each once, with their keys.
std::vector<StoredVariable> hidden_variables(const TrackedNode& node, const std::string& path);

}  // namespace lockstep::train
