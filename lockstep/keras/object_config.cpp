#include "lockstep/keras/object_config.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"

namespace lockstep::keras {

Json object_config(std::string_view module, std::string_view class_name, Json config) {
  if (config.is_null()) config = Json::object();
  return {{"module", std::string(module)},
          {"class_name", std::string(class_name)},
          {"config", std::move(config)},
          {"registered_name", nullptr}};
}

std::optional<ObjectConfig> parse_object_config(const Json& value) {
  if (!value.is_object() || !value.contains("class_name") || !value["class_name"].is_string()) return std::nullopt;
  ObjectConfig object;
  object.class_name = value["class_name"].get<std::string>();
  if (const auto mark = object.class_name.find('>'); mark != std::string::npos) {
    object.class_name.erase(0, mark + 1);
  }
  object.config = value.value("config", Json::object());
  if (value.contains("module") && value["module"].is_string()) object.module = value["module"].get<std::string>();
  if (value.contains("registered_name") && value["registered_name"].is_string()) {
    object.registered_name = value["registered_name"].get<std::string>();
  } else if (const std::string& name = value["class_name"].get_ref<const std::string&>();
             name.find('>') != std::string::npos) {
    object.registered_name = name;
  }
  return object;
}

ConfigReader::ConfigReader(std::string class_name, const Json& config)
    : class_name_(std::move(class_name)), config_(config.is_null() ? Json::object() : config) {
  if (!config_.is_object()) {
    throw_invalid_argument(fmt::format("{}: its config is {}, expected an object", class_name_, config_.type_name()));
  }
}

void ConfigReader::fail(std::string_view key, std::string_view expected) const {
  throw_invalid_argument(fmt::format("{}: '{}' is {}, expected {}", class_name_, key, dump_json(raw(key)), expected));
}

bool ConfigReader::contains(std::string_view key) const { return config_.contains(std::string(key)); }
bool ConfigReader::has(std::string_view key) const { return !raw(key).is_null(); }

const Json& ConfigReader::raw(std::string_view key) const {
  static const Json kNull;
  const auto it = config_.find(std::string(key));
  return it == config_.end() ? kNull : *it;
}

std::optional<double> ConfigReader::number(std::string_view key) const {
  const Json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_number()) fail(key, "a number");
  return value.get<double>();
}
double ConfigReader::number(std::string_view key, double otherwise) const { return number(key).value_or(otherwise); }

std::optional<std::int64_t> ConfigReader::integer(std::string_view key) const {
  const Json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float() || value.get<double>() != std::floor(value.get<double>()) ||
      std::abs(value.get<double>()) > 9e15) {
    fail(key, "an integer");
  }
  return static_cast<std::int64_t>(value.get<double>());
}
std::int64_t ConfigReader::integer(std::string_view key, std::int64_t otherwise) const {
  return integer(key).value_or(otherwise);
}

bool ConfigReader::boolean(std::string_view key, bool otherwise) const {
  const Json& value = raw(key);
  if (value.is_null()) return otherwise;
  if (value.is_number()) return value.get<double>() != 0;
  if (!value.is_boolean()) fail(key, "true or false");
  return value.get<bool>();
}

std::string ConfigReader::string(std::string_view key, std::string otherwise) const {
  const Json& value = raw(key);
  if (value.is_null()) return otherwise;
  if (!value.is_string()) fail(key, "a string");
  return value.get<std::string>();
}

void ConfigReader::refuse_unknown(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : config_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string nearest = nearest_name(key, std::vector<std::string>(known.begin(), known.end()));
    throw_invalid_argument(fmt::format("{}: unknown keyword '{}'{}", class_name_, key,
                                       nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }
}

void throw_unknown_object(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  throw_invalid_argument(fmt::format("unknown {} '{}'{}", kind, name,
                                     nearest.empty() ? "" : fmt::format("; the nearest known one is '{}'", nearest)));
}

}  // namespace lockstep::keras
