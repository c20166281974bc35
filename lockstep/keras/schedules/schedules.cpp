#include "lockstep/keras/schedules/schedules.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/class_tables_internal.h"

namespace lockstep::schedules {
namespace {

using keras::Field;

constexpr float kPi = 3.14159265358979323846f;

// The arguments of each schedule in one struct: those of the constructor and the options.
struct ExponentialDecayConfig {
  double initial_learning_rate = 0, decay_steps = 0, decay_rate = 0;
  ExponentialDecayOptions options = {};
};
template <typename V>
void fields(V& v, ExponentialDecayConfig& c) {
  v("initial_learning_rate", c.initial_learning_rate, Field::kRequired);
  v("decay_steps", keras::WholeIfPossible{c.decay_steps}, Field::kRequired);
  v("decay_rate", c.decay_rate, Field::kRequired);
  v("staircase", c.options.staircase);
  v("name", c.options.name);
}

struct InverseTimeDecayConfig {
  double initial_learning_rate = 0, decay_steps = 0, decay_rate = 0;
  InverseTimeDecayOptions options = {};
};
template <typename V>
void fields(V& v, InverseTimeDecayConfig& c) {
  v("initial_learning_rate", c.initial_learning_rate, Field::kRequired);
  v("decay_steps", keras::WholeIfPossible{c.decay_steps}, Field::kRequired);
  v("decay_rate", c.decay_rate, Field::kRequired);
  v("staircase", c.options.staircase);
  v("name", c.options.name);
}

struct PolynomialDecayConfig {
  double initial_learning_rate = 0, decay_steps = 0;
  PolynomialDecayOptions options = {};
};
template <typename V>
void fields(V& v, PolynomialDecayConfig& c) {
  v("initial_learning_rate", c.initial_learning_rate, Field::kRequired);
  v("decay_steps", keras::WholeIfPossible{c.decay_steps}, Field::kRequired);
  v("end_learning_rate", c.options.end_learning_rate);
  v("power", c.options.power);
  v("cycle", c.options.cycle);
  v("name", c.options.name);
}

struct CosineDecayConfig {
  double initial_learning_rate = 0, decay_steps = 0;
  CosineDecayOptions options = {};
};
template <typename V>
void fields(V& v, CosineDecayConfig& c) {
  v("initial_learning_rate", c.initial_learning_rate, Field::kRequired);
  v("decay_steps", keras::WholeIfPossible{c.decay_steps}, Field::kRequired);
  v("alpha", c.options.alpha);
  v("name", c.options.name);
  v("warmup_target", c.options.warmup_target);
  v("warmup_steps", c.options.warmup_steps);
}

struct CosineDecayRestartsConfig {
  double initial_learning_rate = 0, first_decay_steps = 0;
  CosineDecayRestartsOptions options = {};
};
template <typename V>
void fields(V& v, CosineDecayRestartsConfig& c) {
  v("initial_learning_rate", c.initial_learning_rate, Field::kRequired);
  v("first_decay_steps", keras::WholeIfPossible{c.first_decay_steps}, Field::kRequired);
  v("t_mul", c.options.t_mul);
  v("m_mul", c.options.m_mul);
  v("alpha", c.options.alpha);
  v("name", c.options.name);
}

struct PiecewiseConstantDecayConfig {
  std::vector<double> boundaries, values;
  std::string name = "PiecewiseConstant";
};
template <typename V>
void fields(V& v, PiecewiseConstantDecayConfig& c) {
  v("boundaries", keras::WholeNumbersIfPossible{c.boundaries}, Field::kRequired);
  v("values", c.values, Field::kRequired);
  v("name", c.name);
}

class ExponentialDecaySchedule : public LearningRateSchedule {
 public:
  explicit ExponentialDecaySchedule(ExponentialDecayConfig config) : config_(std::move(config)) {}
  std::string class_name() const override { return "ExponentialDecay"; }
  float operator()(std::int64_t step) const override {
    float p = static_cast<float>(step) / static_cast<float>(config_.decay_steps);
    if (config_.options.staircase) p = std::floor(p);
    return static_cast<float>(config_.initial_learning_rate) * std::pow(static_cast<float>(config_.decay_rate), p);
  }
  Json get_config() const override { return keras::with_fields({}, config_); }

