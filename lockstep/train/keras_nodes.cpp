// Layers and models as Keras 3.15 on TensorFlow shows them to a checkpoint.
#include <array>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/recurrent_cells_internal.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep::train {
namespace {

using distribute::VariablePtr;
using keras::LayerPtr;
using keras::LayerTree;

struct Renamed {
  std::string_view class_name;
  std::string_view variable;
  std::string_view attribute;
};
// Where a layer of Keras keeps a variable under another attribute than the variable's name.
constexpr std::array kRenamed = {
    Renamed{"Dense", "kernel", "_kernel"},
    Renamed{"EinsumDense", "kernel", "_kernel"},
    Renamed{"Conv1D", "kernel", "_kernel"},
    Renamed{"Conv2D", "kernel", "_kernel"},
    Renamed{"Conv3D", "kernel", "_kernel"},
    Renamed{"Embedding", "embeddings", "_embeddings"},
    Renamed{"ReversibleEmbedding", "embeddings", "_embeddings"},
    Renamed{"Normalization", "mean", "adapt_mean"},
    Renamed{"Normalization", "variance", "adapt_variance"},
};

std::string variable_attribute(const std::string& class_name, const std::string& variable) {
  for (const Renamed& row : kRenamed) {
    if (row.class_name == class_name && row.variable == variable) return std::string(row.attribute);
  }
  return variable;
}

// The attention layers keep their sublayers in private attributes.
std::string layer_attribute(const std::string& class_name, const std::string& attribute) {
  const bool attention = class_name == "MultiHeadAttention" || class_name == "GroupQueryAttention";
  return attention && !attribute.starts_with("_") ? "_" + attribute : attribute;
}

template <typename T>  // a pointer to layers or variables
Tracked tree_node(const Nested<T>& tree, const Identity& identity) {
  if (tree.is_leaf()) return Tracked(tree.leaf());
  Children items;
  const auto add = [&](const std::string& name, const Nested<T>& item) {
    if (item.is_leaf() && !item.leaf()) return;
    items.emplace_back(name, tree_node(item, {identity.object, identity.part + "/" + name}));
  };
  if (tree.is_list()) {
    for (std::size_t i = 0; i < tree.parts().size(); ++i) add(std::to_string(i), tree.parts()[i]);
  } else {
    for (const auto& [name, item] : tree.entries()) add(name, item);
  }
  return Tracked(container_node(identity, std::move(items)));
}

class LayerNode : public TrackedNode {
 public:
  explicit LayerNode(LayerPtr layer) : layer_(std::move(layer)) {}
  Identity identity() const override { return {layer_.get(), {}}; }
  void observe(const std::shared_ptr<keras::BuildObserver>& observer) const override {
    keras::BuildAccess::observe(*layer_, observer);
  }

  Children edges() const override {
    Children all;
    const std::string kind = layer_->class_name();
    for (const keras::Weight& weight : layer_->own_weights()) {
      all.emplace_back(variable_attribute(kind, weight.variable->name()), weight.variable);
    }
    for (const auto& [name, tree] : layer_->children()) {
      if (!name.empty() && tree.is_leaf() && tree.leaf()) all.emplace_back(layer_attribute(kind, name), tree.leaf());
    }
    if (const auto states = keras::kept_states(*layer_); states.num_leaves() > 0)
      all.emplace_back("states", tree_node(states, {layer_.get(), "states"}));
    add_optimizers(all);
    return all;
  }

  Children aliases(const formats::CheckpointNode&) const override {
    Children all;
    for (const keras::Weight& weight : layer_->own_weights()) {
      const std::string& name = weight.variable->name();
      all.emplace_back(name, weight.variable);
      all.emplace_back("_" + name, weight.variable);
      all.emplace_back("depthwise_" + name, weight.variable);
    }
    for (const auto& [name, tree] : layer_->children()) {
      if (name.empty() || (tree.is_leaf() && !tree.leaf())) continue;
      const Tracked node = tree_node(tree, {layer_.get(), name});
      all.emplace_back(name, node);
      all.emplace_back(name.starts_with("_") ? name.substr(1) : "_" + name, node);
    }
    return all;
  }

