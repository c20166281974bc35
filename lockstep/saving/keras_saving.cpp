#include "lockstep/saving/keras_saving.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/keras_config.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/scratch_folder_internal.h"
#include "lockstep/keras/feature_space_internal.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/layers/weight_limit_internal.h"
#include "lockstep/keras/models/keras2_order_internal.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/keras/trainer/overrides_internal.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/ops/functions.h"
#include "lockstep/saving/assign_internal.h"
#include "lockstep/saving/bin_boundaries_internal.h"
#include "lockstep/saving/compile_arguments_internal.h"
#include "lockstep/saving/keras2_saved_model_internal.h"
#include "lockstep/saving/legacy_saving_internal.h"
#include "lockstep/saving/object_paths_internal.h"
#include "lockstep/saving/old_configs_internal.h"
#include "lockstep/saving/old_weights_internal.h"
#include "lockstep/saving/saved_model_state_internal.h"
#include "lockstep/saving/version_differences_internal.h"
#include "lockstep/saving/weights_plan_internal.h"
#include "lockstep/train/model_io_internal.h"

namespace lockstep::saving {

using keras::ModelImpl;

std::string vars_group(const std::string& inner_path) { return inner_path.empty() ? "vars" : inner_path + "/vars"; }

formats::WeightsPlan weights_plan(ModelImpl& model) {
  formats::WeightsPlan plan;
  for (const SavedObject& object : saved_objects(model)) {
    const std::string group = vars_group(object.path);
    plan.groups.emplace_back(group, object.name);
    if (object.own_store) {
      keras::VariableStore store;
      object.own_store->save_own_variables(store);
      for (const auto& [name, value] : store) plan.add(group + "/" + name, value.to_data());
      continue;
    }
    for (std::size_t i = 0; i < object.state.entries.size(); ++i) {
      const keras::OwnState::Entry& entry = object.state.entries[i];
      plan.add(fmt::format("{}/{}", group, i), entry.variable->dtype(), entry.variable->shape(),
               [entry] { return entry.value ? entry.value().to_data() : variable_data(entry.variable); });
    }
    if (object.vocabulary && object.vocabulary->has_idf_weights() && object.vocabulary->idf_weights().defined())
      plan.add(group + "/idf_weights", object.vocabulary->idf_weights().to_data());
  }
  return plan;
}

namespace {

using keras::Trainer;

void check_target(const std::string& path, bool overwrite) {
  if (!overwrite && io::posix_file_system().stat(path)) {
    throw_already_exists(fmt::format("'{}' is there already; allow overwriting, or choose another name", path));
  }
}

constexpr const char* kVocabulary = "/vocabulary.txt";

// As the class of the model defines it.
void compile_from_config(ModelImpl& model, const Json& config) {
  if (keras::Model* const own = keras::object_overriding(model, &keras::Model::compile_from_config)) {
    own->compile_from_config(config);
  } else {
    model.trainer().compile_from_config(config);
  }
}

void require_built(ModelImpl& model, const std::string& path) {
  if (model.built()) return;
  throw_failed_precondition(
      fmt::format("model '{}' cannot be saved to '{}': it has not been built, so it has no variables yet; call it on "
                  "data, fit it, or "
                  "build it with an input shape first",
                  model.name(), path));
}

// A lookup layer's only variable has a name instead of a number.
void load_idf_weights(keras::KeepsVocabulary& layer, const formats::KerasWeights& weights,
                      const std::vector<formats::TensorInfo>& stored) {
  if (!layer.has_idf_weights() || stored.size() != 1) return;
  layer.load_idf_weights(ops::cast(Tensor::from_data(weights.read(stored[0].name)), DType::kFloat32));
}

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

// What the layer writes into a folder.
void add_own_assets(const SavedObject& object, std::vector<formats::KerasAsset>& assets) {
  namespace fs = std::filesystem;
  io::ScratchFolder scratch;
  object.own_assets->save_assets(scratch.path());
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(scratch.path())) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), scratch.path()).string());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names)
    assets.push_back({below(object.path, name), io::read_text(io::posix_file_system(), scratch.file(name))});
}

