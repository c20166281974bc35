// keras.utils.FeatureSpace: the columns of a table as numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/json.h"
#include "lockstep/data/dataset.h"
#include "lockstep/keras/layers/layer_handle.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/nested.h"

namespace lockstep::utils {

// Keyword arguments of the kinds of features.
struct FeatureNameOptions {
  FieldNamesOnly names_only = {};
  std::string name = {};
};
struct RescaledFeatureOptions {
  FieldNamesOnly names_only = {};
  double scale = 1.0;
  double offset = 0.0;
  std::string name = {};
};
struct DiscretizedFeatureOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num_bins = 0;
  std::string output_mode = "one_hot";
  std::string name = {};
};
struct CategoricalFeatureOptions {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> max_tokens = std::nullopt;
  std::int64_t num_oov_indices = 1;
  std::string output_mode = "one_hot";
  std::string name = {};
};
struct HashedFeatureOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num_bins = 0;
  std::string output_mode = "one_hot";
  std::string name = {};
};

//   using ls::utils::FeatureSpace;
//   FeatureSpace feature_space({.features = {{"age", "float_normalized"}, {"thal",
//   FeatureSpace::string_categorical()}},
//                               .crosses = {{"sex", "age"}}});
//   feature_space.adapt(dataset_of_dicts);
//   train = train.map([&](const ls::Structure& x, const ls::Tensor& y) { return std::pair{feature_space(x), y}; });
//
// The order of columns, their numbers and the names of layers are Keras's. Copies share the layers. A model from
// get_inputs() to what get_encoded_features() gives contains the layers; save() writes them without one, and
// keras::load_model() gives a model of such a file.
class FeatureSpace {
 public:
  // What a column holds, and how it is encoded: "int", "one_hot" (of integers) or "float".
  struct Feature {
    std::string dtype;
    keras::LayerHandle preprocessor;
    std::string output_mode;
  };
  // A feature, or its kind by name with the defaults of FeatureSpace: "float", "float_normalized", "float_rescaled",
  // "float_discretized", "integer_categorical", "string_categorical", "integer_hashed", "string_hashed".
  class FeatureArg {
   public:
    FeatureArg(const char* kind) : kind_(kind) {}
    FeatureArg(std::string kind) : kind_(std::move(kind)) {}
    FeatureArg(Feature feature) : feature_(std::move(feature)) {}
    const std::string& kind() const { return kind_; }
    const std::optional<Feature>& feature() const { return feature_; }

   private:
    std::string kind_;
    std::optional<Feature> feature_;
  };
  struct CrossOptions {
    FieldNamesOnly names_only = {};
    std::vector<std::string> feature_names = {};
    std::int64_t crossing_dim = 0;  // 0: that of the FeatureSpace
    std::string output_mode = "one_hot";
  };
  // Features whose combination is hashed: their names in braces, or cross().
  class Cross {
   public:
    Cross(std::initializer_list<std::string> feature_names) : options{{}, feature_names} {}
    Cross(CrossOptions cross) : options(std::move(cross)) {}
    std::string name() const;  // "a_X_b"

    CrossOptions options;
  };
  static Cross cross(const CrossOptions& options) { return {options}; }
  static Cross cross(std::vector<std::string> feature_names, std::int64_t crossing_dim) {
    return {CrossOptions{{}, std::move(feature_names), crossing_dim}};
  }

  struct FeatureOptions {
    FieldNamesOnly names_only = {};
    std::string dtype = {};
    keras::LayerHandle preprocessor = {};
    std::string output_mode = {};
  };
  static Feature feature(const FeatureOptions& options);
  // FeatureSpace.float: `float` is a keyword of C++.
  static Feature float_(const FeatureNameOptions& options = {});
  static Feature float_normalized(const FeatureNameOptions& options = {});
  static Feature float_rescaled(const RescaledFeatureOptions& options = {});
  static Feature float_discretized(const DiscretizedFeatureOptions& options);
  static Feature float_discretized(std::int64_t num_bins) { return float_discretized({.num_bins = num_bins}); }
  static Feature integer_categorical(const CategoricalFeatureOptions& options = {});
  static Feature string_categorical(const CategoricalFeatureOptions& options = {});
  static Feature string_hashed(const HashedFeatureOptions& options);
  static Feature string_hashed(std::int64_t num_bins) { return string_hashed({.num_bins = num_bins}); }
  static Feature integer_hashed(const HashedFeatureOptions& options);
  static Feature integer_hashed(std::int64_t num_bins) { return integer_hashed({.num_bins = num_bins}); }

  struct Options {
    FieldNamesOnly names_only = {};
    std::vector<std::pair<std::string, FeatureArg>> features = {};
    std::string output_mode = "concat";  // one vector, columns in the order of their names; or "dict"
    std::vector<Cross> crosses = {};
    std::int64_t crossing_dim = 32;
    std::int64_t hashing_dim = 32;
    std::int64_t num_discretization_bins = 32;
    std::string name = {};
  };
  // Throws InvalidArgument for unknown kinds, names and modes.
  explicit FeatureSpace(const Options& options);
  // The one that a model read from its file is: FeatureSpace(keras::load_model("space.keras")). Throws InvalidArgument
  // for other models.
  template <std::derived_from<keras::Model> M>
  explicit FeatureSpace(const M& model) : FeatureSpace(of_model(model)) {}
  // From the result of get_config(); what it has learned is in files only. Throws as load_model does.
  static FeatureSpace from_config(const Json& config);
  Json get_config() const;
  // A .keras file, which Keras's load_model reads. Throws FailedPrecondition before adapt() where a feature learns, and
  // InvalidArgument for another suffix.
  void save(const std::string& path) const;

  // Learns from a dataset of dicts, batched or not, or from a dict of arrays.
  void adapt(const data::Dataset& dataset) const;
  void adapt(const keras::Structure& columns) const;
  // Of a dict of columns (batch) or (batch, 1), or of one row of scalars. Throws FailedPrecondition before adapt()
  // where a feature learns, and InvalidArgument for a column that is missing or cannot be encoded.
  keras::Structure operator()(const keras::Structure& columns) const;
  // The symbolic inputs by name, and what they are encoded to.
  keras::Structure get_inputs() const;
  keras::Structure get_encoded_features() const;
  std::map<std::string, keras::LayerHandle> preprocessors() const;
  std::map<std::string, keras::LayerHandle> crossers() const;
  std::string name() const;

 private:
  friend class FeatureSpaceModel;
  static FeatureSpace of_model(const keras::Model& model);
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::utils
