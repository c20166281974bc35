#include "lockstep/train/moving_average.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/operators.h"

namespace lockstep::train {

struct ExponentialMovingAverage::State {
  double decay;
  MovingAverageOptions options;
  std::map<Variable, Variable, std::owner_less<>> averages;  // by the variable
};

ExponentialMovingAverage::ExponentialMovingAverage(double decay, MovingAverageOptions options)
    : state_(std::make_shared<State>(State{decay, std::move(options), {}})) {}

void ExponentialMovingAverage::apply(const std::vector<Variable>& var_list) {
  for (const Variable& var : var_list) {
    if (!is_floating(var.dtype())) {
      throw_invalid_argument(
          fmt::format("ExponentialMovingAverage: variable '{}' has dtype {}, expected a floating one", var.name(),
                      dtype_name(var.dtype())));
    }
    if (average(var)) continue;
    state_->averages.emplace(var, Variable(var.read(), {.trainable = false, .name = average_name(var)}));
  }
  auto decay = static_cast<float>(state_->decay);
  if (const auto n = state_->options.num_updates)
    decay = std::min(decay, (1.0f + static_cast<float>(*n)) / (10.0f + static_cast<float>(*n)));
  for (const Variable& var : var_list) {
    const Variable mean = average(var);
    mean.assign_sub((mean - var) * (1.0f - decay));
  }
}
Variable ExponentialMovingAverage::average(const Variable& var) const {
  const auto found = state_->averages.find(var);
  return found == state_->averages.end() ? Variable() : found->second;
}
std::string ExponentialMovingAverage::average_name(const Variable& var) const {
  return var.name() + "/" + state_->options.name;
}
std::string ExponentialMovingAverage::name() const { return state_->options.name; }

}  // namespace lockstep::train
