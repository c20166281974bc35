// keras.models.clone_model.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/input_layer.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/models/keras2_order_internal.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::keras {
namespace {

// A new object of the same config, not built.
LayerPtr from_own_config(const Operation& operation) {
  if (const auto* const layer = dynamic_cast<const Layer*>(&operation)) {
    if (LayerPtr made = remade_layer(*layer)) return made;
  }
  const OldRules::Written rules;
  Json object = serialize_operation(operation);
  object.erase("build_config");
  return deserialize_layer(object);
}

// Clones each layer once.
class LayerCloner {
 public:
  explicit LayerCloner(const CloneOptions& options) : function_(options.clone_function) {}

  LayerPtr operator()(const LayerPtr& layer) {
    const auto known = clones_.find(layer.get());
    if (known != clones_.end()) return known->second;
    LayerPtr clone = dynamic_cast<const InputLayer*>(layer.get()) || !function_ ? from_own_config(*layer)
                                                                                : LayerPtr(function_(layer));
    if (!clone) {
      throw_invalid_argument(
          fmt::format("clone_model: invalid result of clone_function for layer '{}': found an empty handle, expected a "
                      "layer",
                      layer->name()));
    }
    return clones_[layer.get()] = std::move(clone);
  }

 private:
  std::function<LayerHandle(const LayerHandle&)> function_;
  std::map<const Layer*, LayerPtr> clones_;
};

Model clone_sequential(const ModelImpl& model, LayerCloner& clone) {
  std::vector<SequentialItem> layers;
  if (model.built()) {
    const KerasTensor& input = *as_keras_tensor(model.inputs().leaf());
    layers.emplace_back(clone(LayerPtr(std::dynamic_pointer_cast<Layer>(input.operation()))));
  }
  for (const LayerPtr& layer : model.layers()) layers.emplace_back(clone(layer));
  return Sequential(layers, model.name());
}

// Repeats the calls of the model with the clones of its layers.
Model clone_functional(const FunctionalImpl& model, LayerCloner& clone) {
  using Place = std::tuple<const Operation*, int, int>;  // which output of which call
  std::map<Place, Tensor> tensors;
  const auto lookup = [&](const Tensor& tensor) {
    const KerasTensor* const symbol = as_keras_tensor(tensor);
    return symbol ? tensors.at({symbol->operation().get(), symbol->node_index(), symbol->tensor_index()}) : tensor;
  };
  for (const std::shared_ptr<Node>& node : model.nodes()) {
    Operation& operation = *node->operation;
    const LayerPtr layer = std::dynamic_pointer_cast<Layer>(operation.shared_from_this());
    const LayerPtr cloned = layer ? clone(layer) : nullptr;
    Structure outputs;
    if (dynamic_cast<const InputLayer*>(cloned.get())) {
      outputs = cloned->outputs_of(0);
    } else {
      const CallArguments arguments = node->arguments.map_tensors(lookup);
      outputs = cloned ? cloned->invoke(arguments) : operation.run(arguments, std::nullopt);
    }
    const Tensors flat = outputs.flatten();
    for (std::size_t i = 0; i < flat.size(); ++i) tensors[{&operation, node->index, static_cast<int>(i)}] = flat[i];
  }
  return Model(model.inputs().map(lookup), model.outputs().map(lookup), model.name());
}

Model clone_as_made(const Model& model, const CloneOptions& options) {
  const ModelPtr& impl = model.impl();
  LayerCloner clone(options);
  if (impl->is_sequential()) return clone_sequential(*impl, clone);
  const auto* const functional = dynamic_cast<const FunctionalImpl*>(impl.get());
  const auto layers = impl->layers();
  const bool by_calls = functional && std::any_of(layers.begin(), layers.end(), [](const LayerPtr& layer) {
                          return layer->module().is_null() && layer->maker();
                        });
  if (!options.clone_function && !by_calls) return as_model(from_own_config(*impl));
  if (!functional) {
    throw_invalid_argument(
        fmt::format("clone_model: clone_function requires a Sequential or functional model; found '{}' ({}), whose "
                    "calls are those of its class",
                    model.name(), impl->class_name()));
  }
  return clone_functional(*functional, clone);
}

}  // namespace

Model clone_model(const Model& model, const CloneOptions& options) {
  const int version = model.impl()->keras_version();
  const Keras2Order order(version < 3);
  Model clone = clone_as_made(model, options);
  if (version < 3) set_keras_version(*clone.impl(), version);
  return clone;
}

}  // namespace lockstep::keras
