#include "lockstep/keras/feature_space.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/feature_space_internal.h"
#include "lockstep/keras/layers/input_layer.h"
#include "lockstep/keras/layers/preprocessing.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/keras/preprocessing/categories.h"
#include "lockstep/keras/preprocessing/feature_layers_internal.h"
#include "lockstep/keras/preprocessing/lookup.h"
#include "lockstep/ops/functions.h"

namespace lockstep::utils {
namespace {

using keras::LayerHandle;
using keras::Structure;

std::string own_or_auto_name(const std::string& name, const char* kind) {
  return name.empty() ? keras::auto_name(kind) : name;
}

std::string preprocessor_name(const std::string& name, const char* kind) {
  return own_or_auto_name(name, kind) + "_preprocessor";
}

}  // namespace

std::string FeatureSpace::Cross::name() const { return fmt::format("{}", fmt::join(options.feature_names, "_X_")); }

FeatureSpace::Feature FeatureSpace::feature(const FeatureOptions& o) {
  if (o.output_mode != "int" && o.output_mode != "one_hot" && o.output_mode != "float") {
    throw_invalid_argument(
        fmt::format("FeatureSpace: unknown output_mode '{}', expected int, one_hot or float", o.output_mode));
  }
  return {o.dtype, o.preprocessor, o.output_mode};
}
FeatureSpace::Feature FeatureSpace::float_(const FeatureNameOptions& o) {
  return {"float32", keras::feature_identity(preprocessor_name(o.name, "float")), "float"};
}
FeatureSpace::Feature FeatureSpace::float_normalized(const FeatureNameOptions& o) {
  return {"float32", layers::Normalization({.name = preprocessor_name(o.name, "float_normalized")}), "float"};
}
FeatureSpace::Feature FeatureSpace::float_rescaled(const RescaledFeatureOptions& o) {
  return {"float32",
          layers::Rescaling(o.scale, {.offset = o.offset, .name = preprocessor_name(o.name, "float_rescaled")}),
          "float"};
}
FeatureSpace::Feature FeatureSpace::float_discretized(const DiscretizedFeatureOptions& o) {
  return feature({.dtype = "float32",
                  .preprocessor = layers::Discretization(
                      {.num_bins = o.num_bins, .name = preprocessor_name(o.name, "float_discretized")}),
                  .output_mode = o.output_mode});
}
FeatureSpace::Feature FeatureSpace::integer_categorical(const CategoricalFeatureOptions& o) {
  return feature({.dtype = "int32",
                  .preprocessor = layers::IntegerLookup({.max_tokens = o.max_tokens,
                                                         .num_oov_indices = o.num_oov_indices,
                                                         .name = preprocessor_name(o.name, "integer_categorical")}),
                  .output_mode = o.output_mode});
}
FeatureSpace::Feature FeatureSpace::string_categorical(const CategoricalFeatureOptions& o) {
  return feature({.dtype = "string",
                  .preprocessor = layers::StringLookup({.max_tokens = o.max_tokens,
                                                        .num_oov_indices = o.num_oov_indices,
                                                        .name = preprocessor_name(o.name, "string_categorical")}),
                  .output_mode = o.output_mode});
}
FeatureSpace::Feature FeatureSpace::string_hashed(const HashedFeatureOptions& o) {
  return feature({.dtype = "string",
                  .preprocessor = layers::Hashing(o.num_bins, {.name = preprocessor_name(o.name, "string_hashed")}),
                  .output_mode = o.output_mode});
}
FeatureSpace::Feature FeatureSpace::integer_hashed(const HashedFeatureOptions& o) {
  return feature({.dtype = "int32",
                  .preprocessor = layers::Hashing(o.num_bins, {.name = preprocessor_name(o.name, "integer_hashed")}),
                  .output_mode = o.output_mode});
}

FeatureSpace::FeatureSpace(const Options& o) : state_(std::make_shared<State>()) {
  if (o.features.empty()) throw_invalid_argument("FeatureSpace requires features");
  if (o.output_mode != "concat" && o.output_mode != "dict") {
    throw_invalid_argument(
        fmt::format("FeatureSpace: unknown output_mode '{}', expected concat or dict", o.output_mode));
  }
  state_->name = o.name.empty() ? keras::auto_name("feature_space") : o.name;
  state_->output_mode = o.output_mode;
  state_->crossing_dim = o.crossing_dim;
  state_->hashing_dim = o.hashing_dim;
  state_->num_discretization_bins = o.num_discretization_bins;
  const auto of_kind = [&](const std::string& kind, const std::string& name) -> Feature {
    if (kind == "float") return float_({.name = name});
    if (kind == "float_normalized") return float_normalized({.name = name});
    if (kind == "float_rescaled") return float_rescaled({.name = name});
    if (kind == "float_discretized") return float_discretized({.num_bins = o.num_discretization_bins, .name = name});
    if (kind == "integer_categorical") return integer_categorical({.name = name});
    if (kind == "string_categorical") return string_categorical({.name = name});
    if (kind == "integer_hashed") return integer_hashed({.num_bins = o.hashing_dim, .name = name});
    if (kind == "string_hashed") return string_hashed({.num_bins = o.hashing_dim, .name = name});
    throw_invalid_argument(fmt::format("FeatureSpace: unknown type '{}' of feature '{}'", kind, name));
  };
  for (const auto& [name, feature] : o.features) {
    const bool known = std::ranges::any_of(state_->features, [&](const auto& other) { return other.first == name; });
    if (known) throw_invalid_argument(fmt::format("FeatureSpace: feature '{}' is given twice", name));
    state_->features.emplace_back(name, feature.feature() ? *feature.feature() : of_kind(feature.kind(), name));
  }
  for (Cross cross : o.crosses) {
    for (const std::string& name : cross.options.feature_names) {
      const bool known = std::ranges::any_of(state_->features, [&](const auto& other) { return other.first == name; });
      if (!known) throw_invalid_argument(fmt::format("FeatureSpace: unknown feature '{}' in crosses", name));
    }
    if (cross.options.crossing_dim == 0) cross.options.crossing_dim = o.crossing_dim;
    LayerHandle layer = layers::HashedCrossing(cross.options.crossing_dim, {.name = cross.name()});
    state_->crosses.emplace_back(std::move(cross), std::move(layer));
  }
  for (const auto& [name, feature] : state_->features)
    state_->inputs.emplace_back(name, layers::Input(Shape{1}, {.dtype = feature.dtype, .name = name}));
}

void FeatureSpace::adapt(const data::Dataset& dataset) const {
  for (const auto& [name, feature] : state_->features) {
    if (!State::learns(feature)) continue;
    data::Dataset column = dataset.map([key = name](const Structure& row) -> data::Element { return row.at(key); });
    const int rank = next(iter(column)).leaf().rank();
    if (rank == 0) column = column.batch(32);
    if (rank <= 1) column = column.map([](const Tensor& x) { return ops::expand_dims(x, -1); });
    feature.preprocessor.adapt(column);
  }
  state_->adapted = true;
}
void FeatureSpace::adapt(const Structure& columns) const { adapt(data::Dataset::from_tensor_slices(columns)); }

Structure FeatureSpace::operator()(const Structure& columns) const {
  state_->require_adapted();
  if (!columns.is_dict()) throw_invalid_argument("FeatureSpace requires a dict of columns");
  static_cast<void>(get_encoded_features());  // makes the encoders, which the categories of the features need
  std::map<std::string, Tensor> given;
  bool one_row = false;
  for (const auto& [name, value] : columns.entries()) {
    Tensor column = value.leaf();
    if (column.rank() == 0) {
      column = ops::reshape(column, {1, 1});
      one_row = true;
    } else if (column.rank() == 1) {
      column = ops::expand_dims(column, -1);
    }
    given[name] = std::move(column);
  }
  const Structure encoded = state_->encode(given);
  if (!one_row) return encoded;
  return encoded.map([](const Tensor& x) { return x.rank() == 2 && x.dim(0) == 1 ? ops::squeeze(x, {0}) : x; });
}

Structure FeatureSpace::get_inputs() const {
  Structure::Dict inputs;
  for (const auto& [name, input] : state_->inputs) inputs.emplace_back(name, input);
  return Structure::dict(std::move(inputs));
}

Structure FeatureSpace::get_encoded_features() const {
  state_->require_adapted();
  if (!state_->encoded) state_->encoded = state_->encode({state_->inputs.begin(), state_->inputs.end()});
  return *state_->encoded;
}

std::map<std::string, LayerHandle> FeatureSpace::preprocessors() const {
  std::map<std::string, LayerHandle> layers;
  for (const auto& [name, feature] : state_->features) layers.emplace(name, feature.preprocessor);
  return layers;
}
std::map<std::string, LayerHandle> FeatureSpace::crossers() const {
  std::map<std::string, LayerHandle> layers;
  for (const auto& [cross, layer] : state_->crosses) layers.emplace(cross.name(), layer);
  return layers;
}

std::string FeatureSpace::name() const { return state_->name; }

}  // namespace lockstep::utils
