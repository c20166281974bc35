// Objects that a checkpoint can contain, with named parts.
#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/keras/metrics/metric.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/optimizers/optimizer.h"
#include "lockstep/random/generator.h"

namespace lockstep::keras {
class BuildObservers;
struct BuildAccess;
}  // namespace lockstep::keras

namespace lockstep::lookup {
class MutableHashTable;
}

namespace lockstep::train {

class Tracked;
class TrackedNode;
// A part and its name within its owner.
using Child = std::pair<std::string, Tracked>;
using Children = std::vector<Child>;

// The interface for user-defined objects, as tf.Module is for Python's:
//
//   struct Counter : train::Trackable {
//     distribute::VariablePtr count;
//     train::Children checkpoint_children() const override { return {{"count", count}}; }
//   };
class Trackable {
 public:
  virtual ~Trackable() = default;
  // Variables and objects that belong to this one, in a fixed order.
  virtual Children checkpoint_children() const = 0;
  // State that is not a tensor, as one string ("py_state" in the file); empty when there is none.
  virtual std::optional<std::string> python_state() const { return std::nullopt; }
  virtual void set_python_state(const std::string&) {}

 protected:
  // An object that gets parts after a checkpoint was restored calls this when it has them: they get the values that the
  // checkpoint has for them.
  void restore_new_children() const;

 private:
  friend struct keras::BuildAccess;
  std::shared_ptr<keras::BuildObservers> build_observers_;
};

// A handle to something a checkpoint can hold; keeps it alive, except where it is made from a plain
// reference. Made from variables, layers, models, optimizers, metrics, datasets and their iterators, mutable lookup
// tables, Trackables, lists and maps of these.
class Tracked {
 public:
  Tracked(const keras::Model& model);
  Tracked(const keras::LayerHandle& layer);
  Tracked(const data::Dataset& dataset);
  Tracked(const data::DatasetInputIterator& iterator);  // iter(dataset)
  Tracked(const random::Generator& generator);
  Tracked(const lookup::MutableHashTable& table);
  Tracked(std::vector<Tracked> items);
  Tracked(std::map<std::string, Tracked> items);
  template <typename T>
  requires(!std::same_as<T, Tracked> && std::convertible_to<const T&, Tracked>) Tracked(const std::vector<T>& items)
      : Tracked(std::vector<Tracked>(items.begin(), items.end())) {}
  template <typename T>
  requires(!std::same_as<T, Tracked> && std::convertible_to<const T&, Tracked>)
      Tracked(const std::map<std::string, T>& items)
      : Tracked(std::map<std::string, Tracked>(items.begin(), items.end())) {}
  // In braces: {"listed", {v, w}}, {"mapped", {{"one", v}, {"two", w}}}.
  Tracked(std::initializer_list<Tracked> items) : Tracked(std::vector<Tracked>(items)) {}
  struct Entry;
  Tracked(std::initializer_list<Entry> items);
  // Not owned: must live as long as the checkpoint.
  Tracked(Trackable& object);
  template <typename T>
  Tracked(std::shared_ptr<T> object) {
    if constexpr (std::is_base_of_v<distribute::VariableImpl, T>) {
      node_ = of_variable(std::move(object));
    } else if constexpr (std::is_base_of_v<keras::Layer, T>) {
      node_ = of_layer(std::move(object));
    } else if constexpr (std::is_base_of_v<optimizers::Optimizer, T>) {
      node_ = of_optimizer(std::move(object));
    } else if constexpr (std::is_base_of_v<metrics::Metric, T>) {
      node_ = of_metric(std::move(object));
    } else if constexpr (std::is_base_of_v<data::DatasetIterator, T>) {
      node_ = of_iterator(std::move(object));
    } else {
      static_assert(std::is_base_of_v<Trackable, T>, "only trackable objects can be saved in a checkpoint");
      node_ = of_trackable(std::move(object));
    }
  }
  explicit Tracked(std::shared_ptr<const TrackedNode> node) : node_(std::move(node)) {}

  const TrackedNode& node() const { return *node_; }
  const std::shared_ptr<const TrackedNode>& ptr() const { return node_; }

 private:
  using NodePtr = std::shared_ptr<const TrackedNode>;
  static NodePtr of_variable(distribute::VariablePtr variable);
  static NodePtr of_layer(keras::LayerPtr layer);
  static NodePtr of_optimizer(optimizers::OptimizerPtr optimizer);
  static NodePtr of_metric(metrics::MetricPtr metric);
  static NodePtr of_iterator(std::shared_ptr<data::DatasetIterator> iterator);
  static NodePtr of_trackable(std::shared_ptr<Trackable> object);

  NodePtr node_;
};

struct Tracked::Entry {
  std::string name;
  Tracked item;
};

}  // namespace lockstep::train
