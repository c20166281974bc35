// How objects look to the checkpoint code: nodes with named edges.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/keras/build_observers_internal.h"
#include "lockstep/ops/lookup_tables.h"
#include "lockstep/train/trackable.h"

namespace lockstep::train {

// Two nodes with the same identity are views of one object: an address, and which part of the object.
struct Identity {
  const void* object = nullptr;
  std::string part;
  friend auto operator<=>(const Identity&, const Identity&) = default;
};

class TrackedNode {
 public:
  virtual ~TrackedNode() = default;
  virtual Identity identity() const = 0;
  // The edges that TensorFlow writes for such an object, in its order.
  virtual Children edges() const { return {}; }
  // Other names under which files of other writers hold parts of this object; only looked up.
  virtual Children aliases(const formats::CheckpointNode& saved) const {
    (void)saved;
    return {};
  }
  // Edges of `saved` whose meaning differs from their names.
  virtual bool hides(const formats::CheckpointNode& saved, std::string_view name) const {
    (void)saved, (void)name;
    return false;
  }
  // State that TensorFlow's graph leaves out (random states, layers in lists); it is stored outside the graph.
  virtual Children hidden() const { return {}; }
  // The variable this node stands for; null for others.
  virtual distribute::VariablePtr variable() const { return nullptr; }
  virtual std::optional<std::string> python_state() const { return std::nullopt; }
  virtual void set_python_state(const std::string& state) const { (void)state; }
  // Of numbers that are not variables here: takes what a file has for them, after everything has been checked.
  virtual bool is_number() const { return false; }
  virtual void set_number(double stored) const { (void)stored; }
  // Variables for which a file of this form has no values, because they have no meaning in it.
  virtual std::vector<distribute::VariablePtr> idle(const formats::CheckpointNode& saved) const {
    (void)saved;
    return {};
  }
  // A table whose entries are stored; null for others.
  virtual const lookup::MutableHashTable* table() const { return nullptr; }
  // Notifies the observer of variables and parts that the object gets later.
  virtual void observe(const std::shared_ptr<keras::BuildObserver>& observer) const { (void)observer; }
  // Of optimizers with the rules of Keras 2's first ones: their slots, and more edges, under the names of those. Edges
  // may lead to nodes that no edges() have; these are optional in files. Other optimizers have none: later optimizers
  // of Keras 2 refuse files with such slots.
  struct NamedSlot {
    std::string_view name;
    distribute::VariablePtr original, slot;
  };
  virtual std::vector<NamedSlot> named_slots() const { return {}; }
  virtual Children first_names() const { return {}; }
  // Of optimizers: whether slots have yet to be made, making them, and the slot that Keras 2 called `name`.
  virtual bool unbuilt_optimizer() const { return false; }
  virtual void build(const std::vector<distribute::VariablePtr>& variables) const { (void)variables; }
  virtual distribute::VariablePtr slot(std::string_view name, const distribute::VariablePtr& of) const {
    (void)name, (void)of;
    return nullptr;
  }
};

using NodePtr = std::shared_ptr<const TrackedNode>;

// A container without values: edges under one name of its owner.
NodePtr container_node(Identity identity, Children edges);
// A list of variables, edges "0", "1", …
NodePtr variable_list(Identity identity, const std::vector<distribute::VariablePtr>& variables);
// A variable that exists in checkpoints only.
distribute::VariablePtr number_variable(std::string name, double value);

}  // namespace lockstep::train
