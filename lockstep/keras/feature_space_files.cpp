// How a FeatureSpace encodes columns, and its config, model and files.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/feature_space_internal.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/keras/preprocessing/categories.h"
#include "lockstep/keras/preprocessing/feature_layers_internal.h"
#include "lockstep/keras/preprocessing/lookup.h"
#include "lockstep/keras/preprocessing/vocabulary_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::utils {
namespace {

using keras::LayerHandle;
using keras::LayerPtr;
using keras::LayerTree;
using keras::Structure;

constexpr const char* kModule = "keras.src.layers.preprocessing.feature_space";

// The number of categories of a layer; empty for layers whose outputs are not category indices.
std::optional<std::int64_t> categories_of(const LayerHandle& layer) {
  const std::string kind = layer->class_name();
  if (kind == "IntegerLookup" || kind == "StringLookup") return layers::vocabulary_size(layer);
  if (kind == "CategoryEncoding") return layer->get_config().at("num_tokens").get<std::int64_t>();
  if (kind == "Hashing" || kind == "HashedCrossing" || kind == "Discretization")
    return layer->get_config().at("num_bins").get<std::int64_t>();
  return std::nullopt;
}

Json part(const char* class_name, Json config) {
  return {
      {"module", kModule}, {"class_name", class_name}, {"config", std::move(config)}, {"registered_name", class_name}};
}

template <typename T>
T member(const Json& config, const char* key, const std::string& what) {
  const auto found = config.is_object() ? config.find(key) : config.end();
  const bool fits =
      found != config.end() && (std::is_same_v<T, std::string> ? found->is_string() : found->is_number_integer());
  if (!fits) {
    throw_invalid_argument(
        fmt::format("{} has no {} '{}' in its config", what, std::is_same_v<T, std::string> ? "text" : "integer", key));
  }
  return found->template get<T>();
}

FeatureSpace::FeatureArg feature_of(const std::string& name, const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto parsed = keras::parse_object_config(json);
  const std::string what = fmt::format("feature '{}' of a FeatureSpace", name);
  if (!parsed || parsed->class_name != "Feature" || !parsed->config.is_object() ||
      !parsed->config.contains("preprocessor"))
    throw_invalid_argument(fmt::format("{}: invalid Feature: {}", what, dump_json(json).substr(0, 120)));
  return FeatureSpace::feature({.dtype = member<std::string>(parsed->config, "dtype", what),
                                .preprocessor = LayerHandle(keras::deserialize_layer(parsed->config["preprocessor"])),
                                .output_mode = member<std::string>(parsed->config, "output_mode", what)});
}

FeatureSpace::Cross cross_of(const Json& json) {
  const auto parsed = keras::parse_object_config(json);
  const bool object = parsed && parsed->class_name == "Cross" && parsed->config.is_object();
  const Json names = object ? parsed->config.value("feature_names", Json()) : json;
  FeatureSpace::CrossOptions options;
  const bool texts = names.is_array() && std::ranges::all_of(names, [](const Json& name) { return name.is_string(); });
  if (!texts)
    throw_invalid_argument(fmt::format("invalid Cross of a FeatureSpace: {}", dump_json(json).substr(0, 120)));
  for (const Json& name : names) options.feature_names.push_back(name.get<std::string>());
  if (object) {
    options.crossing_dim = member<std::int64_t>(parsed->config, "crossing_dim", "a Cross");
    options.output_mode = member<std::string>(parsed->config, "output_mode", "a Cross");
  }
  return options;
}

}  // namespace

bool FeatureSpace::State::learns(const Feature& feature) {
  const std::string kind = feature.preprocessor->class_name();
  if (kind == "Normalization") return feature.preprocessor->get_config().at("mean").is_null();
  if (kind == "TextVectorization")
    return !dynamic_cast<const keras::KeepsVocabulary&>(*feature.preprocessor).vocabulary_in_config();
  return kind == "Discretization" || kind == "IntegerLookup" || kind == "StringLookup";
}

Tensor FeatureSpace::State::encoded_column(const std::string& column, const LayerHandle& layer, const std::string& mode,
                                           Tensor value) {
  if (mode == "one_hot") {
    auto found = std::ranges::find(one_hot_encoders, column, &std::pair<std::string, LayerHandle>::first);
    if (found == one_hot_encoders.end()) {
      if (!is_integer(value.dtype())) {
        throw_invalid_argument(
            fmt::format("FeatureSpace: feature '{}' with output_mode 'one_hot' requires integers, "
                        "its preprocessor gives {}",
                        column, dtype_name(value.dtype())));
      }
      const std::optional<std::int64_t> categories = categories_of(layer);
      if (!categories) {
        throw_invalid_argument(fmt::format(
            "FeatureSpace: the number of categories of feature '{}' is not known; use output_mode 'int'", column));
      }
      one_hot_encoders.emplace_back(column, layers::CategoryEncoding(*categories, {.output_mode = "multi_hot"}));
      found = std::prev(one_hot_encoders.end());
    }
    value = found->second(value).leaf();
  }
  if (output_mode == "concat" && (is_integer(value.dtype()) || value.dtype() == DType::kString) && mode != "float") {
    throw_invalid_argument(
        fmt::format("FeatureSpace: feature '{}' is not encoded, it has dtype {}; use output_mode 'dict'", column,
                    dtype_name(value.dtype())));
  }
  return value;
}

