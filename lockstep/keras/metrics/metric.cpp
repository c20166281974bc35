#include "lockstep/keras/metrics/metric.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/metrics/fields_internal.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::metrics {

Metric::~Metric() = default;

VariablePtr Metric::add_variable(const Shape& shape, std::string_view name, DType dtype) {
  distribute::VariableOptions options;
  options.name = std::string(name);
  options.trainable = false;
  options.synchronization = distribute::VariableSynchronization::kOnRead;
  options.aggregation = distribute::VariableAggregation::kSum;
  VariablePtr variable = distribute::Variable::create(Tensor::zeros(shape, dtype), options);
  variable->set_path(this->name() + "/" + options.name);
  variables_.push_back(variable);
  return variable;
}

VariablePtr Metric::add_variable(const MetricVariableOptions& options) {
  const DType dtype = options.dtype.get().value_or(DType::kFloat32);
  const std::string name = options.name.empty() ? "variable" : options.name;
  const VariablePtr variable = add_variable(options.shape, name, dtype);
  variable->assign(initializers::get(options.initializer)(options.shape, dtype));
  return variable;
}

MetricPtr Metric::track(const std::string&, const MetricPtr& metric) {
  track_variables(*metric);
  return metric;
}
void Metric::track_variables(const Metric& metric) {
  variables_.insert(variables_.end(), metric.variables_.begin(), metric.variables_.end());
}

void Metric::reset_state() {
  for (const VariablePtr& variable : variables_) variable->assign(Tensor::zeros(variable->shape(), variable->dtype()));
}

namespace {

// The metric whose update_state() without a mask calls the one with a mask on this thread.
thread_local const Metric* t_without_mask = nullptr;

class WithoutMask {
 public:
  explicit WithoutMask(const Metric* metric) : previous_(std::exchange(t_without_mask, metric)) {}
  ~WithoutMask() { t_without_mask = previous_; }
  WithoutMask(const WithoutMask&) = delete;
  WithoutMask& operator=(const WithoutMask&) = delete;

 private:
  const Metric* previous_;
};

}  // namespace

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
  if (t_without_mask == this)
    throw_unimplemented(fmt::format("metric '{}': its class does not override update_state()", name()));
  const WithoutMask scope(this);
  update_state(y_true, y_pred, sample_weight, {});
}

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight, const Tensor&) {
  update_state(y_true, y_pred, sample_weight);
}

Tensor Metric::operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
  update_state(y_true, y_pred, sample_weight, {});
  return result();
}

std::string Metric::name() const { return name_.empty() ? keras::to_snake_case(class_name()) : name_; }

Json Metric::get_config() const { return {{"name", name()}, {"dtype", dtype_.empty() ? "float32" : dtype_}}; }

void Metric::set_base_config(const Json& config) {
  keras::FieldReader reader(class_name(), config);
  reader("name", name_);
  reader("dtype", MetricDtype{dtype_});
}

}  // namespace lockstep::metrics
