#include "lockstep/train/restoration_internal.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"
#include "lockstep/train/live_graph_internal.h"

namespace lockstep::train {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

void assign(const distribute::VariablePtr& variable, Tensor value) {
  if (variable->has_own_copies()) {
    variable->restore(value);
  } else {
    variable->shared_value() = std::move(value);
  }
}

std::optional<formats::CheckpointGraph> object_graph(const formats::BundleReader& reader) {
  const std::string key(formats::kObjectGraphKey);
  if (!reader.contains(key)) return std::nullopt;
  const auto stored = reader.read(key);
  if (stored.strings.size() != 1)
    throw_data_loss(fmt::format("{}: invalid '{}': expected a single string", reader.prefix(), key));
  return formats::CheckpointGraph::parse(stored.strings[0], reader.prefix());
}

// A list or dict that its owner may make anew each time it is asked.
bool is_unnamed(const TrackedNode& node) {
  return node.identity().object == &node && !node.variable() && !node.python_state() && !node.table();
}

}  // namespace

std::string saved_model_variables(const std::string& path) {
  auto& files = io::posix_file_system();
  for (const char* name : {"saved_model.pb", "saved_model.pbtxt"}) {
    if (io::is_file(files, io::join_path(path, name))) {
      return io::join_path(io::join_path(path, "variables"), "variables");
    }
  }
  return path;
}

std::optional<formats::CheckpointGraph> Restoration::read_graph(const std::string& prefix) {
  return object_graph(formats::BundleReader(prefix));
}

Restoration::Restoration(NodePtr root, const std::string& prefix, Options options)
    : root_(std::move(root)),
      options_(std::move(options)),
      reader_(prefix, options_.files ? *options_.files : io::posix_file_system()) {
  auto graph = object_graph(reader_);
  named_ = !graph;
  if (graph) graph_ = std::move(*graph);
  num_extra_ =
      static_cast<std::size_t>(std::count_if(reader_.list().begin(), reader_.list().end(), [](const auto& info) {
        return info.name.find(kExtraMark) != std::string::npos;
      }));
  paths_ = graph_.paths();
  bound_.resize(graph_.nodes.size());
  found_at_.resize(graph_.nodes.size());
  taken_.resize(graph_.nodes.size());
}

void Restoration::on_built() {
  const std::lock_guard lock(built_mutex_);
  if (!std::exchange(waiting_, false)) return;  // it may build optimizers itself
  try {
    bind();
  } catch (...) {
    waiting_ = true;
    throw;
  }
  keep_restoring();
}

void Restoration::observe(const TrackedNode& node) {
  if (const auto self = weak_from_this().lock()) node.observe(self);
}

// Layers in lists, which are not nodes of the graph.
void Restoration::observe_hidden(const Children& children, std::set<Identity>& seen) {
  for (const auto& [name, child] : children) {
    const TrackedNode& node = child.node();
    if (!seen.insert(node.identity()).second) continue;
    observe(node);
    observe_hidden(node.edges(), seen);
    observe_hidden(node.hidden(), seen);
  }
}

void Restoration::bind() {
  match();
  commit();
}

void Restoration::match() {
  pending_.clear();
  pending_states_.clear();
  pending_tables_.clear();
  pending_numbers_.clear();
  const auto taken = taken_;
  const auto restored = restored_;
  try {
    if (!std::exchange(state_read_, true))
      training_state_ = keras::load_training_state(reader_, options_.worker, options_.workers);
    if (named_) {
      bind_by_name();
    } else {
      bind_from_root();
      if (build_optimizers()) bind_from_root();
      take_slots();
      take_hidden();
    }
  } catch (...) {
    taken_ = taken;
    restored_ = restored;
    throw;
  }
  complete_ = !named_ && unconsumed_saved_object().empty() && restored_.size() >= num_extra_;
}

void Restoration::bind_from_root() {
  if (!bound_[0]) {
    bound_[0] = root_;
    saved_of_[root_->identity()] = 0;
  }
  // Breadth first over the bound nodes; the edges of a node are looked up again, because it may have new parts.
  open_ = {0};
  std::vector<bool> visited(graph_.nodes.size());
  visited[0] = true;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const int number = open_[i];
    bind_node(number);
    for (const auto& [name, child] : graph_.nodes[at(number)].children) {
      if (!bound_[at(child)] || visited[at(child)]) continue;
      visited[at(child)] = true;
      open_.push_back(child);
    }
  }
}

