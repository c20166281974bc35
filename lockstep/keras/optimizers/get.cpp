// The table of optimizers.
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/keras/optimizers/fields_internal.h"

namespace lockstep::optimizers {
namespace {

// A schedule together with the decay of Keras 2's first optimizers, for which Keras 3 has no class.
class DecayedSchedule : public schedules::LearningRateSchedule {
 public:
  DecayedSchedule(schedules::SchedulePtr schedule, double decay) : schedule_(std::move(schedule)), decay_(decay) {}
  std::string class_name() const override { return "DecayedSchedule"; }
  float operator()(std::int64_t step) const override {
    return schedule_(step) / (1.0f + static_cast<float>(decay_) * static_cast<float>(step));
  }
  Json get_config() const override { return {{"learning_rate", schedules::serialize(schedule_)}, {"decay", decay_}}; }

 private:
  schedules::SchedulePtr schedule_;
  double decay_;
};

}  // namespace
}  // namespace lockstep::optimizers

namespace lockstep::keras {

bool FieldType<optimizers::LearningRate>::read(const Json& found, optimizers::LearningRate& v) {
  if (found.is_number()) {
    v = found.get<double>();
    return true;
  }
  if (!found.is_object()) return false;
  const auto config = found.find("config");
  if (!schedules::is_schedule(found) && config != found.end() && config->is_object() && config->contains("value") &&
      (*config)["value"].is_number()) {
    v = (*config)["value"].get<double>();  // a scalar array
  } else {
    v = schedules::deserialize(found);
  }
  return true;
}

Json FieldType<optimizers::LearningRate>::write(const optimizers::LearningRate& v) {
  if (v.number()) return *v.number();
  if (v.schedule()) return schedules::serialize(*v.schedule());
  if (v.variable()) return static_cast<double>((*v.variable())->read().item<float>());
  return nullptr;
}

bool FieldType<optimizers::Decay>::read(const Json& found, const optimizers::Decay& v) {
  if (!found.is_number()) return false;
  const double decay = found.get<double>();
  if (decay == 0) return true;
  if (const double* rate = v.rate.number()) {
    v.rate = schedules::InverseTimeDecay(*rate, 1, decay);
  } else if (const schedules::SchedulePtr* schedule = v.rate.schedule()) {
    v.rate = schedules::SchedulePtr(std::make_shared<optimizers::DecayedSchedule>(*schedule, decay));
  }
  return true;
}

}  // namespace lockstep::keras

namespace lockstep::optimizers {
namespace {

template <typename Options>
void add(keras::ClassFamily<Optimizer>& table, const char* name, OptimizerPtr (*make)(Options)) {
  table.add<Options>(name, {}, [make](Options options) {
    if (!options.use_ema) options.ema_overwrite_frequency.reset();  // Keras 2 writes 100
    return make(std::move(options));
  });
}

}  // namespace

const keras::ClassFamily<Optimizer>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<Optimizer>("optimizer", "keras.optimizers", keras::ClassNames::kLowerCase);
    add<AdadeltaOptions>(*t, "Adadelta", Adadelta);
    add<AdafactorOptions>(*t, "Adafactor", Adafactor);
    add<AdagradOptions>(*t, "Adagrad", Adagrad);
    add<AdamOptions>(*t, "Adam", Adam);
    add<AdamWOptions>(*t, "AdamW", AdamW);
    add<BetaOptions>(*t, "Adamax", Adamax);
    add<FtrlOptions>(*t, "Ftrl", Ftrl);
    add<BetaOptions>(*t, "Lamb", Lamb);
    add<LionOptions>(*t, "Lion", Lion);
    t->add<LossScaleConfig>("LossScaleOptimizer", {}, [](LossScaleConfig c) {
      return LossScaleOptimizer(std::move(c.inner_optimizer), std::move(c.options));
    });
    t->add<MultiOptimizerConfig>("MultiOptimizer", {}, [](MultiOptimizerConfig c) {
      return MultiOptimizer(std::move(c.optimizer_map), std::move(c.options));
    });
    add<MuonOptions>(*t, "Muon", Muon);
    add<BetaOptions>(*t, "Nadam", Nadam);
    add<RMSpropOptions>(*t, "RMSprop", RMSprop);
    add<SGDOptions>(*t, "SGD", SGD);
    add<ScheduleFreeAdamWOptions>(*t, "ScheduleFreeAdamW", ScheduleFreeAdamW);
    return t;
  }();
  return *table;
}

