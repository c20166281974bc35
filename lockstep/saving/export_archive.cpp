#include "lockstep/saving/export_archive.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep::saved_model {
namespace {

using Tree = std::shared_ptr<TrackedNode>;

// The object tree of a part of a module, each object once.
Tree tree_of(const train::TrackedNode& part, std::map<train::Identity, Tree>& known) {
  const auto [found, is_new] = known.try_emplace(part.identity(), std::make_shared<TrackedNode>());
  const Tree made = found->second;
  if (!is_new) return made;
  made->variable = part.variable();
  if (made->variable) return made;
  for (const auto& [name, child] : part.edges()) made->children.emplace_back(name, tree_of(child.node(), known));
  const auto is_index = [](const auto& child) {
    return child.first.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!made->children.empty() && std::all_of(made->children.begin(), made->children.end(), is_index))
    made->kind = TrackedNode::Kind::kList;
  return made;
}

// Specs without a name get that of their argument, or their key in a dict.
void name_leaves(const std::string& name, Specs* specs) {
  if (specs->is_leaf()) {
    if (specs->leaf().name.empty()) specs->leaf().name = name;
  } else if (specs->is_list()) {
    for (std::size_t i = 0; i < specs->size(); ++i) name_leaves(fmt::format("{}_{}", name, i), &specs->parts()[i]);
  } else {
    for (auto& [key, part] : specs->entries()) name_leaves(key, &part);
  }
}

ExportFunction to_export(const Function& function) {
  ExportFunction made{
      .call = [function](const std::vector<Structure>& arguments, bool) { return function.call(arguments); }};
  const std::vector<Specs>& signature = function.input_signature();
  for (std::size_t i = 0; i < signature.size(); ++i) {
    Specs specs = signature[i];
    std::string argument = signature.size() == 1 ? "inputs" : fmt::format("args_{}", i);
    name_leaves(argument, &specs);
    if (specs.is_leaf()) argument = specs.leaf().name;
    made.arguments.push_back({std::move(argument), std::move(specs)});
  }
  return made;
}

using Trees = std::map<train::Identity, Tree>;

std::vector<std::pair<std::string, Tree>> parts_of(const Module& module, Trees* trees) {
  const train::Tracked root(module);
  return tree_of(root.node(), *trees)->children;
}

bool is_concrete(const Function& function) { return function.concrete_functions() == std::vector{function}; }

}  // namespace

void save(const Module& module, const std::string& path, const SaveModuleKeywords& keywords) {
  Trees trees;
  Exportable whole{.tracked = parts_of(module, &trees)};
  std::vector<Function> written;
  const auto write = [&](const Function& function) {
    const auto found = std::find(written.begin(), written.end(), function);
    if (found != written.end()) return static_cast<std::size_t>(found - written.begin());
    whole.functions.push_back(to_export(function));
    written.push_back(function);
    return written.size() - 1;
  };
  for (const auto& [name, function] : module.functions()) {
    for (const Function& concrete : function.concrete_functions())
      whole.functions[write(concrete)].names.push_back(name);
    if (is_concrete(function)) whole.default_signatures.push_back(write(function));
  }
  for (const Module& part : module.submodules()) {
    const train::Tracked tracked(part);
    auto& functions = trees.at(tracked.node().identity())->functions;
    for (const auto& [name, function] : part.functions()) {
      for (const Function& concrete : function.concrete_functions()) functions.emplace_back(name, write(concrete));
    }
  }
  for (const auto& [name, function] : keywords.signatures.entries()) {
    if (!is_concrete(function)) {
      throw_invalid_argument(
          fmt::format("signature '{}' requires a function with an input_signature, or get_concrete_function()", name));
    }
    whole.signatures.emplace_back(name, write(function));
  }
  save(whole, path, keywords.options);
}

void ExportArchive::track(const Module& module) {
  Trees trees;
  for (auto& child : parts_of(module, &trees)) contents_.tracked.push_back(std::move(child));
}

void ExportArchive::track(const keras::LayerHandle& resource) {
  for (const VariablePtr& variable : resource.variables()) {
    auto& known = contents_.variables;
    if (std::find(known.begin(), known.end(), variable) == known.end()) known.push_back(variable);
  }
}

void ExportArchive::add(const std::string& name, ExportFunction function) {
  for (const auto& [known, index] : contents_.signatures) {
    if (known == name) throw_already_exists(fmt::format("ExportArchive: an endpoint '{}' was added before", name));
  }
  function.names = {name};
  contents_.signatures.emplace_back(name, contents_.functions.size());
  contents_.functions.push_back(std::move(function));
}

void ExportArchive::add_function(const std::string& name, std::function<Structure(const Structure&)> fn,
                                 Specs input_signature) {
  if (input_signature.is_list() && input_signature.size() == 1)
    input_signature = Specs(std::as_const(input_signature).parts()[0]);
  if (input_signature.is_leaf() && input_signature.leaf().name.empty()) input_signature.leaf().name = "inputs";
  add(name, {.arguments = {{"inputs", std::move(input_signature)}},
             .call = [fn = std::move(fn)](const std::vector<Structure>& arguments, bool) { return fn(arguments[0]); }});
}

void ExportArchive::add_function_of_several(const std::string& name,
                                            std::function<Structure(const std::vector<Structure>&)> fn,
                                            std::vector<Specs> input_signature) {
  ExportFunction function{
      .call = [fn = std::move(fn)](const std::vector<Structure>& arguments, bool) { return fn(arguments); }};
  for (Specs& specs : input_signature) {
    specs.visit([&](const TensorSpec& spec) {
      if (spec.name.empty()) throw_invalid_argument(fmt::format("endpoint '{}' requires names of its inputs", name));
    });
    const std::string argument =
        specs.is_leaf() ? specs.leaf().name : fmt::format("args_{}", function.arguments.size());
    function.arguments.push_back({argument, std::move(specs)});
  }
  add(name, std::move(function));
}

void ExportArchive::track_and_add_endpoint(const std::string& name, const keras::LayerHandle& resource,
                                           Specs input_signature) {
  track(resource);
  add_function(
      name, [resource](const Structure& inputs) { return resource(inputs); }, std::move(input_signature));
}

void ExportArchive::add_variable_collection(const std::string& name, const std::vector<VariablePtr>& variables) {
  const auto list = std::make_shared<TrackedNode>();
  list->kind = TrackedNode::Kind::kList;
  for (const VariablePtr& variable : variables) {
    const auto leaf = std::make_shared<TrackedNode>();
    leaf->variable = variable;
    list->children.emplace_back(std::to_string(list->children.size()), leaf);
  }
  contents_.tracked.emplace_back(name, list);
}

void ExportArchive::write_out(const std::string& path, const SaveOptions& options) const {
  if (contents_.functions.empty()) {
    throw_failed_precondition("ExportArchive: write_out() requires an endpoint; call add_endpoint() first");
  }
  Exportable whole = contents_;
  const auto is_default = [](const auto& signature) { return signature.first == "serving_default"; };
  if (std::none_of(whole.signatures.begin(), whole.signatures.end(), is_default))
    whole.signatures.emplace_back("serving_default", 0);
  save(whole, path, options);
}

}  // namespace lockstep::saved_model