void Restoration::bind_node(int number) {
  const NodePtr live = bound_[at(number)];
  observe(*live);
  take_values(number);
  follow(number, live->edges(), false);
  follow(number, live->aliases(graph_.nodes[at(number)]), true);
}

void Restoration::follow(int number, const Children& children, bool alias) {
  const auto& saved = graph_.nodes[at(number)];
  const NodePtr owner = bound_[at(number)];
  std::unordered_map<std::string_view, std::vector<const Tracked*>> by_name;
  for (const auto& [name, child] : children) by_name[name].push_back(&child);
  for (const auto& [name, child] : saved.children) {
    const auto candidates = by_name.find(name);
    if (candidates == by_name.end() || (!alias && owner->hides(saved, name))) continue;
    for (const Tracked* live : candidates->second) {
      const Identity identity = live->node().identity();
      if (bound_[at(child)]) {
        const bool again = is_unnamed(*bound_[at(child)]) && is_unnamed(live->node()) &&
                           found_at_[at(child)] == std::pair(number, std::string_view(name));
        if (again || bound_[at(child)]->identity() == identity) {
          if (again) saved_of_.erase(bound_[at(child)]->identity());
          if (child != 0) bound_[at(child)] = live->ptr();  // a list or dict may have become longer
          saved_of_.emplace(identity, child);
        } else if (!alias && inconsistent_.insert(paths_[at(child)] + name).second) {
          log_warning(
              "{}: inconsistent references: '{}' of '{}' is another object here than where it was found first; "
              "the second is not restored",
              prefix(), name, paths_[at(number)]);
        }
        continue;
      }
      if (alias && (saved_of_.contains(identity) || !fits(child, *live))) continue;
      bound_[at(child)] = live->ptr();
      found_at_[at(child)] = {number, name};
      saved_of_.emplace(identity, child);
    }
  }
}

// A value under another writer's name must have the same shape and dtype.
bool Restoration::fits(int saved, const Tracked& child) const {
  const auto variable = child.node().variable();
  const auto* attribute = graph_.nodes[at(saved)].attribute(formats::kVariableValue);
  if ((variable != nullptr) != (attribute != nullptr)) return false;
  if (!variable) return true;
  return reader_.contains(attribute->key) && variable->shape().compatible_with(reader_.info(attribute->key).shape);
}

void Restoration::take_values(int number) {
  if (taken_[at(number)]) return;
  const auto& saved = graph_.nodes[at(number)];
  const TrackedNode& live = *bound_[at(number)];
  taken_[at(number)] = true;
  // One object in the place of two saved ones has the values of the one that was found first.
  if (saved_of_.at(live.identity()) != number) return;
  if (const auto variable = live.variable()) {
    if (const auto* value = saved.attribute(formats::kVariableValue)) {
      queue(value->key, variable);
      if (live.is_number()) pending_numbers_.emplace_back(bound_[at(number)], pending_.back().value.item<float>());
    }
  }
  if (const auto* state = saved.attribute("py_state"); state && live.python_state()) {
    const auto stored = reader_.read(state->key);
    if (stored.strings.size() != 1)
      throw_data_loss(fmt::format("{}: invalid '{}': expected a single string", prefix(), state->key));
    pending_states_.emplace_back(bound_[at(number)], stored.strings[0]);
  }
  if (const auto* table = saved.attribute(formats::kTable); table && live.table())
    take_table(table->key, bound_[at(number)]);
}

void Restoration::take_table(const std::string& key, const NodePtr& node) {
  const lookup::MutableHashTable& table = *node->table();
  PendingTable taken{node, Tensor::from_data(reader_.read(key + "-keys")),
                     Tensor::from_data(reader_.read(key + "-values"))};
  if (taken.keys.dtype() != table.key_dtype() || taken.values.dtype() != table.value_dtype()) {
    throw_invalid_argument(fmt::format("{}: the table '{}' is from {} to {}, expected from {} to {}", prefix(), key,
                                       dtype_name(taken.keys.dtype()), dtype_name(taken.values.dtype()),
                                       dtype_name(table.key_dtype()), dtype_name(table.value_dtype())));
  }
  if (!(taken.keys.shape() == taken.values.shape())) {
    throw_invalid_argument(fmt::format("{}: the table '{}' has keys of shape {} and values of shape {}", prefix(), key,
                                       taken.keys.shape().to_string(), taken.values.shape().to_string()));
  }
  pending_tables_.push_back(std::move(taken));
}

