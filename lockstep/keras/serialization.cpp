#include "lockstep/keras/serialization.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/handle.h"

namespace lockstep::keras {
namespace {

struct Classes {
  std::mutex mutex;
  // Rows are never removed, so that pointers to them stay valid.
  std::map<std::pair<std::type_index, std::string>, std::unique_ptr<RegisteredClass>> by_name;
};

Classes& classes() {
  static auto* classes = new Classes();
  return *classes;
}

void check_part(std::string_view what, std::string_view text) {
  if (text.empty() || text.find_first_of(">/") != std::string_view::npos) {
    throw_invalid_argument(
        fmt::format("register_keras_serializable: invalid {} '{}': expected a text without '>' and '/'", what, text));
  }
}

}  // namespace

void register_class(RegisteredClass row) {
  check_part("package", row.package);
  check_part("name", row.name);
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  auto& slot = all.by_name[{row.family, row.registered_name()}];
  if (slot && slot->type != row.type) {
    throw_invalid_argument(fmt::format(
        "register_keras_serializable: the name '{}' is already registered for another class", row.registered_name()));
  }
  if (!slot) slot = std::make_unique<RegisteredClass>(std::move(row));
}

const RegisteredClass* find_registered(std::type_index type) {
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  for (const auto& [key, row] : all.by_name) {
    if (row->type == type) return row.get();
  }
  return nullptr;
}

const RegisteredClass* find_registered(std::type_index family, std::string_view name) {
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  if (name.find('>') != std::string_view::npos) {
    const auto found = all.by_name.find({family, std::string(name)});
    return found == all.by_name.end() ? nullptr : found->second.get();
  }
  for (const auto& [key, row] : all.by_name) {
    if (key.first == family && row->name == name) return row.get();
  }
  return nullptr;
}

std::shared_ptr<void> make_object(const RegisteredClass& row, const Json& config) {
  try {
    return row.make(config.is_null() ? Json::object() : config);
  } catch (const JsonError& error) {
    throw_invalid_argument(
        fmt::format("invalid config of registered class '{}': {}", row.registered_name(), error.what()));
  }
}

std::vector<std::string> registered_names(std::type_index family) {
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (const auto& [key, row] : all.by_name) {
    if (key.first == family) names.push_back(row->name);
  }
  return names;
}

std::string unqualified_name(std::type_index type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  std::string name = status == 0 && text ? text.get() : type.name();
  if (const auto colon = name.rfind("::"); colon != std::string::npos) name.erase(0, colon + 2);
  return name;
}

void throw_empty_handle(std::type_index type) {
  const std::string name = unqualified_name(type);
  throw_failed_precondition(fmt::format(
      "this {0} handle is empty: it was default-constructed or moved from; assign a {0} to it before using it", name));
}

Json with_base_keys(Json config, const Json& base) {
  const bool complete = std::all_of(base.items().begin(), base.items().end(),
                                    [&](const auto& entry) { return config.contains(entry.key()); });
  if (complete) return config;
  Json all = base;
  for (const auto& [key, value] : config.items()) all[key] = value;
  return all;
}

Json serialize_object(std::string_view module, std::string_view class_name, Json config, bool built_in,
                      std::type_index type, const Json& base) {
  const RegisteredClass* row = find_registered(type);
  if (!row && built_in) return object_config(module, class_name, std::move(config));
  return {{"module", class_name == "function" ? Json("builtins") : Json(nullptr)},
          {"class_name", row ? row->name : std::string(class_name)},
          {"config", with_base_keys(std::move(config), base)},
          {"registered_name", row ? row->registered_name() : std::string(class_name)}};
}

}  // namespace lockstep::keras
