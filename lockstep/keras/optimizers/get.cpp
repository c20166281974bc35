// Names and configs of optimizers, Keras 3's and Keras 2's.
#include <functional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/fields_internal.h"

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
  const double* rate = std::get_if<double>(&o.learning_rate.value());
  if (rate || c.has("learning_rate")) o.learning_rate = read_rate(c, rate ? *rate : 0.001);
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
class FieldReader {
 public:
  explicit FieldReader(const ConfigReader& config) : config_(config) {}
  void operator()(const char* key, double& field) const { field = config_.number(key, field); }
  void operator()(const char* key, bool& field) const { field = config_.boolean(key, field); }
  void operator()(const char* key, std::int64_t& field) const { field = config_.integer(key, field); }
  void operator()(const char* key, std::optional<double>& field) const {
    if (config_.contains(key)) field = config_.number(key);
  }
  void operator()(const char* key, std::vector<std::string>& field) const {
    for (const Json& item : config_.raw(key)) field.push_back(item.get<std::string>());
  }

 private:
  const ConfigReader& config_;
};

struct Row {
  const char* class_name;
  std::function<OptimizerPtr(const ConfigReader&)> make;
};

template <typename Options>
Row row(const char* class_name, OptimizerPtr (*make)(Options)) {
  return {class_name, [make](const ConfigReader& config) {
            Options options;
            read_common(config, options);
            fields(FieldReader(config), options);
            return make(std::move(options));
          }};
}

OptimizerPtr read_loss_scale(const ConfigReader& c) {
  // Keras 3: inner_optimizer is required; a string alone cannot make one.
  if (!c.has("inner_optimizer")) throw_invalid_argument("LossScaleOptimizer: 'inner_optimizer' is missing");
  LossScaleOptions o;
  o.initial_scale = c.number("initial_scale", o.initial_scale);
  o.dynamic_growth_steps = c.integer("dynamic_growth_steps", o.dynamic_growth_steps);
  o.name = c.string("name", "");
  return LossScaleOptimizer(deserialize(c.raw("inner_optimizer")), std::move(o));
}

const std::vector<Row>& rows() {
  static const auto* rows = new std::vector<Row>{
      row<AdadeltaOptions>("Adadelta", Adadelta),
      row<AdafactorOptions>("Adafactor", Adafactor),
      row<AdagradOptions>("Adagrad", Adagrad),
      row<AdamOptions>("Adam", Adam),
      row<AdamWOptions>("AdamW", AdamW),
      row<BetaOptions>("Adamax", Adamax),
      row<FtrlOptions>("Ftrl", Ftrl),
      row<BetaOptions>("Lamb", Lamb),
      row<LionOptions>("Lion", Lion),
      {"LossScaleOptimizer", read_loss_scale},
      row<MuonOptions>("Muon", Muon),
      row<BetaOptions>("Nadam", Nadam),
      row<RMSpropOptions>("RMSprop", RMSprop),
      row<SGDOptions>("SGD", SGD),
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

bool is_built_in(const std::string& name) {
  return std::any_of(rows().begin(), rows().end(),
                     [&](const Row& row) { return lower(row.class_name) == lower(name); });
}

}  // namespace

void Optimizer::set_base_config(const Json& config) {
  CommonOptions options = options_;
  read_common(ConfigReader(class_name(), config), options);
  set_options(std::move(options));
}

OptimizerPtr deserialize(const Json& config) {
  if (config.is_string()) return make(config.get<std::string>(), Json::object());
  const auto object = keras::parse_object_config(config);
  if (!object) throw_invalid_argument(fmt::format("{} is not the config of an optimizer", dump_json(config)));
  if (auto made = keras::make_registered<Optimizer>(*object, is_built_in(object->class_name))) {
    made->set_base_config(object->config);
    return made;
  }
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
  return keras::serialize_object("keras.optimizers", optimizer->class_name(), optimizer->get_config(),
                                 is_built_in(optimizer->class_name()), typeid(*optimizer), optimizer->base_config());
}

}  // namespace lockstep::optimizers
