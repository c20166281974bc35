// The objects below a root as a checkpoint's object graph, and what is kept beside that graph.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/formats/checkpoint_graph.h"
#include "lockstep/train/tracked_node.h"

namespace lockstep::train {

// A variable and the tensor it is stored as.
struct StoredVariable {
  std::string key;
  distribute::VariablePtr variable;
};

struct LiveGraph {
  std::vector<NodePtr> nodes;       // breadth first from the root, as in `graph`
  formats::CheckpointGraph graph;   // with keys
  std::vector<StoredVariable> beside;  // what TensorFlow does not store: read back by key only
};

LiveGraph build_live_graph(const NodePtr& root);

// Writes a checkpoint of the live objects' values, the graph last, as one transaction.
void write_live_graph(const LiveGraph& live, const std::string& prefix);

inline constexpr std::string_view kBesideMark = "/.LOCKSTEP/";
// "path/.LOCKSTEP/name": no path of TensorFlow's has a '.' before a capital other than its own two.
std::string beside_key(const std::string& path, const std::string& name);

// The variables below the hidden edges of a node, each once, with their keys.
std::vector<StoredVariable> hidden_variables(const TrackedNode& node, const std::string& path);

}  // namespace lockstep::train