void load_own_assets(const std::vector<SavedObject>& objects, const formats::KerasArchive& archive) {
  for (const SavedObject& object : objects) {
    if (!object.own_assets) continue;
    io::ScratchFolder scratch;
    const std::string folder = below(object.path, "");
    for (const std::string& asset : archive.assets()) {
      if (!asset.starts_with(folder)) continue;
      const std::string file = scratch.file(asset.substr(folder.size()));
      io::make_directories(io::posix_file_system(), io::parent_directory(file));
      io::write_atomically(file, archive.asset(asset));
    }
    object.own_assets->load_assets(scratch.path());
  }
}

// The files of layers that write some, and vocabulary.txt of each layer that does not have it in its config.
std::vector<formats::KerasAsset> assets_of(ModelImpl& model) {
  std::vector<formats::KerasAsset> assets;
  for (const SavedObject& object : saved_objects(model)) {
    if (object.own_assets) add_own_assets(object, assets);
    if (!object.vocabulary || object.vocabulary->vocabulary_in_config()) continue;
    assets.push_back({object.path + kVocabulary, keras::vocabulary_text(object.vocabulary->vocabulary(true))});
  }
  return assets;
}

void load_assets(const std::vector<SavedObject>& objects, const formats::KerasArchive& archive,
                 const std::string& path) {
  const std::vector<std::string> assets = archive.assets();
  for (const SavedObject& object : objects) {
    if (!object.vocabulary || object.vocabulary->vocabulary_in_config()) continue;
    const std::string name = object.path + kVocabulary;
    if (std::find(assets.begin(), assets.end(), name) == assets.end())
      throw_data_loss(fmt::format("{}: layer '{}' requires the asset {}", path, object.name, name));
    object.vocabulary->load_vocabulary(archive.asset(name));
  }
}

bool fit_in_order(const std::vector<distribute::VariablePtr>& targets, std::span<const formats::TensorInfo> stored) {
  return std::ranges::equal(targets, stored, [](const auto& target, const formats::TensorInfo& saved) {
    return target->shape() == saved.shape && is_floating(target->dtype()) == is_floating(saved.dtype);
  });
}

// The variables that those of an optimizer in the file are for. tf-keras leaves out the learning rate, Nadam's
// product and what Adafactor has in the place of factors, and has other variables for some optimizers: behind those of
// SGD without momentum is the last change of each variable, which is not read (null). Empty if they do not fit, as
// those of an optimizer of Keras 3 that was never built: its step and its rate.
std::vector<distribute::VariablePtr> optimizer_targets(const optimizers::Optimizer& optimizer,
                                                       std::vector<distribute::VariablePtr> targets,
                                                       const std::vector<formats::TensorInfo>& stored,
                                                       bool of_keras_2) {
  if (targets.size() == stored.size() && (optimizer.class_name() != "SGD" || fit_in_order(targets, stored))) {
    return targets;
  }
  if (!of_keras_2 && stored.size() <= 2) return {};
  for (const auto& variable : optimizer.attribute_variables()) std::erase(targets, variable);
  std::erase_if(targets, [](const auto& variable) {
    return variable->path().ends_with("/learning_rate") ||
           (variable->dtype() == DType::kInt32 && variable->shape().rank() == 0);
  });
  if (fit_in_order(targets, stored)) return targets;
  const auto changes = optimizer.trainable_variables();
  const std::size_t own = targets.size();
  if (optimizer.class_name() != "SGD" || stored.size() != own + changes.size()) return {};
  const std::span all(stored);
  if (!fit_in_order(targets, all.first(own)) || !fit_in_order(changes, all.subspan(own))) return {};
  targets.resize(stored.size());
  return targets;
}

