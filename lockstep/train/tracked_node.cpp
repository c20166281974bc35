#include "lockstep/train/tracked_node_internal.h"

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"

namespace lockstep::train {
namespace {

class ContainerNode final : public TrackedNode {
 public:
  ContainerNode(Identity identity, Children edges) : identity_(std::move(identity)), edges_(std::move(edges)) {
    if (!identity_.object) identity_.object = this;
  }
  Identity identity() const override { return identity_; }
  Children edges() const override { return edges_; }

 private:
  Identity identity_;
  Children edges_;
};

class VariableNode final : public TrackedNode {
 public:
  explicit VariableNode(distribute::VariablePtr variable) : variable_(std::move(variable)) {}
  Identity identity() const override { return {variable_.get(), {}}; }
  distribute::VariablePtr variable() const override { return variable_; }

 private:
  distribute::VariablePtr variable_;
};

class MetricNode final : public TrackedNode {
 public:
  explicit MetricNode(metrics::MetricPtr metric) : metric_(std::move(metric)) {}
  Identity identity() const override { return {metric_.get(), {}}; }
  Children edges() const override {
    Children all;
    for (const auto& variable : metric_->variables()) all.emplace_back(variable->name(), variable);
    return all;
  }

 private:
  metrics::MetricPtr metric_;
};

class TrackableNode final : public TrackedNode {
 public:
  explicit TrackableNode(std::shared_ptr<Trackable> object) : object_(std::move(object)) {}
  Identity identity() const override { return {object_.get(), {}}; }
  Children edges() const override { return object_->checkpoint_children(); }
  std::optional<std::string> python_state() const override { return object_->python_state(); }
  void set_python_state(const std::string& state) const override { object_->set_python_state(state); }
  void observe(const std::shared_ptr<keras::BuildObserver>& observer) const override {
    keras::BuildAccess::observe(*object_, observer);
  }

 private:
  std::shared_ptr<Trackable> object_;
};

class IteratorNode final : public TrackedNode {
 public:
  explicit IteratorNode(std::shared_ptr<data::DatasetIterator> iterator) : iterator_(std::move(iterator)) {}
  Identity identity() const override { return {iterator_.get(), {}}; }
  std::optional<std::string> python_state() const override { return iterator_->save_state().dump(); }
  void set_python_state(const std::string& state) const override {
    iterator_->restore_state(parse_json(state, "the saved state of an iterator"));
  }

 private:
  std::shared_ptr<data::DatasetIterator> iterator_;
};

class DatasetNode final : public TrackedNode {
 public:
  explicit DatasetNode(data::Dataset dataset) : dataset_(std::move(dataset)) {}
  Identity identity() const override { return {this, {}}; }
  std::optional<std::string> python_state() const override { return dataset_.save_state().dump(); }
  void set_python_state(const std::string& state) const override {
    dataset_.restore_state(parse_json(state, "the saved state of a dataset"));
  }

 private:
  data::Dataset dataset_;
};

class TableNode final : public TrackedNode {
 public:
  explicit TableNode(lookup::MutableHashTable table) : table_(std::move(table)) {}
  Identity identity() const override { return {table_.entries(), {}}; }
  const lookup::MutableHashTable* table() const override { return &table_; }

 private:
  lookup::MutableHashTable table_;
};

Children numbered(const std::vector<Tracked>& items) {
  Children all;
  for (std::size_t i = 0; i < items.size(); ++i) all.emplace_back(std::to_string(i), items[i]);
  return all;
}

void require(bool given, const char* what) {
  if (!given) throw_invalid_argument(std::string("Checkpoint: ") + what + " is null; give an object");
}

}  // namespace

void Trackable::restore_new_children() const { keras::BuildAccess::notify(*this); }

NodePtr container_node(Identity identity, Children edges) {
  return std::make_shared<ContainerNode>(std::move(identity), std::move(edges));
}

NodePtr variable_list(Identity identity, const std::vector<distribute::VariablePtr>& variables) {
  Children all;
  for (std::size_t i = 0; i < variables.size(); ++i) all.emplace_back(std::to_string(i), variables[i]);
  return container_node(std::move(identity), std::move(all));
}

Tracked::Tracked(const keras::Model& model) : node_(of_layer(model.impl())) {}
Tracked::Tracked(const keras::LayerHandle& layer) : node_(of_layer(layer.ptr())) {}
Tracked::Tracked(const data::Dataset& dataset) : node_(std::make_shared<DatasetNode>(dataset)) {}
Tracked::Tracked(const random::Generator& generator)
    : node_(container_node({&*generator.state(), "generator"}, {{"_state_var", generator.state()}})) {}
Tracked::Tracked(const lookup::MutableHashTable& table) {
  require(table.entries() != nullptr, "a lookup table");
  node_ = std::make_shared<TableNode>(table);
}
Tracked::Tracked(std::vector<Tracked> items) : node_(container_node({}, numbered(items))) {}
Tracked::Tracked(std::map<std::string, Tracked> items)
    : node_(container_node({}, Children(items.begin(), items.end()))) {}
Tracked::Tracked(std::initializer_list<Entry> items) {
  Children all;
  for (const Entry& entry : items) all.emplace_back(entry.name, entry.item);
  node_ = container_node({}, std::move(all));
}
Tracked::Tracked(Trackable& object)
    : node_(of_trackable(std::shared_ptr<Trackable>(std::shared_ptr<void>(), &object))) {}

NodePtr Tracked::of_variable(distribute::VariablePtr variable) {
  require(variable != nullptr, "a variable");
  return std::make_shared<VariableNode>(std::move(variable));
}

NodePtr Tracked::of_metric(metrics::MetricPtr metric) {
  require(metric != nullptr, "a metric");
  return std::make_shared<MetricNode>(std::move(metric));
}

NodePtr Tracked::of_iterator(std::shared_ptr<data::DatasetIterator> iterator) {
  require(iterator != nullptr, "an iterator");
  return std::make_shared<IteratorNode>(std::move(iterator));
}

Tracked::Tracked(const data::DatasetInputIterator& iterator) : Tracked(iterator.source()) {}

NodePtr Tracked::of_trackable(std::shared_ptr<Trackable> object) {
  require(object != nullptr, "an object");
  return std::make_shared<TrackableNode>(std::move(object));
}

}  // namespace lockstep::train
