#include "lockstep/saving/keras2_saved_model_internal.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/formats/keras_metadata_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/keras/models/keras2_order_internal.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/saving/assign_internal.h"
#include "lockstep/saving/keras2_optimizer_internal.h"
#include "lockstep/saving/legacy_saving_internal.h"
#include "lockstep/saving/old_configs_internal.h"
#include "lockstep/saving/old_json_internal.h"
#include "lockstep/saving/old_weights_internal.h"
#include "lockstep/train/optimizer_slots_internal.h"
#include "lockstep/train/restoration_internal.h"

namespace lockstep::saving {
namespace {

using distribute::VariablePtr;
using formats::CheckpointGraph;
using keras::ModelImpl;

constexpr std::string_view kNetwork = "_tf_keras_network", kSequential = "_tf_keras_sequential",
                           kModel = "_tf_keras_model";

[[noreturn]] void throw_no_layers(const std::string& path, const std::string& why) {
  throw_unimplemented(fmt::format(
      "{}: {}, so the SavedModel cannot be opened as a Keras model; `lockstep predict` runs its signatures, "
      "and saved_model::KerasLayer(path, {{.trainable = true}}) trains it as a layer of a new model",
      path, why));
}

// Assigns the values of saved objects to a model.
class Weights {
 public:
  Weights(const std::string& path, const formats::BundleReader& reader, const CheckpointGraph& graph,
          Assignment& assignment)
      : path_(path), reader_(reader), graph_(graph), assignment_(assignment) {}

  // `entries` are the layers of the config, in which Keras 2 counts operations as layers. A Sequential's InputLayer
  // does not count.
  void add_model(ModelImpl& model, const Json& entries, int root = 0) {
    std::map<std::string, keras::LayerPtr> by_name;
    for (const keras::LayerPtr& layer : model.layers()) by_name.emplace(layer->name(), layer);
    int number = 0;
    for (const Json& entry : entries) {
      const Json& config = entry.at("config");
      std::string name = text_of(entry, "name");
      if (name.empty()) name = text_of(config, "name");
      if (model.is_sequential() && entry.at("class_name") == Json("InputLayer")) continue;
      const auto layer = by_name.find(name);
      const auto node = graph_.nodes[static_cast<std::size_t>(root)].child(fmt::format("layer-{}", number++));
      if (layer == by_name.end() || layer->second->weights().empty()) continue;
      if (!node) throw_data_loss(fmt::format("{}: layer '{}' has no object in the SavedModel", path_, name));
      if (auto* nested = dynamic_cast<ModelImpl*>(layer->second.get())) {
        add_model(*nested, config.at("layers"), *node);
      } else {
        add_layer(*layer->second, *node);
      }
    }
  }

  // A slot's values by the number of the variable's node; null for a variable that is not the model's.
  VariablePtr variable_of(int node) const {
    const auto found = variables_.find(node);
    return found == variables_.end() ? nullptr : found->second;
  }
  // The key of a variable's value.
  const std::string* key_of(int node) const {
    const auto* value = graph_.nodes.at(static_cast<std::size_t>(node)).attribute(formats::kVariableValue);
    return value ? &value->key : nullptr;
  }

 private:
  struct SavedVariable {
    std::string name;  // its attribute of the layer, or of a part of it
    int node = 0;
  };
  // All below an object, in the order of its attributes.
  void collect(int node, std::set<int>& seen, std::vector<SavedVariable>& out) const {
    for (const auto& [name, child] : graph_.nodes.at(static_cast<std::size_t>(node)).children) {
      if (!seen.insert(child).second) continue;
      if (key_of(child)) {
        out.push_back({name, child});
      } else {
        collect(child, seen, out);
      }
    }
  }
  // Saved without traces (save_traces=False), an object has no lists: its variables are found by their attributes.
  std::vector<int> nodes_by_name(const keras::Layer& layer, const std::vector<VariablePtr>& weights, int node) const {
    std::set<int> seen{node};
    std::vector<SavedVariable> saved;
    collect(node, seen, saved);
    std::vector<int> nodes;
    for (const VariablePtr& variable : weights) {
      const std::string name = variable->path().substr(variable->path().rfind('/') + 1);
      auto found =
          std::find_if(saved.begin(), saved.end(), [&](const SavedVariable& each) { return each.name == name; });
      if (found == saved.end()) {  // Keras 2's depthwise_kernel
        found = std::find_if(saved.begin(), saved.end(),
                             [&](const SavedVariable& each) { return each.name.ends_with("_" + name); });
      }
      if (found == saved.end())
        throw_data_loss(
            fmt::format("{}: layer '{}' has no value for '{}' in the SavedModel", path_, layer.name(), name));
      nodes.push_back(found->node);
      saved.erase(found);
    }
    return nodes;
  }