// All of the model's objects from a weights file. `optimizer_state` is only read when the counts agree, as Keras does.
void plan_weights(const std::vector<SavedObject>& objects, const formats::KerasWeights& weights,
                  const std::string& path, bool skip_mismatch, Assignment& assignment) {
  std::vector<std::string> failures;
  const LayerAttribute attribute = layer_attribute_of(weights);
  for (const SavedObject& object : objects) {
    auto stored = weights.variables(object.path);
    const auto& entries = object.state.entries;
    const optimizers::Optimizer* optimizer = object.optimizer;
    // Versions before this one wrote all variables of scaled optimizers.
    const auto all = optimizer ? optimizer->variables() : std::vector<distribute::VariablePtr>();
    const bool holds_all = all.size() > entries.size() && fit_in_order(all, stored);
    if (optimizer && !holds_all && stored.size() != entries.size()) {
      // Keras writes a LossScaleOptimizer that compile() has added, but only the inner optimizer's config; tf-keras
      // writes one without its scale.
      const auto inner = weights.variables(object.path + "/inner_optimizer");
      const bool scales = !inner.empty() && optimizer->inner_optimizer();
      if (inner.size() == entries.size() || scales) stored = inner;
      if (scales) optimizer = optimizer->inner_optimizer().get();
    }
    if (object.own_store) {
      keras::VariableStore store;
      for (const formats::TensorInfo& info : stored)
        store[info.name.substr(info.name.rfind('/') + 1)] = Tensor::from_data(weights.read(info.name));
      assignment.add([layer = object.own_store, store = std::move(store)] { layer->load_own_variables(store); });
      continue;
    }
    if (object.has_weights_in_config) continue;
    if (object.vocabulary) {
      load_idf_weights(*object.vocabulary, weights, stored);
      continue;
    }
    std::vector<distribute::VariablePtr> targets;
    for (const auto& entry : entries) targets.push_back(entry.variable);
    if (optimizer != object.optimizer) targets = optimizer->variables();
    if (holds_all) targets = all;
    if (optimizer) {
      targets = optimizer_targets(*optimizer, std::move(targets), stored,
                                  attribute == LayerAttribute::kCheckpointDependencies);
      if (targets.empty()) {
        // An optimizer that was never built has its step and rate only.
        if (stored.size() > 2)
          log_warning("{}: the optimizer '{}' has {} variables, but the file holds {}; its state is not loaded", path,
                      object.name, entries.size(), stored.size());
        continue;
      }
    } else if (stored.size() != entries.size()) {
      // A layer as activation that was saved before its first call keeps its initial values.
      if (stored.empty() && object.is_activation) continue;
      failures.push_back(fmt::format("layer '{}' ({}) expects {} variables, but the file holds {}", object.name,
                                     object.path, entries.size(), stored.size()));
      continue;
    }
    for (std::size_t i = 0; i < stored.size(); ++i) {
      if (!targets[i]) continue;
      try {
        assignment.add(targets[i], weights, stored[i], fmt::format("'{}'", object.name));
      } catch (const Error& error) {
        if (error.code() != Code::kInvalidArgument) throw;
        failures.push_back(error.message());
        break;  // as in Keras, the object's variables before it are loaded, those behind it are not
      }
    }
    for (const distribute::VariablePtr& variable : object.state.zeroed)
      assignment.add(variable, Tensor::zeros(variable->shape(), variable->dtype()), variable->name(), object.name);
  }
  if (failures.empty()) return;
  const std::string text =
      fmt::format("{}: {} objects could not be loaded; the first: {}", path, failures.size(), failures[0]);
  if (!skip_mismatch) throw_invalid_argument(text);
  log_warning("{}", text);
}

// What convert has written of Keras's weights: their paths are the names of the tensors.
formats::KerasWeights weights_of_safetensors(const std::string& path) {
  const formats::SafetensorsReader reader(path);
  formats::WeightsPlan plan;
  for (const formats::TensorInfo& info : reader.list()) {
    if (!info.name.starts_with("vars/") && info.name.find("/vars/") == std::string::npos)
      throw_invalid_argument(
          fmt::format("{}: '{}' is not the path of a weight of Keras 3, such as layers/dense/vars/0; convert writes "
                      "such a file of a "
                      ".keras or .weights.h5 file",
                      path, info.name));
    plan.add(info.name, reader.read(info.name));
  }
  formats::Hdf5Writer writer;
  formats::add_weights(writer, plan);
  auto image = std::make_shared<std::vector<std::byte>>();
  image->reserve(writer.size());
  writer.write([&](std::span<const std::byte> bytes) { image->insert(image->end(), bytes.begin(), bytes.end()); });
  return formats::KerasWeights::from_image(*image, image, path);
}

// Of a file, or of all files below a folder.
std::int64_t file_bytes(const std::string& path) {
  io::FileSystem& files = io::posix_file_system();
  const auto stat = files.stat(path);
  if (!stat || stat->kind != io::FileStat::Kind::kDirectory) return stat ? static_cast<std::int64_t>(stat->size) : 0;
  std::int64_t total = 0;
  for (const std::string& name : files.list(path)) {
    const std::string entry = io::join_path(path, name);
    if (!files.is_link(entry)) total += file_bytes(entry);
  }
  return total;
}

std::vector<SavedObject> objects_in(ModelImpl& model, const formats::KerasWeights& weights) {
  return saved_objects(model, layer_attribute_of(weights));
}

