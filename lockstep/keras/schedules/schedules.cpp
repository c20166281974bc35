#include "lockstep/keras/schedules/schedules.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::schedules {
namespace {

using keras::ConfigReader;

constexpr float kPi = 3.14159265358979323846f;

// Numbers of steps are integers wherever they can be.
Json steps_json(double steps) {
  const bool whole = steps == std::floor(steps) && std::abs(steps) < 9e15;
  return whole ? Json(static_cast<std::int64_t>(steps)) : Json(steps);
}

class ExponentialDecaySchedule : public LearningRateSchedule {
 public:
  ExponentialDecaySchedule(double initial, double steps, double rate, ExponentialDecayOptions options)
      : initial_(initial), steps_(steps), rate_(rate), options_(std::move(options)) {}
  std::string class_name() const override { return "ExponentialDecay"; }
  float operator()(std::int64_t step) const override {
    float p = static_cast<float>(step) / static_cast<float>(steps_);
    if (options_.staircase) p = std::floor(p);
    return static_cast<float>(initial_) * std::pow(static_cast<float>(rate_), p);
  }
  Json get_config() const override {
    return {{"initial_learning_rate", initial_},
            {"decay_steps", steps_json(steps_)},
            {"decay_rate", rate_},
            {"staircase", options_.staircase},
            {"name", options_.name}};
  }

 private:
  double initial_, steps_, rate_;
  ExponentialDecayOptions options_;
};

class InverseTimeDecaySchedule : public LearningRateSchedule {
 public:
  InverseTimeDecaySchedule(double initial, double steps, double rate, InverseTimeDecayOptions options)
      : initial_(initial), steps_(steps), rate_(rate), options_(std::move(options)) {}
  std::string class_name() const override { return "InverseTimeDecay"; }
  float operator()(std::int64_t step) const override {
    float p = static_cast<float>(step) / static_cast<float>(steps_);
    if (options_.staircase) p = std::floor(p);
    return static_cast<float>(initial_) / (1.0f + static_cast<float>(rate_) * p);
  }
  Json get_config() const override {
    return {{"initial_learning_rate", initial_},
            {"decay_steps", steps_json(steps_)},
            {"decay_rate", rate_},
            {"staircase", options_.staircase},
            {"name", options_.name}};
  }

 private:
  double initial_, steps_, rate_;
  InverseTimeDecayOptions options_;
};

class PolynomialDecaySchedule : public LearningRateSchedule {
 public:
  PolynomialDecaySchedule(double initial, double steps, PolynomialDecayOptions options)
      : initial_(initial), steps_(steps), options_(std::move(options)) {}
  std::string class_name() const override { return "PolynomialDecay"; }
  float operator()(std::int64_t step) const override {
    auto t = static_cast<float>(step);
    auto steps = static_cast<float>(steps_);
    if (options_.cycle) {
      steps *= step == 0 ? 1.0f : std::ceil(t / steps);
    } else {
      t = std::min(t, steps);
    }
    const auto initial = static_cast<float>(initial_), end = static_cast<float>(options_.end_learning_rate);
    return (initial - end) * std::pow(1.0f - t / steps, static_cast<float>(options_.power)) + end;
  }
  Json get_config() const override {
    return {{"initial_learning_rate", initial_},
            {"decay_steps", steps_json(steps_)},
            {"end_learning_rate", options_.end_learning_rate},
            {"power", options_.power},
            {"cycle", options_.cycle},
            {"name", options_.name}};
  }

 private:
  double initial_, steps_;
  PolynomialDecayOptions options_;
};

class CosineDecaySchedule : public LearningRateSchedule {
 public:
  CosineDecaySchedule(double initial, double steps, CosineDecayOptions options)
      : initial_(initial), steps_(steps), options_(std::move(options)) {}
  std::string class_name() const override { return "CosineDecay"; }
  float operator()(std::int64_t step) const override {
    const auto initial = static_cast<float>(initial_);
    if (!options_.warmup_target) return decayed(static_cast<float>(step), initial);
    const auto target = static_cast<float>(*options_.warmup_target);
    const auto warmup = static_cast<float>(options_.warmup_steps), t = static_cast<float>(step);
    if (t < warmup) return (target - initial) * (t / warmup) + initial;
    return decayed(t - warmup, target);
  }
  Json get_config() const override {
    return {{"initial_learning_rate", initial_},
            {"decay_steps", steps_json(steps_)},
            {"alpha", options_.alpha},
            {"name", options_.name},
            {"warmup_target", options_.warmup_target ? Json(*options_.warmup_target) : Json(nullptr)},
            {"warmup_steps", options_.warmup_steps}};
  }

