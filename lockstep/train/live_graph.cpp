#include "lockstep/train/live_graph_internal.h"

#include <exception>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lockstep/distribute/variable_memory_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/file_system.h"

namespace lockstep::train {
namespace {

void collect_hidden(const TrackedNode& node, const std::string& key, std::set<Identity>& seen,
                    std::vector<StoredVariable>& out) {
  if (!seen.insert(node.identity()).second) return;
  if (auto variable = node.variable()) out.push_back({key, variable});
  for (const Children& children : {node.edges(), node.hidden()}) {
    for (const auto& [name, child] : children) collect_hidden(child.node(), key + "/" + name, seen, out);
  }
}

formats::TensorData string_tensor(std::string text) {
  formats::TensorData data;
  data.dtype = DType::kString;
  data.shape = Shape{};
  data.strings.push_back(std::move(text));
  return data;
}

// All variables that are stored, with their keys.
void for_each_variable(const LiveGraph& live,
                       const std::function<void(const std::string&, const distribute::VariablePtr&)>& fn) {
  for (std::size_t i = 0; i < live.nodes.size(); ++i) {
    const auto* value = live.graph.nodes[i].attribute(formats::kVariableValue);
    if (value) fn(value->key, live.nodes[i]->variable());
  }
  for (const StoredVariable& stored : live.extra) fn(stored.key, stored.variable);
}

}  // namespace

std::string extra_key(const std::string& path, const std::string& name) {
  return fmt::format("{}{}{}", path, kExtraMark, name);
}

std::vector<StoredVariable> hidden_variables(const TrackedNode& node, const std::string& path) {
  std::vector<StoredVariable> out;
  std::set<Identity> seen{node.identity()};
  for (const auto& [name, child] : node.hidden()) collect_hidden(child.node(), extra_key(path, name), seen, out);
  return out;
}

LiveGraph build_live_graph(const NodePtr& root) {
  LiveGraph live;
  std::map<Identity, int> numbers{{root->identity(), 0}};
  live.nodes.push_back(root);
  for (std::size_t i = 0; i < live.nodes.size(); ++i) {
    const NodePtr node = live.nodes[i];
    const int number = static_cast<int>(i);
    if (const auto variable = node->variable()) live.graph.set_variable(number, variable->path());
    if (node->python_state()) live.graph.nodes[i].attributes.push_back({"py_state", "", ""});
    if (node->table()) live.graph.nodes[i].attributes.push_back({std::string(formats::kTable), "", ""});
    for (const auto& [name, child] : node->edges()) {
      const auto [known, fresh] = numbers.emplace(child.node().identity(), static_cast<int>(live.nodes.size()));
      if (fresh) {
        live.nodes.push_back(child.ptr());
        live.graph.add_child(number, name);
      } else {
        live.graph.add_edge(number, name, known->second);
      }
    }
  }
  live.graph.assign_keys();
  live.required = live.nodes.size();
  // With keys already: these names add ways to values that have one.
  const auto number_of = [&](const distribute::VariablePtr& variable) {
    const auto known = numbers.find({variable.get(), {}});
    return known == numbers.end() ? -1 : known->second;
  };
  for (std::size_t i = 0; i < live.nodes.size(); ++i) {
    const int number = static_cast<int>(i);
    for (const auto& [name, child] : i < live.required ? live.nodes[i]->first_names() : live.nodes[i]->edges()) {
      const auto [known, fresh] = numbers.emplace(child.node().identity(), static_cast<int>(live.nodes.size()));
      if (fresh) {
        live.nodes.push_back(child.ptr());
        live.graph.add_child(number, name);
        if (const auto variable = child.node().variable()) live.graph.set_variable(known->second, variable->path());
      } else {
        live.graph.add_edge(number, name, known->second);
      }
    }
    if (i >= live.required) continue;
    for (const TrackedNode::NamedSlot& slot : live.nodes[i]->named_slots()) {
      const int original = number_of(slot.original), own = number_of(slot.slot);
      if (original >= 0 && own >= 0) live.graph.nodes[i].slots.push_back({original, std::string(slot.name), own});
    }
  }
  live.graph.assign_keys();
  const auto paths = live.graph.paths();
  std::set<std::string> keys;
  for (std::size_t i = 0; i < live.nodes.size(); ++i) {
    for (auto& stored : hidden_variables(*live.nodes[i], paths[i])) {
      if (numbers.contains({stored.variable.get(), {}}) || !keys.insert(stored.key).second) continue;
      live.extra.push_back(std::move(stored));
    }
  }
  return live;
}

LiveValues values_of(const LiveGraph& live, formats::NamedTensors more) {
  LiveValues values;
  formats::NamedTensors& contents = values.contents;
  for_each_variable(live, [&](const std::string& key, const distribute::VariablePtr& variable) {
    const auto range = optimizers::slot_range(*variable);
    contents.emplace_back(
        key, (range ? range->value() : distribute::VariableMemory::value_without_copy(*variable)).to_data());
    if (range) values.ranges.emplace(key, range);
  });
  for (std::size_t i = 0; i < live.nodes.size(); ++i) {
    const auto* state = live.graph.nodes[i].attribute("py_state");
    if (state) contents.emplace_back(state->key, string_tensor(live.nodes[i]->python_state().value_or("")));
  }
  for (std::size_t i = 0; i < live.nodes.size(); ++i) {
    const auto* table = live.graph.nodes[i].attribute(formats::kTable);
    if (!table) continue;
    const auto [keys, rows] = live.nodes[i]->table()->export_all();
    contents.emplace_back(table->key + "-keys", keys.to_data());
    contents.emplace_back(table->key + "-values", rows.to_data());
  }
  for (auto& tensor : more) contents.push_back(std::move(tensor));
  contents.emplace_back(formats::kObjectGraphKey, string_tensor(live.graph.serialize()));
  return values;
}

void write_values(const LiveValues& values, const std::string& prefix, io::FileSystem& files) {
  std::uint64_t bytes = 0;
  for (const auto& [key, data] : values.contents) bytes += data.bytes.size();
  std::optional<formats::BundleWriter> writer;
  std::exception_ptr failure;  // of this worker; the others still get its ranges
  const auto attempt = [&](const std::function<void()>& work) {
    if (failure) return;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  attempt([&] {
    io::make_directories(files, io::parent_directory(prefix));
    writer.emplace(prefix, files, bytes);
  });
  for (const auto& [key, data] : values.contents) {
    std::optional<optimizers::WholeSlot> whole;
    if (const auto range = values.ranges.find(key); range != values.ranges.end()) whole.emplace(*range->second);
    attempt([&writer, &key = key, &data = data] { writer->add(key, data); });
  }
  if (failure) std::rethrow_exception(failure);
  writer->finish();
}

}  // namespace lockstep::train
