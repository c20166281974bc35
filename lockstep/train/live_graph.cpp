#include "lockstep/train/live_graph_internal.h"

#include <set>

#include <fmt/format.h>

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

}  // namespace

std::string extra_key(const std::string& path, const std::string& name) {
  return fmt::format("{}{}{}", path, kBesideMark, name);
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

Contents contents_of(const LiveGraph& live, Contents more) {
  Contents contents;
  for (std::size_t i = 0; i < live.nodes.size(); ++i) {
    const auto* value = live.graph.nodes[i].attribute(formats::kVariableValue);
    if (value) contents.emplace_back(value->key, live.nodes[i]->variable()->peek().to_data());
  }
  for (const StoredVariable& stored : live.extra) contents.emplace_back(stored.key, stored.variable->peek().to_data());
  for (std::size_t i = 0; i < live.nodes.size(); ++i) {
    const auto* state = live.graph.nodes[i].attribute("py_state");
    if (state) contents.emplace_back(state->key, string_tensor(live.nodes[i]->python_state().value_or("")));
  }
  for (auto& tensor : more) contents.push_back(std::move(tensor));
  contents.emplace_back(formats::kObjectGraphKey, string_tensor(live.graph.serialize()));
  return contents;
}

void write_contents(const Contents& contents, const std::string& prefix) {
  std::uint64_t bytes = 0;
  for (const auto& [key, data] : contents) bytes += data.bytes.size();
  formats::BundleWriter writer(prefix, io::posix_file_system(), bytes);
  for (const auto& [key, data] : contents) writer.add(key, data);
  writer.finish();
}

}  // namespace lockstep::train