  Children hidden() const override {
    Children all;
    const auto& seeds = layer_->seed_generators();
    for (std::size_t i = 0; i < seeds.size(); ++i)
      all.emplace_back(fmt::format("seed_generator/{}", i), seeds[i]->state());
    for (const auto& [name, tree] : layer_->children()) {
      if (!name.empty() && !tree.is_leaf()) all.emplace_back(name, tree_node(tree, {layer_.get(), name}));
    }
    return all;
  }

 protected:
  void add_optimizers(Children& all) const {
    for (const auto& [name, optimizer] : layer_->own_optimizers())
      all.emplace_back(name, optimizers::OptimizerPtr(optimizer));
  }

  LayerPtr layer_;
};

// Models: Functional ones list their operations, Sequential ones contain a functional one, others
// have attributes as layers do.
class ModelNode final : public LayerNode {
 public:
  explicit ModelNode(const keras::ModelPtr& model) : LayerNode(model), model_(model) {}

  Children edges() const override {
    Children all;
    if (auto functional = sequential_graph()) {
      all.emplace_back("_functional", LayerPtr(functional));
      add_optimizers(all);
    } else if (model_->is_functional()) {
      all.emplace_back("_operations", operations(*model_));
      add_optimizers(all);
    } else if (!model_->is_sequential()) {
      all = LayerNode::edges();
    }
    if (const auto& optimizer = model_->trainer().optimizer()) all.emplace_back("optimizer", optimizer);
    return all;
  }

  Children aliases(const formats::CheckpointNode& saved) const override {
    Children all = LayerNode::aliases(saved);
    if (auto functional = sequential_graph()) {
      all.emplace_back("_operations", operations(*functional));
    } else if (model_->is_functional()) {
      all.emplace_back("_functional",
                       Tracked(container_node({model_.get(), "_functional"}, {{"_operations", operations(*model_)}})));
    }
    add_keras2(all);
    const auto list = [&](const char* name, const std::vector<VariablePtr>& variables) {
      if (saved.child(name)) all.emplace_back(name, Tracked(variable_list({model_.get(), name}, variables)));
    };
    list("variables", model_->variables());
    list("trainable_variables", model_->trainable_weights());
    list("non_trainable_variables", model_->non_trainable_weights());
    return all;
  }

  Children hidden() const override {
    Children all = LayerNode::hidden();
    if (!model_->is_sequential() || sequential_graph()) return all;
    std::vector<Tracked> layers;
    for (const LayerPtr& layer : model_->layers()) layers.emplace_back(layer);
    all.emplace_back("layers", Tracked(std::move(layers)));
    return all;
  }

 private:
  std::shared_ptr<keras::FunctionalImpl> sequential_graph() const {
    const auto* sequential = dynamic_cast<const keras::SequentialImpl*>(model_.get());
    return sequential ? sequential->functional() : nullptr;
  }

  static Tracked operations(const keras::ModelImpl& model) {
    Children items;
    const auto all = model.operations();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (auto layer = std::dynamic_pointer_cast<keras::Layer>(all[i])) {
        items.emplace_back(std::to_string(i), layer);
      } else {
        items.emplace_back(std::to_string(i), Tracked(container_node({all[i].get(), {}}, {})));
      }
    }
    return Tracked(container_node({&model, "_operations"}, std::move(items)));
  }

  // The names of Keras 2: layer_with_weights-0, layer-0, …
  void add_keras2(Children& all) const {
    int with_weights = 0, number = 0;
    for (const LayerPtr& layer : model_->layers()) {
      if (!layer->weights().empty()) all.emplace_back(fmt::format("layer_with_weights-{}", with_weights++), layer);
      all.emplace_back(fmt::format("layer-{}", number++), layer);
    }
  }

  keras::ModelPtr model_;
};

}  // namespace

NodePtr Tracked::of_layer(keras::LayerPtr layer) {
  if (!layer) throw_invalid_argument("Checkpoint: invalid layer: found null, expected an object");
  if (auto model = std::dynamic_pointer_cast<keras::ModelImpl>(layer)) return std::make_shared<ModelNode>(model);
  return std::make_shared<LayerNode>(std::move(layer));
}

}  // namespace lockstep::train
