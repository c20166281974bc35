// Keras's learning-rate schedules as classes, to derive from.
//
//   class WarmUp : public schedules::CosineDecay {
//    public:
//     WarmUp() : CosineDecay(0.1, 1000) {}
//     float operator()(std::int64_t step) const override { return step < 10 ? 0.01f : CosineDecay::operator()(step); }
//   };
//
// An object of a registered class without a get_config() of its own is read again where the class inherits the
// constructors: using ExponentialDecay::ExponentialDecay.
#pragma once

#include <concepts>
#include <utility>

#include "lockstep/keras/schedules/schedules.h"

namespace lockstep::schedules {

// Forwards each call to the built-in schedule that it contains.
class BuiltInSchedule : public LearningRateSchedule {
 public:
  using LearningRateSchedule::operator();
  float operator()(std::int64_t step) const override { return built_in_(step); }
  Json get_config() const override { return built_in_.get_config(); }

 protected:
  explicit BuiltInSchedule(SchedulePtr built_in) : built_in_(std::move(built_in)) {}
  BuiltInSchedule(const char* class_name, const Json& config);
  // Keras's own object: schedules::ExponentialDecay::from_config(config).
  static SchedulePtr of_class(const char* class_name, const Json& config);

 private:
  const SchedulePtr built_in_;
};

#define LOCKSTEP_BASE(Name, parameters, arguments)                                         \
  class Name : public BuiltInSchedule {                                                    \
   public:                                                                                 \
    explicit Name parameters : BuiltInSchedule(schedules::Name arguments) {}               \
    template <std::same_as<keras::detail::ConfigOnly> Config>                              \
    explicit Name(const Config& config) : BuiltInSchedule(#Name, config.config) {}         \
    static SchedulePtr from_config(const Json& config) { return of_class(#Name, config); } \
  };
LOCKSTEP_BASE(ExponentialDecay,
              (double initial_learning_rate, double decay_steps, double decay_rate,
               ExponentialDecayOptions options = {}),
              (initial_learning_rate, decay_steps, decay_rate, std::move(options)))
LOCKSTEP_BASE(InverseTimeDecay,
              (double initial_learning_rate, double decay_steps, double decay_rate,
               InverseTimeDecayOptions options = {}),
              (initial_learning_rate, decay_steps, decay_rate, std::move(options)))
LOCKSTEP_BASE(PolynomialDecay, (double initial_learning_rate, double decay_steps, PolynomialDecayOptions options = {}),
              (initial_learning_rate, decay_steps, std::move(options)))
LOCKSTEP_BASE(CosineDecay, (double initial_learning_rate, double decay_steps, CosineDecayOptions options = {}),
              (initial_learning_rate, decay_steps, std::move(options)))
LOCKSTEP_BASE(CosineDecayRestarts,
              (double initial_learning_rate, double first_decay_steps, CosineDecayRestartsOptions options = {}),
              (initial_learning_rate, first_decay_steps, std::move(options)))
LOCKSTEP_BASE(PiecewiseConstantDecay,
              (std::vector<double> boundaries, std::vector<double> values, std::string name = "PiecewiseConstant"),
              (std::move(boundaries), std::move(values), std::move(name)))
#undef LOCKSTEP_BASE

}  // namespace lockstep::schedules
