#include "lockstep/keras/layers/registry.h"

#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/object_config.h"

namespace lockstep::keras {
namespace {

std::mutex& registry_mutex() {
  static std::mutex mutex;
  return mutex;
}

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

LayerRegistry& LayerRegistry::instance() {
  static auto* registry = new LayerRegistry();
  return *registry;
}

LayerRegistry::LayerRegistry() {
  register_core_layers(*this);
  register_activation_layers(*this);
  register_convolution_layers(*this);
  register_pooling_layers(*this);
  register_normalization_layers(*this);
  register_merging_layers(*this);
  register_reshaping_layers(*this);
  register_regularization_layers(*this);
  register_recurrent_layers(*this);
  register_attention_layers(*this);
  register_preprocessing_layers(*this);
  register_image_layers(*this);
  register_models(*this);
}

void LayerRegistry::add(LayerClass row) {
  const std::lock_guard lock(registry_mutex());
  auto shared = std::make_shared<LayerClass>(std::move(row));
  rows_[shared->name] = shared;
  for (const std::string& alias : shared->aliases) rows_[alias] = shared;
}

const LayerClass* LayerRegistry::find(std::string_view name) const {
  const std::lock_guard lock(registry_mutex());
  const auto it = rows_.find(name);
  return it == rows_.end() ? nullptr : it->second.get();
}

std::vector<std::string> LayerRegistry::names() const {
  const std::lock_guard lock(registry_mutex());
  std::vector<std::string> out;
  for (const auto& [name, row] : rows_) out.push_back(name);
  return out;
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
  if (const auto* layer = dynamic_cast<const Layer*>(&operation)) {
    Json build_config = layer->get_build_config();
    if (!build_config.is_null()) object["build_config"] = std::move(build_config);
    if (dynamic_cast<const ModelImpl*>(layer))
      object["compile_config"] = Json::object();  // of a nested model: not kept
  }
  return object;
}

bool is_legacy_object(const Json& object) { return object.is_object() && !object.contains("module"); }

LayerPtr deserialize_layer(const Json& object) {
  const DepthGuard guard;
  const auto parsed = parse_object_config(object);
  if (!parsed) throw_invalid_argument(fmt::format("{} is not the config of a layer", dump_json(object).substr(0, 120)));
  const LayerRegistry& registry = LayerRegistry::instance();
  const LayerClass* row = registry.find(parsed->class_name);
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
    std::vector<std::string> known = registry.names();
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
      layer = row->from_config(config);
    }
  } catch (const Json::exception& error) {
    throw_invalid_argument(
        fmt::format("layer '{}' ({}): its config does not fit: {}", name, parsed->class_name, error.what()));
  }
  const auto build = object.find("build_config");
  if (build != object.end() && !build->is_null() && !layer->built()) layer->build_from_config(*build);
  return layer;
}

}  // namespace lockstep::keras
