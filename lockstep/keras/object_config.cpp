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
  } else if (const std::string& name = value["class_name"].text(); name.find('>') != std::string::npos) {
    object.registered_name = name;
  }
  return object;
}

void throw_unknown_object(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  throw_invalid_argument(fmt::format("unknown {} '{}'{}", kind, name,
                                     nearest.empty() ? "" : fmt::format("; the nearest known one is '{}'", nearest)));
}

}  // namespace lockstep::keras
