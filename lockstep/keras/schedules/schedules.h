// keras.optimizers.schedules: learning rates that change with the step. Computed in float32 as Keras does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/handle.h"
#include "lockstep/keras/serialization.h"

namespace lockstep::schedules {

class LearningRateSchedule {
 public:
  using KerasFamily = LearningRateSchedule;
  virtual ~LearningRateSchedule() = default;
  // By default the name of the C++ class.
  virtual std::string class_name() const { return keras::unqualified_name(typeid(*this)); }
  // The rate at optimizer step `step`, counted from 0.
  virtual float operator()(std::int64_t step) const = 0;
  // The constructor's arguments.
  virtual Json get_config() const { return Json::object(); }
};

// A handle of a schedule, which functions return and take.
class SchedulePtr : public keras::Handle<LearningRateSchedule> {
 public:
  using Handle::Handle;
  float operator()(std::int64_t step) const { return object()(step); }
  Json get_config() const { return object().get_config(); }
};

// Whether a JSON value is a schedule's config rather than a number.
bool is_schedule(const Json& value);
// Throws InvalidArgument for an unknown class or a missing keyword.
SchedulePtr deserialize(const Json& config);
Json serialize(const SchedulePtr& schedule);

// Required arguments are given by position or by name: ExponentialDecay(0.1, {.decay_steps = 1000, .decay_rate = 0.9}).
// Throws InvalidArgument for one that is missing.
double required(const std::optional<double>& value, const char* class_name, const char* argument);

struct ExponentialDecayOptions {
  FieldNamesOnly names_only = {};
  std::optional<double> initial_learning_rate = std::nullopt;
  std::optional<double> decay_steps = std::nullopt;
  std::optional<double> decay_rate = std::nullopt;
  bool staircase = false;
  std::string name = "ExponentialDecay";
};
// lr · rate^(t / steps); staircase: the exponent is floored.
SchedulePtr ExponentialDecay(double initial_learning_rate, double decay_steps, double decay_rate,
                             ExponentialDecayOptions options = {});
inline SchedulePtr ExponentialDecay(const ExponentialDecayOptions& o) {
  return ExponentialDecay(required(o.initial_learning_rate, "ExponentialDecay", "initial_learning_rate"),
                          required(o.decay_steps, "ExponentialDecay", "decay_steps"),
                          required(o.decay_rate, "ExponentialDecay", "decay_rate"), o);
}
inline SchedulePtr ExponentialDecay(double initial_learning_rate, const ExponentialDecayOptions& o) {
  return ExponentialDecay(initial_learning_rate, required(o.decay_steps, "ExponentialDecay", "decay_steps"),
                          required(o.decay_rate, "ExponentialDecay", "decay_rate"), o);
}
inline SchedulePtr ExponentialDecay(double initial_learning_rate, double decay_steps,
                                    const ExponentialDecayOptions& o) {
  return ExponentialDecay(initial_learning_rate, decay_steps, required(o.decay_rate, "ExponentialDecay", "decay_rate"),
                          o);
}

struct InverseTimeDecayOptions {
  FieldNamesOnly names_only = {};
  std::optional<double> initial_learning_rate = std::nullopt;
  std::optional<double> decay_steps = std::nullopt;
  std::optional<double> decay_rate = std::nullopt;
  bool staircase = false;
  std::string name = "InverseTimeDecay";
};
// lr / (1 + rate · t / steps).
SchedulePtr InverseTimeDecay(double initial_learning_rate, double decay_steps, double decay_rate,
                             InverseTimeDecayOptions options = {});
inline SchedulePtr InverseTimeDecay(const InverseTimeDecayOptions& o) {
  return InverseTimeDecay(required(o.initial_learning_rate, "InverseTimeDecay", "initial_learning_rate"),
                          required(o.decay_steps, "InverseTimeDecay", "decay_steps"),
                          required(o.decay_rate, "InverseTimeDecay", "decay_rate"), o);
}
inline SchedulePtr InverseTimeDecay(double initial_learning_rate, const InverseTimeDecayOptions& o) {
  return InverseTimeDecay(initial_learning_rate, required(o.decay_steps, "InverseTimeDecay", "decay_steps"),
                          required(o.decay_rate, "InverseTimeDecay", "decay_rate"), o);
}
inline SchedulePtr InverseTimeDecay(double initial_learning_rate, double decay_steps,
                                    const InverseTimeDecayOptions& o) {
  return InverseTimeDecay(initial_learning_rate, decay_steps, required(o.decay_rate, "InverseTimeDecay", "decay_rate"),
                          o);
}

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
SchedulePtr PolynomialDecay(double initial_learning_rate, double decay_steps, PolynomialDecayOptions options = {});
inline SchedulePtr PolynomialDecay(const PolynomialDecayOptions& o) {
  return PolynomialDecay(required(o.initial_learning_rate, "PolynomialDecay", "initial_learning_rate"),
                         required(o.decay_steps, "PolynomialDecay", "decay_steps"), o);
}
inline SchedulePtr PolynomialDecay(double initial_learning_rate, const PolynomialDecayOptions& o) {
  return PolynomialDecay(initial_learning_rate, required(o.decay_steps, "PolynomialDecay", "decay_steps"), o);
}

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
SchedulePtr CosineDecay(double initial_learning_rate, double decay_steps, CosineDecayOptions options = {});
inline SchedulePtr CosineDecay(const CosineDecayOptions& o) {
  return CosineDecay(required(o.initial_learning_rate, "CosineDecay", "initial_learning_rate"),
                     required(o.decay_steps, "CosineDecay", "decay_steps"), o);
}
inline SchedulePtr CosineDecay(double initial_learning_rate, const CosineDecayOptions& o) {
  return CosineDecay(initial_learning_rate, required(o.decay_steps, "CosineDecay", "decay_steps"), o);
}

struct CosineDecayRestartsOptions {
  FieldNamesOnly names_only = {};
  std::optional<double> initial_learning_rate = std::nullopt;
  std::optional<double> first_decay_steps = std::nullopt;
  double t_mul = 2.0;
  double m_mul = 1.0;
  double alpha = 0.0;
  std::string name = "SGDRDecay";
};
SchedulePtr CosineDecayRestarts(double initial_learning_rate, double first_decay_steps,
                                CosineDecayRestartsOptions options = {});
inline SchedulePtr CosineDecayRestarts(const CosineDecayRestartsOptions& o) {
  return CosineDecayRestarts(required(o.initial_learning_rate, "CosineDecayRestarts", "initial_learning_rate"),
                             required(o.first_decay_steps, "CosineDecayRestarts", "first_decay_steps"), o);
}
inline SchedulePtr CosineDecayRestarts(double initial_learning_rate, const CosineDecayRestartsOptions& o) {
  return CosineDecayRestarts(initial_learning_rate,
                             required(o.first_decay_steps, "CosineDecayRestarts", "first_decay_steps"), o);
}

// values[i] where i boundaries are below t. Throws InvalidArgument unless there is one value more than boundaries.
SchedulePtr PiecewiseConstantDecay(std::vector<double> boundaries, std::vector<double> values,
                                   std::string name = "PiecewiseConstant");
struct PiecewiseConstantDecayOptions {
  FieldNamesOnly names_only = {};
  std::vector<double> boundaries = {};
  std::vector<double> values = {};
  std::string name = "PiecewiseConstant";
};
inline SchedulePtr PiecewiseConstantDecay(const PiecewiseConstantDecayOptions& o) {
  return PiecewiseConstantDecay(o.boundaries, o.values, o.name);
}

}  // namespace lockstep::schedules

namespace lockstep::optimizers {
namespace schedules = lockstep::schedules;
}