void load_objects(const std::vector<SavedObject>& objects, const formats::KerasArchive& archive,
                  const std::string& path) {
  Assignment assignment;
  plan_weights(objects, archive.weights(), path, false, assignment);
  load_assets(objects, archive, path);
  assignment.commit();
  load_own_assets(objects, archive);
}

// The layers that encode its columns, with what they have learned, are part of the model.
keras::Model load_feature_space(const Json& config, const formats::KerasArchive& archive, const std::string& path) {
  const auto space = utils::FeatureSpace::from_config(config);
  load_objects(saved_objects(utils::FeatureSpaceModel::attributes_of(space)), archive, path);
  return keras::Model(std::make_shared<utils::FeatureSpaceModel>(space));
}

// The version of Keras that wrote it; empty if the archive has none.
std::string version_of(const formats::KerasArchive& archive) {
  const Json& metadata = archive.metadata();
  const bool present = metadata.is_object() && metadata.contains("keras_version");
  return present && metadata.at("keras_version").is_string() ? metadata.at("keras_version").get<std::string>() : "";
}

keras::Model load_archive(const std::string& path, const LoadModelOptions& options) {
  const auto archive = formats::KerasArchive::open(path);
  keras::ModelPtr model;
  {
    // Variables that a config requests may not take more memory than a few times the file's size.
    const keras::LoadScope limit(4 * file_bytes(path) + (std::int64_t{64} << 20));
    const auto object = keras::parse_object_config(archive.config());
    if (object && object->class_name == "FeatureSpace" && object->module == "keras.utils")
      return load_feature_space(object->config, archive, path);
    const std::string version = version_of(archive);
    const bool old = weights_origin(version, "").major < 3;
    model = model_of_config(old ? with_bin_boundaries(archive.config(), archive.weights()) : archive.config(), version);
    if (!model) throw_invalid_argument(fmt::format("{}: config.json holds a layer, not a model", path));
  }
  Trainer& trainer = model->trainer();
  if (options.compile && archive.config().contains("compile_config")) {
    const Json& arguments = archive.config()["compile_config"];
    if (weights_origin(version_of(archive), "").major < 3) {
      compile_if_known(trainer, compile_config_of_keras2(arguments, *model), path);
    } else {
      compile_from_config(*model, arguments);
    }
    if (trainer.compiled() && model->built()) trainer.build_optimizer();
  }
  load_objects(objects_in(*model, archive.weights()), archive, path);
  keras::set_keras_version(*model, weights_origin(version_of(archive), "").major);
  warn_of_older_release(*model, version_of(archive), path);
  return keras::Model(model);
}

// A model with new weights. `path` names the config in errors.
keras::Model model_of(const Json& config, const std::string& path, const LoadModelOptions& options) {
  const keras::WeightLimit limit(options.max_memory);
  const keras::ModelPtr model = model_of_config(config, formats::version_of_keras_config(config));
  if (!model) throw_invalid_argument(fmt::format("{}: holds a layer, not a model", path));
  if (options.compile && config.contains("compile_config")) compile_from_config(*model, config["compile_config"]);
  keras::set_keras_version(*model, weights_origin(formats::version_of_keras_config(config), "").major);
  return keras::Model(model);
}

keras::Model load_architecture(const std::string& path, const LoadModelOptions& options) {
  return model_of(formats::read_keras_config(path), path, options);
}

}  // namespace

Json model_config(ModelImpl& model) {
  Json config = keras::serialize_operation(model);
  if (dynamic_cast<const utils::FeatureSpaceModel*>(&model)) {
    config.erase("compile_config");
    return config;
  }
  keras::Model* const own = keras::object_overriding(model, &keras::Model::get_compile_config);
  config["compile_config"] = own && model.trainer().compiled()
                                 ? own->get_compile_config()
                                 : compile_config_of_keras3(model.trainer().get_compile_config(), model);
  return config;
}

keras::Model model_from_json(const std::string& json, const LoadModelOptions& options) {
  const keras::CustomObjectScope custom(options.custom_objects);
  return model_of(parse_json(json, "model_from_json"), "model_from_json", options);
}