 private:
  float decayed(float t, float from) const {
    const auto steps = static_cast<float>(steps_), alpha = static_cast<float>(options_.alpha);
    const float cosine = 0.5f * (1.0f + std::cos(kPi * (std::min(t, steps) / steps)));
    return from * ((1.0f - alpha) * cosine + alpha);
  }
  double initial_, steps_;
  CosineDecayOptions options_;
};

class CosineDecayRestartsSchedule : public LearningRateSchedule {
 public:
  CosineDecayRestartsSchedule(double initial, double steps, CosineDecayRestartsOptions options)
      : initial_(initial), steps_(steps), options_(std::move(options)) {}
  std::string class_name() const override { return "CosineDecayRestarts"; }
  float operator()(std::int64_t step) const override {
    const auto alpha = static_cast<float>(options_.alpha);
    const auto t_mul = static_cast<float>(options_.t_mul), m_mul = static_cast<float>(options_.m_mul);
    float fraction = static_cast<float>(step) / static_cast<float>(steps_), restart = 0;
    if (options_.t_mul == 1.0) {
      restart = std::floor(fraction);
      fraction -= restart;
    } else {
      restart = std::floor(std::log(1.0f - fraction * (1.0f - t_mul)) / std::log(t_mul));
      const float sum = (1.0f - std::pow(t_mul, restart)) / (1.0f - t_mul);
      fraction = (fraction - sum) / std::pow(t_mul, restart);
    }
    const float cosine = 0.5f * std::pow(m_mul, restart) * (1.0f + std::cos(kPi * fraction));
    return static_cast<float>(initial_) * ((1.0f - alpha) * cosine + alpha);
  }
  Json get_config() const override {
    return {{"initial_learning_rate", initial_}, {"first_decay_steps", steps_json(steps_)},
            {"t_mul", options_.t_mul},           {"m_mul", options_.m_mul},
            {"alpha", options_.alpha},           {"name", options_.name}};
  }

 private:
  double initial_, steps_;
  CosineDecayRestartsOptions options_;
};

class PiecewiseConstantDecaySchedule : public LearningRateSchedule {
 public:
  PiecewiseConstantDecaySchedule(std::vector<double> boundaries, std::vector<double> values, std::string name)
      : boundaries_(std::move(boundaries)), values_(std::move(values)), name_(std::move(name)) {
    if (values_.size() != boundaries_.size() + 1) {
      throw_invalid_argument(fmt::format("PiecewiseConstantDecay: {} boundaries need {} values, {} given",
                                         boundaries_.size(), boundaries_.size() + 1, values_.size()));
    }
  }
  std::string class_name() const override { return "PiecewiseConstantDecay"; }
  float operator()(std::int64_t step) const override {
    std::size_t i = 0;
    while (i < boundaries_.size() && static_cast<double>(step) > boundaries_[i]) ++i;
    return static_cast<float>(values_[i]);
  }
  Json get_config() const override {
    Json boundaries = Json::array();
    for (double boundary : boundaries_) boundaries.push_back(steps_json(boundary));
    return {{"boundaries", boundaries}, {"values", values_}, {"name", name_}};
  }

 private:
  std::vector<double> boundaries_, values_;
  std::string name_;
};

double required(const ConfigReader& config, const char* key) {
  const auto value = config.number(key);
  if (!value) throw_invalid_argument(fmt::format("{}: '{}' is missing", config.class_name(), key));
  return *value;
}

std::vector<double> read_list(const ConfigReader& config, const char* key) {
  std::vector<double> list;
  for (const Json& item : config.raw(key)) {
    if (!item.is_number()) {
      throw_invalid_argument(
          fmt::format("{}: '{}' is {}, expected numbers", config.class_name(), key, dump_json(config.raw(key))));
    }
    list.push_back(item.get<double>());
  }
  return list;
}

const std::vector<std::string>& built_in_names() {
  static const std::vector<std::string> names = {"ExponentialDecay", "InverseTimeDecay",    "PolynomialDecay",
                                                 "CosineDecay",      "CosineDecayRestarts", "PiecewiseConstantDecay"};
  return names;
}

bool is_built_in(const std::string& name) {
  return std::find(built_in_names().begin(), built_in_names().end(), name) != built_in_names().end();
}

}  // namespace