  // The layer's object lists its weights in Keras 2's order.
  void add_layer(const keras::Layer& layer, int node) {
    const auto list = graph_.nodes[static_cast<std::size_t>(node)].child("variables");
    std::vector<VariablePtr> weights = layer.trainable_weights();
    for (const VariablePtr& variable : layer.non_trainable_weights()) weights.push_back(variable);
    std::vector<int> nodes;
    if (!list) nodes = nodes_by_name(layer, weights, node);
    for (int i = 0; list; ++i) {
      const auto item = graph_.nodes[static_cast<std::size_t>(*list)].child(std::to_string(i));
      if (!item) break;
      if (key_of(*item)) nodes.push_back(*item);
    }
    std::vector<Tensor> values;
    std::vector<Shape> shapes;
    for (const int each : nodes) {
      values.push_back(Tensor::from_data(reader_.read(*key_of(each))));
      shapes.push_back(values.back().shape());
    }
    const WeightsOrigin origin{.major = 2, .flipped_kernels = false};
    const bool converted = in_old_layout(layer, shapes, origin);
    if (converted) values = old_weights(layer, std::move(values), origin);
    if (weights.size() != values.size())
      throw_invalid_argument(fmt::format("{}: layer '{}' expects {} weights, but the saved layer has {}", path_,
                                         layer.name(), weights.size(), values.size()));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!converted) variables_[nodes[i]] = weights[i];
      assignment_.add(weights[i], std::move(values[i]), fmt::format("variables/{}", i),
                      fmt::format("{}: layer '{}'", path_, layer.name()));
    }
  }

  const std::string& path_;
  const formats::BundleReader& reader_;
  const CheckpointGraph& graph_;
  Assignment& assignment_;
  std::map<int, VariablePtr> variables_;
};

// Numbered variables: the iteration, then the slots, whose names tell what they are.
std::vector<std::pair<VariablePtr, std::string>> later_state(const optimizers::Optimizer& optimizer,
                                                             const CheckpointGraph& graph, int list) {
  std::vector<std::string> names, keys;
  const auto& node = graph.nodes[static_cast<std::size_t>(list)];
  std::map<int, int> numbered;
  for (const auto& [name, child] : node.children) {
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos && name.size() < 9)
      numbered[std::stoi(name)] = child;
  }
  for (const auto& [number, child] : numbered) {
    const auto* value = graph.nodes[static_cast<std::size_t>(child)].attribute(formats::kVariableValue);
    if (!value) return {};
    const bool iteration = number == 0 || value->full_name.starts_with("iteration");
    names.push_back(iteration ? "iteration" : value->full_name);
    keys.push_back(value->key);
  }
  if (names.empty()) return {};
  if (names[0] != "iteration") {
    names.insert(names.begin(), "iteration");
    keys.insert(keys.begin(), "");
  }
  const std::vector<VariablePtr> targets = keras2_targets(optimizer, {names.begin(), names.end()});
  std::vector<std::pair<VariablePtr, std::string>> state;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] && !keys[i].empty()) state.emplace_back(targets[i], keys[i]);
  }
  return state;
}

// Each slot names its variable.
std::vector<std::pair<VariablePtr, std::string>> first_state(const optimizers::Optimizer& optimizer,
                                                             const formats::CheckpointNode& node,
                                                             const Weights& weights) {
  std::vector<std::pair<VariablePtr, std::string>> state;
  for (const train::OptimizerSlots& slots : train::slots_of(optimizer)) {
    for (std::size_t i = 0; i < slots.slots.size(); ++i) {
      const auto saved = std::find_if(node.slots.begin(), node.slots.end(), [&](const formats::CheckpointSlot& slot) {
        return slot.name == slots.kind->keras2_first && weights.variable_of(slot.variable) == slots.originals[i];
      });
      const std::string* key = saved == node.slots.end() ? nullptr : weights.key_of(saved->slot);
      if (!key) return {};
      state.emplace_back(slots.slots[i], *key);
    }
  }
  return state;
}

