#include "lockstep/saving/version_differences_internal.h"

#include <algorithm>

#include "lockstep/base/log_internal.h"
#include "lockstep/keras/layers/bias_add_internal.h"
#include "lockstep/keras/layers/keras_tensor.h"

namespace lockstep::saving {
namespace {

using keras::Argument;
using keras::ModelImpl;

template <typename Fits>
bool any_tensor(const Argument& argument, const Fits& fits) {
  const auto inner = [&](const Argument& item) { return any_tensor(item, fits); };
  if (argument.is_list()) return std::ranges::any_of(argument.parts(), inner);
  if (argument.is_dict())
    return std::ranges::any_of(argument.entries(), [&](const auto& entry) { return inner(entry.second); });
  return argument.leaf().is_tensor() && fits(argument.leaf().tensor);
}

// Whether a call of the layer has a mask, given or carried by an input. Attention of Keras 3 takes it from its inputs.
bool gets_masks(const keras::Layer& layer) {
  return std::ranges::any_of(layer.inbound_nodes(), [](const auto& node) {
    if (std::ranges::any_of(node->masks, [](const Tensor& mask) { return mask.defined(); })) return true;
    const auto& [args, kwargs] = node->arguments;
    return std::ranges::any_of(args,
                               [](const Argument& argument) {
                                 return any_tensor(argument, [](const Tensor& x) { return x.mask().defined(); });
                               }) ||
           std::ranges::any_of(kwargs, [](const auto& item) {
             return item.first.ends_with("mask") && any_tensor(item.second, [](const Tensor&) { return true; });
           });
  });
}

// Whether a call of the layer has a value for the argument.
bool is_given(const keras::Layer& layer, std::string_view keyword) {
  return std::ranges::any_of(layer.inbound_nodes(), [&](const auto& node) {
    const Argument* argument = node->arguments.find(keyword);
    return argument && argument->is_leaf() && !argument->leaf().is_tensor() && !argument->leaf().value.is_null();
  });
}

// Whether the number of channels, along axis 1, equals the extent of the last axis.
bool has_axis_like_channels(const keras::Layer& layer) {
  const Json config = layer.get_config();
  if (config.value("data_format", Json()) != Json("channels_first") || config.value("use_bias", Json()) != Json(true))
    return false;
  return std::ranges::any_of(layer.inbound_nodes(), [](const auto& node) {
    const Shape shape = node->outputs.flatten().front().shape;
    return shape.rank() > 2 && shape[1] > 1 && shape[1] == shape[-1];
  });
}

bool gets_integers(const keras::Layer& layer) {
  return std::ranges::any_of(layer.inbound_nodes(), [](const auto& node) {
    return std::ranges::any_of(node->arguments.args, [](const Argument& argument) {
      return any_tensor(argument, [](const Tensor& x) { return is_integer(x.dtype()); });
    });
  });
}

// Empty where both versions compute the same.
std::string difference(const ModelImpl& model, const keras::Layer& layer) {
  const std::string name = layer.class_name();
  // In a Sequential model each call has the argument.
  if (model.keras_version() < 3 && !model.is_sequential() && is_given(layer, "training"))
    return "in Keras 3 the argument training of the model's call replaces that of its call; in Keras 2 it does not";
  if (dynamic_cast<const keras::BiasAdder*>(&layer) && has_axis_like_channels(layer))
    return "its bias is added along the last axis in Keras 3, and along the channels in Keras 2";
  if (name == "RandomHeight" || name == "RandomWidth") return "Keras 3 has no such class";
  if (name == "BatchNormalization" && layer.get_config().at("axis").is_array())
    return "Keras 3 does not read its list of several axes";
  if (name == "RandomCrop") return "in inference it returns its input in Keras 3, and resizes it in Keras 2";
  if (name == "Resizing" && gets_integers(layer))
    return "Keras 2 converts integers to the layer's dtype, Keras 3 keeps them as integers";
  if (name != "MultiHeadAttention" && name != "Softmax") return "";
  const Json config = layer.get_config();
  if (!config.value("activity_regularizer", Json()).is_null() && name != "Softmax")
    return "its activity regularizer is that of each projection in Keras 3, and of the whole layer in Keras 2";
  const bool zeroes = name == "Softmax" || config.value("dropout", Json(0.0)) != Json(0.0) ||
                      is_given(layer, "return_attention_scores");
  if (zeroes && gets_masks(layer))
    return "rows whose mask hides everything are zero in Keras 3, and see everything in Keras 2";
  return "";
}

}  // namespace

void warn_of_differences(const ModelImpl& model, int major, const std::string& path) {
  if ((model.keras_version() < 3) == (major < 3)) return;
  for (const keras::LayerPtr& layer : model.layers()) {
    if (const auto* nested = dynamic_cast<const ModelImpl*>(layer.get())) warn_of_differences(*nested, major, path);
    if (const std::string text = difference(model, *layer); !text.empty()) {
      log_warning("{}: layer '{}' of a model of Keras {} has the rules of Keras {} there: {}", path, layer->name(),
                  model.keras_version(), major, text);
    }
  }
}

}  // namespace lockstep::saving
