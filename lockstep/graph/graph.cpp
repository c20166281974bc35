#include "lockstep/graph/graph_internal.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/check_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {

int Graph::add(Node node) {
  const int id = size();
  if (!index_.emplace(node.name, id).second) {
    throw_invalid_argument(fmt::format("graph: two nodes are named '{}'", node.name));
  }
  nodes_.push_back(std::move(node));
  return id;
}

int Graph::find(std::string_view name) const {
  const auto it = index_.find(std::string(name));
  return it == index_.end() ? -1 : it->second;
}

std::string Graph::unique_name(const std::string& base) const {
  if (!index_.contains(base)) return base;
  int& suffix = next_suffix_[base];
  for (;;) {
    std::string name = fmt::format("{}_{}", base, ++suffix);
    if (!index_.contains(name)) return name;
  }
}

Output Graph::parse_output(std::string_view text) const {
  Output output;
  std::string_view name = text;
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, output.output);
    if (error != std::errc() || rest != end || output.output < 0 || output.output >= ops::kMaxListLength) {
      throw_invalid_argument(
          fmt::format("graph: '{}' is not a tensor name; expected \"node\" or \"node:number\"", text));
    }
    name = text.substr(0, colon);
  }
  output.node = find(name);
  if (output.node < 0) {
    std::vector<std::string> names;
    for (const Node& node : nodes_) names.push_back(node.name);
    const std::string nearest = nearest_name(name, names);
    throw_not_found(fmt::format("graph: unknown node '{}'{}", name,
                                nearest.empty() ? "" : fmt::format("; the nearest name is '{}'", nearest)));
  }
  return output;
}

void Graph::check(std::string_view what) const {
  std::vector<int> waiting(nodes_.size(), 0);
  std::vector<std::vector<int>> users(nodes_.size());
  for (int id = 0; id < size(); ++id) {
    const Node& node = nodes_[static_cast<std::size_t>(id)];
    const auto add_edge = [&](int from) {
      if (from < 0 || from >= size())
        throw_invalid_argument(fmt::format("{}: node '{}' has a missing input", what, node.name));
      if (nodes_[static_cast<std::size_t>(from)].op == "NextIteration") return;
      if (nodes_[static_cast<std::size_t>(from)].op == "RefNextIteration") return;
      users[static_cast<std::size_t>(from)].push_back(id);
      ++waiting[static_cast<std::size_t>(id)];
    };
    for (const Output& input : node.inputs) add_edge(input.node);
    for (int control : node.control_inputs) add_edge(control);
  }
  std::vector<int> ready;
  for (int id = 0; id < size(); ++id) {
    if (waiting[static_cast<std::size_t>(id)] == 0) ready.push_back(id);
  }
  std::size_t seen = 0;
  while (!ready.empty()) {
    const int id = ready.back();
    ready.pop_back();
    ++seen;
    for (int user : users[static_cast<std::size_t>(id)]) {
      if (--waiting[static_cast<std::size_t>(user)] == 0) ready.push_back(user);
    }
  }
  if (seen == nodes_.size()) return;
  for (int id = 0; id < size(); ++id) {
    if (waiting[static_cast<std::size_t>(id)] > 0) {
      throw_invalid_argument(
          fmt::format("{}: node '{}' depends on itself", what, nodes_[static_cast<std::size_t>(id)].name));
    }
  }
}

void FunctionLibrary::add(std::shared_ptr<const Function> function) {
  const std::string name = function->name;
  if (!functions_.emplace(name, std::move(function)).second) {
    throw_already_exists(fmt::format("function library: there are two functions '{}'", name));
  }
}

void FunctionLibrary::merge(const FunctionLibrary& other) {
  for (const auto& [name, function] : other.functions_) {
    const auto [entry, fresh] = functions_.emplace(name, function);
    if (!fresh && entry->second != function) {
      throw_already_exists(fmt::format("function library: there are two functions '{}'", name));
    }
  }
  gradients_.insert(other.gradients_.begin(), other.gradients_.end());
}

std::shared_ptr<const Function> FunctionLibrary::find(std::string_view name) const {
  const auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : it->second;
}

void FunctionLibrary::register_gradient(const std::string& name, RegisteredGradient gradient) {
  gradients_.insert_or_assign(name, std::make_shared<const RegisteredGradient>(std::move(gradient)));
}

std::shared_ptr<const RegisteredGradient> FunctionLibrary::find_gradient(std::string_view name) const {
  const auto it = gradients_.find(name);
  return it == gradients_.end() ? nullptr : it->second;
}

std::vector<std::string> called_functions(const Node& node) {
  std::vector<std::string> names;
  if (!ops::Table::instance().find(node.op) && node.op != "_Arg") names.push_back(node.op);
  for (const auto& [key, attr] : node.attrs.items()) {
    if (const auto* function = std::get_if<ops::FunctionName>(&attr)) names.push_back(function->name);
    if (const auto* list = std::get_if<std::vector<ops::FunctionName>>(&attr)) {
      for (const ops::FunctionName& function : *list) names.push_back(function.name);
    }
  }
  return names;
}

}  // namespace lockstep::graph
