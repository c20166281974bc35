// keras.optimizers.schedules: learning rates that change with the step. Computed in float32 as Keras does.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/handle.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::schedules {

class LearningRateSchedule {
 public:
  using KerasFamily = LearningRateSchedule;
  virtual ~LearningRateSchedule() = default;
  // By default the name of the C++ class.
  virtual std::string class_name() const { return keras::unqualified_name(typeid(*this)); }
  // The rate at optimizer step `step`, counted from 0. A class overrides one of the two; the tensor is an int64 scalar.
  virtual float operator()(std::int64_t step) const;
  virtual Tensor operator()(const Tensor& step) const;
  // The constructor's arguments.
  virtual Json get_config() const { return Json::object(); }
};

// A handle of a schedule, which functions return and take.
class SchedulePtr : public keras::Handle<LearningRateSchedule> {
 public:
  using Handle::Handle;
  float operator()(std::int64_t step) const { return object()(step); }
  // Of a tensor or a variable of one element.
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) Tensor operator()(const T& step) const {
    return rate_at(static_cast<Tensor>(step));
  }
  Json get_config() const { return object().get_config(); }

 private:
  Tensor rate_at(const Tensor& step) const;
};

// Whether a JSON value is a schedule's config rather than a number.
bool is_schedule(const Json& value);
// Throws InvalidArgument for an unknown class or a missing keyword.
SchedulePtr deserialize(const Json& config);
Json serialize(const SchedulePtr& schedule);
// Of an object of a user-defined class.
template <std::derived_from<LearningRateSchedule> T>
Json serialize(const T& object) {
  return serialize(SchedulePtr(
      std::shared_ptr<LearningRateSchedule>(std::shared_ptr<LearningRateSchedule>(), const_cast<T*>(&object))));
}

// Arguments without a default are given by position or by name: ExponentialDecay(0.1, 1000, 0.9),
// ExponentialDecay(0.1, {.decay_steps = 1000, .decay_rate = 0.9}). Throws InvalidArgument for one that is missing.
#define LOCKSTEP_RATE_AND_STEPS_BY_POSITION(Class, steps)                                             \
  inline SchedulePtr Class(double initial_learning_rate, Class##Options options) {                    \
    options.initial_learning_rate = initial_learning_rate;                                            \
    return Class(std::move(options));                                                                 \
  }                                                                                                   \
  inline SchedulePtr Class(double initial_learning_rate, double steps, Class##Options options = {}) { \
    options.steps = steps;                                                                            \
    return Class(initial_learning_rate, std::move(options));                                          \
  }
#define LOCKSTEP_DECAY_RATE_BY_POSITION(Class)                                                  \
  inline SchedulePtr Class(double initial_learning_rate, double decay_steps, double decay_rate, \
                           Class##Options options = {}) {                                       \
    options.decay_rate = decay_rate;                                                            \
    return Class(initial_learning_rate, decay_steps, std::move(options));                       \
  }

struct ExponentialDecayOptions {
  FieldNamesOnly names_only = {};
  std::optional<double> initial_learning_rate = std::nullopt;
  std::optional<double> decay_steps = std::nullopt;
  std::optional<double> decay_rate = std::nullopt;
  bool staircase = false;
  std::string name = "ExponentialDecay";
};
// lr · rate^(t / steps); staircase: the exponent is floored.
SchedulePtr ExponentialDecay(ExponentialDecayOptions options);
LOCKSTEP_RATE_AND_STEPS_BY_POSITION(ExponentialDecay, decay_steps)
LOCKSTEP_DECAY_RATE_BY_POSITION(ExponentialDecay)

struct InverseTimeDecayOptions {
  FieldNamesOnly names_only = {};
  std::optional<double> initial_learning_rate = std::nullopt;
  std::optional<double> decay_steps = std::nullopt;
  std::optional<double> decay_rate = std::nullopt;
  bool staircase = false;
  std::string name = "InverseTimeDecay";
};
// lr / (1 + rate · t / steps).
SchedulePtr InverseTimeDecay(InverseTimeDecayOptions options);
LOCKSTEP_RATE_AND_STEPS_BY_POSITION(InverseTimeDecay, decay_steps)
LOCKSTEP_DECAY_RATE_BY_POSITION(InverseTimeDecay)

struct PolynomialDecayOptions {
  FieldNamesOnly names_only = {};
  std::optional<double> initial_learning_rate = std::nullopt;
  std::optional<double> decay_steps = std::nullopt;
  double end_learning_rate = 0.0001;
  double power = 1.0;
  bool cycle = false;
  std::string name = "PolynomialDecay";
};
// (lr - end) · (1 - min(t, S) / S)^power + end; cycle: S becomes the next multiple of itself above t.
SchedulePtr PolynomialDecay(PolynomialDecayOptions options);
LOCKSTEP_RATE_AND_STEPS_BY_POSITION(PolynomialDecay, decay_steps)

struct CosineDecayOptions {
  FieldNamesOnly names_only = {};
  std::optional<double> initial_learning_rate = std::nullopt;
  std::optional<double> decay_steps = std::nullopt;
  double alpha = 0.0;
  std::string name = "CosineDecay";
  std::optional<double> warmup_target = std::nullopt;  // none: no warmup
  std::int64_t warmup_steps = 0;
};
// lr · ((1 - alpha) · ½ (1 + cos(π t / S)) + alpha); with warmup first linearly from lr to its target.
SchedulePtr CosineDecay(CosineDecayOptions options);
LOCKSTEP_RATE_AND_STEPS_BY_POSITION(CosineDecay, decay_steps)

struct CosineDecayRestartsOptions {
  FieldNamesOnly names_only = {};
  std::optional<double> initial_learning_rate = std::nullopt;
  std::optional<double> first_decay_steps = std::nullopt;
  double t_mul = 2.0;
  double m_mul = 1.0;
  double alpha = 0.0;
  std::string name = "SGDRDecay";
};
// Cosine decay that starts again: each period is t_mul times as long as the one before, and its first rate m_mul times
// as high.
SchedulePtr CosineDecayRestarts(CosineDecayRestartsOptions options);
LOCKSTEP_RATE_AND_STEPS_BY_POSITION(CosineDecayRestarts, first_decay_steps)

#undef LOCKSTEP_RATE_AND_STEPS_BY_POSITION
#undef LOCKSTEP_DECAY_RATE_BY_POSITION

// A list of numbers, also of a vector of integers.
class NumberList : public std::vector<double> {
 public:
  using std::vector<double>::vector;
  template <typename T>
  requires std::is_arithmetic_v<T> NumberList(const std::vector<T>& numbers)
      : std::vector<double>(numbers.begin(), numbers.end()) {}
};
struct PiecewiseConstantDecayOptions {
  FieldNamesOnly names_only = {};
  NumberList boundaries = {};
  NumberList values = {};
  std::string name = "PiecewiseConstant";
};
// values[i] where i boundaries are below t. Throws InvalidArgument unless there is one value more than boundaries.
SchedulePtr PiecewiseConstantDecay(PiecewiseConstantDecayOptions options);
inline SchedulePtr PiecewiseConstantDecay(NumberList boundaries, NumberList values,
                                          std::string name = "PiecewiseConstant") {
  return PiecewiseConstantDecay(
      {.boundaries = std::move(boundaries), .values = std::move(values), .name = std::move(name)});
}

}  // namespace lockstep::schedules

namespace lockstep::optimizers {
namespace schedules = lockstep::schedules;
}
