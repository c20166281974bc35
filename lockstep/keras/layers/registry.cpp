#include "lockstep/keras/layers/registry.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/conv_lstm_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/old_layers_internal.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {
namespace {

// Why a class that Keras knows is not read.
const char* refusal(std::string_view class_name) {
  if (class_name == "Lambda")
    return "a Lambda layer holds Python code, which is never run; replace it by a layer with a name";
  if (class_name == "TFSMLayer") return "a TFSMLayer names another file to load and run, which a model file may not do";
  if (class_name == "TorchModuleWrapper")
    return "a TorchModuleWrapper holds a pickle of Python code, which is never run";
  if (class_name == "JaxLayer" || class_name == "FlaxLayer") return "a layer around JAX code cannot run without Python";
  return nullptr;
}

// Nesting of configs being read on this thread.
thread_local int t_depth = 0;
struct DepthGuard {
  DepthGuard() {
    if (++t_depth > 100) {
      --t_depth;
      throw_invalid_argument("layers are nested more than 100 deep in the config");
    }
  }
  ~DepthGuard() { --t_depth; }
};

}  // namespace

const ClassTable& layer_classes() {
  static const auto* table = [] {
    auto* layers = new ClassTable("layer", "keras.layers", ClassNames::kExact);
    register_core_layers(*layers);
    register_embedding_layers(*layers);
    register_activation_layers(*layers);
    register_convolution_layers(*layers);
    register_locally_connected_layers(*layers);
    register_keras_1_layers(*layers);
    register_pooling_layers(*layers);
    register_normalization_layers(*layers);
    register_spectral_normalization(*layers);
    register_merging_layers(*layers);
    register_reshaping_layers(*layers);
    register_regularization_layers(*layers);
    register_recurrent_layers(*layers);
    register_conv_lstm_layers(*layers);
    register_attention_layers(*layers);
    register_preprocessing_layers(*layers);
    register_category_layers(*layers);
    register_lookup_layers(*layers);
    register_text_vectorization(*layers);
    register_feature_layers(*layers);
    register_image_augmentation(*layers);
    register_color_augmentation(*layers);
    register_equalization_layers(*layers);
    register_perspective_layers(*layers);
    register_combined_augmentation(*layers);
    register_elastic_layers(*layers);
    register_mixing_layers(*layers);
    register_bounding_box_layers(*layers);
    register_spectrogram_layers(*layers);
    register_pipeline(*layers);
    register_random_size_layers(*layers);
    register_image_layers(*layers);
    register_application_layers(*layers);
    register_models(*layers);
    return layers;
  }();
  return *table;
}

bool is_keras_module(std::string_view module) {
  return module == "keras" || module.starts_with("keras.") || module.starts_with("tensorflow.python.keras") ||
         module.starts_with("tf_keras") || module.starts_with("tensorflow.keras");
}

Json serialize_operation(const Operation& operation) {
  Json object = {{"module", operation.module()},
                 {"class_name", operation.class_name()},
                 {"config", operation.get_config()},
                 {"registered_name", operation.registered_name()}};
  const auto* user_layer = operation.module().is_null() ? dynamic_cast<const Layer*>(&operation) : nullptr;
  if (user_layer) {
    if (const RegisteredClass* row = find_registered(user_layer->registered_type())) object["class_name"] = row->name;
    object["config"] = with_base_keys(std::move(object["config"]), user_layer->Layer::get_config());
  }
  if (const auto* old = OldRules::Written::active() ? dynamic_cast<const OldRules*>(&operation) : nullptr) {
    for (const auto& [key, value] : old->old_rules().items()) object["config"][key] = value;
  }
  if (const auto* layer = dynamic_cast<const Layer*>(&operation)) {
    Json build_config = layer->get_build_config();
    if (!build_config.is_null()) object["build_config"] = std::move(build_config);
    if (dynamic_cast<const ModelImpl*>(layer))
      object["compile_config"] = Json::object();  // of a nested model: not kept
  }
  return object;
}

LayerPtr remade_layer(const Layer& layer) {
  if (!layer.maker() || find_registered(layer.registered_type())) return nullptr;
  LayerPtr made = layer.maker()();
  made->set_base_config(layer.Layer::get_config());
  made->set_maker(layer.maker());
  return made;
}

bool is_legacy_object(const Json& object) { return object.is_object() && !object.contains("module"); }

LayerPtr deserialize_layer(const Json& object) {
  const DepthGuard guard;
  ScopedCallLimit::count_layer();
  const auto parsed = parse_object_config(object);
  if (!parsed) throw_invalid_argument(fmt::format("{} is not the config of a layer", dump_json(object).substr(0, 120)));
  const ClassTable& registry = layer_classes();
  const ClassRow* row = registry.find(parsed->class_name);
  const bool built_in = row && (parsed->module.empty() || is_keras_module(parsed->module));
  const Json config = parsed->config.is_null() ? Json::object() : parsed->config;
  std::string name;
  if (config.is_object() && config.contains("name") && config["name"].is_string())
    name = config["name"].get<std::string>();
  const bool registered = names_registered<Layer>(*parsed, built_in);
  if (const char* why = registered ? nullptr : refusal(parsed->class_name)) {
    throw_unimplemented(fmt::format("layer '{}' ({}) is refused: {}", name, parsed->class_name, why));
  }
  if (!row && !registered) {
    std::vector<std::string> known = layer_classes().names();
    for (std::string& other : registered_names(typeid(Layer))) known.push_back(std::move(other));
    throw_not_found(fmt::format(
        "unknown layer class '{}' (layer '{}'{}){}; register a class of your own with "
        "LOCKSTEP_REGISTER_KERAS_SERIALIZABLE",
        parsed->class_name, name, parsed->module.empty() ? "" : fmt::format(" of module {}", parsed->module),
        did_you_mean(parsed->class_name, known)));
  }
  LayerPtr layer;
  try {
    layer = make_registered<Layer>(*parsed, built_in);
    if (layer) {
      layer->set_base_config(config);
    } else {
      layer = std::static_pointer_cast<Layer>(row->make(config));
      // The base class's argument, where the options of the class lack it.
      const auto regularizer = config.find("activity_regularizer");
      if (regularizer != config.end() && !layer->get_config().contains("activity_regularizer"))
        layer->activity_regularizer_ = regularizers::get(*regularizer);
    }
  } catch (const JsonError& error) {
    throw_invalid_argument(
        fmt::format("layer '{}' ({}): its config does not fit: {}", name, parsed->class_name, error.what()));
  }
  const auto build = object.find("build_config");
  if (build != object.end() && !build->is_null() && !layer->built()) layer->build_from_config(*build);
  return layer;
}

}  // namespace lockstep::keras

namespace lockstep::layers {
Json serialize(const keras::LayerHandle& layer) { return keras::serialize_operation(*layer); }
keras::LayerHandle deserialize(const Json& object) { return keras::deserialize_layer(object); }
}  // namespace lockstep::layers
