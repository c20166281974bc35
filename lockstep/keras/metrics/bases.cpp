#include "lockstep/keras/metrics/bases.h"

#include "lockstep/base/overrides_internal.h"

namespace lockstep::metrics {

BuiltInMetric::BuiltInMetric(MetricPtr built_in) : built_in_(std::move(built_in)) {
  if (!built_in_) return;
  name_ = built_in_->name_;
  dtype_ = built_in_->dtype_;
  take_variables();
}
BuiltInMetric::BuiltInMetric(const char* class_name, const Json& config)
    : BuiltInMetric(of_class(class_name, config)) {}
MetricPtr BuiltInMetric::of_class(const char* class_name, const Json& config) {
  return deserialize({{"module", "keras.metrics"}, {"class_name", class_name}, {"config", config}});
}

const BuiltInMetric& BuiltInMetric::plain() {
  static const auto* const metric = new BuiltInMetric(MetricPtr());
  return *metric;
}

void BuiltInMetric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
  built_in_.update_state(y_true, y_pred, sample_weight, y_pred.defined() ? y_pred.mask() : Tensor());
  take_variables();
}

void BuiltInMetric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                                 const Tensor& mask) {
  using Update = void (Metric::*)(const Tensor&, const Tensor&, const Tensor&);
  const bool own = overrides<Metric>(*this, plain(), Update(&Metric::update_state));
  if (own) return update_state(y_true, y_pred, sample_weight);
  built_in_.update_state(y_true, y_pred, sample_weight, mask);
  take_variables();
}

void BuiltInMetric::take_variables() {
  for (; taken_ < built_in_->variables_.size(); ++taken_) variables_.push_back(built_in_->variables_[taken_]);
}

Tensor BuiltInMetric::result() const { return built_in_.result(); }
void BuiltInMetric::reset_state() {
  Metric::reset_state();
  built_in_.reset_state();
}
Metric::Direction BuiltInMetric::direction() const { return built_in_->direction(); }

Json BuiltInMetric::get_config() const {
  Json config = built_in_.get_config();
  config["name"] = name();
  return config;
}

}  // namespace lockstep::metrics
