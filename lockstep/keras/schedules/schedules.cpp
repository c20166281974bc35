#include "lockstep/keras/schedules/schedules.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/class_tables_internal.h"

namespace lockstep::schedules {

float LearningRateSchedule::operator()(std::int64_t step) const { return (*this)(Tensor::scalar(step)).item<float>(); }
Tensor LearningRateSchedule::operator()(const Tensor&) const {
  throw_failed_precondition(
      fmt::format("learning-rate schedule '{}' requires an override of operator()(const Tensor& step) const or of "
                  "operator()(std::int64_t step) const",
                  class_name()));
}
Tensor SchedulePtr::rate_at(const Tensor& step) const { return Tensor::scalar((*this)(step.item<std::int64_t>())); }

using keras::Field;

template <typename V>
void fields(V& v, ExponentialDecayOptions& o) {
  v("initial_learning_rate", keras::RequiredNumber{o.initial_learning_rate}, Field::kRequired);
  v("decay_steps", keras::RequiredNumber{o.decay_steps, true}, Field::kRequired);
  v("decay_rate", keras::RequiredNumber{o.decay_rate}, Field::kRequired);
  v("staircase", o.staircase);
  v("name", keras::null_ignored(o.name));
}

template <typename V>
void fields(V& v, InverseTimeDecayOptions& o) {
  v("initial_learning_rate", keras::RequiredNumber{o.initial_learning_rate}, Field::kRequired);
  v("decay_steps", keras::RequiredNumber{o.decay_steps, true}, Field::kRequired);
  v("decay_rate", keras::RequiredNumber{o.decay_rate}, Field::kRequired);
  v("staircase", o.staircase);
  v("name", keras::null_ignored(o.name));
}

template <typename V>
void fields(V& v, PolynomialDecayOptions& o) {
  v("initial_learning_rate", keras::RequiredNumber{o.initial_learning_rate}, Field::kRequired);
  v("decay_steps", keras::RequiredNumber{o.decay_steps, true}, Field::kRequired);
  v("end_learning_rate", o.end_learning_rate);
  v("power", o.power);
  v("cycle", o.cycle);
  v("name", keras::null_ignored(o.name));
}

template <typename V>
void fields(V& v, CosineDecayOptions& o) {
  v("initial_learning_rate", keras::RequiredNumber{o.initial_learning_rate}, Field::kRequired);
  v("decay_steps", keras::RequiredNumber{o.decay_steps, true}, Field::kRequired);
  v("alpha", o.alpha);
  v("name", keras::null_ignored(o.name));
  v("warmup_target", o.warmup_target);
  v("warmup_steps", keras::null_read_as(o.warmup_steps, 0));
}

template <typename V>
void fields(V& v, CosineDecayRestartsOptions& o) {
  v("initial_learning_rate", keras::RequiredNumber{o.initial_learning_rate}, Field::kRequired);
  v("first_decay_steps", keras::RequiredNumber{o.first_decay_steps, true}, Field::kRequired);
  v("t_mul", o.t_mul);
  v("m_mul", o.m_mul);
  v("alpha", o.alpha);
  v("name", keras::null_ignored(o.name));
}

template <typename V>
void fields(V& v, PiecewiseConstantDecayOptions& o) {
  v("boundaries", keras::WholeNumbersIfPossible{o.boundaries}, Field::kRequired);
  v("values", static_cast<std::vector<double>&>(o.values), Field::kRequired);
  v("name", keras::null_ignored(o.name));
}

namespace {

constexpr float kPi = 3.14159265358979323846f;

// Throws for a number without a default that was not given.
struct RequiredCheck {
  const char* class_name;
  template <typename T>
  void operator()(const char*, const T&, Field = Field::kOptional) {}
  void operator()(const char* key, const keras::RequiredNumber& v, Field) {
    if (!v.value) throw_invalid_argument(fmt::format("{} requires {}", class_name, key));
  }
};

// A schedule of Keras with its arguments, all of which have values.
template <typename Options>
class KerasSchedule : public LearningRateSchedule {
 public:
  KerasSchedule(const char* class_name, Options options) : class_name_(class_name), o(std::move(options)) {
    RequiredCheck check{class_name};
    fields(check, o);
  }
  std::string class_name() const override { return class_name_; }
  Json get_config() const override { return keras::with_fields({}, o); }

 private:
  const char* class_name_;

 protected:
  Options o;
};

float f(double value) { return static_cast<float>(value); }
float f(const std::optional<double>& value) { return f(*value); }

class ExponentialDecaySchedule : public KerasSchedule<ExponentialDecayOptions> {
 public:
  using KerasSchedule::KerasSchedule;
  float operator()(std::int64_t step) const override {
    const float p = static_cast<float>(step) / f(o.decay_steps);
    return f(o.initial_learning_rate) * std::pow(f(o.decay_rate), o.staircase ? std::floor(p) : p);
  }
};

class InverseTimeDecaySchedule : public KerasSchedule<InverseTimeDecayOptions> {
 public:
  using KerasSchedule::KerasSchedule;
  float operator()(std::int64_t step) const override {
    const float p = static_cast<float>(step) / f(o.decay_steps);
    return f(o.initial_learning_rate) / (1.0f + f(o.decay_rate) * (o.staircase ? std::floor(p) : p));
  }
};

class PolynomialDecaySchedule : public KerasSchedule<PolynomialDecayOptions> {
 public:
  using KerasSchedule::KerasSchedule;
  float operator()(std::int64_t step) const override {
    auto t = static_cast<float>(step);
    float steps = f(o.decay_steps);
    if (o.cycle) {
      steps *= step == 0 ? 1.0f : std::ceil(t / steps);
    } else {
      t = std::min(t, steps);
    }
    const float end = f(o.end_learning_rate);
    return (f(o.initial_learning_rate) - end) * std::pow(1.0f - t / steps, f(o.power)) + end;
  }
};

class CosineDecaySchedule : public KerasSchedule<CosineDecayOptions> {
 public:
  using KerasSchedule::KerasSchedule;
  float operator()(std::int64_t step) const override {
    const float initial = f(o.initial_learning_rate);
    const auto t = static_cast<float>(step);
    if (!o.warmup_target) return decayed(t, initial);
    const auto warmup = static_cast<float>(o.warmup_steps);
    const float target = f(o.warmup_target);
    if (t < warmup) return (target - initial) * (t / warmup) + initial;
    return decayed(t - warmup, target);
  }

