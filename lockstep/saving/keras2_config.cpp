#include "lockstep/saving/keras2_config_internal.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layer_activation_internal.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/saving/automatic_masks_internal.h"
#include "lockstep/saving/keras2_operations_internal.h"
#include "lockstep/saving/keras2_table_internal.h"
#include "lockstep/saving/old_json_internal.h"

namespace lockstep::saving {
namespace {

bool is_object(const Json& json) {
  return json.is_object() && json.contains("class_name") && json["class_name"].is_string() && json.contains("config");
}

bool is_activation_key(std::string_view key) { return key == "activation" || key == "recurrent_activation"; }

Json activation(const std::string& name, const std::string& owner) {
  if (name == "hard_sigmoid")
    throw_unimplemented(
        fmt::format("layer '{}': the activation hard_sigmoid has the slope 1/6 in Keras 3 and 0.2 in Keras 2, which "
                    "has no function "
                    "for the other",
                    owner));
  if (name.find('>') == std::string::npos && !is_activation_of_keras2(name))
    throw_unimplemented(fmt::format("layer '{}': Keras 2 has no activation '{}'", owner, name));
  return name;
}

// A policy's name, or an object for one with two dtypes, as Keras 2 wrote them.
Json policy(const Json& dtype, const std::string& owner) {
  const std::string name = dtype.is_string() ? dtype.get<std::string>() : text_of(dtype["config"], "name");
  if (is_object(dtype) && dtype["class_name"] != Json("DTypePolicy"))
    throw_unimplemented(fmt::format("layer '{}': Keras 2 has no {}", owner, dtype["class_name"].text()));
  if (!name.starts_with("mixed_")) return name;
  return {{"class_name", "Policy"}, {"config", {{"name", name}}}};
}

bool is_policy(const Json& json) {
  return json.is_string() || (is_object(json) && json["class_name"].text().ends_with("DTypePolicy"));
}

// Where an object is.
struct Place {
  const std::set<std::string>* masks = nullptr;  // automatic_masks() of the whole model
  std::string path;                              // of the model around it
  std::string layer;                             // that the object is or belongs to
  bool keeps_training = false;  // the argument of a call, which Keras 3 replaces by that of the model's call
};

Json object_of(const Json& object, const Place& place);

Json value_of(std::string_view key, const Json& value, const Place& place) {
  const std::string& owner = place.layer;
  if (is_activation_key(key) && activations::is_hard_sigmoid_of_keras2(value)) return "hard_sigmoid";
  if (is_activation_key(key) && value.is_string()) return activation(value.get<std::string>(), owner);
  if (key == "dtype" && is_policy(value)) return policy(value, owner);
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) out.push_back(value_of("", item, place));
    return out;
  }
  if (is_object(value)) {
    Json out = object_of(value, place);
    return is_activation_key(key) && out.is_string() ? activation(out.get<std::string>(), owner) : out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [name, item] : value.items()) out[name] = value_of(name, item, place);
  return out;
}

// A config's arguments without those that Keras 2 lacks.
Json arguments(const std::string& class_name, const Json& config, const Place& place) {
  Json out = Json::object();
  for (const auto& [key, value] : config.items()) {
    const Keras3Argument* row = keras3_argument(class_name, key);
    const Json harmless = row && !row->harmless.empty() ? Json::parse(row->harmless) : Json::array();
    const bool left_out = std::find(harmless.begin(), harmless.end(), value) != harmless.end();
    if (!row || (!row->old_key.empty() && !left_out)) {
      out[row ? std::string(row->old_key) : key] = value_of(key, value, place);
    } else if (!left_out && !row->harmless.empty()) {
      throw_unimplemented(fmt::format("{} '{}': Keras 2 has no argument '{}', which is {}", class_name, place.layer,
                                      key, dump_json(value).substr(0, 60)));
    }
  }
  // tf-keras rejects num_bins together with bin_boundaries, which adapt() has set here.
  const auto given = [&](const char* key) { return out.contains(key) && !out[key].is_null(); };
  if (class_name == "Discretization" && given("bin_boundaries") && given("num_bins")) out["num_bins"] = nullptr;
  return out;
}

// One call of a functional model's layer.
class Call {
 public:
  Call(const std::set<std::string>& models, const Place& place, std::string class_name)
      : models_(models), place_(place), layer_(place.layer), class_name_(std::move(class_name)) {}

