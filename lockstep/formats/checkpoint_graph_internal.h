// The object graph in a TensorFlow checkpoint: which object owns which tensor, under which name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::formats {

// The tensor that holds the serialized graph, a scalar string; it is written last.
inline constexpr std::string_view kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";
// The attribute under which a variable keeps its value.
inline constexpr std::string_view kVariableValue = "VARIABLE_VALUE";
// That of a table, whose tensors are KEY-keys and KEY-values.
inline constexpr std::string_view kTable = "table";

struct CheckpointAttribute {
  std::string name;       // VARIABLE_VALUE, py_state, …
  std::string full_name;  // the variable's own name; informational
  std::string key;        // the tensor's name in the bundle
};

struct CheckpointSlot {
  int variable = 0;  // node of the variable that the slot belongs to
  std::string name;  // "m", "momentum", …
  int slot = 0;      // node of the slot variable
};

struct CheckpointNode {
  std::vector<std::pair<std::string, int>> children;  // local name, node; in the object's own order
  std::vector<CheckpointAttribute> attributes;
  std::vector<CheckpointSlot> slots;  // of an optimizer of Keras 2's first kind
  std::string registered_saver;       // both empty for objects without one
  std::string registered_name;
  std::optional<bool> has_values;  // as read; serialize() recomputes it

  // The node of a child, or empty. The last one wins where a file repeats a name.
  std::optional<int> child(std::string_view local_name) const;
  const CheckpointAttribute* attribute(std::string_view name) const;
};

// Nodes by number; 0 is the root. Edges may form cycles and share nodes.
struct CheckpointGraph {
  std::vector<CheckpointNode> nodes = std::vector<CheckpointNode>(1);

  // Appends a node as a child of `parent` and returns its number.
  int add_child(int parent, std::string local_name);
  // Names an existing node as a child too.
  void add_edge(int parent, std::string local_name, int child);
  // Marks the node as a variable; its key follows from its place, see assign_keys.
  void set_variable(int node, std::string full_name);
  // A new node for a slot variable, reachable only through the optimizer.
  int add_slot(int optimizer, std::string slot_name, int variable, std::string full_name);

  // The escaped path of each node along the shortest way from the root; "" for the root and for nodes
  // that only slots reach.
  std::vector<std::string> paths() const;
  // Gives every attribute with an empty key its key: path/.ATTRIBUTES/name, and for slots
  // variable/.OPTIMIZER_SLOT/optimizer/name/.ATTRIBUTES/VARIABLE_VALUE.
  void assign_keys();
  // Follows local names ("model", "_operations", "1") from the root; empty when one is missing.
  std::optional<int> find(std::span<const std::string> local_names) const;

  // The TrackableObjectGraph message, with has_checkpoint_values on every node.
  std::string serialize() const;
  // Throws DataLoss for malformed bytes and for edges or slots that name no node.
  static CheckpointGraph parse(std::string_view bytes, std::string_view what);
};

// One component of a key: "." becomes "..", then "/" becomes ".S".
std::string escape_local_name(std::string_view name);
// "path/.ATTRIBUTES/name", with the attribute's name escaped.
std::string attribute_key(std::string_view object_path, std::string_view attribute);
// "variable/.OPTIMIZER_SLOT/optimizer/slot/.ATTRIBUTES/VARIABLE_VALUE".
std::string slot_key(std::string_view variable_path, std::string_view optimizer_path, std::string_view slot);

}  // namespace lockstep::formats
