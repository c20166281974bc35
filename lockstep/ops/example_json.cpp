// tf.train.Example messages from the JSON form of protocol buffers.
#include <cmath>
#include <cstring>
#include <limits>

#include "lockstep/base/json.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/graph_rows_internal.h"

namespace lockstep::ops {
namespace {

using formats::append_bytes_field;

[[noreturn]] void throw_wrong(std::string_view what, std::string_view expected) {
  throw_invalid_argument(fmt::format("Error while parsing JSON: {}: expected {}", what, expected));
}

// The member by its name in JSON or in the definition of the message; null where there is none.
const Json* member_of(const Json& object, std::string_view name, std::string_view original) {
  if (!object.is_object()) throw_wrong(name, "an object");
  const Json* found = nullptr;
  for (const auto& [key, value] : object.items()) {
    if (key != name && key != original)
      throw_invalid_argument(fmt::format("Error while parsing JSON: no such field: '{}'", key));
    found = value.is_null() ? nullptr : &value;
  }
  return found;
}

// With or without padding, in the alphabet of URLs or the other one.
std::string bytes_from(const Json& value) {
  if (!value.is_string()) throw_wrong("bytesList", "base64 text");
  std::string text = value.get<std::string>();
  while (text.ends_with('=')) text.pop_back();
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return call1("DecodeBase64", {Tensor::strings({text}, Shape{})}).string_values()[0];
}

template <typename T>
T number_from(const Json& value, std::string_view what) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value.is_number()) return static_cast<T>(value.get<double>());
  } else {
    if (value.is_number_integer()) return value.get<T>();
    if (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()) &&
        std::abs(value.get<double>()) < 0x1p63)
      return static_cast<T>(value.get<double>());
  }
  if (!value.is_string()) throw_wrong(what, "numbers");
  const auto text = value.get<std::string>();
  if constexpr (std::is_floating_point_v<T>) {
    if (text == "NaN") return std::numeric_limits<T>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<T>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<T>::infinity();
  }
  const Json number = text.empty() ? Json() : Json::parse(text);
  if (!number.is_number()) throw_wrong(what, "numbers");
  return number_from<T>(number, what);
}

std::string feature_from(const Json& feature) {
  if (!feature.is_object()) throw_wrong("feature", "an object");
  std::string out;
  for (const auto& [key, list] : feature.items()) {
    const bool bytes = key == "bytesList" || key == "bytes_list", floats = key == "floatList" || key == "float_list";
    if (!bytes && !floats && key != "int64List" && key != "int64_list")
      throw_invalid_argument(fmt::format("Error while parsing JSON: no such field: '{}'", key));
    if (list.is_null()) continue;
    if (!out.empty()) throw_wrong(key, "one list for each feature");
    std::string values;
    if (const Json* given = member_of(list, "value", "value")) {
      if (!given->is_array()) throw_wrong(key, "an array of values");
      for (const Json& value : *given) {
        if (bytes) {
          append_bytes_field(values, 1, bytes_from(value));
        } else if (floats) {
          const auto number = number_from<float>(value, key);
          values.append(reinterpret_cast<const char*>(&number), sizeof number);
        } else {
          formats::append_varint(values, static_cast<std::uint64_t>(number_from<std::int64_t>(value, key)));
        }
      }
    }
    std::string whole;
    if (!bytes && !values.empty()) append_bytes_field(whole, 1, values);
    append_bytes_field(out, bytes ? 1 : floats ? 2 : 3, bytes ? values : whole);
  }
  return out;
}

Json json_from(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const errors::DataLossError& error) {
    throw_invalid_argument(error.message());
  }
}

std::string example_from(const std::string& text) {
  const Json json = json_from(text);
  std::string features, out;
  const Json* const given = member_of(json, "features", "features");
  if (!given) return out;
  if (const Json* map = member_of(*given, "feature", "feature")) {
    if (!map->is_object()) throw_wrong("feature", "an object");
    for (const auto& [key, feature] : map->items()) {
      std::string entry;
      append_bytes_field(entry, 1, key);
      append_bytes_field(entry, 2, feature_from(feature));
      append_bytes_field(features, 1, entry);
    }
  }
  append_bytes_field(out, 1, features);
  return out;
}

Tensors decode(const Call& call) {
  std::vector<std::string> out;
  for (const std::string& text : call.input(0).string_values()) out.push_back(example_from(text));
  return {Tensor::strings(std::move(out), call.input(0).shape())};
}

}  // namespace

void register_example_json(Table& table) { table.add("DecodeJSONExample", same_shape, decode); }

}  // namespace lockstep::ops
