// Keras objects as JSON, and arguments that take an object, its name or its config.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "lockstep/base/json.h"

namespace lockstep::keras {

// {"module": …, "class_name": …, "config": …, "registered_name": null}, as Keras 3 writes its own classes.
Json object_config(std::string_view module, std::string_view class_name, Json config);

// What identifies an object in a file: the form above, Keras 2's {"class_name", "config"}, or a function
// {"class_name": "function", "config": name}.
struct ObjectConfig {
  std::string module;      // empty in the Keras 2 form
  std::string class_name;  // Keras 2's "Custom>Adam" without its package
  Json config;
  std::string registered_name;  // "Package>Name" of a registered class
};
// Empty when `value` is no object of this kind.
std::optional<ObjectConfig> parse_object_config(const Json& value);

// An argument of a constructor: nothing, a name such as "glorot_uniform", a config, or an object. Kept as
// given; the family's get() makes the object, once, when the owner is constructed.
template <typename T>
class ObjectArg {
 public:
  ObjectArg() = default;
  ObjectArg(std::nullptr_t) {}
  ObjectArg(const char* name) : value_(std::string(name)) {}
  ObjectArg(std::string name) : value_(std::move(name)) {}
  ObjectArg(Json config) { set_config(std::move(config)); }
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  ObjectArg(std::shared_ptr<U> object) {
    if (object) value_ = std::shared_ptr<T>(std::move(object));
  }

  bool empty() const { return std::holds_alternative<std::monostate>(value_); }
  const std::string* name() const { return std::get_if<std::string>(&value_); }
  const Json* config() const { return std::get_if<Json>(&value_); }
  std::shared_ptr<T> object() const {
    const auto* held = std::get_if<std::shared_ptr<T>>(&value_);
    return held ? *held : nullptr;
  }

 private:
  void set_config(Json config) {
    if (config.is_string()) {
      value_ = config.get<std::string>();
    } else if (!config.is_null()) {
      value_ = std::move(config);
    }
  }
  std::variant<std::monostate, std::string, Json, std::shared_ptr<T>> value_;
};

// "unknown initializer 'glorot_unifrom'; the nearest known one is 'glorot_uniform'" as InvalidArgument.
[[noreturn]] void throw_unknown_object(std::string_view kind, std::string_view name,
                                       const std::vector<std::string>& known);

}  // namespace lockstep::keras