void Optimizer::set_base_config(const Json& config) {
  // Arguments of old versions of Keras's own classes, which other classes may have with another meaning.
  Json arguments = config;
  for (const char* old : {"lr", "decay"}) arguments.erase(old);
  CommonOptions options = options_;
  keras::FieldReader reader(class_name(), arguments);
  common_fields(reader, options);
  set_options(std::move(options));
}

void Optimizer::set_legacy_rules(const Json& config) {
  legacy_.emplace();
  CommonOptions options = options_;
  keras::FieldReader reader(class_name(), config);
  reader("clipnorm", options.clipnorm);
  reader("clipvalue", options.clipvalue);
  reader("global_clipnorm", options.global_clipnorm);
  reader("schedule_decay", legacy_->schedule_decay);
  set_options(std::move(options));
}

namespace {

// Of Keras 2 until 2.10. Several arguments for clipping could be given, and Nadam's `decay` is not of the rate.
constexpr std::string_view kOwnArguments[] = {"clipnorm", "clipvalue", "global_clipnorm", "schedule_decay"};

bool is_legacy(const Json& config) {
  return config.is_object() && config.value("module", Json()).is_string() &&
         config.at("module").text().find("optimizers.legacy") != std::string::npos;
}

// Of Keras 2.11 and later: the first of these that is positive counts.
void keep_one_clip(Json& arguments) {
  bool found = false;
  for (const char* key : {"clipnorm", "global_clipnorm", "clipvalue"}) {
    if (!arguments.contains(key) || !arguments[key].is_number()) continue;
    const bool counts = !found && arguments[key].get<double>() > 0;
    found = found || counts;
    if (!counts) arguments.erase(key);
  }
}

}  // namespace

OptimizerPtr OptimizerPtr::from_config(const Json& config) const {
  Json made = serialize(*this);
  made["config"] = config;
  return deserialize(made);
}

OptimizerPtr deserialize(const Json& config) {
  if (config.is_object() && config.value("class_name", Json()) == Json("LossScaleOptimizerV3")) {  // of Keras 2.11
    Json usual = config;
    usual["class_name"] = "LossScaleOptimizer";
    for (const char* key : {"module", "registered_name"}) usual.erase(key);
    return deserialize(usual);
  }
  if (is_legacy(config) && config.contains("config") && config.at("config").is_object()) {
    Json usual = config, own = Json::object();
    usual["module"] = "keras.optimizers";
    Json& arguments = usual["config"];
    for (const std::string_view key : kOwnArguments) {
      const std::string name(key);
      if (!arguments.contains(name)) continue;
      own[name] = arguments[name];
      arguments.erase(name);
    }
    const keras::ClassRow* const row = classes().find(config.value("class_name", std::string()));
    if (row && row->name == "Nadam") arguments.erase("decay");
    OptimizerPtr made = deserialize(usual);
    made->set_legacy_rules(own);
    return made;
  }
  const Json arguments = config.is_object() ? config.value("config", Json()) : Json();
  if (arguments.is_object() && arguments.contains("is_legacy_optimizer")) {
    Json usual = config;
    Json& own = usual["config"];
    own.erase("is_legacy_optimizer");
    keep_one_clip(own);
    return deserialize(usual);
  }
  return classes().deserialize(config, [](Optimizer& made, const Json& base) { made.set_base_config(base); });
}

OptimizerPtr get(const OptimizerArg& identifier) {
  if (const Json* config = identifier.config()) return deserialize(*config);
  return classes().get(identifier);
}

Json serialize(const OptimizerPtr& optimizer) {
  return classes().serialize(optimizer, optimizer ? optimizer->base_config() : Json());
}

}  // namespace lockstep::optimizers
