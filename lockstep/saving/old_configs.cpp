#include "lockstep/saving/old_configs_internal.h"

#include <set>
#include <string>
#include <vector>

#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/models/keras2_order_internal.h"
#include "lockstep/saving/old_config_table_internal.h"
#include "lockstep/saving/old_json_internal.h"
#include "lockstep/saving/old_operations_internal.h"
#include "lockstep/saving/old_weights_internal.h"

namespace lockstep::saving {
namespace {

// Deeper configs are refused when their layers are made.
constexpr int kMostDepth = 200;

// Arguments that name an activation.
bool names_activation(std::string_view key) {
  return key == "activation" || key == "recurrent_activation" || key == "inner_activation" || key == "inner_act";
}

bool is_hard_sigmoid(const Json& value) {
  if (value.is_string()) return value.get<std::string>() == "hard_sigmoid";
  return value.is_object() && value.contains("class_name") && value.at("class_name") == Json("function") &&
         value.contains("config") && value.at("config") == Json("hard_sigmoid");
}

// How Keras 2 until 2.2 wrote numbers that it had as arrays of NumPy, such as the slope of a LeakyReLU.
bool is_array_of_numpy(const Json& json) {
  return json.size() == 2 && json.contains("value") && json.value("type", Json()) == Json("ndarray");
}

// Layers of Keras 1 whose arguments Keras 2, which read them for compatibility, left as they were.
bool kept_its_arguments(std::string_view class_name) { return class_name == "Highway" || class_name == "MaxoutDense"; }

void collect_data_formats(const Json& json, int depth, std::set<std::string>& formats) {
  if (depth > kMostDepth || !json.is_structured()) return;
  if (json.is_array()) {
    for (const Json& item : json) collect_data_formats(item, depth + 1, formats);
    return;
  }
  for (const auto& [key, value] : json.items()) {
    if ((key == "dim_ordering" || key == "data_format") && value.is_string()) formats.insert(value.get<std::string>());
    collect_data_formats(value, depth + 1, formats);
  }
}

class Upgrade {
 public:
  explicit Upgrade(OldConfig facts) : facts_(std::move(facts)) {}

  Json run(const Json& json, int depth) const {
    if (depth > kMostDepth) return json;
    if (json.is_array()) {
      Json out = Json::array();
      for (const Json& item : json) out.push_back(run(item, depth + 1));
      return out;
    }
    if (!json.is_object()) return json;
    if (is_array_of_numpy(json)) return json["value"];
    Json out = Json::object();
    for (const auto& [key, value] : json.items()) {
      out[key] = names_activation(key) && is_hard_sigmoid(value) ? Json("keras2_hard_sigmoid") : run(value, depth + 1);
    }
    const auto name = out.find("class_name");
    if (name == out.end() || !name->is_string() || !out.contains("config")) return out;
    return object(std::move(out));
  }

 private:
  Json object(Json out) const {
    const std::string old_name = out["class_name"].text();
    const OldClass* row = nullptr;
    for (const OldClass& each : old_classes()) {
      if (each.until >= facts_.major && each.old_name == old_name) row = &each;
    }
    if (row) out["class_name"] = std::string(row->name);
    if (out.contains("inbound_nodes")) out.erase("build_config");  // the calls build the layer
    if (out["config"].is_object()) {
      out["config"] = arguments(out["class_name"].text(), out["config"]);
      if (facts_.major == 1) turn_axes_of_constraints(out["class_name"].text(), out["config"]);
      if (row && !row->added.empty()) {
        const Json added = Json::parse(row->added);
        for (const auto& [key, value] : added.items()) {
          if (!out["config"].contains(key)) out["config"][key] = value;
        }
      }
      if (row && row->change) row->change(out);
      if (out["config"].contains("layers")) change_operations(out["config"]);
    }
    return out["class_name"] == Json("Sequential") ? sequential(std::move(out)) : out;
  }

  const OldArgument* row_of(std::string_view class_name, const std::string& key) const {
    for (const OldArgument& row : old_arguments()) {
      const int major = kept_its_arguments(class_name) ? 1 : facts_.major;
      if (row.until < major || !contains_word(row.old_keys, key)) continue;
      if (row.classes.empty() || contains_word(row.classes, class_name)) return &row;
    }
    return nullptr;
  }

