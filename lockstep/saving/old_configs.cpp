#include "lockstep/saving/old_configs_internal.h"

#include <string>

namespace lockstep::saving {
namespace {

// Arguments that name an activation.
bool names_activation(std::string_view key) {
  return key == "activation" || key == "recurrent_activation" || key == "inner_activation" || key == "inner_act";
}

bool is_hard_sigmoid(const Json& value) {
  if (value.is_string()) return value.get<std::string>() == "hard_sigmoid";
  return value.is_object() && value.contains("class_name") && value.at("class_name") == Json("function") &&
         value.contains("config") && value.at("config") == Json("hard_sigmoid");
}

Json upgraded(const Json& json, int depth) {
  // Deeper configs are refused when their layers are made.
  if (depth > 200) return json;
  if (json.is_array()) {
    Json out = Json::array();
    for (const Json& item : json) out.push_back(upgraded(item, depth + 1));
    return out;
  }
  if (!json.is_object()) return json;
  Json out = Json::object();
  for (const auto& item : json.items()) {
    if (names_activation(item.key()) && is_hard_sigmoid(item.value())) {
      out[item.key()] = "keras2_hard_sigmoid";
    } else {
      out[item.key()] = upgraded(item.value(), depth + 1);
    }
  }
  if (out.contains("class_name") && out.at("class_name") == Json("ThresholdedReLU") && out.contains("config") &&
      out.at("config").is_object()) {
    Json config = Json::object();
    for (const auto& item : out.at("config").items())
      config[item.key() == "theta" ? std::string("threshold") : std::string(item.key())] = item.value();
    out["class_name"] = "ReLU";
    out["config"] = config;
  }
  return out;
}

}  // namespace

Json upgraded_config(Json config, std::string_view keras_version) {
  const bool old = keras_version.starts_with("1") || keras_version.starts_with("2.");
  return old ? upgraded(config, 0) : config;
}

}  // namespace lockstep::saving
