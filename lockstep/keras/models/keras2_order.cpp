#include "lockstep/keras/models/keras2_order_internal.h"

#include <algorithm>
#include <utility>

#include "lockstep/keras/layers/bias_add_internal.h"
#include "lockstep/keras/models/graph_walk_internal.h"
#include "lockstep/keras/models/model_impl.h"

namespace lockstep::keras {
namespace {

thread_local bool t_keras2_order = false;

bool same_symbol(const Tensor& a, const Tensor& b) {
  const KerasTensor* first = a.defined() ? as_keras_tensor(a) : nullptr;
  const KerasTensor* second = b.defined() ? as_keras_tensor(b) : nullptr;
  return first && second && &first->node() == &second->node() && first->tensor_index() == second->tensor_index();
}

// The tensors that a call reads in Keras 2: not the masks that its inputs have by themselves.
Tensors inputs_in_keras2(const Node& node) {
  const Tensors all = node.arguments.tensors();
  Tensors inputs;
  for (const Tensor& input : all) {
    const bool mask =
        std::ranges::any_of(all, [&](const Tensor& x) { return x.defined() && same_symbol(x.mask(), input); });
    if (!mask) inputs.push_back(input);
  }
  return inputs;
}

}  // namespace

OperationDepths depths_in_keras2(const std::vector<std::shared_ptr<Node>>& finished, const Structure& outputs) {
  std::unordered_map<const Node*, int> node_depth;
  OperationDepths depths;
  for (const Tensor& output : outputs.flatten()) node_depth.try_emplace(&as_keras_tensor(output)->node(), 0);
  for (auto it = finished.rbegin(); it != finished.rend(); ++it) {
    const auto found = node_depth.find(it->get());
    if (found == node_depth.end()) continue;
    int& of_operation = depths[(*it)->operation];
    const int depth = of_operation = std::max(found->second, of_operation);
    for (const Tensor& input : inputs_in_keras2(**it)) {
      const KerasTensor* symbol = as_keras_tensor(input);
      if (!symbol) continue;
      int& parent = node_depth[&symbol->node()];
      parent = std::max(parent, depth + 1);
    }
  }
  return depths;
}

namespace {

GraphWalk::Stops stops_at(const Structure& inputs) {
  GraphWalk::Stops stops;
  for (const Tensor& input : inputs.flatten()) {
    const KerasTensor& symbol = *as_keras_tensor(input);
    stops.try_emplace({&symbol.node(), symbol.tensor_index()}, input);
  }
  return stops;
}

}  // namespace

std::vector<LayerPtr> in_order_of_keras2(std::vector<LayerPtr> layers, const Structure& inputs,
                                         const Structure& outputs) {
  GraphWalk walk;
  const OperationDepths depths = depths_in_keras2(walk.finished(stops_at(inputs), outputs), outputs);
  const auto key = [&](const LayerPtr& layer) {
    const auto depth = depths.find(layer.get());
    const auto index = walk.index_of().find(layer.get());
    return std::pair(depth == depths.end() ? 0 : -depth->second, index == walk.index_of().end() ? -1 : index->second);
  };
  std::ranges::stable_sort(layers, {}, key);
  return layers;
}

Keras2Order::Keras2Order(bool active) : previous_(t_keras2_order) { t_keras2_order = active; }
Keras2Order::~Keras2Order() { t_keras2_order = previous_; }
bool Keras2Order::active() { return t_keras2_order; }

void set_keras_version(ModelImpl& model, int major) {
  model.set_keras_version(major);
  if (major == 3) return;
  for (Layer* layer : model.flatten_layers()) {
    if (auto* adder = dynamic_cast<BiasAdder*>(layer)) adder->add_bias_along_its_axis();
    if (auto* inner = dynamic_cast<ModelImpl*>(layer)) inner->set_keras_version(major);
  }
}

}  // namespace lockstep::keras
