#include "lockstep/keras/trainer/metric_state_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

std::vector<double> numbers_of(const Tensor& value) { return ops::cast(value, DType::kFloat64).to_vector<double>(); }

void restore_copies(distribute::VariableImpl& variable, const Json& copies) {
  const auto numbers = copies.get<std::vector<std::vector<double>>>();
  const auto count = static_cast<std::size_t>(variable.num_copies());
  std::vector<double> sum(static_cast<std::size_t>(variable.shape().num_elements().value_or(0)));
  for (const auto& copy : numbers) {
    if (copy.size() != sum.size())
      throw_invalid_argument(fmt::format("invalid saved state of metric variable '{}': found {} numbers, expected {}",
                                         variable.path(), copy.size(), sum.size()));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += copy[i];
  }
  for (std::size_t replica = 0; replica < count; ++replica) {
    const std::vector<double> zeros(sum.size());
    const auto& values = numbers.size() == count ? numbers[replica] : replica == 0 ? sum : zeros;
    variable.set_copy(static_cast<int>(replica),
                      ops::cast(Tensor::from_vector(values, variable.shape()), variable.dtype()));
  }
}

}  // namespace

Json save_metric_state(const metrics::Metric& metric) {
  Json state = Json::array();
  for (const auto& variable : metric.variables()) {
    Json copies = Json::array();
    for (int replica = 0; replica < variable->num_copies(); ++replica)
      copies.push_back(numbers_of(variable->copy(replica)));
    state.push_back(std::move(copies));
  }
  return state;
}

void restore_metric_state(const metrics::Metric& metric, const Json& state) {
  const auto& variables = metric.variables();
  if (state.size() != variables.size()) {
    throw_invalid_argument(fmt::format("invalid saved state of metric '{}': found {} variables, expected {}",
                                       metric.name(), state.size(), variables.size()));
  }
  for (std::size_t i = 0; i < variables.size(); ++i) restore_copies(*variables[i], state[i]);
}

void clear_metric_state(const metrics::Metric& metric) {
  for (const auto& variable : metric.variables()) {
    for (int replica = 0; replica < variable->num_copies(); ++replica)
      variable->set_copy(replica, Tensor::zeros(variable->shape(), variable->dtype()));
  }
}

LogValue metric_log_value(const metrics::Metric& metric) {
  const Tensor value = metric.result();
  return value.rank() == 0 ? LogValue(ops::cast(value, DType::kFloat64).item<double>()) : LogValue(numbers_of(value));
}

}  // namespace lockstep::keras
