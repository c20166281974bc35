#include "lockstep/saving/keras_export.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/keras/layers/keras_tensor.h"

namespace lockstep::saved_model {
namespace {

using keras::CallContext;
using keras::Layer;

// "input_layer", "input_layer_3": a name nobody chose.
bool is_automatic(const std::string& name) {
  static const std::string kBase = "input_layer";
  if (!name.starts_with(kBase)) return false;
  const std::string rest = name.substr(kBase.size());
  return rest.empty() || (rest[0] == '_' && rest.find_first_not_of("0123456789", 1) == std::string::npos);
}

Shape open_batch(Shape shape) {
  if (shape.known_rank() && shape.rank() > 0) shape[0] = kUnknownDim;
  return shape;
}

// Without the names of inputs that nobody named.
Specs input_specs(const keras::Model& model) {
  if (model.impl()->is_subclassed()) {
    const auto spec = model.save_spec();
    if (!spec) {
      throw_failed_precondition(
          fmt::format("model '{}' cannot be saved: the shapes of its inputs are not known, because it has never been "
                      "called; call it on data, or "
                      "fit it, before saving",
                      model.name()));
    }
    return spec->map([&](const auto& info) { return TensorSpec(open_batch(info.shape), info.dtype); });
  }
  if (!model.built()) {
    throw_failed_precondition(fmt::format(
        "model '{}' cannot be saved: it has not been built; call it on data, or fit it, first", model.name()));
  }
  return model.input().map([&](const Tensor& input) {
    const keras::KerasTensor* symbol = keras::as_keras_tensor(input);
    const std::string name =
        symbol && !is_automatic(symbol->operation()->name()) ? symbol->operation()->name() : std::string();
    return TensorSpec(open_batch(input.shape()), input.dtype(), name);
  });
}

// The names base, base_1, ... for those that have none.
Specs named(const Specs& specs, const std::string& base) {
  int automatic = 0;
  return specs.map([&](TensorSpec spec) {
    if (spec.name.empty()) spec.name = automatic++ == 0 ? base : fmt::format("{}_{}", base, automatic - 1);
    return spec;
  });
}

Specs without_names(const Specs& specs) {
  return specs.map([](TensorSpec spec) {
    spec.name.clear();
    return spec;
  });
}

// Inputs by the names of the signature: a dict has them, others are in order. `layer` is for errors.
std::map<std::string, Tensor> feeds_of(const Signature& signature, const Structure& inputs, const std::string& layer) {
  std::map<std::string, Tensor> feeds;
  if (inputs.is_dict()) {
    for (const auto& [name, value] : inputs.entries()) feeds[name] = value.leaf();
  } else {
    const Tensors values = inputs.flatten();
    if (values.size() != signature.inputs().size()) {
      throw_invalid_argument(fmt::format("{}: the signature '{}' takes {} inputs, {} given", layer, signature.name(),
                                         signature.inputs().size(), values.size()));
    }
    for (std::size_t i = 0; i < values.size(); ++i) feeds[signature.inputs()[i].name] = values[i];
  }
  return feeds;
}

Structure dict_of(const std::map<std::string, Tensor>& results) {
  Structure::Dict out;
  for (const auto& [name, value] : results) out.emplace_back(name, Structure(value));
  return Structure::dict(std::move(out));
}

// A SavedModel's __call__ (or one of its signatures) with its variables.
class LoadedLayer : public Layer {
 public:
  LoadedLayer(LoadedModel loaded, const KerasLayerOptions& options)
      : Layer("KerasLayer", {.name = options.name}),
        loaded_(std::move(loaded)),
        signature_(options.signature),
        output_key_(options.output_key),
        arguments_(options.arguments) {
    if (signature_.empty() && !loaded_.has_function("__call__")) {
      const std::vector<std::string> names = loaded_.signature_names();
      const bool module = std::find(names.begin(), names.end(), "default") != names.end();
      signature_ = module ? "default" : "serving_default";
    }
    std::set<VariablePtr> trained;
    if (loaded_.has_child("trainable_variables")) {
      const auto trainable = loaded_.trainable_variables();
      trained.insert(trainable.begin(), trainable.end());
    }
    for (const VariablePtr& variable : loaded_.variables()) {
      adopt_weight(variable, trained.contains(variable));
      if (!trained.contains(variable)) variable->set_trainable(false);
    }
    set_built_in_constructor();
    set_trainable(options.trainable);
    if (options.trainable && trained.empty()) {
      log_warning(
          "KerasLayer '{}' is trainable but has no trainable weights: the SavedModel does not list any as "
          "trainable_variables of its root",
          name());
    }
  }
  std::string class_name() const override { return "KerasLayer"; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  bool casts_inputs() const override { return false; }

  Structure call(const Structure& inputs, const CallContext& context) override {
    if (signature_.empty()) {
      const Structure out = loaded_.call("__call__", {inputs}, context.training && trainable(), arguments_);
      if (trainable()) {  // in evaluation too, as penalties of Keras's layers
        for (const Tensor& loss : loaded_.regularization_losses()) add_loss(loss);
      }
      return out;
    }
    const Signature& signature = loaded_.signatures(signature_);
    const std::map<std::string, Tensor> results = signature(feeds_of(signature, inputs, "KerasLayer '" + name() + "'"));
    if (!output_key_.empty()) {
      const auto found = results.find(output_key_);
      if (found != results.end()) return found->second;
      std::vector<std::string> names;
      for (const auto& [name, value] : results) names.push_back(name);
      throw_invalid_argument(fmt::format("KerasLayer '{}': the signature '{}' has no output '{}'; its outputs are: {}",
                                         name(), signature_, output_key_, fmt::join(names, ", ")));
    }
    if (results.size() == 1) return results.begin()->second;
    return dict_of(results);
  }

 private:
  LoadedModel loaded_;
  std::string signature_, output_key_;
  std::map<std::string, Structure> arguments_;
};

// A function or a signature of a SavedModel, with the model's variables.
class EndpointLayer : public Layer {
 public:
  EndpointLayer(const std::string& filepath, layers::TFSMLayerOptions options)
      : Layer("TFSMLayer", {.name = options.name}), loaded_(load(filepath)), options_(std::move(options)) {
    require(options_.call_endpoint);
    if (!options_.call_training_endpoint.empty()) require(options_.call_training_endpoint);
    const auto trained = loaded_.trainable_variables();
    for (const VariablePtr& variable : loaded_.variables())
      adopt_weight(variable, std::find(trained.begin(), trained.end(), variable) != trained.end());
    set_built_in_constructor();
    set_trainable(options_.trainable);
  }
  std::string class_name() const override { return "TFSMLayer"; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  bool casts_inputs() const override { return false; }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const bool training = context.training && !options_.call_training_endpoint.empty();
    const std::string& endpoint = training ? options_.call_training_endpoint : options_.call_endpoint;
    if (loaded_.has_function(endpoint)) return loaded_.call(endpoint, {inputs});
    const Signature& signature = loaded_.signatures(endpoint);
    return dict_of(signature(feeds_of(signature, inputs, "TFSMLayer '" + name() + "'")));
  }