 private:
  ExponentialDecayConfig config_;
};

class InverseTimeDecaySchedule : public LearningRateSchedule {
 public:
  explicit InverseTimeDecaySchedule(InverseTimeDecayConfig config) : config_(std::move(config)) {}
  std::string class_name() const override { return "InverseTimeDecay"; }
  float operator()(std::int64_t step) const override {
    float p = static_cast<float>(step) / static_cast<float>(config_.decay_steps);
    if (config_.options.staircase) p = std::floor(p);
    return static_cast<float>(config_.initial_learning_rate) / (1.0f + static_cast<float>(config_.decay_rate) * p);
  }
  Json get_config() const override { return keras::with_fields({}, config_); }

 private:
  InverseTimeDecayConfig config_;
};

class PolynomialDecaySchedule : public LearningRateSchedule {
 public:
  explicit PolynomialDecaySchedule(PolynomialDecayConfig config) : config_(std::move(config)) {}
  std::string class_name() const override { return "PolynomialDecay"; }
  float operator()(std::int64_t step) const override {
    auto t = static_cast<float>(step);
    auto steps = static_cast<float>(config_.decay_steps);
    if (config_.options.cycle) {
      steps *= step == 0 ? 1.0f : std::ceil(t / steps);
    } else {
      t = std::min(t, steps);
    }
    const auto initial = static_cast<float>(config_.initial_learning_rate),
               end = static_cast<float>(config_.options.end_learning_rate);
    return (initial - end) * std::pow(1.0f - t / steps, static_cast<float>(config_.options.power)) + end;
  }
  Json get_config() const override { return keras::with_fields({}, config_); }

 private:
  PolynomialDecayConfig config_;
};

class CosineDecaySchedule : public LearningRateSchedule {
 public:
  explicit CosineDecaySchedule(CosineDecayConfig config) : config_(std::move(config)) {}
  std::string class_name() const override { return "CosineDecay"; }
  float operator()(std::int64_t step) const override {
    const auto initial = static_cast<float>(config_.initial_learning_rate);
    if (!config_.options.warmup_target) return decayed(static_cast<float>(step), initial);
    const auto target = static_cast<float>(*config_.options.warmup_target);
    const auto warmup = static_cast<float>(config_.options.warmup_steps), t = static_cast<float>(step);
    if (t < warmup) return (target - initial) * (t / warmup) + initial;
    return decayed(t - warmup, target);
  }
  Json get_config() const override { return keras::with_fields({}, config_); }

 private:
  float decayed(float t, float from) const {
    const auto steps = static_cast<float>(config_.decay_steps), alpha = static_cast<float>(config_.options.alpha);
    const float cosine = 0.5f * (1.0f + std::cos(kPi * (std::min(t, steps) / steps)));
    return from * ((1.0f - alpha) * cosine + alpha);
  }
  CosineDecayConfig config_;
};

class CosineDecayRestartsSchedule : public LearningRateSchedule {
 public:
  explicit CosineDecayRestartsSchedule(CosineDecayRestartsConfig config) : config_(std::move(config)) {}
  std::string class_name() const override { return "CosineDecayRestarts"; }
  float operator()(std::int64_t step) const override {
    const auto alpha = static_cast<float>(config_.options.alpha);
    const auto t_mul = static_cast<float>(config_.options.t_mul), m_mul = static_cast<float>(config_.options.m_mul);
    float fraction = static_cast<float>(step) / static_cast<float>(config_.first_decay_steps), restart = 0;
    if (config_.options.t_mul == 1.0) {
      restart = std::floor(fraction);
      fraction -= restart;
    } else {
      restart = std::floor(std::log(1.0f - fraction * (1.0f - t_mul)) / std::log(t_mul));
      const float sum = (1.0f - std::pow(t_mul, restart)) / (1.0f - t_mul);
      fraction = (fraction - sum) / std::pow(t_mul, restart);
    }
    const float cosine = 0.5f * std::pow(m_mul, restart) * (1.0f + std::cos(kPi * fraction));
    return static_cast<float>(config_.initial_learning_rate) * ((1.0f - alpha) * cosine + alpha);
  }
  Json get_config() const override { return keras::with_fields({}, config_); }