  Json run(const Json& call, int number) const {
    const Json& args = call.at("args");
    if (args.size() == 0) throw_unimplemented(fmt::format("layer '{}': Keras 2 has no call by keywords only", layer_));
    Json keywords = Json::object();
    for (std::size_t i = 1; i < args.size(); ++i) keywords[parameter(i)] = args[i];
    for (const auto& [key, value] : call.at("kwargs").items()) {
      // Keras 2 passes masks on by itself.
      const bool automatic =
          place_.masks && place_.masks->contains(fmt::format("{}/{}/{}/{}", place_.path, layer_, number, key));
      if (value.is_null() || automatic || (key == "training" && !place_.keeps_training)) continue;
      keywords[key] = value;
    }
    Json first = args[0];
    if (keywords.contains("initial_state")) {
      // Recurrent layers are called on a list of the sequence and the states.
      first = Json::array({first});
      for (const Json& state : states(keywords["initial_state"])) first.push_back(state);
      keywords.erase("initial_state");
    }
    Json given = Json::object();
    for (const auto& [key, value] : keywords.items()) given[key] = keyword(value);
    Json out = tensors(first, given);
    // A function of TensorFlow keeps the structure of its first argument.
    return is_symbol(first) && !class_name_.ends_with("OpLambda") ? Json::array({out}) : out;
  }

 private:
  static bool is_symbol(const Json& json) { return is_object(json) && json["class_name"] == Json("__keras_tensor__"); }
  static bool is_constant(const Json& json) {
    return is_object(json) && (json["class_name"] == Json("__tensor__") || json["class_name"] == Json("__numpy__"));
  }

  static Json states(const Json& given) { return given.is_array() ? given : Json::array({given}); }

  // Of an argument by position.
  std::string parameter(std::size_t i) const {
    constexpr std::string_view kAttention[] = {"query", "value", "key", "attention_mask"};
    constexpr std::string_view kRecurrent[] = {"inputs", "initial_state", "mask", "training"};
    const bool attention = class_name_ == "MultiHeadAttention";
    const bool recurrent = class_name_ == "LSTM" || class_name_ == "GRU" || class_name_ == "SimpleRNN" ||
                           class_name_ == "RNN" || class_name_ == "Bidirectional" ||
                           class_name_.starts_with("ConvLSTM");
    if (i < 4 && attention) return std::string(kAttention[i]);
    if (i < 4 && recurrent) return std::string(kRecurrent[i]);
    throw_unimplemented(fmt::format("layer '{}': argument {} of its call has no name in Keras 2", layer_, i));
  }

  Json origin(const Json& symbol) const {
    Json history = symbol["config"]["keras_history"];
    // The call by which a model was made counts.
    if (models_.contains(history[0].text())) history[1] = history[1].get<std::int64_t>() + 1;
    return history;
  }

  // Tensors of the first argument, each with all keywords.
  Json tensors(const Json& json, const Json& keywords) const {
    if (is_symbol(json)) {
      Json out = origin(json);
      out.push_back(keywords);
      return out;
    }
    if (json.is_array()) {
      Json out = Json::array();
      for (const Json& item : json) out.push_back(tensors(item, keywords));
      return out;
    }
    if (is_constant(json)) return Json::array({"_CONSTANT_VALUE", -1, json["config"]["value"], keywords});
    if (json.is_object() && !is_object(json)) {
      Json out = Json::object();
      for (const auto& [key, item] : json.items()) out[key] = tensors(item, keywords);
      return out;
    }
    return Json::array({"_CONSTANT_VALUE", -1, json, keywords});
  }

  Json keyword(const Json& json) const {
    if (is_symbol(json)) return origin(json);
    if (is_constant(json)) return json["config"]["value"];
    if (json.is_array()) {
      Json out = Json::array();
      for (const Json& item : json) out.push_back(keyword(item));
      return out;
    }
    return json;
  }

  const std::set<std::string>& models_;
  const Place& place_;
  std::string layer_, class_name_;
};

bool is_model(const Json& entry) {
  return entry["class_name"] == Json("Functional") || entry["class_name"] == Json("Sequential");
}

// [name, call, output], or lists and dicts of these; one alone becomes a list. Keras 3 counts nested functional models
// from 1 here too, but not Sequentials.
Json boundary(const Json& json, const std::set<std::string>& sequentials) {
  if (json.is_array() && json.size() == 3 && json[0].is_string() && json[1].is_number_integer()) {
    Json out = json;
    if (sequentials.contains(json[0].text())) out[1] = json[1].get<std::int64_t>() + 1;
    return out;
  }
  Json out = json.is_array() ? Json::array() : Json::object();
  if (json.is_array()) {
    for (const Json& item : json) out.push_back(boundary(item, sequentials));
  } else {
    for (const auto& [key, item] : json.items()) out[key] = boundary(item, sequentials);
  }
  return out;
}

bool is_operation(const Json& entry) { return keras::is_ops_module(text_of(entry, "module")); }

// The names of the layers that tensors come from, in calls and outputs of Keras 2's form.
void collect_names(const Json& json, std::set<std::string>& names) {
  if (!json.is_structured()) return;
  if (json.is_array() && json.size() >= 3 && json[0].is_string() && json[1].is_number_integer())
    names.insert(json[0].text());
  if (json.is_array()) {
    for (const Json& item : json) collect_names(item, names);
  } else {
    for (const auto& [key, item] : json.items()) collect_names(item, names);
  }
}