void save_model(ModelImpl& model, const std::string& path, const SaveModelOptions& options) {
  if (options.workers) {
    SaveModelOptions alone = options;
    alone.workers = nullptr;
    const auto& optimizer = model.trainer().optimizer();
    return optimizers::run_on_chief(options.workers.get(), fmt::format("saving {}", path),
                                    optimizer ? optimizer->variables() : optimizers::Variables(),
                                    [&] { save_model(model, path, alone); });
  }
  check_target(path, options.overwrite);
  const bool space = dynamic_cast<const utils::FeatureSpaceModel*>(&model) != nullptr;
  if (space && !path.ends_with(".keras"))
    throw_invalid_argument(fmt::format("cannot save a FeatureSpace to '{}': the name must end in .keras", path));
  if (path.ends_with(".h5") || path.ends_with(".hdf5")) {
    require_built(model, path);
    save_legacy_model(model, path, options.include_optimizer, options.h5_dialect);
    return;
  }
  if (!path.ends_with(".keras")) {
    throw_invalid_argument(
        fmt::format("cannot save to '{}': the name must end in .keras (recommended), .h5 or .hdf5", path));
  }
  require_built(model, path);
  warn_of_differences(model, 3, path);
  formats::KerasArchivePlan plan;
  plan.config = model_config(model);
  plan.weights = weights_plan(model);
  plan.assets = assets_of(model);
  formats::write_keras_archive(path, plan);
}

keras::Model load_model(const TextArg& given, const LoadModelOptions& options) {
  const std::string& path = given;
  const keras::CustomObjectScope custom(options.custom_objects);
  const formats::Detected found = formats::detect(path);
  switch (found.kind) {
    case formats::Kind::kKeras: return load_archive(path, options);
    case formats::Kind::kKerasH5: return load_legacy_model(path, options.compile);
    case formats::Kind::kKerasConfig: return load_architecture(path, options);
    case formats::Kind::kWeightsH5:
      throw_invalid_argument(
          fmt::format("'{}' holds weights without a model; build the model and use load_weights", path));
    case formats::Kind::kSavedModel:
      saved_model::check_io_device(options.options.experimental_io_device);
      return load_keras2_saved_model(path, options.compile);
    default:
      throw_invalid_argument(fmt::format("'{}' is a {} file, which holds no Keras model; expected .keras or .h5", path,
                                         formats::kind_name(found.kind)));
  }
}

void save_weights(ModelImpl& model, const std::string& path, bool overwrite) {
  if (!path.ends_with(".weights.h5")) {
    throw_invalid_argument(fmt::format("cannot save weights to '{}': the name must end in .weights.h5", path));
  }
  check_target(path, overwrite);
  require_built(model, path);
  formats::write_keras_weights(path, weights_plan(model));
}

void load_weights(ModelImpl& model, const std::string& path, const LoadWeightsOptions& options) {
  if (!model.built()) {
    throw_failed_precondition(fmt::format(
        "model '{}' has not been built, so weights cannot be loaded into it; build it first", model.name()));
  }
  Assignment assignment;
  const auto plan_from = [&](const formats::KerasWeights& weights) {
    plan_weights(objects_in(model, weights), weights, path, options.skip_mismatch, assignment);
  };
  const formats::Detected found = formats::detect(path);
  const bool legacy =
      found.kind == formats::Kind::kKerasH5 || (found.kind == formats::Kind::kWeightsH5 && is_legacy_weights(path));
  if (options.by_name && !legacy) {
    throw_invalid_argument(fmt::format(
        "'{}': by_name is for legacy .h5 files only; Keras 3's formats match by position in the model", path));
  }
  if (legacy) {
    plan_legacy_weights(model, path, options, assignment);
  } else if (found.kind == formats::Kind::kKeras) {
    plan_from(formats::KerasArchive::open(path).weights());
  } else if (found.kind == formats::Kind::kWeightsH5) {
    plan_from(formats::KerasWeights::open(path));
  } else if (found.kind == formats::Kind::kTfCheckpoint || found.kind == formats::Kind::kSavedModel) {
    if (options.skip_mismatch) throw_invalid_argument(fmt::format("'{}': skip_mismatch requires a Keras file", path));
    train::read_model_checkpoint(model, found.path);
  } else if (found.kind == formats::Kind::kSafetensors) {
    plan_from(weights_of_safetensors(path));
  } else {
    throw_invalid_argument(
        fmt::format("'{}' is a {} file; expected .weights.h5, .keras, .h5, .safetensors or a TensorFlow checkpoint",
                    path, formats::kind_name(found.kind)));
  }
  assignment.commit();
}

}  // namespace lockstep::saving
