// tf.train.ExponentialMovingAverage: averages of variables over the steps of a training.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/train/trackable.h"

namespace lockstep::train {

struct MovingAverageOptions {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> num_updates = std::nullopt;  // the decay is at most (1 + n) / (10 + n)
  std::string name = "ExponentialMovingAverage";
};

//   train::ExponentialMovingAverage ema(0.999);
//   optimizer.apply_gradients(zip(grads, model.trainable_variables()));
//   ema.apply(model.trainable_variables());
//   for (const auto& v : model.trainable_variables()) v.assign(ema.average(v));
//
// Copies share the averages.
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(double decay, MovingAverageOptions options = {});

  // average = decay * average + (1 - decay) * variable. The first call makes the averages, with the values of the
  // variables. Throws InvalidArgument for variables that are not of floating point.
  void apply(const std::vector<Variable>& var_list);
  // Empty for a variable that no call of apply() had.
  Variable average(const Variable& var) const;
  // "kernel/ExponentialMovingAverage".
  std::string average_name(const Variable& var) const;
  std::string name() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::train
