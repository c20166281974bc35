#include "lockstep/saving/automatic_masks_internal.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "lockstep/keras/layers/keras_tensor.h"

namespace lockstep::saving {
namespace {

using keras::Argument;
using keras::FunctionalImpl;
using keras::KerasTensor;
using keras::ModelImpl;

bool same_symbol(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return false;
  const KerasTensor* first = keras::as_keras_tensor(a);
  const KerasTensor* second = keras::as_keras_tensor(b);
  return first && second && &first->node() == &second->node() && first->tensor_index() == second->tensor_index();
}

void collect_tensors(const Argument& argument, Tensors& tensors) {
  if (argument.is_list()) {
    for (const Argument& item : argument.parts()) collect_tensors(item, tensors);
  } else if (argument.is_dict()) {
    for (const auto& [key, item] : argument.entries()) collect_tensors(item, tensors);
  } else if (argument.leaf().is_tensor()) {
    tensors.push_back(argument.leaf().tensor);
  }
}

void collect(const ModelImpl& model, const std::string& path, std::set<std::string>& found) {
  if (const auto* graph = dynamic_cast<const FunctionalImpl*>(&model)) {
    for (const auto& operation : graph->operations()) {
      int call = 0;
      for (const auto& node : operation->inbound_nodes()) {
        if (!graph->owns(node.get()) || node->arguments.tensors().empty()) continue;
        Tensors inputs;
        for (const Argument& argument : node->arguments.args) collect_tensors(argument, inputs);
        for (const auto& [key, argument] : node->arguments.kwargs) {
          Tensors masks;
          if (key.ends_with("mask")) collect_tensors(argument, masks);
          const bool automatic = std::all_of(masks.begin(), masks.end(), [&](const Tensor& mask) {
            return std::any_of(inputs.begin(), inputs.end(),
                               [&](const Tensor& x) { return same_symbol(x.mask(), mask); });
          });
          if (!masks.empty() && automatic) found.insert(fmt::format("{}/{}/{}/{}", path, operation->name(), call, key));
        }
        ++call;
      }
    }
  }
  for (const auto& layer : model.layers()) {
    if (const auto* nested = dynamic_cast<const ModelImpl*>(layer.get()))
      collect(*nested, path + "/" + nested->name(), found);
  }
}

}  // namespace

std::set<std::string> automatic_masks(const ModelImpl& model) {
  std::set<std::string> found;
  collect(model, model.name(), found);
  return found;
}

}  // namespace lockstep::saving