void add_optimizer(const optimizers::Optimizer& outer, const std::string& path, const formats::BundleReader& reader,
                   const CheckpointGraph& graph, const Weights& weights, Assignment& assignment) {
  const auto inner = outer.inner_optimizer();  // of one that scales losses
  const optimizers::Optimizer& optimizer = inner ? *inner : outer;
  const auto number = graph.nodes[0].child("optimizer");
  if (!number) return;
  const formats::CheckpointNode& node = graph.nodes[static_cast<std::size_t>(*number)];
  const auto list = node.child("_variables");
  auto state = list ? later_state(optimizer, graph, *list) : first_state(optimizer, node, weights);
  const bool stateless = train::slots_of(optimizer).empty();
  const bool fits = std::all_of(state.begin(), state.end(), [&](const auto& item) {
    return item.first->shape() == reader.info(item.second).shape;
  });
  const auto children = [&](int child) { return graph.nodes[static_cast<std::size_t>(child)].children.size(); };
  const bool never_built = node.slots.empty() && (!list || children(*list) <= 1);
  if ((state.empty() && !stateless && !never_built) || !fits) {
    log_warning("{}: the state of optimizer '{}' does not fit and is not loaded", path, optimizer.name());
    return;
  }
  const auto add = [&](const char* name, const VariablePtr& variable) {
    const auto child = node.child(name);
    if (const std::string* key = child ? weights.key_of(*child) : nullptr; key && variable)
      state.emplace_back(variable, *key);
  };
  for (const char* name : {"_iterations", "iter"}) add(name, optimizer.iterations_variable());
  add("momentum_cache", momentum_product(optimizer));
  if (const auto scale = node.child("loss_scale"); scale && inner) {
    const formats::CheckpointNode& values = graph.nodes[static_cast<std::size_t>(*scale)];
    const std::pair<const char*, VariablePtr> own[] = {{"current_loss_scale", outer.dynamic_scale()},
                                                       {"good_steps", outer.step_counter()}};
    for (const auto& [name, variable] : own) {
      const auto child = values.child(name);
      if (const std::string* key = child ? weights.key_of(*child) : nullptr) state.emplace_back(variable, *key);
    }
  }
  for (const auto& [variable, key] : state) assignment.add(variable, reader, reader.info(key), path + ": optimizer");
}

}  // namespace

keras::Model load_keras2_saved_model(const std::string& path, bool compile) {
  const auto metadata = formats::read_keras_metadata(path, nullptr);
  if (!metadata) throw_no_layers(path, "it contains no Keras metadata (it was exported, or written by other programs)");
  if (metadata->identifier == kModel)
    throw_no_layers(path, "its Keras metadata is of a subclassed model, whose layers only its Python code connects");
  if (metadata->identifier != kNetwork && metadata->identifier != kSequential)
    throw_no_layers(path, fmt::format("it contains a {}, not a model", metadata->identifier));
  const Json& json = metadata->json;
  std::string version = text_of(json, "keras_version");
  if (!version.starts_with("2")) version = "2";
  const Json config = {{"class_name", json.at("class_name")}, {"config", json.at("config")}};
  const formats::BundleReader reader(train::saved_model_variables(path));
  const auto graph = train::Restoration::read_graph(reader.prefix());
  if (!graph) throw_data_loss(fmt::format("{}: the variables have no object graph", path));
  std::int64_t bytes = 0;
  for (const formats::TensorInfo& info : reader.list()) bytes += info.shape.num_elements().value_or(0) * 8;
  keras::ModelPtr model;
  {
    const keras::LoadScope limit(4 * bytes + (std::int64_t{64} << 20));
    model = model_of_config(config, version + ".");
  }
  if (!model) throw_invalid_argument(fmt::format("{}: the Keras metadata is of a layer, not of a model", path));
  if (!model->built() && json.contains("build_input_shape") && !json.at("build_input_shape").is_null())
    model->build_from_config({{"input_shape", json.at("build_input_shape")}});
  Assignment assignment;
  Weights weights(path, reader, *graph, assignment);
  weights.add_model(*model, json.at("config").at("layers"));
  keras::Trainer& trainer = model->trainer();
  if (compile && json.contains("training_config") && json.at("training_config").is_object()) {
    Json training = json.at("training_config");
    if (training.contains("optimizer_config"))
      training["optimizer_config"] = with_module_of_optimizer(training["optimizer_config"]);
    compile_if_known(trainer, training, path);
    if (model->built() && trainer.optimizer()) {
      trainer.build_optimizer();
      add_optimizer(*trainer.optimizer(), path, reader, *graph, weights, assignment);
    }
  }
  assignment.commit();
  keras::set_keras_version(*model, 2);
  return keras::Model(model);
}

}  // namespace lockstep::saving
