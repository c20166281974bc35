#include "lockstep/keras/losses/bases.h"

namespace lockstep::losses {

BuiltInLoss::BuiltInLoss(LossPtr built_in) : built_in_(std::move(built_in)) {
  name_ = built_in_->name_;
  reduction_ = built_in_->reduction_;
}
BuiltInLoss::BuiltInLoss(const char* class_name, const Json& config) : BuiltInLoss(of_class(class_name, config)) {}
LossPtr BuiltInLoss::of_class(const char* class_name, const Json& config) {
  return deserialize({{"module", "keras.losses"}, {"class_name", class_name}, {"config", config}});
}

bool BuiltInLoss::mixes_rows(int rank) const { return built_in_->mixes_rows(rank); }

Tensor BuiltInLoss::valid_mask(const Tensor& y_true, const Tensor& y_pred, const Tensor& values) const {
  return built_in_->valid_mask(y_true, y_pred, values);
}

Json BuiltInLoss::get_config() const {
  Json config = built_in_.get_config();
  config["name"] = name();
  return config;
}

}  // namespace lockstep::losses