Structure FeatureSpace::State::encode(const std::map<std::string, Tensor>& columns) {
  std::map<std::string, Tensor> processed;
  for (const auto& [name, feature] : features) {
    const auto column = columns.find(name);
    if (column == columns.end()) throw_invalid_argument(fmt::format("FeatureSpace: there is no column '{}'", name));
    processed[name] = feature.preprocessor(column->second).leaf();
  }
  Structure::Dict all;
  std::vector<const std::pair<std::string, Feature>*> sorted;
  for (const auto& feature : features) sorted.push_back(&feature);
  std::ranges::sort(sorted, {}, [](const auto* feature) { return feature->first; });
  for (const auto* feature : sorted) {
    all.emplace_back(feature->first, encoded_column(feature->first, feature->second.preprocessor,
                                                    feature->second.output_mode, processed.at(feature->first)));
  }
  std::map<std::string, Tensor> crossed;
  for (const auto& [cross, layer] : crosses) {
    Structure::List parts;
    for (const std::string& name : cross.options.feature_names) parts.push_back(processed.at(name));
    crossed[cross.name()] =
        encoded_column(cross.name(), layer, cross.options.output_mode, layer(Structure::list(parts)).leaf());
  }
  for (auto& [name, value] : crossed) all.emplace_back(name, value);
  if (output_mode == "dict") return Structure::dict(std::move(all));
  if (all.size() == 1) return all[0].second;
  Structure::List parts;
  for (auto& [name, value] : all) {
    // NumPy's promotion: integers given for a feature "float" are converted to the dtype of the others.
    const Tensor part = value.leaf();
    parts.push_back(is_floating(part.dtype()) || part.is_symbolic() ? part : ops::cast(part, DType::kFloat32));
  }
  if (!concat) concat = keras::feature_concat();
  return concat(Structure::list(parts));
}

void FeatureSpace::State::require_adapted() {
  if (adapted) return;
  for (const auto& [name, feature] : features) {
    if (learns(feature)) throw_failed_precondition("FeatureSpace requires adapt() before it is used");
  }
  adapted = true;
}

std::vector<std::pair<std::string, LayerTree>> FeatureSpace::State::attributes() const {
  LayerTree::Dict crossers, encoders, preprocessors;
  for (const auto& [cross, layer] : crosses) crossers.emplace_back(cross.name(), LayerPtr(layer));
  for (const auto& [column, layer] : one_hot_encoders) encoders.emplace_back(column, LayerPtr(layer));
  for (const auto& [column, feature] : features) preprocessors.emplace_back(column, LayerPtr(feature.preprocessor));
  std::vector<std::pair<std::string, LayerTree>> all;
  if (concat) all.emplace_back("concat", LayerTree(LayerPtr(concat)));
  all.emplace_back("crossers", LayerTree::dict(std::move(crossers)));
  all.emplace_back("one_hot_encoders", LayerTree::dict(std::move(encoders)));
  all.emplace_back("preprocessors", LayerTree::dict(std::move(preprocessors)));
  return all;
}

FeatureSpace FeatureSpace::from_config(const Json& config) {
  const std::string what = "a FeatureSpace";
  Options options;
  options.output_mode = member<std::string>(config, "output_mode", what);
  options.crossing_dim = member<std::int64_t>(config, "crossing_dim", what);
  options.hashing_dim = member<std::int64_t>(config, "hashing_dim", what);
  options.num_discretization_bins = member<std::int64_t>(config, "num_discretization_bins", what);
  const Json features = config.value("features", Json()), crosses = config.value("crosses", Json());
  if (!features.is_object() || !(crosses.is_array() || crosses.is_null()))
    throw_invalid_argument("the config of a FeatureSpace requires a dict of features and a list of crosses");
  for (const auto& [name, feature] : features.items()) options.features.emplace_back(name, feature_of(name, feature));
  if (crosses.is_array()) {
    for (const Json& cross : crosses) options.crosses.push_back(cross_of(cross));
  }
  FeatureSpace space(options);
  space.state_->adapted = true;
  return space;
}

Json FeatureSpace::get_config() const {
  Json features = Json::object(), crosses = Json::array();
  for (const auto& [name, feature] : state_->features) {
    features[name] = part("Feature", {{"dtype", feature.dtype},
                                      {"preprocessor", keras::serialize_operation(*feature.preprocessor)},
                                      {"output_mode", feature.output_mode}});
  }
  for (const auto& [cross, layer] : state_->crosses) {
    crosses.push_back(part("Cross", {{"feature_names", cross.options.feature_names},
                                     {"crossing_dim", cross.options.crossing_dim},
                                     {"output_mode", cross.options.output_mode}}));
  }
  return {{"features", std::move(features)},    {"output_mode", state_->output_mode},
          {"crosses", std::move(crosses)},      {"crossing_dim", state_->crossing_dim},
          {"hashing_dim", state_->hashing_dim}, {"num_discretization_bins", state_->num_discretization_bins}};
}

FeatureSpaceModel::FeatureSpaceModel(FeatureSpace space)
    : FunctionalImpl(space.get_inputs(), space.get_encoded_features(), {.name = space.name()}),
      space_(std::move(space)) {
  for (const auto& [attribute, layers] : attributes_of(space_)) track_tree(attribute, layers);
}

Json FeatureSpaceModel::get_build_config() const {
  Json shapes = Json::object();
  for (const auto& [column, layer] : space_.state_->features) shapes[column] = layer.preprocessor->get_build_config();
  return shapes;
}

FeatureSpace FeatureSpace::of_model(const keras::Model& model) {
  const auto* impl = dynamic_cast<const FeatureSpaceModel*>(model.impl().get());
  if (!impl) throw_invalid_argument(fmt::format("model '{}' is not a FeatureSpace", model.name()));
  return impl->space();
}

}  // namespace lockstep::utils
