// Names and configs of optimizers, Keras 3's and Keras 2's.
#include <functional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/optimizers.h"

namespace lockstep::optimizers {
namespace {

using keras::ConfigReader;

LearningRate read_rate(const ConfigReader& config, double otherwise) {
  const Json& rate = config.raw("learning_rate");
  if (rate.is_object()) {
    if (!schedules::is_schedule(rate) && rate.contains("config") && rate["config"].is_object() &&
        rate["config"].contains("value") && rate["config"]["value"].is_number()) {
      return rate["config"]["value"].get<double>();
    }
    return schedules::deserialize(rate);
  }
  const double value = config.number(config.has("learning_rate") ? "learning_rate" : "lr", otherwise);
  // Keras 2's legacy optimizers divide the rate by 1 + decay · step.
  const double decay = config.number("decay", 0.0);
  if (decay != 0) return schedules::InverseTimeDecay(value, 1, decay);
  return value;
}

template <typename Options>
void read_common(const ConfigReader& c, Options& o) {
  o.learning_rate = read_rate(c, std::get<double>(o.learning_rate.value()));
  // A config written by Keras says null where there is none; one without the key takes the default.
  if (c.contains("weight_decay")) o.weight_decay = c.number("weight_decay");
  o.clipnorm = c.number("clipnorm");
  o.clipvalue = c.number("clipvalue");
  o.global_clipnorm = c.number("global_clipnorm");
  o.use_ema = c.boolean("use_ema", false);
  o.ema_momentum = c.number("ema_momentum", 0.99);
  o.ema_overwrite_frequency = o.use_ema ? c.integer("ema_overwrite_frequency") : std::nullopt;
  o.loss_scale_factor = c.number("loss_scale_factor");
  o.gradient_accumulation_steps = c.integer("gradient_accumulation_steps");
  o.name = c.string("name", "");
}

// Sets a field where the config has it.
void set(const ConfigReader& c, const char* key, double& field) { field = c.number(key, field); }
void set(const ConfigReader& c, const char* key, bool& field) { field = c.boolean(key, field); }
void set(const ConfigReader& c, const char* key, std::int64_t& field) { field = c.integer(key, field); }

template <typename Options>
Options read_adam(const ConfigReader& c) {
  Options o;
  read_common(c, o);
  set(c, "beta_1", o.beta_1);
  set(c, "beta_2", o.beta_2);
  set(c, "epsilon", o.epsilon);
  if constexpr (requires { o.amsgrad; }) set(c, "amsgrad", o.amsgrad);
  return o;
}

OptimizerPtr read_sgd(const ConfigReader& c) {
  SGDOptions o;
  read_common(c, o);
  set(c, "momentum", o.momentum);
  set(c, "nesterov", o.nesterov);
  return SGD(std::move(o));
}

OptimizerPtr read_rmsprop(const ConfigReader& c) {
  RMSpropOptions o;
  read_common(c, o);
  set(c, "rho", o.rho);
  set(c, "momentum", o.momentum);
  set(c, "epsilon", o.epsilon);
  set(c, "centered", o.centered);
  return RMSprop(std::move(o));
}

OptimizerPtr read_adagrad(const ConfigReader& c) {
  AdagradOptions o;
  read_common(c, o);
  set(c, "initial_accumulator_value", o.initial_accumulator_value);
  set(c, "epsilon", o.epsilon);
  return Adagrad(std::move(o));
}

OptimizerPtr read_adadelta(const ConfigReader& c) {
  AdadeltaOptions o;
  read_common(c, o);
  set(c, "rho", o.rho);
  set(c, "epsilon", o.epsilon);
  return Adadelta(std::move(o));
}

OptimizerPtr read_ftrl(const ConfigReader& c) {
  FtrlOptions o;
  read_common(c, o);
  set(c, "learning_rate_power", o.learning_rate_power);
  set(c, "initial_accumulator_value", o.initial_accumulator_value);
  set(c, "l1_regularization_strength", o.l1_regularization_strength);
  set(c, "l2_regularization_strength", o.l2_regularization_strength);
  set(c, "l2_shrinkage_regularization_strength", o.l2_shrinkage_regularization_strength);
  set(c, "beta", o.beta);
  return Ftrl(std::move(o));
}

OptimizerPtr read_lion(const ConfigReader& c) {
  LionOptions o;
  read_common(c, o);
  set(c, "beta_1", o.beta_1);
  set(c, "beta_2", o.beta_2);
  return Lion(std::move(o));
}

OptimizerPtr read_adafactor(const ConfigReader& c) {
  AdafactorOptions o;
  read_common(c, o);
  set(c, "beta_2_decay", o.beta_2_decay);
  set(c, "epsilon_1", o.epsilon_1);
  set(c, "epsilon_2", o.epsilon_2);
  set(c, "clip_threshold", o.clip_threshold);
  set(c, "relative_step", o.relative_step);
  return Adafactor(std::move(o));
}

OptimizerPtr read_muon(const ConfigReader& c) {
  MuonOptions o;
  read_common(c, o);
  set(c, "adam_beta_1", o.adam_beta_1);
  set(c, "adam_beta_2", o.adam_beta_2);
  set(c, "adam_weight_decay", o.adam_weight_decay);
  set(c, "epsilon", o.epsilon);
  for (const Json& pattern : c.raw("exclude_layers")) o.exclude_layers.push_back(pattern.get<std::string>());
  set(c, "exclude_embeddings", o.exclude_embeddings);
  set(c, "muon_a", o.muon_a);
  set(c, "muon_b", o.muon_b);
  set(c, "muon_c", o.muon_c);
  set(c, "adam_lr_ratio", o.adam_lr_ratio);
  set(c, "momentum", o.momentum);
  set(c, "ns_steps", o.ns_steps);
  set(c, "nesterov", o.nesterov);
  if (c.contains("rms_rate")) o.rms_rate = c.number("rms_rate");
  return Muon(std::move(o));
}

OptimizerPtr read_loss_scale(const ConfigReader& c) {
  // Keras 3: inner_optimizer is required; a string alone cannot make one.
  if (!c.has("inner_optimizer")) throw_invalid_argument("LossScaleOptimizer: 'inner_optimizer' is missing");
  LossScaleOptions o;
  set(c, "initial_scale", o.initial_scale);
  set(c, "dynamic_growth_steps", o.dynamic_growth_steps);
  o.name = c.string("name", "");
  return LossScaleOptimizer(deserialize(c.raw("inner_optimizer")), std::move(o));
}

struct Row {
  const char* class_name;
  std::function<OptimizerPtr(const ConfigReader&)> make;
};

const std::vector<Row>& rows() {
  static const auto* rows = new std::vector<Row>{
      {"Adadelta", read_adadelta},
      {"Adafactor", read_adafactor},
      {"Adagrad", read_adagrad},
      {"Adam", [](const ConfigReader& c) { return Adam(read_adam<AdamOptions>(c)); }},
      {"AdamW", [](const ConfigReader& c) { return AdamW(read_adam<AdamWOptions>(c)); }},
      {"Adamax", [](const ConfigReader& c) { return Adamax(read_adam<BetaOptions>(c)); }},
      {"Ftrl", read_ftrl},
      {"Lamb", [](const ConfigReader& c) { return Lamb(read_adam<BetaOptions>(c)); }},
      {"Lion", read_lion},
      {"LossScaleOptimizer", read_loss_scale},
      {"Muon", read_muon},
      {"Nadam", [](const ConfigReader& c) { return Nadam(read_adam<BetaOptions>(c)); }},
      {"RMSprop", read_rmsprop},
      {"SGD", read_sgd},
  };
  return *rows;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

OptimizerPtr make(const std::string& name, const Json& config) {
  std::vector<std::string> known;
  for (const Row& row : rows()) {
    // Keras finds optimizers by their name in lower case.
    if (lower(row.class_name) == lower(name)) return row.make(ConfigReader(row.class_name, config));
    known.push_back(lower(row.class_name));
  }
  keras::throw_unknown_object("optimizer", name, known);
}

}  // namespace

OptimizerPtr deserialize(const Json& config) {
  if (config.is_string()) return make(config.get<std::string>(), Json::object());
  const auto object = keras::parse_object_config(config);
  if (!object) throw_invalid_argument(fmt::format("{} is no optimizer's config", dump_json(config)));
  return make(object->class_name, object->config);
}

OptimizerPtr get(const OptimizerArg& identifier) {
  if (auto object = identifier.object()) return object;
  if (const std::string* name = identifier.name()) return make(*name, Json::object());
  if (const Json* config = identifier.config()) return deserialize(*config);
  return nullptr;
}

Json serialize(const OptimizerPtr& optimizer) {
  if (!optimizer) return nullptr;
  return keras::object_config("keras.optimizers", optimizer->class_name(), optimizer->config());
}

}  // namespace lockstep::optimizers
