#include "lockstep/keras/serialization.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/custom_objects.h"
#include "lockstep/keras/handle.h"

namespace lockstep::keras {

struct CustomObject::Rows {
  std::vector<RegisteredClass> classes;
  std::vector<RegisteredFunction> functions;
};
CustomObject::CustomObject(RegisteredClass row) : rows_(std::make_shared<const Rows>(Rows{{std::move(row)}, {}})) {}
CustomObject::CustomObject(std::vector<RegisteredFunction> rows)
    : rows_(std::make_shared<const Rows>(Rows{{}, std::move(rows)})) {}

CustomObjects::CustomObjects(std::initializer_list<std::pair<const char*, CustomObject>> objects)
    : list_(std::make_shared<const List>(objects.begin(), objects.end())) {}

namespace {

struct Classes {
  std::mutex mutex;
  // Rows are never removed, so that pointers to them stay valid.
  std::map<std::pair<std::type_index, std::string>, std::unique_ptr<RegisteredClass>> by_name;
  std::map<std::pair<std::type_index, std::string>, std::unique_ptr<RegisteredFunction>> functions;
  // Of get_custom_objects(), and those that were there.
  std::vector<std::pair<std::string, std::shared_ptr<const CustomObject::Rows>>> custom;
  std::vector<std::shared_ptr<const CustomObject::Rows>> replaced;
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

// The objects of the scopes of this thread, the innermost last.
thread_local std::vector<std::unique_ptr<const CustomObject::Rows>> t_custom;

// "MyLayer" of "Package>MyLayer".
std::string_view name_alone(std::string_view name) {
  const auto mark = name.find('>');
  return mark == std::string_view::npos ? name : name.substr(mark + 1);
}

// The object under another name.
CustomObject::Rows named(const CustomObject& object, const std::string& name) {
  CustomObject::Rows rows = object.rows();
  for (RegisteredClass& row : rows.classes) row.name = name;
  for (RegisteredFunction& row : rows.functions) row.name = name;
  return rows;
}

// The row of the innermost scope for which `fits` is true, else that of get_custom_objects().
template <typename Row, typename Fits>
const Row* find_custom(std::vector<Row> CustomObject::Rows::*rows, Fits fits) {
  const auto find = [&](const CustomObject::Rows& object) -> const Row* {
    for (const Row& row : object.*rows) {
      if (fits(row)) return &row;
    }
    return nullptr;
  };
  for (auto object = t_custom.rbegin(); object != t_custom.rend(); ++object) {
    if (const Row* const row = find(**object)) return row;
  }
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  for (const auto& [name, object] : all.custom) {
    if (const Row* const row = find(*object)) return row;
  }
  return nullptr;
}

}  // namespace

CustomObjectScope::CustomObjectScope(const CustomObjects& objects) : size_before_(t_custom.size()) {
  if (!objects.list()) return;
  for (const auto& [name, object] : *objects.list())
    t_custom.push_back(std::make_unique<CustomObject::Rows>(named(object, name)));
}
CustomObjectScope::~CustomObjectScope() { t_custom.resize(size_before_); }

GlobalCustomObjects get_custom_objects() { return {}; }
void GlobalCustomObjects::Entry::operator=(const CustomObject& object) {
  auto rows = std::make_shared<const CustomObject::Rows>(named(object, name_));
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  for (auto& [name, held] : all.custom) {
    if (name != name_) continue;
    all.replaced.push_back(std::exchange(held, std::move(rows)));
    return;
  }
  all.custom.emplace_back(name_, std::move(rows));
}
void GlobalCustomObjects::update(const CustomObjects& objects) {
  if (!objects.list()) return;
  for (const auto& [name, object] : *objects.list()) (*this)[name] = object;
}
bool GlobalCustomObjects::contains(std::string_view name) const {
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  return std::any_of(all.custom.begin(), all.custom.end(), [&](const auto& entry) { return entry.first == name; });
}
void GlobalCustomObjects::clear() {
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  for (auto& [name, rows] : all.custom) all.replaced.push_back(std::move(rows));
  all.custom.clear();
}

std::string registered_name_of(const std::vector<RegisteredFunction>& forms) {
  for (const RegisteredFunction& form : forms) {
    const RegisteredFunction* const row = find_registered_function(form.signature, form.function.get());
    if (row && !row->package.empty()) return row->registered_name();
  }
  return forms.empty() ? std::string() : forms.front().name;
}
const RegisteredClass* get_registered_object(std::string_view name) {
  const RegisteredClass* const custom =
      find_custom(&CustomObject::Rows::classes, [&](const RegisteredClass& row) { return row.name == name; });
  if (custom) return custom;
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  for (const auto& [key, row] : all.by_name) {
    if (key.second == name) return row.get();
  }
  return nullptr;
}

void register_function(RegisteredFunction row) {
  check_part("package", row.package);
  check_part("name", row.name);
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  auto& slot = all.functions[{row.signature, row.registered_name()}];
  if (slot && !row.is_same_as(slot->function.get())) {
    throw_invalid_argument(
        fmt::format("register_keras_serializable: the name '{}' is already registered for another function",
                    row.registered_name()));
  }
  if (!slot) slot = std::make_unique<RegisteredFunction>(std::move(row));
}

const RegisteredFunction* find_registered_function(std::type_index signature, std::string_view name) {
  const RegisteredFunction* const custom =
      find_custom(&CustomObject::Rows::functions, [&](const RegisteredFunction& row) {
        return row.signature == signature && (row.name == name || row.name == name_alone(name));
      });
  if (custom) return custom;
  Classes& all = classes();
  const std::lock_guard lock(all.mutex);
  for (const auto& [key, row] : all.functions) {
    if (key.first == signature && (key.second == name || row->name == name)) return row.get();
  }
  return nullptr;
}

const RegisteredFunction* find_registered_function(std::type_index signature, const void* function) {
  const auto is_it = [&](const RegisteredFunction& row) {
    return row.signature == signature && row.is_same_as(function);
  };
  {
    Classes& all = classes();
    const std::lock_guard lock(all.mutex);
    for (const auto& [key, row] : all.functions) {
      if (is_it(*row)) return row.get();
    }
  }
  return find_custom(&CustomObject::Rows::functions, is_it);
}

std::string detail::name_in(std::string_view pretty_function) {
  constexpr std::string_view kArgument = "kFunction = ";
  auto name = pretty_function.substr(pretty_function.find(kArgument) + kArgument.size());
  name = name.substr(0, name.find_first_of(";]"));
  if (const auto colon = name.rfind("::"); colon != std::string_view::npos) name.remove_prefix(colon + 2);
  if (name.starts_with('&')) name.remove_prefix(1);
  return std::string(name);
}

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
  const RegisteredClass* const custom = find_custom(&CustomObject::Rows::classes, [&](const RegisteredClass& row) {
    return row.family == family && (row.name == name || row.name == name_alone(name));
  });
  if (custom) return custom;
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
  if (class_name == "function") {
    return {{"module", "builtins"},
            {"class_name", "function"},
            {"config", std::move(config)},
            {"registered_name", "function"}};
  }
  const RegisteredClass* row = find_registered(type);
  if (!row && built_in) return object_config(module, class_name, std::move(config));
  return {{"module", nullptr},
          {"class_name", row ? row->name : std::string(class_name)},
          {"config", with_base_keys(std::move(config), base)},
          {"registered_name", row ? row->registered_name() : std::string(class_name)}};
}

}  // namespace lockstep::keras
