#include "lockstep/keras/metrics/metric.h"

namespace lockstep::metrics {

VariablePtr Metric::add_variable(const Shape& shape, std::string_view name, DType dtype) {
  distribute::VariableOptions options;
  options.name = std::string(name);
  options.trainable = false;
  options.synchronization = distribute::VariableSynchronization::kOnRead;
  options.aggregation = distribute::VariableAggregation::kSum;
  VariablePtr variable = distribute::Variable::create(Tensor::zeros(shape, dtype), options);
  variable->set_path(name_ + "/" + options.name);
  variables_.push_back(variable);
  return variable;
}

void Metric::reset_state() {
  for (const VariablePtr& variable : variables_) variable->assign(Tensor::zeros(variable->shape(), variable->dtype()));
}

Tensor Metric::operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
  update_state(y_true, y_pred, sample_weight);
  return result();
}

Json Metric::config() const { return {{"name", name_}, {"dtype", dtype_.empty() ? "float32" : dtype_}}; }

}  // namespace lockstep::metrics
