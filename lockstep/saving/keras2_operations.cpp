#include "lockstep/saving/keras2_operations_internal.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/saving/old_json_internal.h"
#include "lockstep/saving/old_operations_internal.h"

namespace lockstep::saving {
namespace {

// Other names of a class, and arguments that TensorFlow does not have at these values.
constexpr std::string_view kNames[][2] = {
    {"Divide", "TrueDivide"}, {"Abs", "Absolute"}, {"Amax", "Max"}, {"Amin", "Min"}};
constexpr std::string_view kUsualText[] = {"channels_last"};

bool is_tensor(const Json& json) { return text_of(json, "class_name") == "__keras_tensor__"; }

class Function {
 public:
  explicit Function(const Json& entry) : entry_(entry), name_(text_of(entry, "name")) {
    class_ = text_of(entry, "class_name");
    for (const auto& [other, name] : kNames) {
      if (class_ == other) class_ = name;
    }
    const std::string module = text_of(entry, "module");
    config_ = entry.at("config");
    config_.erase("name");
    if (class_ == "Einsum") change_transposed_products();
    const auto& rows = functions_of_tensorflow();
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const OldFunction& row) {
      return row.class_name == class_ && row.module == module && !row.read_only && !row.function.starts_with("compat.");
    });
    if (found == rows.end()) fail("it has no form in Keras 2");
    row_ = &*found;
    operands_ = words(row_->operands);
  }

  Json run() {
    const Json arguments = constructor_arguments();
    Json calls = Json::array();
    for (const Json& call : entry_.at("inbound_nodes")) calls.push_back(call_of(call, arguments));
    return {{"class_name", class_ == "GetItem" ? "SlicingOpLambda" : "TFOpLambda"},
            {"config",
             {{"name", name_}, {"trainable", true}, {"dtype", "float32"}, {"function", std::string(row_->function)}}},
            {"name", name_},
            {"inbound_nodes", std::move(calls)}};
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw_unimplemented(fmt::format("operation '{}' ({}): {}", name_, text_of(entry_, "class_name"), why));
  }

  // The arguments of the constructor under TensorFlow's names.
  Json constructor_arguments() {
    change();
    Json out = Json::object();
    std::set<std::string> used;
    for (const std::string& argument : words(row_->arguments)) {
      const auto equals = argument.find('=');
      const std::string key = equals == std::string::npos ? argument : argument.substr(equals + 1);
      used.insert(key);
      const Json value = config_.value(key, Json());
      if (!value.is_null() && value != Json(false)) out[argument.substr(0, equals)] = value;
    }
    const Json fixed = row_->fixed.empty() ? Json::object() : Json::parse(row_->fixed);
    for (const auto& [key, value] : config_.items()) {
      if (used.contains(key) || value == fixed.value(key, Json(false)) || value.is_null() || value == Json(0)) continue;
      const bool usual = value.is_string() &&
                         std::find(std::begin(kUsualText), std::end(kUsualText), value.text()) != std::end(kUsualText);
      if (!usual && key != "fill_mode")
        fail(fmt::format("argument '{}' is {}, which Keras 2 does not have", key, dump_json(value).substr(0, 60)));
    }
    return out;
  }

  void change() {
    const auto require = [&](const char* key, bool fits) {
      if (!fits) fail(fmt::format("argument '{}' is {}", key, dump_json(config_.value(key, Json())).substr(0, 60)));
    };
    if (class_ == "Split") {
      change_sections();
    } else if (class_ == "Pad") {
      const Json width = config_.value("pad_width", Json());
      require("pad_width", width.is_array() && width.size() > 0 && width[0].is_array());
      std::string mode = config_.value("mode", "constant");
      for (char& c : mode) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
      config_["mode"] = mode;
    } else if (class_ == "Normalize") {
      const Json epsilon = config_.value("epsilon", Json());
      const double given = epsilon.is_number() ? epsilon.get<double>() : 1e-7;
      config_["epsilon"] = given * given;
    } else if (class_ == "Flip") {
      require("axis", !config_.value("axis", Json()).is_null());
      if (config_["axis"].is_number()) config_["axis"] = Json::array({config_["axis"]});
    } else if (class_ == "ExpandDims") {
      require("axis", config_.value("axis", Json()).is_number());
    } else if (class_ == "Take" || class_ == "Cumsum") {
      require("axis", !config_.value("axis", Json()).is_null());
    } else if (class_ == "Argmax" || class_ == "Argmin") {
      require("axis", !config_.value("axis", Json()).is_null());
      config_["output_type"] = "int32";
    } else if (class_ == "Tile") {
      require("repeats", config_.value("repeats", Json()).is_array());
    }
  }

