// The saving methods of keras::Model and utils::FeatureSpace.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/feature_space_internal.h"
#include "lockstep/saving/keras_export.h"
#include "lockstep/saving/keras_saving.h"

namespace lockstep::keras {

void Model::save(const TextArg& path, bool overwrite) const { save(path, SaveOptions{.overwrite = overwrite}); }
void Model::save(const TextArg& path, const SaveOptions& options) const {
  saving::save_model(*impl(), path, {.overwrite = options.overwrite, .include_optimizer = options.include_optimizer});
}
void Model::save_weights(const TextArg& path, bool overwrite) const { saving::save_weights(*impl(), path, overwrite); }
void Model::load_weights(const TextArg& path, bool skip_mismatch) const {
  load_weights(path, LoadWeightsOptions{.skip_mismatch = skip_mismatch});
}
void Model::load_weights(const TextArg& path, const LoadWeightsOptions& options) const {
  saving::load_weights(*impl(), path, {.skip_mismatch = options.skip_mismatch, .by_name = options.by_name});
}
void Model::export_(const TextArg& filepath, const ExportOptions& options) const {
  if (options.format != "tf_saved_model") {
    throw_invalid_argument(fmt::format("model '{}' cannot be exported as \"{}\": the format is \"tf_saved_model\"",
                                       name(), options.format));
  }
  saved_model::save(saved_model::exportable(*this, options.input_signature), filepath);
}

std::string Model::to_json() const { return dump_json(saving::model_config(*impl())); }

}  // namespace lockstep::keras

namespace lockstep::utils {

void FeatureSpace::save(const std::string& path) const {
  FeatureSpaceModel model(*this);
  saving::save_model(model, path);
}

}  // namespace lockstep::utils