// Random states, layers in lists: tensors outside the object graph, found by the path of their owner.
void Restoration::take_hidden() {
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    if (!bound_[i]) continue;
    std::set<Identity> seen{bound_[i]->identity()};
    observe_hidden(bound_[i]->hidden(), seen);
    for (const auto& [key, variable] : hidden_variables(*bound_[i], paths_[i])) {
      if (!reader_.contains(key) || saved_of_.contains({variable.get(), {}})) continue;
      if (restored_.insert(variable.get()).second) queue(key, variable);
    }
  }
}

void Restoration::take_slots() {
  if (options_.skip_slot_variables) return;
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    if (!bound_[i]) continue;
    for (const auto& slot : graph_.nodes[i].slots) {
      if (bound_[at(slot.slot)] || !bound_[at(slot.variable)]) continue;
      const auto variable = bound_[at(slot.variable)]->variable();
      const auto live = variable ? bound_[i]->slot(slot.name, variable) : nullptr;
      if (!live) continue;
      bound_[at(slot.slot)] = Tracked(live).ptr();
      saved_of_.emplace(Identity{live.get(), {}}, slot.slot);
      take_values(slot.slot);
    }
  }
}

// An optimizer that has no slots yet gets them at once when the file lists the variables.
bool Restoration::build_optimizers() {
  const distribute::ScopedOwnInitialValues restored_anyway;
  bool any = false;
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    if (!bound_[i] || !bound_[i]->unbuilt_optimizer()) continue;
    const auto list = graph_.nodes[i].child("_trainable_variables");
    if (!list || graph_.nodes[at(*list)].children.empty()) continue;
    std::vector<distribute::VariablePtr> variables(graph_.nodes[at(*list)].children.size());
    bool all = true;
    for (std::size_t k = 0; k < variables.size() && all; ++k) {
      const auto saved = graph_.nodes[at(*list)].child(std::to_string(k));
      all = saved && bound_[at(*saved)] && (variables[k] = bound_[at(*saved)]->variable());
    }
    if (!all) continue;
    bound_[i]->build(variables);
    any = true;
  }
  return any;
}

void Restoration::bind_by_name() {
  const LiveGraph live = build_live_graph(root_);
  for (const NodePtr& node : live.nodes) {
    observe(*node);
    const auto variable = node->variable();
    if (!variable || restored_.contains(variable.get()) || !reader_.contains(variable->path())) continue;
    restored_.insert(variable.get());
    queue(variable->path(), variable);
  }
}

// The tensors of a file are shared out by their bytes, in the order of the index.
bool Restoration::is_mine_to_check(const std::string& key) {
  if (options_.workers == 1 || options_.files) return true;
  if (checked_by_.empty()) {
    const auto bytes_of = [](const formats::TensorInfo& info) {
      return static_cast<double>(info.shape.num_elements().value_or(0)) * static_cast<double>(dtype_size(info.dtype));
    };
    double total = 1, before = 0;
    for (const auto& info : reader_.list()) total += bytes_of(info);
    for (const auto& info : reader_.list()) {
      checked_by_[info.name] = static_cast<int>(before / total * options_.workers);
      before += bytes_of(info);
    }
  }
  return checked_by_.at(key) == options_.worker;
}

// Whether the value differs from the variable in what `change_values` allows.
bool Restoration::can_change(const formats::TensorInfo& info, distribute::VariableImpl& variable) const {
  if (!options_.change_values || optimizers::slot_range(variable)) return false;
  const auto wide_axes = [](const Shape& shape) {
    std::vector<std::int64_t> axes(shape.dims().begin(), shape.dims().end());
    std::erase(axes, 1);
    return axes;
  };
  const auto both = [&](bool (*is)(DType)) { return is(info.dtype) && is(variable.dtype()); };
  return !(info.shape == variable.shape() && info.dtype == variable.dtype()) &&
         wide_axes(info.shape) == wide_axes(variable.shape()) &&
         (info.dtype == variable.dtype() || both(is_floating) || both(is_integer));
}

