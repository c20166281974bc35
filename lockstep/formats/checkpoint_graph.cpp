#include "lockstep/formats/checkpoint_graph_internal.h"

#include <deque>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto/trackable_object_graph.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {
namespace {

std::size_t index(int node) { return static_cast<std::size_t>(node); }

// A node has values when it or a node below it owns something that is stored.
std::vector<bool> nodes_with_values(const std::vector<CheckpointNode>& nodes) {
  std::vector<std::vector<int>> parents(nodes.size());
  std::vector<bool> marked(nodes.size(), false);
  std::vector<int> open;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& [name, child] : nodes[i].children) parents[index(child)].push_back(static_cast<int>(i));
    const auto& node = nodes[i];
    if (!node.attributes.empty() || !node.slots.empty() || !node.registered_saver.empty()) {
      marked[i] = true;
      open.push_back(static_cast<int>(i));
    }
  }
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int parent : parents[index(node)]) {
      if (marked[index(parent)]) continue;
      marked[index(parent)] = true;
      open.push_back(parent);
    }
  }
  return marked;
}

}  // namespace

std::optional<int> CheckpointNode::child(std::string_view local_name) const {
  for (auto edge = children.rbegin(); edge != children.rend(); ++edge) {
    if (edge->first == local_name) return edge->second;
  }
  return std::nullopt;
}

const CheckpointAttribute* CheckpointNode::attribute(std::string_view name) const {
  for (const auto& candidate : attributes) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

int CheckpointGraph::add_child(int parent, std::string local_name) {
  const int child = static_cast<int>(nodes.size());
  nodes.emplace_back();
  add_edge(parent, std::move(local_name), child);
  return child;
}

void CheckpointGraph::add_edge(int parent, std::string local_name, int child) {
  nodes.at(index(parent)).children.emplace_back(std::move(local_name), child);
}

void CheckpointGraph::set_variable(int node, std::string full_name) {
  nodes.at(index(node)).attributes.push_back({std::string(kVariableValue), std::move(full_name), ""});
}

int CheckpointGraph::add_slot(int optimizer, std::string slot_name, int variable, std::string full_name) {
  const int slot = static_cast<int>(nodes.size());
  nodes.emplace_back();
  set_variable(slot, std::move(full_name));
  nodes.at(index(optimizer)).slots.push_back({variable, std::move(slot_name), slot});
  return slot;
}

std::vector<std::string> CheckpointGraph::paths() const {
  std::vector<std::string> result(nodes.size());
  std::vector<bool> seen(nodes.size(), false);
  std::deque<int> open{0};
  seen[0] = true;
  while (!open.empty()) {
    const int node = open.front();
    open.pop_front();
    for (const auto& [name, child] : nodes[index(node)].children) {
      if (seen[index(child)]) continue;
      seen[index(child)] = true;
      result[index(child)] = node == 0 ? escape_local_name(name) : result[index(node)] + "/" + escape_local_name(name);
      open.push_back(child);
    }
  }
  return result;
}

void CheckpointGraph::assign_keys() {
  const auto path = paths();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& slot : nodes[i].slots) {
      for (auto& attribute : nodes[index(slot.slot)].attributes) {
        if (attribute.key.empty()) attribute.key = slot_key(path[index(slot.variable)], path[i], slot.name);
      }
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (auto& attribute : nodes[i].attributes) {
      if (attribute.key.empty()) attribute.key = attribute_key(path[i], attribute.name);
    }
  }
}

std::optional<int> CheckpointGraph::find(std::span<const std::string> local_names) const {
  int node = 0;
  for (const auto& name : local_names) {
    const auto child = nodes[index(node)].child(name);
    if (!child) return std::nullopt;
    node = *child;
  }
  return node;
}

std::string CheckpointGraph::serialize() const {
  tensorflow::TrackableObjectGraph graph;
  const auto with_values = nodes_with_values(nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto* proto = graph.add_nodes();
    for (const auto& [name, child] : nodes[i].children) {
      auto* edge = proto->add_children();
      edge->set_node_id(child);
      edge->set_local_name(name);
    }
    for (const auto& attribute : nodes[i].attributes) {
      auto* tensor = proto->add_attributes();
      tensor->set_name(attribute.name);
      tensor->set_full_name(attribute.full_name);
      tensor->set_checkpoint_key(attribute.key);
    }
    for (const auto& slot : nodes[i].slots) {
      auto* reference = proto->add_slot_variables();
      reference->set_original_variable_node_id(slot.variable);
      reference->set_slot_name(slot.name);
      reference->set_slot_variable_node_id(slot.slot);
    }
    if (!nodes[i].registered_saver.empty()) {
      proto->mutable_registered_saver()->set_name(nodes[i].registered_saver);
      proto->mutable_registered_saver()->set_object_name(nodes[i].registered_name);
    }
    proto->mutable_has_checkpoint_values()->set_value(with_values[i]);
  }
  return serialize_proto(graph, "the checkpoint's object graph");
}

CheckpointGraph CheckpointGraph::parse(std::string_view bytes, std::string_view what) {
  tensorflow::TrackableObjectGraph proto;
  parse_proto(proto, io::as_bytes(bytes), what);
  if (proto.nodes_size() == 0) throw_data_loss(fmt::format("{}: an object graph without a root", what));
  const auto checked = [&](int node) {
    if (node < 0 || node >= proto.nodes_size()) {
      throw_data_loss(fmt::format("{}: node {} is named, but there are {}", what, node, proto.nodes_size()));
    }
    return node;
  };
  CheckpointGraph graph;
  graph.nodes.clear();
  for (const auto& from : proto.nodes()) {
    CheckpointNode node;
    for (const auto& edge : from.children()) node.children.emplace_back(edge.local_name(), checked(edge.node_id()));
    for (const auto& tensor : from.attributes()) {
      node.attributes.push_back({tensor.name(), tensor.full_name(), tensor.checkpoint_key()});
    }
    for (const auto& slot : from.slot_variables()) {
      node.slots.push_back(
          {checked(slot.original_variable_node_id()), slot.slot_name(), checked(slot.slot_variable_node_id())});
    }
    node.registered_saver = from.registered_saver().name();
    node.registered_name = from.registered_saver().object_name();
    if (from.has_has_checkpoint_values()) node.has_values = from.has_checkpoint_values().value();
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

std::string escape_local_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '.') {
      out += "..";
    } else if (c == '/') {
      out += ".S";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string attribute_key(std::string_view object_path, std::string_view attribute) {
  return fmt::format("{}/.ATTRIBUTES/{}", object_path, escape_local_name(attribute));
}

std::string slot_key(std::string_view variable_path, std::string_view optimizer_path, std::string_view slot) {
  return fmt::format("{}/.OPTIMIZER_SLOT/{}/{}/.ATTRIBUTES/{}", variable_path, optimizer_path, escape_local_name(slot),
                     kVariableValue);
}

}  // namespace lockstep::formats
