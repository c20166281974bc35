// keras.optimizers.schedules: learning rates that change with the step. Computed in float32 as Keras does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// A schedule as functions return and take it.
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

struct ExponentialDecayOptions {
  bool staircase = false;
  std::string name = "ExponentialDecay";
};
// lr · rate^(t / steps); staircase: the exponent is floored.
SchedulePtr ExponentialDecay(double initial_learning_rate, double decay_steps, double decay_rate,
                             ExponentialDecayOptions options = {});

struct InverseTimeDecayOptions {
  bool staircase = false;
  std::string name = "InverseTimeDecay";
};
// lr / (1 + rate · t / steps).
SchedulePtr InverseTimeDecay(double initial_learning_rate, double decay_steps, double decay_rate,
                             InverseTimeDecayOptions options = {});

struct PolynomialDecayOptions {
  double end_learning_rate = 0.0001;
  double power = 1.0;
  bool cycle = false;
  std::string name = "PolynomialDecay";
};
// (lr - end) · (1 - min(t, S) / S)^power + end; cycle: S becomes the next multiple of itself above t.
SchedulePtr PolynomialDecay(double initial_learning_rate, double decay_steps, PolynomialDecayOptions options = {});

struct CosineDecayOptions {
  double alpha = 0.0;
  std::string name = "CosineDecay";
  std::optional<double> warmup_target = std::nullopt;  // none: no warmup
  std::int64_t warmup_steps = 0;
};
// lr · ((1 - alpha) · ½ (1 + cos(π t / S)) + alpha); with warmup first linearly from lr to its target.
SchedulePtr CosineDecay(double initial_learning_rate, double decay_steps, CosineDecayOptions options = {});

struct CosineDecayRestartsOptions {
  double t_mul = 2.0;
  double m_mul = 1.0;
  double alpha = 0.0;
  std::string name = "SGDRDecay";
};
SchedulePtr CosineDecayRestarts(double initial_learning_rate, double first_decay_steps,
                                CosineDecayRestartsOptions options = {});

// values[i] where i boundaries are below t. Throws InvalidArgument unless there is one value more than boundaries.
SchedulePtr PiecewiseConstantDecay(std::vector<double> boundaries, std::vector<double> values,
                                   std::string name = "PiecewiseConstant");

}  // namespace lockstep::schedules

namespace lockstep::optimizers {
namespace schedules = lockstep::schedules;
}
