#include "lockstep/keras/plot_graph_internal.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/models/model_impl.h"

namespace lockstep::utils {
namespace {

using keras::FunctionalImpl;
using keras::KerasTensor;
using keras::LayerPtr;
using keras::ModelImpl;
using keras::Node;
using keras::Operation;
using keras::OperationPtr;
using keras::SequentialImpl;

// As Python prints a tuple.
std::string tuple_text(const Shape& shape) {
  if (!shape.known_rank()) return "None";
  std::string text = "(";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += shape[axis] == kUnknownDim ? "None" : std::to_string(shape[axis]);
  }
  return text + (shape.rank() == 1 ? ",)" : ")");
}

// As Python prints a structure of them; the braces of an outer dictionary are left out, as in Keras.
template <typename T, typename Print>
std::string structure_text(const keras::Nested<T>& values, const Print& print, bool outer = true) {
  if (values.is_leaf()) return print(values.leaf());
  std::vector<std::string> parts;
  if (values.is_list()) {
    for (const auto& item : values.parts()) parts.push_back(structure_text(item, print, false));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  for (const auto& [key, item] : values.entries()) {
    const std::string text = structure_text(item, print, false);
    parts.push_back(outer ? fmt::format("{}: {}", key, text) : fmt::format("'{}': {}", key, text));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string shapes_text(const keras::Nested<keras::TensorInfo>& infos) {
  return structure_text(infos, [](const keras::TensorInfo& info) { return tuple_text(info.shape); });
}

// Of the tensors that the first call of the operation got.
std::string input_shapes(const Operation& operation) {
  const Tensors inputs = operation.inbound_nodes().front()->arguments.tensors();
  std::vector<std::string> texts;
  for (const Tensor& input : inputs) texts.push_back(tuple_text(input.shape()));
  return texts.size() == 1 ? texts[0] : fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string dtypes_text(const keras::Nested<keras::TensorInfo>& infos) {
  const bool one = infos.is_leaf();
  return structure_text(infos, [&](const keras::TensorInfo& info) {
    return one ? std::string(dtype_name(info.dtype)) : fmt::format("'{}'", dtype_name(info.dtype));
  });
}

// The name of the function, or of the layer, in the attribute `activation`.
std::string activation_name(const Operation& operation) {
  if (!dynamic_cast<const keras::Layer*>(&operation)) return "";
  const Json config = operation.get_config();
  if (!config.is_object() || !config.contains("activation")) return "";
  const Json& activation = config["activation"];
  if (activation.is_string()) return activation.get<std::string>();
  if (!activation.is_object()) return "";
  const Json& inner = activation.value("config", Json());
  if (inner.is_string()) return inner.get<std::string>();
  if (inner.is_object() && inner.contains("name") && inner["name"].is_string()) return inner["name"].get<std::string>();
  const Json name = activation.value("class_name", Json());
  return name.is_string() ? name.get<std::string>() : "";
}

class Collector {
 public:
  explicit Collector(const PlotOptions& options) : options_(options) {}

  PlotGraph collect(ModelImpl& model) {
    if (!model.is_functional() && !model.is_sequential()) {
      graph_.items.push_back(box(model));
    } else {
      add(model, graph_.items);
    }
    return std::move(graph_);
  }

 private:
  static bool is_graph(const Operation& operation) {
    const auto* model = dynamic_cast<const ModelImpl*>(&operation);
    return model && (model->is_functional() || model->is_sequential());
  }

  PlotItem box(const Operation& operation) const {
    PlotItem item{.operation = &operation, .class_name = operation.class_name(), .name = operation.name()};
    if (options_.show_layer_activations) item.activation = activation_name(operation);
    const bool called = !operation.inbound_nodes().empty();
    const Node* const call = called ? operation.inbound_nodes().front().get() : nullptr;
    if (options_.show_shapes) {
      if (item.class_name != "InputLayer")
        item.cells.push_back({"Input shape: ", called ? input_shapes(operation) : "?"});
      item.cells.push_back({"Output shape: ", called ? shapes_text(call->outputs) : "?"});
    }
    if (options_.show_dtype) item.cells.push_back({"Output dtype: ", called ? dtypes_text(call->outputs) : "?"});
    const auto* layer = dynamic_cast<const keras::Layer*>(&operation);
    if (options_.show_trainable && layer && !layer->weights().empty()) {
      item.cells.push_back(layer->trainable() ? PlotText{"", "Trainable", "forestgreen"}
                                              : PlotText{"", "Non-trainable", "firebrick"});
    }
    return item;
  }

  void add(const ModelImpl& model, std::vector<PlotItem>& items) {
    std::vector<OperationPtr> operations;
    if (model.is_sequential()) {
      for (const LayerPtr& layer : model.layers()) operations.push_back(layer);
    } else {
      operations = model.operations();
    }
    for (const OperationPtr& operation : operations) {
      if (options_.expand_nested && is_graph(*operation)) {
        PlotItem frame{.name = operation->name()};
        add(dynamic_cast<const ModelImpl&>(*operation), frame.items);
        items.push_back(std::move(frame));
      } else {
        items.push_back(box(*operation));
      }
    }
    if (model.is_sequential() && !options_.expand_nested) {
      for (std::size_t i = 1; i < operations.size(); ++i) connect(*operations[i - 1], *operations[i]);
      return;
    }
    const auto* const functional = dynamic_cast<const FunctionalImpl*>(&model);
    // The input of a Sequential has no box: the edge to it ends at the first layer.
    for (std::size_t i = functional ? 0 : 1; i < operations.size(); ++i) {
      for (const auto& node : operations[i]->inbound_nodes()) {
        if (functional && !functional->owns(node.get())) continue;
        add_edges(*node);
      }
    }
  }

  void add_edges(const Node& node) {
    const Tensors inputs = node.arguments.tensors();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const KerasTensor* const input = keras::as_keras_tensor(inputs[i]);
      if (!input) continue;
      if (!options_.expand_nested) {
        connect(*input->operation(), *node.operation);
        continue;
      }
      const Operation* source = input->operation().get();
      int output = input->tensor_index();
      while (is_graph(*source)) {
        const auto outputs = dynamic_cast<const ModelImpl&>(*source).outputs().flatten();
        const KerasTensor* const made = keras::as_keras_tensor(outputs.at(static_cast<std::size_t>(output)));
        source = made->operation().get();
        output = made->tensor_index();
      }
      const Operation* target = node.operation;
      while (is_graph(*target)) {
        const auto& model = dynamic_cast<const ModelImpl&>(*target);
        if (model.is_sequential()) {
          target = model.layers().front().get();
        } else {
          target = keras::as_keras_tensor(model.inputs().flatten().at(i))->operation().get();
        }
      }
      connect(*source, *target);
    }
  }

  void connect(const Operation& source, const Operation& target) {
    const std::pair edge(&source, &target);
    if (std::find(graph_.edges.begin(), graph_.edges.end(), edge) == graph_.edges.end()) graph_.edges.push_back(edge);
  }

  const PlotOptions& options_;
  PlotGraph graph_;
};

}  // namespace

PlotGraph plot_graph(const keras::Model& model, const PlotOptions& options) {
  constexpr std::array<std::string_view, 4> kDirections = {"TB", "BT", "LR", "RL"};
  if (std::find(kDirections.begin(), kDirections.end(), options.rankdir) == kDirections.end())
    throw_invalid_argument(fmt::format("plot_model: unknown rankdir '{}'; expected TB, BT, LR or RL", options.rankdir));
  if (!model.built())
    throw_failed_precondition(fmt::format(
        "plot_model requires a model that has been built; call '{}' on data or build it first", model.name()));
  return Collector(options).collect(*model.impl());
}

std::pair<std::string, std::string> plot_title(const PlotItem& item, const PlotOptions& options) {
  if (!options.show_layer_names) return {item.class_name, ""};
  return {item.name, fmt::format(" ({})", item.class_name)};
}

std::string plot_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

}  // namespace lockstep::utils
