// What a FeatureSpace is made of, and the model that its file is read as.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/feature_space.h"
#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/models/model_impl.h"

namespace lockstep::utils {

struct FeatureSpace::State {
  std::string name;
  std::vector<std::pair<std::string, Feature>> features;
  std::vector<std::pair<Cross, keras::LayerHandle>> crosses;
  std::string output_mode;
  std::int64_t crossing_dim = 0, hashing_dim = 0, num_discretization_bins = 0;
  std::vector<std::pair<std::string, keras::LayerHandle>> one_hot_encoders;
  std::vector<std::pair<std::string, Tensor>> inputs;
  keras::LayerHandle concat;
  bool adapted = false;
  std::optional<keras::Structure> encoded;

  static bool learns(const Feature& feature);
  // The output of `layer`, as its feature or cross is encoded.
  Tensor encoded_column(const std::string& column, const keras::LayerHandle& layer, const std::string& mode,
                        Tensor value);
  keras::Structure encode(const std::map<std::string, Tensor>& columns);
  void require_adapted();
  // The attributes that files have, in Keras's order.
  std::vector<std::pair<std::string, keras::LayerTree>> attributes() const;
};

// A FeatureSpace as a model, from the columns to what they are encoded to. Files have it as a FeatureSpace.
class FeatureSpaceModel : public keras::FunctionalImpl {
 public:
  explicit FeatureSpaceModel(FeatureSpace space);
  std::string class_name() const override { return "FeatureSpace"; }
  Json module() const override { return "keras.utils"; }
  Json registered_name() const override { return nullptr; }
  Json get_config() const override { return space_.get_config(); }
  Json get_build_config() const override;
  const FeatureSpace& space() const { return space_; }
  static std::vector<std::pair<std::string, keras::LayerTree>> attributes_of(const FeatureSpace& space) {
    return space.state_->attributes();
  }

 private:
  FeatureSpace space_;
};

}  // namespace lockstep::utils
