// Names and configs of initializers.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/initializers/initializers.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::initializers {
namespace {

using keras::ConfigReader;
using Factory = std::function<InitializerPtr(const ConfigReader&)>;

random::Seed read_seed(const ConfigReader& config) {
  const Json& seed = config.raw("seed");
  if (const auto object = keras::parse_object_config(seed)) {
    const ConfigReader generator(object->class_name, object->config);
    return std::make_shared<random::SeedGenerator>(generator.integer("seed"),
                                                   generator.string("name", "seed_generator"));
  }
  if (const auto number = config.integer("seed")) return *number;
  return {};
}

std::optional<Axes> read_axes(const ConfigReader& config, const char* key) {
  const Json& axes = config.raw(key);
  if (axes.is_null()) return std::nullopt;
  if (axes.is_number_integer()) return Axes{axes.get<std::int64_t>()};
  Axes result;
  for (const Json& axis : axes) {
    if (!axis.is_number_integer()) {
      throw_invalid_argument(
          fmt::format("{}: '{}' holds {}, expected integers", config.class_name(), key, axis.dump()));
    }
    result.push_back(axis.get<std::int64_t>());
  }
  return result;
}

FanOptions read_fan(const ConfigReader& config) {
  config.refuse_unknown({"seed", "input_axes", "output_axes", "dtype"});
  return {read_seed(config), read_axes(config, "input_axes"), read_axes(config, "output_axes")};
}

RandomNormalOptions read_normal(const ConfigReader& config) {
  config.refuse_unknown({"seed", "mean", "stddev", "dtype"});
  return {config.number("mean", 0.0), config.number("stddev", 0.05), read_seed(config)};
}

void flatten_list(const Json& list, std::size_t depth, Shape& shape, std::vector<double>& values) {
  if (!list.is_array()) {
    values.push_back(list.is_boolean() ? (list.get<bool>() ? 1.0 : 0.0) : list.get<double>());
    return;
  }
  const auto size = static_cast<std::int64_t>(list.size());
  if (depth == shape.dims().size()) shape.push_back(size);
  if (shape[static_cast<int>(depth)] != size) throw_invalid_argument("Constant: 'value' is a ragged list");
  for (const Json& item : list) flatten_list(item, depth + 1, shape, values);
}

InitializerPtr read_constant(const ConfigReader& config) {
  config.refuse_unknown({"value", "dtype"});
  Json value = config.raw("value");
  if (value.is_object()) value = value.value("config", Json::object()).value("value", Json(0.0));
  if (!value.is_array()) return Constant(value.is_null() ? 0.0 : value.get<double>());
  Shape shape;
  std::vector<double> values;
  flatten_list(value, 0, shape, values);
  return Constant(Tensor::from_vector(values, shape));
}

const std::vector<std::pair<std::string, Factory>>& rows() {
  static const auto* rows = new std::vector<std::pair<std::string, Factory>>{
      {"Constant", read_constant},
      {"GlorotNormal", [](const ConfigReader& c) { return GlorotNormal(read_fan(c)); }},
      {"GlorotUniform", [](const ConfigReader& c) { return GlorotUniform(read_fan(c)); }},
      {"HeNormal", [](const ConfigReader& c) { return HeNormal(read_fan(c)); }},
      {"HeUniform", [](const ConfigReader& c) { return HeUniform(read_fan(c)); }},
      {"Identity", [](const ConfigReader& c) { return Identity(c.number("gain", 1.0)); }},
      {"LecunNormal", [](const ConfigReader& c) { return LecunNormal(read_fan(c)); }},
      {"LecunUniform", [](const ConfigReader& c) { return LecunUniform(read_fan(c)); }},
      {"Ones", [](const ConfigReader&) { return Ones(); }},
      {"Orthogonal",
       [](const ConfigReader& c) {
         c.refuse_unknown({"seed", "gain", "dtype"});
         return Orthogonal({c.number("gain", 1.0), read_seed(c)});
       }},
      {"RandomNormal", [](const ConfigReader& c) { return RandomNormal(read_normal(c)); }},
      {"RandomUniform",
       [](const ConfigReader& c) {
         c.refuse_unknown({"seed", "minval", "maxval", "dtype"});
         return RandomUniform({c.number("minval", -0.05), c.number("maxval", 0.05), read_seed(c)});
       }},
      {"TruncatedNormal", [](const ConfigReader& c) { return TruncatedNormal(read_normal(c)); }},
      {"VarianceScaling",
       [](const ConfigReader& c) {
         c.refuse_unknown({"seed", "scale", "mode", "distribution", "input_axes", "output_axes", "dtype"});
         return VarianceScaling({c.number("scale", 1.0), c.string("mode", "fan_in"),
                                 c.string("distribution", "truncated_normal"), read_seed(c), read_axes(c, "input_axes"),
                                 read_axes(c, "output_axes")});
       }},
      {"Zeros", [](const ConfigReader&) { return Zeros(); }},
  };
  return *rows;
}

// Other spellings that Keras accepts.
std::string canonical(const std::string& name) {
  static const std::unordered_map<std::string, std::string> aliases = {
      {"normal", "RandomNormal"}, {"uniform", "RandomUniform"},        {"one", "Ones"},
      {"zero", "Zeros"},          {"IdentityInitializer", "Identity"}, {"OrthogonalInitializer", "Orthogonal"}};
  const auto alias = aliases.find(name);
  return alias == aliases.end() ? name : alias->second;
}

InitializerPtr make(const std::string& given, const Json& config) {
  const std::string name = canonical(given);
  std::vector<std::string> known;
  for (const auto& [class_name, factory] : rows()) {
    const std::string snake = keras::to_snake_case(class_name);
    if (name == class_name || name == snake) return factory(ConfigReader(class_name, config));
    known.push_back(snake);
    known.push_back(class_name);
  }
  keras::throw_unknown_object("initializer", given, known);
}

bool is_built_in(const std::string& given) {
  const std::string name = canonical(given);
  return std::any_of(rows().begin(), rows().end(),
                     [&](const auto& row) { return name == row.first || name == keras::to_snake_case(row.first); });
}

}  // namespace

InitializerPtr get(const InitializerArg& identifier) {
  if (auto object = identifier.object()) return object;
  if (const std::string* name = identifier.name()) return make(*name, Json::object());
  if (const Json* config = identifier.config()) {
    const auto object = keras::parse_object_config(*config);
    if (!object) throw_invalid_argument(fmt::format("{} is not the config of an initializer", dump_json(*config)));
    if (auto made = keras::make_registered<Initializer>(*object, is_built_in(object->class_name))) return made;
    if (object->class_name == "function" && object->config.is_string()) {
      return make(object->config.get<std::string>(), Json::object());
    }
    return make(object->class_name, object->config);
  }
  return nullptr;
}

Json serialize(const InitializerPtr& initializer) {
  if (!initializer) return nullptr;
  return keras::serialize_object("keras.initializers", initializer->class_name(), initializer->get_config(),
                                 is_built_in(initializer->class_name()), typeid(*initializer));
}

}  // namespace lockstep::initializers