  // Places between parts become the sizes of parts, the last of which is open.
  void change_sections() {
    Json& places = config_["indices_or_sections"];
    if (!places.is_array()) return;
    Json sizes = Json::array();
    std::int64_t begin = 0;
    for (const Json& place : places) {
      if (!place.is_number_integer() || place.get<std::int64_t>() < begin)
        fail(fmt::format("argument 'indices_or_sections' is {}", dump_json(places).substr(0, 60)));
      sizes.push_back(place.get<std::int64_t>() - begin);
      begin = place.get<std::int64_t>();
    }
    sizes.push_back(-1);
    places = std::move(sizes);
  }

  Json call_of(const Json& call, const Json& arguments) const {
    Json values = call.at("args");
    for (const auto& [key, value] : call.at("kwargs").items()) {
      if (value.is_null()) continue;
      if (values.size() >= operands_.size() || operands_[values.size()] != key)
        fail(fmt::format("argument '{}' is given by keyword", key));
      values.push_back(value);
    }
    if (values.size() > operands_.size() || values.size() == 0)
      fail(fmt::format("found {} operands, expected {}", values.size(), operands_.size()));
    change_dtypes(values);
    Json keywords = arguments;
    for (std::size_t i = 1; i < values.size(); ++i)
      keywords[operands_[i]] = operands_[i] == "slice_spec" ? index(values[i]) : values[i];
    return {{"args", Json::array({values[0]})}, {"kwargs", std::move(keywords)}};
  }

  // As old_operations.cpp reads tf.matmul with transposed matrices.
  void change_transposed_products() {
    const std::string subscripts = text_of(config_, "subscripts");
    const bool a = subscripts.starts_with("...ji,"), b = subscripts.ends_with("kj->...ik");
    if (subscripts != fmt::format("...{},...{}->...ik", a ? "ji" : "ij", b ? "kj" : "jk")) return;
    class_ = "Matmul";
    config_ = {{"transpose_a", a}, {"transpose_b", b}};
  }

  // Keras 3 brings operands to one dtype, and integers to float32 for quotients and means.
  void change_dtypes(Json& values) const {
    const bool same = row_->operands == "x y" || row_->operands == "a b";
    const bool floating =
        class_ == "TrueDivide" || class_ == "Mean" || class_ == "Std" || class_ == "Var" || class_ == "Reciprocal";
    std::string first;
    for (const Json& value : values) {
      if (!is_tensor(value)) continue;
      const std::string dtype = text_of(value["config"], "dtype");
      if (floating && dtype.find("float") == std::string::npos)
        fail(fmt::format("Keras 2 has another dtype for the result of {}", dtype));
      if (same && !first.empty() && dtype != first)
        fail(fmt::format("operands are {} and {}, which Keras 2 does not combine", first, dtype));
      first = dtype;
    }
    for (Json& value : values) {
      // TensorFlow takes an integer that comes first for an int32.
      if (same && value.is_number_integer() && first.find("float") != std::string::npos) value = value.get<double>();
    }
  }

  // A list of entries.
  Json index(const Json& given) const {
    Json out = Json::array();
    for (const Json& each : given.is_array() ? given : Json::array({given})) {
      if (is_tensor(each) || each.is_array()) fail("an index is a tensor");
      const std::string name = text_of(each, "class_name");
      if (name == "__slice__") {
        out.push_back(each["config"]);
      } else if (name == "__ellipsis__") {
        out.push_back({{"class_name", "__ellipsis__"}});
      } else if (each.is_object()) {
        fail("an index is an array");
      } else {
        out.push_back(each);
      }
    }
    return out;
  }

  const Json& entry_;
  std::string name_, class_;
  const OldFunction* row_ = nullptr;
  Json config_;
  std::vector<std::string> operands_;
};

}  // namespace

Json function_of_keras2(const Json& operation) { return Function(operation).run(); }

}  // namespace lockstep::saving
