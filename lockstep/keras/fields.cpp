#include "lockstep/keras/fields_internal.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"

namespace lockstep::keras {
namespace {

std::optional<std::int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (number != std::floor(number) || std::abs(number) > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// Axes are int; a greater number would be truncated.
bool is_axis_too_far(std::string_view key, const Json& found) {
  if (key != "axis" && key != "axes") return false;
  if (found.is_array() || found.is_object())
    return std::any_of(found.begin(), found.end(), [key](const Json& each) { return is_axis_too_far(key, each); });
  const auto axis = as_integer(found);
  return axis && (*axis < INT32_MIN || *axis > INT32_MAX);
}

}  // namespace

bool FieldType<bool>::read(const Json& found, bool& v) {
  if (!found.is_number() && !found.is_boolean() && !found.is_null()) return false;
  v = found.is_null() ? false : found.is_boolean() ? found.get<bool>() : found.get<double>() != 0;
  return true;
}
Json FieldType<bool>::write(const bool& v) { return v; }

bool FieldType<int>::read(const Json& found, int& v) {
  const auto value = as_integer(found);
  if (!value || *value < INT32_MIN || *value > INT32_MAX) return false;
  v = static_cast<int>(*value);
  return true;
}
Json FieldType<int>::write(const int& v) { return v; }

bool FieldType<std::int64_t>::read(const Json& found, std::int64_t& v) {
  const auto value = as_integer(found);
  v = value.value_or(v);
  return value.has_value();
}
Json FieldType<std::int64_t>::write(const std::int64_t& v) { return v; }

bool FieldType<double>::read(const Json& found, double& v) {
  if (!found.is_number()) return false;
  v = found.get<double>();
  return true;
}
Json FieldType<double>::write(const double& v) { return v; }

bool FieldType<Number>::read(const Json& found, Number& v) {
  if (!found.is_number()) return false;
  v.integer = found.is_number_integer();
  v.value = found.get<double>();
  return true;
}
Json FieldType<Number>::write(const Number& v) {
  return v.integer ? Json(static_cast<std::int64_t>(v.value)) : Json(v.value);
}

bool FieldType<std::string>::read(const Json& found, std::string& v) {
  if (!found.is_string()) return false;
  v = found.get<std::string>();
  return true;
}
Json FieldType<std::string>::write(const std::string& v) { return v; }

bool FieldType<Ints>::read(const Json& found, Ints& v) {
  const Json* list = &found;
  if (list->is_object() && list->contains("items")) list = &(*list)["items"];  // Keras 2's tuples
  v.clear();
  if (const auto single = as_integer(*list)) {
    v.push_back(*single);
    return true;
  }
  if (!list->is_array()) return false;
  for (const Json& entry : *list) {
    const auto value = as_integer(entry);
    if (!value) return false;
    v.push_back(*value);
  }
  return true;
}
Json FieldType<Ints>::write(const Ints& v) {
  Json out = Json::array();
  for (std::int64_t i : v) out.push_back(i);
  return out;
}

bool FieldType<ops::Axes>::read(const Json& found, ops::Axes& v) {
  v.reset();
  return found.is_null() || FieldType<Ints>::read(found, v.emplace());
}
Json FieldType<ops::Axes>::write(const ops::Axes& v) {
  if (!v) return nullptr;
  return v->size() == 1 ? Json((*v)[0]) : FieldType<Ints>::write(*v);
}

bool FieldType<Window>::read(const Json& found, Window& v) { return FieldType<Ints>::read(found, v.values); }
Json FieldType<Window>::write(const Window& v) { return FieldType<Ints>::write(v.values); }

bool FieldType<std::vector<double>>::read(const Json& found, std::vector<double>& v) {
  v.clear();
  if (found.is_number()) {
    v.push_back(found.get<double>());
    return true;
  }
  if (!found.is_array()) return false;
  for (const Json& entry : found) {
    if (!entry.is_number()) return false;
    v.push_back(entry.get<double>());
  }
  return true;
}
Json FieldType<std::vector<double>>::write(const std::vector<double>& v) { return v; }

bool FieldType<std::vector<std::string>>::read(const Json& found, std::vector<std::string>& v) {
  v.clear();
  if (!found.is_array()) return false;
  for (const Json& entry : found) {
    if (!entry.is_string()) return false;
    v.push_back(entry.get<std::string>());
  }
  return true;
}
Json FieldType<std::vector<std::string>>::write(const std::vector<std::string>& v) { return v; }

Json FieldType<WholeIfPossible>::write(const WholeIfPossible& v) {
  const bool whole = v.value == std::floor(v.value) && std::abs(v.value) < 9e15;
  return whole ? Json(static_cast<std::int64_t>(v.value)) : Json(v.value);
}

Json FieldType<RequiredNumber>::write(const RequiredNumber& v) {
  if (!v.value) return nullptr;
  return v.whole ? FieldType<WholeIfPossible>::write({*v.value}) : Json(*v.value);
}

Json FieldType<WholeNumbersIfPossible>::write(const WholeNumbersIfPossible& v) {
  Json out = Json::array();
  for (double value : v.values) out.push_back(FieldType<WholeIfPossible>::write({value}));
  return out;
}

FieldReader::FieldReader(std::string class_name, const Json& config)
    : class_name_(std::move(class_name)), config_(config.is_null() ? Json::object() : config) {
  if (!config_.is_object()) {
    throw_invalid_argument(fmt::format("{}: its config is {}, expected an object", class_name_, config_.type_name()));
  }
}

std::string FieldReader::who() const {
  const auto name = config_.find("name");
  if (name == config_.end() || !name->is_string()) return class_name_;
  return fmt::format("{} '{}'", class_name_, name->get<std::string>());
}

void FieldReader::fail(const char* key, const std::string& expected) const {
  std::string found = dump_json(config_.at(key));
  if (found.size() > 80) found = found.substr(0, 80) + "…";
  throw_invalid_argument(fmt::format("{}: '{}' is {}, expected {}", who(), key, found, expected));
}

void FieldResolver::fail(const char* key, const Error& error) const {
  throw_error(error.code(), fmt::format("{}: '{}': {}", owner_, key, error.message()));
}

void FieldReader::missing(const char* key) const {
  throw_invalid_argument(fmt::format("{}: '{}' is missing", who(), key));
}

const Json* FieldReader::take(const char* key) {
  used_.insert(key);
  const auto it = config_.find(key);
  if (it == config_.end()) return nullptr;
  if (is_axis_too_far(key, *it)) fail(key, "integers of 32 bits");
  return &*it;
}

void FieldReader::dropped(const char* key, const Json& harmless) {
  const Json* found = take(key);
  legacy_.insert(key);
  if (!found || harmless.is_null() || found->is_null() || *found == harmless) return;
  fail(key, fmt::format("{} (a keyword of an older Keras, of which no other value is supported)", dump_json(harmless)));
}

void FieldReader::finish() const {
  for (const auto& [key, value] : config_.items()) {
    if (used_.contains(key)) continue;
    std::vector<std::string> known;
    for (const std::string& name : used_) {
      if (!legacy_.contains(name)) known.push_back(name);
    }
    throw_invalid_argument(fmt::format("{}: unknown keyword '{}' (= {}){}", who(), key, dump_json(value).substr(0, 80),
                                       did_you_mean(key, known)));
  }
}

}  // namespace lockstep::keras