Json functional(const Json& config, const Place& place) {
  Json out = {{"name", config.at("name")}, {"trainable", config.value("trainable", Json(true))}};
  std::set<std::string> models, sequentials;
  for (const Json& entry : config.at("layers")) {
    if (is_model(entry)) models.insert(text_of(entry, "name"));
    if (entry["class_name"] == Json("Sequential")) sequentials.insert(text_of(entry, "name"));
  }
  std::set<std::string> used;
  collect_names(config.at("output_layers"), used);
  const auto with_calls = [&](Json layer, const Json& given, const Place& at) {
    layer["name"] = at.layer;
    Json calls = Json::array();
    int number = 0;
    for (const Json& call : given) calls.push_back(Call(models, at, layer["class_name"].text()).run(call, number++));
    collect_names(calls, used);
    layer["inbound_nodes"] = std::move(calls);
    return layer;
  };
  const Json& entries = config.at("layers");
  std::vector<Json> converted(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (is_operation(entries[i])) continue;
    const Place at{place.masks, place.path, text_of(entries[i], "name"), place.keeps_training};
    converted[i] = with_calls(object_of(entries[i], at), entries[i].at("inbound_nodes"), at);
  }
  // Operations that compute automatic masks are not used any more.
  for (bool found = true; found;) {
    found = false;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string name = text_of(entries[i], "name");
      if (!converted[i].is_null() || !used.contains(name)) continue;
      const Json function = function_of_keras2(entries[i]);
      converted[i] = with_calls(function, function.at("inbound_nodes"), {place.masks, place.path, name});
      found = true;
    }
  }
  Json layers = Json::array();
  for (Json& layer : converted) {
    if (!layer.is_null()) layers.push_back(std::move(layer));
  }
  out["layers"] = std::move(layers);
  for (const char* key : {"input_layers", "output_layers"}) {
    Json tensors = boundary(config.at(key), sequentials);
    const bool single = tensors.is_array() && tensors.size() == 3 && tensors[0].is_string();
    out[key] = single ? Json::array({tensors}) : std::move(tensors);
  }
  return out;
}

Json sequential(const Json& config, const Place& place) {
  Json out = arguments("Sequential", config, place);
  const Json& layers = config.at("layers");
  const Json shape = config.value("build_input_shape", Json());
  const bool has_input = layers.size() > 0 && layers[0]["class_name"] == Json("InputLayer");
  if (!has_input && !shape.is_null()) {
    // Keras 2 makes the weights of a model with an input only.
    Json with_input = Json::array({{{"class_name", "InputLayer"},
                                    {"config",
                                     {{"batch_input_shape", shape},
                                      {"dtype", "float32"},
                                      {"sparse", false},
                                      {"ragged", false},
                                      {"name", text_of(config, "name") + "_input"}}}}});
    for (const Json& layer : out["layers"]) with_input.push_back(layer);
    out["layers"] = std::move(with_input);
  }
  return out;
}

Json object_of(const Json& object, const Place& place) {
  std::string class_name = object["class_name"].get<std::string>();
  const Json& config = object["config"];
  if (class_name == "function") return config;
  if (const Json registered = object.value("registered_name", Json());
      registered.is_string() && registered.text().find('>') != std::string::npos) {
    class_name = registered.get<std::string>();
  }
  if (!config.is_object()) return {{"class_name", class_name}, {"config", config}};
  Place at = place;
  if (const std::string name = text_of(config, "name"); !name.empty()) at.layer = name;
  const std::string module = text_of(object, "module");
  const bool of_keras = class_name.find('>') == std::string::npos;
  const bool layer = module == "keras.layers" || module.starts_with("keras.src.layers");
  if (of_keras && (layer ? !is_layer_of_keras2(class_name) : is_object_of_keras3(class_name)))
    throw_unimplemented(fmt::format("{} '{}': Keras 2 has no class of this name", class_name, at.layer));
  Json out = {{"class_name", class_name}};
  if (class_name == "Functional" || class_name == "Sequential") {
    at.path += (at.path.empty() ? "" : "/") + at.layer;
    out["config"] = class_name == "Functional" ? functional(config, at) : sequential(config, at);
  } else {
    out["config"] = arguments(class_name, config, at);
  }
  // Its weights are made from these when it is read.
  if (class_name == "MultiHeadAttention") {
    const Json build = object.value("build_config", Json::object());
    const Json shapes = build.is_object() ? build.value("shapes_dict", Json::object()) : Json::object();
    for (const char* key : {"query_shape", "value_shape", "key_shape"}) out["config"][key] = shapes.value(key, Json());
    if (out["config"]["key_shape"].is_null()) out["config"]["key_shape"] = out["config"]["value_shape"];
  }
  return out;
}

}  // namespace

Json keras2_model_config(const keras::ModelImpl& model) {
  const std::set<std::string> masks = automatic_masks(model);
  return object_of(keras::serialize_operation(model), Place{&masks, "", "", model.keras_version() < 3});
}

Json keras2_object(const Json& object) { return value_of("", object, {}); }

}  // namespace lockstep::saving