Tensor Restoration::changed(const formats::TensorInfo& info, Tensor value, const distribute::VariableImpl& variable) {
  const auto note = [&](std::vector<RestoreReport::Changed>& list, std::string from, std::string to) {
    list.push_back({info.name, variable.path(), std::move(from), std::move(to)});
  };
  if (!(info.shape == variable.shape())) {
    note(reshaped_, info.shape.to_string(), variable.shape().to_string());
    value = ops::reshape(value, variable.shape());
  }
  if (info.dtype != variable.dtype()) {
    note(converted_, std::string(dtype_name(info.dtype)), std::string(dtype_name(variable.dtype())));
    const Tensor given = value;
    value = ops::cast(given, variable.dtype());
    if (is_integer(info.dtype) && !ops::reduce_all(ops::equal(ops::cast(value, info.dtype), given)).item<bool>())
      throw_invalid_argument(fmt::format("{}: tensor '{}' has numbers that {} cannot hold, the dtype of variable '{}'",
                                         prefix(), info.name, dtype_name(variable.dtype()), variable.path()));
  }
  return value;
}

void Restoration::queue(const std::string& key, const distribute::VariablePtr& variable) {
  if (!reader_.contains(key)) {
    throw_not_found(
        fmt::format("Error when restoring from checkpoint or SavedModel at {}: key {} not found in checkpoint; "
                    "the object graph names it for variable '{}'",
                    prefix(), key, variable->path()));
  }
  const formats::TensorInfo& info = reader_.info(key);
  if (can_change(info, *variable)) {
    pending_.push_back({variable, changed(info, Tensor::from_data(reader_.read(key)), *variable), nullptr});
    return;
  }
  if (!variable->shape().compatible_with(info.shape)) {
    throw_invalid_argument(
        fmt::format("{}: received incompatible tensor '{}' with shape {} when attempting to restore "
                    "variable with shape {} and name {}",
                    prefix(), key, info.shape.to_string(), variable->shape().to_string(), variable->path()));
  }
  if (info.dtype != variable->dtype()) {
    throw_invalid_argument(
        fmt::format("{}: tensor_name = {}; expected dtype {} does not equal original dtype {}; convert the "
                    "variable '{}' first",
                    prefix(), key, dtype_name(variable->dtype()), dtype_name(info.dtype), variable->path()));
  }
  const bool check = is_mine_to_check(key);
  if (const auto range = optimizers::slot_range(*variable)) {
    std::span<std::byte> elements;
    const auto data = formats::TensorData::allocate(
        info.dtype, Shape{static_cast<std::int64_t>(range->own().size() / dtype_size(info.dtype))}, elements);
    reader_.read_range(key, range->ranges().begin * dtype_size(info.dtype), elements, check);
    pending_.push_back({variable, Tensor::from_data(data), range});
    return;
  }
  pending_.push_back({variable, Tensor::from_data(check ? reader_.read(key) : reader_.map(key)), nullptr});
}

void Restoration::commit() {
  set_states();
  for (Pending& each : pending_) {
    if (!order_.restores(each.variable)) continue;
    if (each.range) {
      each.range->take(each.value.to_data().bytes);
    } else {
      assign(each.variable, std::move(each.value));
    }
  }
  pending_.clear();
  for (const PendingTable& each : std::exchange(pending_tables_, {})) {
    lookup::MutableHashTable table = *each.node->table();
    table.import_all(each.keys, each.values);
  }
  for (const auto& [node, value] : std::exchange(pending_numbers_, {})) node->set_number(value);
  previous_states_.clear();
}

void Restoration::set_states() {
  try {
    for (const auto& [node, state] : std::exchange(pending_states_, {})) {
      previous_states_.emplace_back(node, node->python_state().value_or(""));
      node->set_python_state(state);
    }
  } catch (...) {
    undo_states();
    throw;
  }
}

void Restoration::undo_states() {
  while (!previous_states_.empty()) {
    const auto [node, state] = std::move(previous_states_.back());
    previous_states_.pop_back();
    node->set_python_state(state);
  }
}