 private:
  float decayed(float t, float from) const {
    const float steps = f(o.decay_steps), alpha = f(o.alpha);
    const float cosine = 0.5f * (1.0f + std::cos(kPi * (std::min(t, steps) / steps)));
    return from * ((1.0f - alpha) * cosine + alpha);
  }
};

class CosineDecayRestartsSchedule : public KerasSchedule<CosineDecayRestartsOptions> {
 public:
  using KerasSchedule::KerasSchedule;
  float operator()(std::int64_t step) const override {
    const float alpha = f(o.alpha), t_mul = f(o.t_mul);
    float fraction = static_cast<float>(step) / f(o.first_decay_steps), restart = 0;
    if (o.t_mul == 1.0) {
      restart = std::floor(fraction);
      fraction -= restart;
    } else {
      restart = std::floor(std::log(1.0f - fraction * (1.0f - t_mul)) / std::log(t_mul));
      const float sum = (1.0f - std::pow(t_mul, restart)) / (1.0f - t_mul);
      fraction = (fraction - sum) / std::pow(t_mul, restart);
    }
    const float cosine = 0.5f * std::pow(f(o.m_mul), restart) * (1.0f + std::cos(kPi * fraction));
    return f(o.initial_learning_rate) * ((1.0f - alpha) * cosine + alpha);
  }
};

class PiecewiseConstantDecaySchedule : public KerasSchedule<PiecewiseConstantDecayOptions> {
 public:
  PiecewiseConstantDecaySchedule(const char* class_name, PiecewiseConstantDecayOptions options)
      : KerasSchedule(class_name, std::move(options)) {
    const std::size_t expected = o.boundaries.size() + 1;
    if (o.values.size() != expected) {
      throw_invalid_argument(
          fmt::format("PiecewiseConstantDecay: invalid values: found {}, expected {} for {} boundaries",
                      o.values.size(), expected, o.boundaries.size()));
    }
  }
  float operator()(std::int64_t step) const override {
    std::size_t i = 0;
    while (i < o.boundaries.size() && static_cast<double>(step) > o.boundaries[i]) ++i;
    return f(o.values[i]);
  }
};

template <typename Schedule, typename Options>
void add(keras::ClassFamily<LearningRateSchedule>& table, const char* name) {
  table.add<Options>(name, {}, [name](Options o) { return std::make_shared<Schedule>(name, std::move(o)); });
}

}  // namespace

const keras::ClassFamily<LearningRateSchedule>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<LearningRateSchedule>("learning-rate schedule", "keras.optimizers.schedules",
                                                           keras::ClassNames::kExact);
    add<ExponentialDecaySchedule, ExponentialDecayOptions>(*t, "ExponentialDecay");
    add<InverseTimeDecaySchedule, InverseTimeDecayOptions>(*t, "InverseTimeDecay");
    add<PolynomialDecaySchedule, PolynomialDecayOptions>(*t, "PolynomialDecay");
    add<CosineDecaySchedule, CosineDecayOptions>(*t, "CosineDecay");
    add<CosineDecayRestartsSchedule, CosineDecayRestartsOptions>(*t, "CosineDecayRestarts");
    add<PiecewiseConstantDecaySchedule, PiecewiseConstantDecayOptions>(*t, "PiecewiseConstantDecay");
    return t;
  }();
  return *table;
}

bool is_schedule(const Json& value) {
  const auto object = keras::parse_object_config(value);
  return object &&
         (classes().contains(object->class_name) || keras::names_registered<LearningRateSchedule>(*object, false));
}

SchedulePtr deserialize(const Json& config) { return classes().deserialize(config); }

Json serialize(const SchedulePtr& schedule) { return classes().serialize(schedule); }

SchedulePtr ExponentialDecay(ExponentialDecayOptions o) {
  return std::make_shared<ExponentialDecaySchedule>("ExponentialDecay", std::move(o));
}
SchedulePtr InverseTimeDecay(InverseTimeDecayOptions o) {
  return std::make_shared<InverseTimeDecaySchedule>("InverseTimeDecay", std::move(o));
}
SchedulePtr PolynomialDecay(PolynomialDecayOptions o) {
  return std::make_shared<PolynomialDecaySchedule>("PolynomialDecay", std::move(o));
}
SchedulePtr CosineDecay(CosineDecayOptions o) {
  return std::make_shared<CosineDecaySchedule>("CosineDecay", std::move(o));
}
SchedulePtr CosineDecayRestarts(CosineDecayRestartsOptions o) {
  return std::make_shared<CosineDecayRestartsSchedule>("CosineDecayRestarts", std::move(o));
}
SchedulePtr PiecewiseConstantDecay(PiecewiseConstantDecayOptions o) {
  return std::make_shared<PiecewiseConstantDecaySchedule>("PiecewiseConstantDecay", std::move(o));
}

}  // namespace lockstep::schedules