bool is_schedule(const Json& value) {
  const auto object = keras::parse_object_config(value);
  return object && (is_built_in(object->class_name) || keras::names_registered<LearningRateSchedule>(*object, false));
}

SchedulePtr deserialize(const Json& json) {
  const auto object = keras::parse_object_config(json);
  if (!object) throw_invalid_argument(fmt::format("{} is not the config of a learning-rate schedule", dump_json(json)));
  if (auto made = keras::make_registered<LearningRateSchedule>(*object, is_built_in(object->class_name))) return made;
  const std::string& name = object->class_name;
  const ConfigReader c(name, object->config);
  const auto initial = [&] { return required(c, "initial_learning_rate"); };
  if (name == "ExponentialDecay") {
    return ExponentialDecay(initial(), required(c, "decay_steps"), required(c, "decay_rate"),
                            {c.boolean("staircase", false), c.string("name", name)});
  }
  if (name == "InverseTimeDecay") {
    return InverseTimeDecay(initial(), required(c, "decay_steps"), required(c, "decay_rate"),
                            {c.boolean("staircase", false), c.string("name", name)});
  }
  if (name == "PolynomialDecay") {
    return PolynomialDecay(initial(), required(c, "decay_steps"),
                           {c.number("end_learning_rate", 0.0001), c.number("power", 1.0), c.boolean("cycle", false),
                            c.string("name", name)});
  }
  if (name == "CosineDecay") {
    return CosineDecay(
        initial(), required(c, "decay_steps"),
        {c.number("alpha", 0.0), c.string("name", name), c.number("warmup_target"), c.integer("warmup_steps", 0)});
  }
  if (name == "CosineDecayRestarts") {
    return CosineDecayRestarts(
        initial(), required(c, "first_decay_steps"),
        {c.number("t_mul", 2.0), c.number("m_mul", 1.0), c.number("alpha", 0.0), c.string("name", "SGDRDecay")});
  }
  if (name == "PiecewiseConstantDecay") {
    return PiecewiseConstantDecay(read_list(c, "boundaries"), read_list(c, "values"),
                                  c.string("name", "PiecewiseConstant"));
  }
  keras::throw_unknown_object("learning-rate schedule", name, built_in_names());
}

Json serialize(const SchedulePtr& schedule) {
  if (!schedule) return nullptr;
  return keras::serialize_object("keras.optimizers.schedules", schedule->class_name(), schedule->get_config(),
                                 is_built_in(schedule->class_name()), typeid(*schedule));
}

SchedulePtr ExponentialDecay(double initial, double steps, double rate, ExponentialDecayOptions options) {
  return std::make_shared<ExponentialDecaySchedule>(initial, steps, rate, std::move(options));
}
SchedulePtr InverseTimeDecay(double initial, double steps, double rate, InverseTimeDecayOptions options) {
  return std::make_shared<InverseTimeDecaySchedule>(initial, steps, rate, std::move(options));
}
SchedulePtr PolynomialDecay(double initial, double steps, PolynomialDecayOptions options) {
  return std::make_shared<PolynomialDecaySchedule>(initial, steps, std::move(options));
}
SchedulePtr CosineDecay(double initial, double steps, CosineDecayOptions options) {
  return std::make_shared<CosineDecaySchedule>(initial, steps, std::move(options));
}
SchedulePtr CosineDecayRestarts(double initial, double steps, CosineDecayRestartsOptions options) {
  return std::make_shared<CosineDecayRestartsSchedule>(initial, steps, std::move(options));
}
SchedulePtr PiecewiseConstantDecay(std::vector<double> boundaries, std::vector<double> values, std::string name) {
  return std::make_shared<PiecewiseConstantDecaySchedule>(std::move(boundaries), std::move(values), std::move(name));
}

}  // namespace lockstep::schedules