 private:
  void require(const std::string& endpoint) const {
    std::vector<std::string> known = loaded_.function_names();
    for (const std::string& signature : loaded_.signature_names()) known.push_back(signature);
    if (std::find(known.begin(), known.end(), endpoint) != known.end()) return;
    throw_invalid_argument(fmt::format("TFSMLayer '{}': the SavedModel has no endpoint '{}'; its endpoints are: {}",
                                       name(), endpoint, fmt::join(known, ", ")));
  }

  LoadedModel loaded_;
  layers::TFSMLayerOptions options_;
};

}  // namespace

Exportable exportable(const keras::Model& model, const Specs& input_signature) {
  const bool given = !input_signature.is_leaf() || input_signature.leaf().dtype != DType::kInvalid;
  const Specs specs = named(given ? input_signature : input_specs(model), "keras_tensor");
  Exportable out;
  const keras::ModelPtr impl = model.impl();
  const auto call = [impl](const std::vector<Structure>& arguments, bool training) {
    return (*impl)(arguments[0], {.training = training});
  };
  // As in Keras: without the argument, so that layers train which the model calls so, or which do by default.
  const auto serve = [impl](const std::vector<Structure>& arguments, bool) {
    if (impl->keras_version() <= 2) return (*impl)(arguments[0], {.training = false});
    return (*impl)(arguments[0]);
  };
  out.functions.push_back({{"serve"}, {{"inputs", specs}}, serve, false});
  out.functions.push_back({{"__call__"}, {{"inputs", specs}}, call, true});
  out.signatures = {{"serve", 0}, {"serving_default", 0}};
  out.variables = model.variables();
  for (const VariablePtr& variable : model.trainable_weights()) {
    if (const auto regularizer = impl->regularizer_of(variable.get()))
      out.regularization_losses.push_back([variable, regularizer] { return (*regularizer)(variable->read()); });
  }
  return out;
}

void save(const keras::Model& model, const std::string& path, const SaveOptions& options) {
  Exportable exported = exportable(model, named(without_names(input_specs(model)), "inputs"));
  exported.signatures = {{"serving_default", 0}};
  save(exported, path, options);
}

keras::LayerHandle KerasLayer(const LoadedModel& loaded, KerasLayerOptions options) {
  return keras::LayerHandle(std::make_shared<LoadedLayer>(loaded, options));
}
keras::LayerHandle KerasLayer(const std::string& path, KerasLayerOptions options) {
  return KerasLayer(load(path), std::move(options));
}

}  // namespace lockstep::saved_model

namespace lockstep::layers {

keras::LayerHandle TFSMLayer(const std::string& filepath, TFSMLayerOptions options) {
  return keras::LayerHandle(std::make_shared<saved_model::EndpointLayer>(filepath, std::move(options)));
}

}  // namespace lockstep::layers
