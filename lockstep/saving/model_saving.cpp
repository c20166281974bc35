// The saving methods of keras::Model and utils::FeatureSpace.
#include "lockstep/keras/feature_space_internal.h"
#include "lockstep/saving/keras_saving.h"

namespace lockstep::keras {

void Model::save(const TextArg& path, bool overwrite) const {
  saving::save_model(*impl(), path, {.overwrite = overwrite});
}
void Model::save_weights(const TextArg& path, bool overwrite) const { saving::save_weights(*impl(), path, overwrite); }
void Model::load_weights(const TextArg& path, bool skip_mismatch) const {
  saving::load_weights(*impl(), path, {.skip_mismatch = skip_mismatch});
}

std::string Model::to_json() const { return dump_json(saving::model_config(*impl())); }

}  // namespace lockstep::keras

namespace lockstep::utils {

void FeatureSpace::save(const std::string& path) const {
  FeatureSpaceModel model(*this);
  saving::save_model(model, path);
}

}  // namespace lockstep::utils
