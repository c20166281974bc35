// The objects below the root of a loaded SavedModel.
#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/saving/saved_model_state_internal.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep::saved_model {
namespace {

std::optional<int> child_of(LoadedObjects& objects, int id, std::string_view name) {
  for (const auto& [known, number] : objects.children(id)) {
    if (known == name) return number;
  }
  return std::nullopt;
}

std::vector<VariablePtr> variables_below(LoadedObjects& objects, int id) {
  std::vector<VariablePtr> found;
  std::set<int> seen{id};
  std::deque<int> queue{id};
  while (!queue.empty()) {
    const int next = queue.front();
    queue.pop_front();
    if (auto variable = objects.variable_at(next)) found.push_back(std::move(variable));
    for (const auto& [name, number] : objects.children(next)) {
      if (seen.insert(number).second) queue.push_back(number);
    }
  }
  return found;
}

// The variables in the object's list of this name, if it has one.
std::optional<std::vector<VariablePtr>> listed_variables(LoadedObjects& objects, int id, std::string_view name) {
  const auto list = child_of(objects, id, name);
  if (!list) return std::nullopt;
  std::vector<VariablePtr> found;
  for (const auto& [item, number] : objects.children(*list)) {
    if (auto variable = objects.variable_at(number)) found.push_back(std::move(variable));
  }
  return found;
}

class LoadedNode final : public train::TrackedNode {
 public:
  LoadedNode(std::shared_ptr<ModelState> state, int id) : state_(std::move(state)), id_(id) {}

  train::Identity identity() const override {
    if (const auto own = variable()) return {own.get(), {}};
    return {state_.get(), std::to_string(id_)};
  }
  train::Children edges() const override {
    train::Children all;
    if (!state_->objects) return all;
    for (const auto& [name, number] : state_->objects->children(id_))
      all.emplace_back(name, train::Tracked(train::NodePtr(std::make_shared<LoadedNode>(state_, number))));
    return all;
  }
  VariablePtr variable() const override { return state_->objects ? state_->objects->variable_at(id_) : nullptr; }

 private:
  std::shared_ptr<ModelState> state_;
  int id_;
};

}  // namespace

const std::map<std::string, RestoredFunction>& ModelState::functions_of(int id) const {
  return id == 0 ? functions : objects->functions_of(id);
}

std::vector<VariablePtr> LoadedModel::variables() const {
  if (node_ == 0) return state_->variables;
  if (auto listed = listed_variables(*state_->objects, node_, "variables")) return *listed;
  return variables_below(*state_->objects, node_);
}

std::vector<VariablePtr> LoadedModel::trainable_variables() const {
  if (node_ == 0) return state_->trainable_variables;
  if (auto listed = listed_variables(*state_->objects, node_, "trainable_variables")) return *listed;
  std::vector<VariablePtr> all = variables();
  std::erase_if(all, [](const VariablePtr& variable) { return !variable->trainable(); });
  return all;
}

std::vector<std::string> LoadedModel::child_names() const {
  std::vector<std::string> names;
  if (!state_->objects) return names;
  for (const auto& [name, number] : state_->objects->children(node_)) names.push_back(name);
  return names;
}

bool LoadedModel::has_child(const std::string& path) const {
  try {
    child(path);
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;
    return false;
  }
}

LoadedModel LoadedModel::child(const std::string& path) const {
  LoadedModel at = *this;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const auto next = state_->objects ? child_of(*state_->objects, at.node_, name) : std::nullopt;
    if (!next) {
      throw_not_found(fmt::format("{}: {} has no child '{}'{}", state_->path,
                                  begin == 0 ? "the model" : "'" + path.substr(0, begin - 1) + "'", name,
                                  did_you_mean(name, at.child_names())));
    }
    at.node_ = *next;
    begin = end + 1;
  }
  return at;
}

VariablePtr LoadedModel::variable() const { return state_->objects ? state_->objects->variable_at(node_) : nullptr; }

LoadedModel::operator train::Tracked() const {
  return train::Tracked(train::NodePtr(std::make_shared<LoadedNode>(state_, node_)));
}

}  // namespace lockstep::saved_model