 private:
  CosineDecayRestartsConfig config_;
};

class PiecewiseConstantDecaySchedule : public LearningRateSchedule {
 public:
  explicit PiecewiseConstantDecaySchedule(PiecewiseConstantDecayConfig config) : config_(std::move(config)) {
    const std::size_t expected = config_.boundaries.size() + 1;
    if (config_.values.size() != expected) {
      throw_invalid_argument(
          fmt::format("PiecewiseConstantDecay: invalid values: found {}, expected {} for {} boundaries",
                      config_.values.size(), expected, config_.boundaries.size()));
    }
  }
  std::string class_name() const override { return "PiecewiseConstantDecay"; }
  float operator()(std::int64_t step) const override {
    std::size_t i = 0;
    while (i < config_.boundaries.size() && static_cast<double>(step) > config_.boundaries[i]) ++i;
    return static_cast<float>(config_.values[i]);
  }
  Json get_config() const override { return keras::with_fields({}, config_); }

 private:
  PiecewiseConstantDecayConfig config_;
};

// The row of a schedule whose constructor takes its config.
template <typename Schedule, typename Config>
void add(keras::ClassFamily<LearningRateSchedule>& table, const char* name) {
  table.add<Config>(name, {}, [](Config config) { return std::make_shared<Schedule>(std::move(config)); });
}

}  // namespace

const keras::ClassFamily<LearningRateSchedule>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<LearningRateSchedule>("learning-rate schedule", "keras.optimizers.schedules",
                                                           keras::ClassNames::kExact);
    add<ExponentialDecaySchedule, ExponentialDecayConfig>(*t, "ExponentialDecay");
    add<InverseTimeDecaySchedule, InverseTimeDecayConfig>(*t, "InverseTimeDecay");
    add<PolynomialDecaySchedule, PolynomialDecayConfig>(*t, "PolynomialDecay");
    add<CosineDecaySchedule, CosineDecayConfig>(*t, "CosineDecay");
    add<CosineDecayRestartsSchedule, CosineDecayRestartsConfig>(*t, "CosineDecayRestarts");
    add<PiecewiseConstantDecaySchedule, PiecewiseConstantDecayConfig>(*t, "PiecewiseConstantDecay");
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

double required(const std::optional<double>& value, const char* class_name, const char* argument) {
  if (!value) throw_invalid_argument(fmt::format("{} requires {}", class_name, argument));
  return *value;
}

SchedulePtr ExponentialDecay(double initial, double steps, double rate, ExponentialDecayOptions options) {
  return std::make_shared<ExponentialDecaySchedule>(ExponentialDecayConfig{initial, steps, rate, std::move(options)});
}
SchedulePtr InverseTimeDecay(double initial, double steps, double rate, InverseTimeDecayOptions options) {
  return std::make_shared<InverseTimeDecaySchedule>(InverseTimeDecayConfig{initial, steps, rate, std::move(options)});
}
SchedulePtr PolynomialDecay(double initial, double steps, PolynomialDecayOptions options) {
  return std::make_shared<PolynomialDecaySchedule>(PolynomialDecayConfig{initial, steps, std::move(options)});
}
SchedulePtr CosineDecay(double initial, double steps, CosineDecayOptions options) {
  return std::make_shared<CosineDecaySchedule>(CosineDecayConfig{initial, steps, std::move(options)});
}
SchedulePtr CosineDecayRestarts(double initial, double steps, CosineDecayRestartsOptions options) {
  return std::make_shared<CosineDecayRestartsSchedule>(CosineDecayRestartsConfig{initial, steps, std::move(options)});
}
SchedulePtr PiecewiseConstantDecay(std::vector<double> boundaries, std::vector<double> values, std::string name) {
  return std::make_shared<PiecewiseConstantDecaySchedule>(
      PiecewiseConstantDecayConfig{std::move(boundaries), std::move(values), std::move(name)});
}

}  // namespace lockstep::schedules