  Json arguments(const std::string& class_name, const Json& config) const {
    Json out = Json::object();
    for (const auto& [key, given] : config.items()) {
      const OldArgument* row = row_of(class_name, key);
      std::string now = row ? std::string(row->key) : key;
      Json value = given;
      const std::vector<std::string> keys = row ? words(row->old_keys) : std::vector<std::string>{key};
      if (keys.size() > 1) {
        if (key != keys[0]) continue;  // part of the list that the first one makes
        value = Json::array();
        for (const std::string& each : keys) value.push_back(config.value(each, Json()));
      }
      if (row && row->convert) value = row->convert(value);
      if (now.empty()) continue;
      out[now] = facts_.major == 1 ? value_of_keras_1(now, value) : value;
    }
    if (facts_.major == 1 && !facts_.data_format.empty() && !out.contains("data_format") &&
        lacks_data_format(class_name)) {
      out["data_format"] = facts_.data_format;
    }
    return out;
  }

  // Constraints name axes of kernels, whose order was another one.
  static void turn_axes_of_constraints(const std::string& class_name, Json& config) {
    const Json format = config.value("data_format", Json());
    for (const char* key : {"kernel_constraint", "depthwise_constraint", "pointwise_constraint"}) {
      if (!config.contains(key) || !config[key].is_object() || !config[key].contains("config")) continue;
      Json& arguments = config[key]["config"];
      if (!arguments.is_object() || !arguments.contains("axis")) continue;
      const auto turned = [&](const Json& axis) {
        if (!axis.is_number_integer()) return axis;
        return Json(kernel_axis(class_name, format.is_string() ? format.text() : "", axis.get<std::int64_t>()));
      };
      Json& axis = arguments["axis"];
      if (!axis.is_array()) {
        axis = turned(axis);
        continue;
      }
      std::set<std::int64_t> axes;  // those of Conv1D can coincide
      for (const Json& each : axis) {
        const Json now = turned(each);
        if (now.is_number_integer()) axes.insert(now.get<std::int64_t>());
      }
      axis = Json(std::vector<std::int64_t>(axes.begin(), axes.end()));
    }
  }

  // A Sequential that begins with a Merge of branches has several inputs.
  static Json sequential(Json out) {
    const Json& config = out["config"];
    const Json* entries = config.is_array()                                 ? &config
                          : config.is_object() && config.contains("layers") ? &config["layers"]
                                                                            : nullptr;
    if (!entries || !entries->is_array() || entries->size() == 0) return out;
    const Json& first = (*entries)[0];
    if (!first.is_object() || !first.contains("config") || !first["config"].is_object() ||
        !first["config"].contains("merged")) {
      return out;
    }
    Json functional = functional_of_branches(*entries, config.is_object() ? config.value("name", Json()) : Json());
    for (const char* key : {"name", "inbound_nodes"}) {
      if (out.contains(key)) functional[key] = out[key];
    }
    return functional;
  }

  OldConfig facts_;
};

// 0 where the version is of Keras 3 or not given.
int old_major(std::string_view keras_version) {
  return keras_version.starts_with("1") ? 1 : keras_version.starts_with("2.") ? 2 : 0;
}

// In Keras 2 nothing within a frozen layer is trained, whatever the configs of its parts say.
void freeze_parts(keras::Layer& layer, bool frozen = false) {
  frozen = frozen || !layer.trainable();
  if (frozen) layer.set_trainable(false);
  for (const keras::LayerPtr& part : layer.sublayers()) freeze_parts(*part, frozen);
}

Json upgraded_config(Json config, std::string_view keras_version) {
  OldConfig facts;
  facts.major = old_major(keras_version);
  if (facts.major == 0) return config;
  std::set<std::string> formats;
  collect_data_formats(config, 0, formats);
  if (formats == std::set<std::string>{"th"}) facts.data_format = "channels_first";
  return Upgrade(std::move(facts)).run(config, 0);
}

}  // namespace

keras::ModelPtr model_of_config(const Json& config, std::string_view keras_version) {
  const bool old = old_major(keras_version) > 0;
  const keras::Keras2Order order(old);
  auto model =
      std::dynamic_pointer_cast<keras::ModelImpl>(keras::deserialize_layer(upgraded_config(config, keras_version)));
  if (model && old) freeze_parts(*model);
  return model;
}

}  // namespace lockstep::saving