bool Restoration::takes(const distribute::VariableImpl& variable) const {
  if (restored_.contains(&variable)) return true;
  const auto saved = saved_of_.find({&variable, {}});
  return saved != saved_of_.end() && taken_[at(saved->second)] &&
         graph_.nodes[at(saved->second)].attribute(formats::kVariableValue) != nullptr;
}

std::set<const distribute::VariableImpl*> Restoration::idle() const {
  std::set<const distribute::VariableImpl*> all;
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    if (!bound_[i]) continue;
    for (const auto& variable : bound_[i]->idle(graph_.nodes[i])) all.insert(variable.get());
  }
  return all;
}

std::vector<RestoreReport::Missing> Restoration::unmatched() const {
  const LiveGraph live = build_live_graph(root_);
  const auto paths = live.graph.paths();
  std::vector<RestoreReport::Missing> missing;
  const auto without = idle();
  for (std::size_t i = 0; i < live.required; ++i) {
    const auto variable = live.nodes[i]->variable();
    if (!variable && !live.nodes[i]->python_state() && !live.nodes[i]->table()) continue;
    const bool matched =
        named_ ? variable && restored_.contains(variable.get()) : saved_of_.contains(live.nodes[i]->identity());
    if (matched || (variable && without.contains(variable.get()))) continue;
    if (named_ && options_.counter_is_optional && paths[i] == "save_counter") continue;
    missing.push_back({paths[i], variable ? variable->path() : std::string(), {}});
  }
  return missing;
}

std::string Restoration::unmatched_live_object() const {
  const auto missing = unmatched();
  if (missing.empty()) return {};
  const auto& first = missing.front();
  return first.variable.empty() ? first.path : fmt::format("{} (variable '{}')", first.path, first.variable);
}

RestoreReport Restoration::report() const {
  RestoreReport report{{}, reshaped_, converted_, unmatched(), unrestored()};
  if (named_) {
    for (const NodePtr& node : build_live_graph(root_).nodes) {
      const auto variable = node->variable();
      if (variable && restored_.contains(variable.get()))
        report.restored.push_back({variable->path(), variable->path()});
    }
    std::set<std::string_view> taken;
    for (const auto& each : report.restored) taken.insert(each.path);
    for (const auto& info : reader_.list()) {
      if (!taken.contains(info.name)) report.unused.push_back(info.name);
    }
  } else {
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      if (!bound_[i] || !taken_[i] || !graph_.nodes[i].attribute(formats::kVariableValue)) continue;
      if (saved_of_.at(bound_[i]->identity()) != static_cast<int>(i)) continue;
      if (const auto variable = bound_[i]->variable()) report.restored.push_back({paths_[i], variable->path()});
    }
  }
  constexpr std::string_view kRoot = "(root).";
  for (std::string& path : report.unused) {
    if (path.starts_with(kRoot)) path.erase(0, kRoot.size());
  }
  for (std::size_t i = 0; i < report.missing.size() && i < RestoreReport::kMaxListed; ++i)
    report.missing[i].nearest =
        nearest_name(named_ ? report.missing[i].variable : report.missing[i].path, report.unused);
  return report;
}

std::string Restoration::unconsumed_saved_object() const {
  const auto missing = unrestored();
  return missing.empty() ? std::string{} : missing.front();
}

std::vector<std::string> Restoration::unrestored() const {
  std::vector<std::string> missing;
  std::vector<bool> slot(graph_.nodes.size());
  for (const auto& node : graph_.nodes) {
    for (const auto& each : node.slots) slot[at(each.slot)] = true;
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (slot[i] && options_.skip_slot_variables) continue;
    for (const auto& attribute : graph_.nodes[i].attributes) {
      if (attribute.name == "OBJECT_CONFIG_JSON") continue;
      const bool known = bound_[i] && (attribute.name == formats::kVariableValue ? bound_[i]->variable() != nullptr
                                       : attribute.name == formats::kTable
                                           ? bound_[i]->table() != nullptr
                                           : attribute.name == "py_state" && bound_[i]->python_state());
      if (!known)
        missing.push_back(slot[i] ? attribute.key : "(root)" + std::string(paths_[i].empty() ? "" : ".") + paths_[i]);
    }
  }
  return missing;
}

bool Restoration::only_root_matched() const {
  return std::none_of(bound_.begin() + 1, bound_.end(), [](const NodePtr& node) { return node != nullptr; });
}

}  // namespace lockstep::train
