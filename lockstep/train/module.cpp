#include "lockstep/train/module.h"

#include <algorithm>
#include <map>
#include <optional>
#include <typeinfo>

#include "lockstep/keras/naming_internal.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep {

// One attribute holds variables or modules, one or a list, or another object.
struct Module::State : train::Trackable {
  struct Attribute {
    std::string name;
    std::vector<Variable> variables;
    std::vector<Module> modules;
    bool is_list;
    std::vector<std::string> keys = {};  // of a dict's modules
    std::optional<train::Tracked> object = std::nullopt;
    std::vector<Variable> inner_variables = {};  // of an object that is a list or dict of others
    std::vector<Module> inner_modules = {};
  };
  std::string name;
  std::vector<Attribute> attributes;  // in the order in which they were tracked
  std::vector<std::pair<std::string, Function>> functions;

  Attribute& attribute(const std::string& attribute_name) {
    std::erase_if(attributes, [&](const Attribute& each) { return each.name == attribute_name; });
    return attributes.emplace_back(Attribute{attribute_name, {}, {}, false});
  }
  using Trackable::restore_new_children;
  train::Children checkpoint_children() const override {
    train::Children children;
    for (const Attribute& each : attributes) {
      std::vector<train::Tracked> parts(each.variables.begin(), each.variables.end());
      parts.insert(parts.end(), each.modules.begin(), each.modules.end());
      if (each.object) parts.push_back(*each.object);
      if (!each.is_list && each.keys.empty()) {
        children.emplace_back(each.name, parts[0]);
        continue;
      }
      train::Children items;
      for (std::size_t i = 0; i < parts.size(); ++i)
        items.emplace_back(each.keys.empty() ? std::to_string(i) : each.keys[i], parts[i]);
      children.emplace_back(each.name, train::container_node({this, each.name}, std::move(items)));
    }
    return children;
  }
};

Module::Module(std::string name) : state_(std::make_shared<State>()) { state_->name = std::move(name); }

std::string Module::name() const {
  return state_->name.empty() ? keras::to_snake_case(keras::unqualified_name(typeid(*this))) : state_->name;
}

Variable Module::track(const std::string& attribute, const Variable& variable) {
  state_->attribute(attribute).variables = {variable};
  state_->restore_new_children();
  return variable;
}
std::vector<Variable> Module::track(const std::string& attribute, const std::vector<Variable>& variables) {
  State::Attribute& made = state_->attribute(attribute);
  made.variables = variables;
  made.is_list = true;
  state_->restore_new_children();
  return variables;
}
void Module::add(const std::string& attribute, const Module& module) {
  state_->attribute(attribute).modules = {module};
  state_->restore_new_children();
}
void Module::add_list(const std::string& attribute, const std::vector<Module>& modules) {
  State::Attribute& made = state_->attribute(attribute);
  made.modules = modules;
  made.is_list = true;
  state_->restore_new_children();
}
void Module::add_dict(const std::string& attribute, const std::map<std::string, Module>& modules) {
  State::Attribute& made = state_->attribute(attribute);
  made.is_list = modules.empty();
  for (const auto& [key, module] : modules) {
    made.keys.push_back(key);
    made.modules.push_back(module);
  }
  state_->restore_new_children();
}

void Module::add(const std::string& attribute, train::Tracked object, std::vector<Variable> variables,
                 std::vector<Module> modules) {
  State::Attribute& made = state_->attribute(attribute);
  made.object = std::move(object);
  made.inner_variables = std::move(variables);
  made.inner_modules = std::move(modules);
  state_->restore_new_children();
}

Function Module::track(const std::string& attribute, const Function& function) {
  function.input_signature();  // throws for an empty one
  std::erase_if(state_->functions, [&](const auto& each) { return each.first == attribute; });
  state_->functions.emplace_back(attribute, function);
  return function;
}
std::vector<std::pair<std::string, Function>> Module::functions() const { return state_->functions; }

void Module::visit(const std::shared_ptr<State>& state, std::vector<const State*>& seen,
                   std::vector<Variable>& variables, std::vector<Module>& modules) {
  seen.push_back(state.get());
  std::vector<const State::Attribute*> sorted;
  for (const State::Attribute& each : state->attributes) sorted.push_back(&each);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const State::Attribute* each : sorted) {
    for (const std::vector<Variable>* own : {&each->variables, &each->inner_variables}) {
      for (const Variable& variable : *own) {
        if (std::find(variables.begin(), variables.end(), variable) == variables.end()) variables.push_back(variable);
      }
    }
  }
  std::vector<Module> inner;
  for (const State::Attribute* each : sorted) {
    for (const std::vector<Module>* own : {&each->modules, &each->inner_modules})
      for (const Module& module : *own) {
        if (std::find(seen.begin(), seen.end(), module.state_.get()) != seen.end()) continue;
        seen.push_back(module.state_.get());
        inner.push_back(module);
      }
  }
  modules.insert(modules.end(), inner.begin(), inner.end());
  for (const Module& module : inner) visit(module.state_, seen, variables, modules);
}

std::vector<Variable> Module::variables() const {
  std::vector<const State*> seen;
  std::vector<Variable> variables;
  std::vector<Module> modules;
  visit(state_, seen, variables, modules);
  return variables;
}
std::vector<Variable> Module::trainable_variables() const {
  std::vector<Variable> all = variables();
  std::erase_if(all, [](const Variable& variable) { return !variable.trainable(); });
  return all;
}
std::vector<Variable> Module::non_trainable_variables() const {
  std::vector<Variable> all = variables();
  std::erase_if(all, [](const Variable& variable) { return variable.trainable(); });
  return all;
}
std::vector<Module> Module::submodules() const {
  std::vector<const State*> seen;
  std::vector<Variable> variables;
  std::vector<Module> modules;
  visit(state_, seen, variables, modules);
  return modules;
}

Module::operator train::Tracked() const { return train::Tracked(state_); }

}  // namespace lockstep
