#include "lockstep/saving/legacy_saving_internal.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/models/keras2_order_internal.h"
#include "lockstep/keras/preprocessing/vocabulary_internal.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/saving/assign_internal.h"
#include "lockstep/saving/bin_boundaries_internal.h"
#include "lockstep/saving/compile_arguments_internal.h"
#include "lockstep/saving/keras2_config_internal.h"
#include "lockstep/saving/keras2_optimizer_internal.h"
#include "lockstep/saving/object_paths_internal.h"
#include "lockstep/saving/old_configs_internal.h"
#include "lockstep/saving/old_weights_internal.h"
#include "lockstep/saving/version_differences_internal.h"

namespace lockstep::saving {
namespace {

using distribute::VariablePtr;
using keras::LayerPtr;
using keras::ModelImpl;
using keras::Trainer;

// A layer object without module and registered_name, as the legacy form has it; nested models likewise.
Json legacy_object(const Json& object) {
  Json out = Json::object();
  // The legacy form names Python's class, which is another than the public name for one layer.
  out["class_name"] =
      object.at("class_name") == "GroupQueryAttention" ? Json("GroupedQueryAttention") : object.at("class_name");
  if (const Json& registered = object.value("registered_name", Json());
      registered.is_string() && registered.text().find('>') != std::string::npos) {
    out["class_name"] = registered;
  }
  Json config = object.at("config");
  if (config.is_object() && config.contains("layers") && config["layers"].is_array()) {
    for (Json& layer : config["layers"]) layer = legacy_object(layer);
  }
  out["config"] = std::move(config);
  for (const char* key : {"name", "inbound_nodes"}) {
    if (object.contains(key)) out[key] = object[key];
  }
  return out;
}

// The weights of float8 layers, whose scales are trainable in Keras.
void collect_float8(const keras::Layer& layer, std::set<VariablePtr>& found) {
  if (layer.trainable() && layer.dtype_policy().quantization_mode() == "float8") {
    for (const keras::Weight& weight : layer.own_weights()) found.insert(weight.variable);
  }
  for (const keras::LayerPtr& part : layer.sublayers()) collect_float8(*part, found);
}

// A layer's weights in the legacy order: those trainable now, then the others.
std::vector<VariablePtr> legacy_weights(const keras::Layer& layer) {
  std::set<VariablePtr> float8;
  collect_float8(layer, float8);
  std::vector<VariablePtr> weights = layer.weights();
  std::stable_partition(weights.begin(), weights.end(), [&](const VariablePtr& variable) {
    return layer.trainable() && (variable->trainable() || float8.contains(variable));
  });
  return weights;
}

Json training_config(const Json& compile) {
  if (compile.empty()) return nullptr;
  Json config = Json::object();
  for (const char* key :
       {"loss", "loss_weights", "metrics", "weighted_metrics", "run_eagerly", "steps_per_execution", "jit_compile"}) {
    config[key] = compile.at(key);
  }
  config["optimizer_config"] = legacy_object(compile["optimizer"]);
  return config;
}

// A layer's weights in Keras 3's layout; `saved` are the file's.
std::vector<Tensor> converted_weights(const keras::Layer& layer, const formats::LegacyLayer& saved,
                                      const formats::LegacyH5& file, const WeightsOrigin& origin) {
  std::vector<Tensor> values;
  for (const auto& weight : saved.weights) values.push_back(Tensor::from_data(file.read(weight.name)));
  return old_weights(layer, std::move(values), origin);
}

void plan_layer(const keras::Layer& layer, const formats::LegacyLayer& saved, const formats::LegacyH5& file,
                const std::string& path, bool skip_mismatch, Assignment& assignment) {
  const std::vector<VariablePtr> weights = legacy_weights(layer);
  std::vector<Shape> shapes;
  for (const auto& weight : saved.weights) shapes.push_back(weight.shape);
  const WeightsOrigin origin = weights_origin(file.keras_version(), file.backend());
  std::vector<Tensor> values;
  if (in_old_layout(layer, shapes, origin)) {
    values = converted_weights(layer, saved, file, origin);
    shapes.clear();
    for (const Tensor& value : values) shapes.push_back(value.shape());
  }
  if (weights.size() != shapes.size()) {
    const std::string text = fmt::format("{}: layer '{}' expects {} weights, but the saved layer '{}' has {}", path,
                                         layer.name(), weights.size(), saved.name, saved.weights.size());
    if (!skip_mismatch) throw_invalid_argument(text);
    log_warning("{}; it is left alone", text);
    return;
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (skip_mismatch && !(weights[i]->shape() == shapes[i])) {
      log_warning("{}: '{}' has shape {}, but the file holds {}; it is left alone", path, weights[i]->path(),
                  weights[i]->shape().to_string(), shapes[i].to_string());
      continue;
    }
    const std::string owner = fmt::format("{}: layer '{}'", path, layer.name());
    if (values.empty()) {
      assignment.add(weights[i], file, saved.weights[i], owner);
    } else {
      assignment.add(weights[i], std::move(values[i]), saved.name, owner);
    }
  }
}

// Layers that own weights, ours and the file's.
struct Pairing {
  std::vector<LayerPtr> ours;
  std::vector<const formats::LegacyLayer*> theirs;
};

Pairing owners_of_weights(const ModelImpl& model, const formats::LegacyH5& file) {
  Pairing pairing;
  std::set<std::string> in_configs;  // of Keras 2, which has idf_weights of vocabularies here too; see bin_boundaries
  for (const LayerPtr& layer : model.layers()) {
    if (!legacy_weights(*layer).empty()) pairing.ours.push_back(layer);
    if (dynamic_cast<const keras::KeepsVocabulary*>(layer.get()) || layer->class_name() == "Discretization")
      in_configs.insert(layer->name());
  }
  for (const auto& layer : file.layers()) {
    if (!layer.weights.empty() && !in_configs.contains(layer.name)) pairing.theirs.push_back(&layer);
  }
  return pairing;
}

// A model of the file itself has its names, in whatever order: pairs by name if all are there.
void order_by_name(Pairing& pairing) {
  std::map<std::string, const formats::LegacyLayer*> saved;
  for (const auto* layer : pairing.theirs) saved[layer->name] = layer;
  std::vector<const formats::LegacyLayer*> found;
  for (const LayerPtr& layer : pairing.ours) {
    const auto it = saved.find(layer->name());
    if (it == saved.end()) return;
    found.push_back(it->second);
    saved.erase(it);
  }
  if (found.size() == pairing.theirs.size()) pairing.theirs = std::move(found);
}

void plan_layers(ModelImpl& model, const formats::LegacyH5& file, const std::string& path,
                 const LoadWeightsOptions& options, bool own_model, Assignment& assignment) {
  const keras::Keras2Order order(weights_origin(file.keras_version(), file.backend()).major < 3);
  if (options.by_name) {
    std::map<std::string, const formats::LegacyLayer*> saved;
    for (const auto& layer : file.layers()) saved[layer.name] = &layer;
    for (const LayerPtr& layer : model.layers()) {
      const auto found = saved.find(layer->name());
      if (found != saved.end()) plan_layer(*layer, *found->second, file, path, options.skip_mismatch, assignment);
    }
    return;
  }
  Pairing pairing = owners_of_weights(model, file);
  if (pairing.ours.size() != pairing.theirs.size()) {
    throw_invalid_argument(
        fmt::format("{}: the file has weights of {} layers, but the model has {} layers with weights", path,
                    pairing.theirs.size(), pairing.ours.size()));
  }
  if (own_model) order_by_name(pairing);
  for (std::size_t i = 0; i < pairing.ours.size(); ++i)
    plan_layer(*pairing.ours[i], *pairing.theirs[i], file, path, options.skip_mismatch, assignment);
}

// The state of an optimizer: Keras 3 saves all variables in our order.
void plan_optimizer(optimizers::Optimizer& optimizer, const formats::LegacyH5& file, const std::string& path,
                    Assignment& assignment) {
  const auto& saved = file.optimizer_weights();
  if (saved.empty()) return;
  std::vector<VariablePtr> targets = saved_variables(optimizer);
  if (weights_origin(file.keras_version(), file.backend()).major < 3) {
    std::vector<std::string_view> names;
    for (const auto& each : saved) names.push_back(formats::LegacyH5::optimizer_weight_name(each));
    const auto inner = optimizer.inner_optimizer();  // the scale of losses is not in the file
    targets = keras2_targets(inner ? *inner : optimizer, names);
  }
  // An optimizer that was never built has its step, and in Keras 3 its rate.
  if (targets.size() != saved.size() && saved.size() <= 2) return;
  if (targets.size() != saved.size()) {
    log_warning("{}: the {} variables of optimizer '{}' do not fit the {} of the file; its state is not loaded", path,
                optimizer.variables().size(), optimizer.name(), saved.size());
    return;
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (targets[i] && !(targets[i]->shape() == saved[i].shape)) {
      log_warning("{}: the optimizer's '{}' has shape {}, but the file holds {}; its state is not loaded", path,
                  targets[i]->name(), targets[i]->shape().to_string(), saved[i].shape.to_string());
      return;
    }
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (targets[i]) assignment.add(targets[i], file, saved[i], path + ": optimizer");
  }
}

// Keras 2's last release before it became tf-keras. Its files are read by all that came after.
constexpr const char* kKeras2Version = "2.15.0";

// "dense/kernel:0": without the model, which Keras 2 did not name.
std::string keras2_name(const ModelImpl& model, const VariablePtr& variable) {
  const std::string& path = variable->path();
  const std::string prefix = model.name() + "/";
  return (path.starts_with(prefix) ? path.substr(prefix.size()) : path) + ":0";
}

bool has_embeddings(ModelImpl& model) {
  return std::ranges::any_of(model.flatten_layers(),
                             [](const auto* layer) { return layer->class_name() == "Embedding"; });
}

// Compile arguments and the optimizer's state; a model without them is whole, so what Keras 2 lacks is left out.
void add_keras2_training(formats::LegacyH5Plan& plan, ModelImpl& model, const std::string& path) {
  Trainer& trainer = model.trainer();
  const Json compile = trainer.get_compile_config();
  if (compile.empty()) return;
  try {
    Json config = Json::object();
    for (const char* key : {"loss", "loss_weights"}) config[key] = keras2_object(compile.value(key, Json()));
    std::set<std::string> taken;
    for (const char* key : {"metrics", "weighted_metrics"})
      config[key] = keras2_object(keras2_metrics(compile, key, model, taken));
    Keras2Optimizer optimizer =
        keras2_optimizer(*trainer.optimizer(), compile.at("optimizer").at("config"), has_embeddings(model));
    config["optimizer_config"] = keras2_object(optimizer.config);
    plan.training_config = std::move(config);
    plan.optimizer_weights = std::move(optimizer.weights);
  } catch (const Error& error) {
    if (error.code() != Code::kUnimplemented) throw;
    log_warning("{}: written without compile arguments and optimizer: {}", path, error.message());
  }
}

// The model's config for Keras 2; nothing where the dialect of Keras 3 is to be written.
std::optional<Json> keras2_config_of(ModelImpl& model, const std::string& path, H5Dialect dialect) {
  if (dialect == H5Dialect::kKeras3 || (dialect == H5Dialect::kOriginal && model.keras_version() >= 3))
    return std::nullopt;
  try {
    return keras2_model_config(model);
  } catch (const Error& error) {
    if (dialect == H5Dialect::kKeras2 || error.code() != Code::kUnimplemented) throw;
    log_warning("{}: written for Keras 3: {}", path, error.message());
    return std::nullopt;
  }
}

}  // namespace

void save_legacy_model(ModelImpl& model, const std::string& path, bool include_optimizer, H5Dialect dialect) {
  for (const SavedObject& object : saved_objects(model)) {
    if (object.vocabulary && !object.vocabulary->vocabulary_in_config())
      throw_unimplemented(
          fmt::format("'{}': an .h5 file cannot have the vocabulary that layer '{}' has learnt; save to a .keras file",
                      path, object.name));
  }
  formats::LegacyH5Plan plan;
  Trainer& trainer = model.trainer();
  std::optional<Json> keras2_config = keras2_config_of(model, path, dialect);
  const bool keras2 = keras2_config.has_value();
  warn_of_differences(model, keras2 ? 2 : 3, path);
  plan.model_config = keras2 ? std::move(*keras2_config) : legacy_object(keras::serialize_operation(model));
  if (keras2) {
    plan.keras_version = kKeras2Version;
    if (include_optimizer) add_keras2_training(plan, model, path);
  } else if (include_optimizer) {
    plan.training_config = training_config(compile_config_of_keras3(trainer.get_compile_config(), model));
  }
  const keras::Keras2Order order(keras2);
  for (const LayerPtr& layer : model.layers()) {
    formats::LegacyLayerPlan saved{layer->name(), {}};
    std::set<std::string> names;
    for (const VariablePtr& variable : legacy_weights(*layer)) {
      std::string name = keras2 ? keras2_name(model, variable) : variable->path();
      // Keras reads weights by their order. Two cells have one path if they were built before the layers around them.
      if (!names.insert(name).second) name = fmt::format("{}/{}", saved.weights.size(), name);
      saved.weights.push_back(weight_entry(name, variable));
    }
    plan.layers.push_back(std::move(saved));
  }
  if (!keras2 && include_optimizer && trainer.compiled()) {
    for (const VariablePtr& variable : saved_variables(*trainer.optimizer())) {
      plan.optimizer_weights.push_back(weight_entry(variable->path(), variable));
    }
  }
  formats::write_legacy_h5(path, plan);
}

keras::Model load_legacy_model(const std::string& path, bool compile) {
  const auto file = formats::LegacyH5::open(path);
  if (file.model_config().is_null()) {
    throw_invalid_argument(
        fmt::format("'{}' holds weights without a model; build the model and use load_weights", path));
  }
  keras::ModelPtr model;
  {
    const auto stat = io::posix_file_system().stat(path);
    const auto size = static_cast<std::int64_t>(stat ? stat->size : 0);
    const keras::LoadScope limit(4 * size + (std::int64_t{64} << 20));
    const bool old = weights_origin(file.keras_version(), file.backend()).major < 3;
    model = model_of_config(old ? with_bin_boundaries(file.model_config(), file) : file.model_config(),
                            file.keras_version());
  }
  if (!model) throw_invalid_argument(fmt::format("'{}': model_config holds a layer, not a model", path));
  Assignment assignment;
  plan_layers(*model, file, path, {}, true, assignment);
  Trainer& trainer = model->trainer();
  if (compile && !file.training_config().is_null()) {
    Json config = file.training_config();
    if (weights_origin(file.keras_version(), file.backend()).major > 2) {
      config = with_metric_objects(std::move(config));
    } else if (config.contains("optimizer_config")) {
      config["optimizer_config"] = with_module_of_optimizer(config["optimizer_config"]);
    }
    compile_if_known(trainer, config, path);
    if (model->built() && trainer.optimizer()) {
      trainer.build_optimizer();
      plan_optimizer(*trainer.optimizer(), file, path, assignment);
    }
  }
  assignment.commit();
  keras::set_keras_version(*model, weights_origin(file.keras_version(), file.backend()).major);
  warn_of_older_release(*model, file.keras_version(), path);
  return keras::Model(model);
}

namespace {

// Each argument of a tree, names too: the tree keeps these as they are, and saving or training would fail later.
template <typename Tree, typename LookUp>
void look_up(const Tree& tree, const LookUp& get) {
  if (tree.is_leaf() && !tree.empty()) get(tree.leaf());
  for (const Tree& item : tree.items()) look_up(item, get);
}

}  // namespace

void compile_if_known(Trainer& trainer, const Json& config, const std::string& path) {
  const auto attempt = [&](const char* result, const auto& function) {
    try {
      function();
      return true;
    } catch (const Error& error) {
      if (error.code() != Code::kInvalidArgument && error.code() != Code::kNotFound &&
          error.code() != Code::kUnimplemented)
        throw;
      log_warning("{}: the model is {}: {}", path, result, error.message());
      return false;
    }
  };
  Json known = config;
  for (const char* key : {"metrics", "weighted_metrics"}) {
    const bool resolved = attempt("compiled without metrics, since they cannot be restored", [&] {
      look_up(keras::MetricTree::from_config(config.value(key, Json()), key), [](const metrics::MetricArg& metric) {
        metrics::serialize(metrics::get_for_compile(metric, Shape{}, Shape{}));  // functions are looked up there
      });
    });
    if (!resolved) known[key] = nullptr;
  }
  attempt("not compiled, since its training_config cannot be restored", [&] {
    // A loss is looked up here, too: later, saving or training would fail. Names stay, for --loss and other programs.
    if (known.contains("loss")) {
      keras::LossTree::from_config(known["loss"], "loss").to_config([](const losses::LossArg& loss) {
        return losses::serialize(losses::get(loss));
      });
    }
    trainer.compile_from_config(known);
  });
}

bool is_legacy_weights(const std::string& path) {
  const auto mapped = io::posix_file_system().map(path);
  return formats::Hdf5File::recognise(mapped->bytes()) &&
         formats::LegacyH5::recognise(formats::Hdf5File(mapped->bytes(), mapped, path));
}

void plan_legacy_weights(ModelImpl& model, const std::string& path, const LoadWeightsOptions& options,
                         Assignment& assignment) {
  plan_layers(model, formats::LegacyH5::open(path), path, options, false, assignment);
}

}  // namespace lockstep::saving
