#include "lockstep/saving/version_differences_internal.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "lockstep/base/log_internal.h"
#include "lockstep/keras/layers/bias_add_internal.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/trainer/trainer.h"

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

// A row of attention or of a Softmax whose mask hides everything: the layers that compute its weights by themselves.
bool weighs_masked_rows(const keras::Layer& layer) {
  const std::string name = layer.class_name();
  if (name != "MultiHeadAttention" && name != "Softmax") return false;
  const bool own = name == "Softmax" || layer.get_config().value("dropout", Json(0.0)) != Json(0.0) ||
                   is_given(layer, "return_attention_scores");
  return own && gets_masks(layer);
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
  if (weighs_masked_rows(layer))
    return "rows whose mask hides everything are zero in Keras 3, and see everything in Keras 2";
  return "";
}

// What Keras 3 computed otherwise until the named release, of a layer; empty where it computed the same.
std::string difference_of_release(const keras::Layer& layer, int minor, bool trains) {
  constexpr std::array kMerges = {"Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract"};
  const std::string name = layer.class_name();
  if (minor < 14 && trains && layer.activity_regularizer())
    return "its activity regularizer is divided by the batch size, as since Keras 3.14";
  if (minor < 10 && weighs_masked_rows(layer))
    return "rows whose mask hides everything are zero, as since Keras 3.10; they saw everything before";
  if (minor < 7 && dynamic_cast<const keras::BiasAdder*>(&layer) && has_axis_like_channels(layer))
    return "its bias is added along the last axis, as since Keras 3.7, and not along the channels";
  if (minor < 4 && std::ranges::find(kMerges, name) != kMerges.end() && gets_masks(layer))
    return "it combines masks as since Keras 3.4: a step that one of its inputs masks is that of the others";
  return "";
}

// 8 for "3.8.0"; -1 for other versions than those of Keras 3.
int minor_of_keras_3(std::string_view version) {
  int minor = -1;
  if (version.starts_with("3.")) std::from_chars(version.data() + 2, version.data() + version.size(), minor);
  return minor;
}

void warn_of_older_release(const ModelImpl& model, int minor, bool trains, const std::string& path) {
  for (const keras::LayerPtr& layer : model.layers()) {
    if (const auto* nested = dynamic_cast<const ModelImpl*>(layer.get()))
      warn_of_older_release(*nested, minor, trains, path);
    if (const std::string text = difference_of_release(*layer, minor, trains); !text.empty())
      log_warning("{}: layer '{}' of a model of Keras 3.{}: {}", path, layer->name(), minor, text);
  }
}

}  // namespace

void warn_of_older_release(const ModelImpl& model, std::string_view version, const std::string& path) {
  if (const int minor = minor_of_keras_3(version); minor >= 0)
    warn_of_older_release(model, minor, model.trainer().compiled(), path);
}

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
