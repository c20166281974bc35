#include "lockstep/keras/class_table_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::keras {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace

ClassTable::ClassTable(std::string kind, std::string module, ClassNames names)
    : kind_(std::move(kind)), module_(std::move(module)), names_(names) {}

ClassTable& ClassTable::add(ClassRow row) {
  auto shared = std::make_shared<ClassRow>(std::move(row));
  classes_[shared->name] = by_name_[shared->name] = shared;
  for (const std::string& alias : shared->aliases) by_name_[alias] = shared;
  if (names_ == ClassNames::kSnakeCase) by_name_[to_snake_case(shared->name)] = shared;
  if (names_ == ClassNames::kLowerCase) by_name_[lower(shared->name)] = shared;
  return *this;
}

const ClassRow* ClassTable::find(std::string_view name) const {
  const auto it = names_ == ClassNames::kLowerCase ? by_name_.find(lower(name)) : by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second.get();
}

std::shared_ptr<void> ClassTable::make(const std::string& name, const Json& config) const {
  if (const ClassRow* row = find(name)) return row->make(config);
  throw_unknown_object(kind_, name, names());
}

std::vector<const ClassRow*> ClassTable::rows() const {
  std::vector<const ClassRow*> out;
  for (const auto& [name, row] : classes_) out.push_back(row.get());
  return out;
}

std::vector<std::string> ClassTable::aliases(const ClassRow& row) const {
  std::vector<std::string> out;
  for (const auto& [name, found] : by_name_) {
    if (found.get() == &row && name != row.name) out.push_back(name);
  }
  return out;
}

std::vector<std::string> ClassTable::names() const {
  std::vector<std::string> out;
  for (const auto& [name, row] : by_name_) out.push_back(name);
  return out;
}

ObjectConfig ClassTable::parse(const Json& value) const {
  auto object = parse_object_config(value);
  if (!object)
    throw_invalid_argument(fmt::format("invalid {} config: found {}", kind_, dump_json(value).substr(0, 120)));
  return *std::move(object);
}

}  // namespace lockstep::keras
