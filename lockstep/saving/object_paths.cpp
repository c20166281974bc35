#include "lockstep/saving/object_paths_internal.h"

#include <algorithm>
#include <map>
#include <set>

#include "lockstep/keras/feature_space_internal.h"
#include "lockstep/keras/layers/built_in_internal.h"
#include "lockstep/keras/layers/overrides_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::saving {
namespace {

using keras::Layer;
using keras::LayerPtr;
using keras::LayerTree;
using keras::ModelImpl;

constexpr char kCheckpointDependencies[] = "_layer_checkpoint_dependencies";

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "/" + name; }

// Whether a user's class decides what is saved of its objects.
bool stores_itself(const Layer& layer) {
  return keras::overrides_layer(layer, &Layer::save_own_variables, &Layer::load_own_variables);
}

class Walk {
 public:
  explicit Walk(LayerAttribute attribute) : attribute_(attribute) {}
  void model(ModelImpl& model) { layer(model, ""); }
  void attribute(const std::string& name, const LayerTree& tree) { child(tree, name); }
  std::vector<SavedObject> take() { return std::move(objects_); }

 private:
  void layer(Layer& layer, const std::string& path) {
    if (!seen_.insert(&layer).second) return;
    objects_.push_back({path, layer.name(), layer.own_state()});
    if (stores_itself(layer)) objects_.back().own_store = &layer;
    objects_.back().has_weights_in_config = layer.class_name() == "Discretization";
    objects_.back().vocabulary = dynamic_cast<keras::KeepsVocabulary*>(&keras::built_in_of(layer));
    if (keras::overrides_layer(layer, &Layer::save_assets, &Layer::load_assets)) objects_.back().own_assets = &layer;
    objects_.back().is_activation = path.ends_with("/activation") || path.ends_with("/recurrent_activation");
    auto* const model = dynamic_cast<ModelImpl*>(&layer);
    const bool space = dynamic_cast<const utils::FeatureSpaceModel*>(&layer) != nullptr;
    const bool graph = model && !space && (model->is_functional() || model->is_sequential());
    if (graph && attribute_ == LayerAttribute::kLayers) container(model->layers(), join(path, "layers"));
    if (graph && attribute_ != LayerAttribute::kLayers)
      dependencies(model->layers(), join(path, kCheckpointDependencies));
    for (const std::string& attribute : attributes(layer, space ? nullptr : model, graph)) {
      if (attribute == "layers" && model) {
        container(model->layers(), join(path, attribute));
      } else if (attribute == "optimizer" && model) {
        optimizer(*model->trainer().optimizer(), join(path, attribute));
      } else {
        for (const auto& [name, tracked] : layer.own_optimizers()) {
          if (name == attribute) optimizer(*tracked, join(path, name));
        }
        for (const auto& [name, tree] : layer.children()) {
          if (name == attribute) child(tree, join(path, name));
        }
      }
    }
  }

  // Sorted, public names before private ones.
  static std::vector<std::string> attributes(const Layer& layer, ModelImpl* model, bool graph) {
    std::vector<std::string> names;
    if (!graph) {
      for (const auto& [name, tree] : layer.children()) {
        if (!name.empty()) names.push_back(name);
      }
    }
    for (const auto& [name, optimizer] : layer.own_optimizers()) names.push_back(name);
    if (model && !graph) names.push_back("layers");
    if (model && model->trainer().compiled()) names.push_back("optimizer");
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return std::pair(a.starts_with("_"), a) < std::pair(b.starts_with("_"), b);
    });
    return names;
  }

  void child(const LayerTree& tree, const std::string& path) {
    if (tree.is_leaf()) {
      if (tree.leaf()) layer(*tree.leaf(), path);
      return;
    }
    trees(tree, path);
  }

  void container(const std::vector<LayerPtr>& layers, const std::string& path) {
    std::map<std::string, int> used;
    for (const LayerPtr& item : layers)
      layer(*item, join(path, numbered(used, keras::to_snake_case(item->class_name()))));
  }

  void dependencies(const std::vector<LayerPtr>& layers, const std::string& path) {
    std::map<std::string, int> used;
    for (const LayerPtr& item : layers) {
      const std::string class_name = keras::to_snake_case(item->class_name());
      layer(*item, join(path, numbered(used, class_name)));
      if (!item->weights().empty()) ++used[class_name];
    }
  }

  // A list or a dict in order; one inside another is a "container".
  void trees(const LayerTree& tree, const std::string& path) {
    std::map<std::string, int> used;
    const auto item = [&](const LayerTree& each) {
      if (!each.is_leaf()) {
        trees(each, join(path, numbered(used, "container")));
      } else if (each.leaf()) {
        layer(*each.leaf(), join(path, numbered(used, keras::to_snake_case(each.leaf()->class_name()))));
      }
    };
    if (tree.is_list()) {
      for (const LayerTree& each : tree.parts()) item(each);
    } else {
      for (const auto& [name, each] : tree.entries()) item(each);
    }
  }

  void optimizer(const optimizers::Optimizer& optimizer, const std::string& path) {
    if (!seen_optimizers_.insert(&optimizer).second) return;
    objects_.push_back({path, optimizer.name(), state_of(optimizer), &optimizer});
    if (const optimizers::OptimizerPtr inner = optimizer.inner_optimizer()) {
      objects_.push_back({join(path, "inner_optimizer"), inner->name(), state_of(*inner, true), inner.get()});
    }
    std::map<std::string, int> used;
    for (const optimizers::OptimizerPtr& each : optimizer.optimizers()) {
      const std::string name = numbered(used, keras::to_snake_case(each->class_name()));
      objects_.push_back({join(join(path, "optimizers"), name), each->name(), state_of(*each), each.get()});
    }
  }

  static keras::OwnState state_of(const optimizers::Optimizer& optimizer, bool scaled = false) {
    keras::OwnState state;
    for (const distribute::VariablePtr& variable : saved_variables(optimizer, scaled))
      state.entries.push_back({variable});
    return state;
  }

  static std::string numbered(std::map<std::string, int>& used, const std::string& name) {
    const int count = used[name]++;
    return count == 0 ? name : name + "_" + std::to_string(count);
  }

  const LayerAttribute attribute_;
  std::vector<SavedObject> objects_;
  std::set<const Layer*> seen_;
  std::set<const optimizers::Optimizer*> seen_optimizers_;
};

}  // namespace

std::vector<SavedObject> saved_objects(ModelImpl& model, LayerAttribute attribute) {
  Walk walk(attribute);
  walk.model(model);
  return walk.take();
}

std::vector<SavedObject> saved_objects(const std::vector<std::pair<std::string, LayerTree>>& attributes) {
  Walk walk(LayerAttribute::kLayers);
  for (const auto& [name, tree] : attributes) walk.attribute(name, tree);
  return walk.take();
}

std::vector<distribute::VariablePtr> saved_variables(const optimizers::Optimizer& optimizer, bool scaled) {
  std::vector<distribute::VariablePtr> variables = optimizer.variables();
  const optimizers::OptimizerPtr inner = optimizer.inner_optimizer();
  if (!inner && !scaled) return variables;
  for (const auto& unknown : (inner ? *inner : optimizer).attribute_variables()) std::erase(variables, unknown);
  return variables;
}

LayerAttribute layer_attribute_of(const formats::KerasWeights& weights) {
  const bool old = std::ranges::any_of(weights.list(),
                                       [](const auto& info) { return info.name.starts_with(kCheckpointDependencies); });
  return old ? LayerAttribute::kCheckpointDependencies : LayerAttribute::kLayers;
}

}  // namespace lockstep::saving
