// lockstep layers, optimizers, losses, …: the classes of Keras that lockstep has, and their arguments.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lockstep/cli/engine_commands_internal.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/saving/callback_classes_internal.h"

namespace lockstep::cli {
namespace {

const std::map<std::string, const keras::ClassTable* (*)()>& families() {
  static const std::map<std::string, const keras::ClassTable* (*)()> families = {
      {"layers", [] { return &keras::layer_classes(); }},
      {"optimizers", []() -> const keras::ClassTable* { return &optimizers::classes(); }},
      {"losses", []() -> const keras::ClassTable* { return &losses::classes(); }},
      {"metrics", []() -> const keras::ClassTable* { return &metrics::classes(); }},
      {"schedules", []() -> const keras::ClassTable* { return &schedules::classes(); }},
      {"initializers", []() -> const keras::ClassTable* { return &initializers::classes(); }},
      {"regularizers", []() -> const keras::ClassTable* { return &regularizers::classes(); }},
      {"callbacks", []() -> const keras::ClassTable* { return &callbacks::classes(); }},
      {"constraints", []() -> const keras::ClassTable* { return &constraints::classes(); }},
  };
  return families;
}

std::vector<keras::FieldDescription> arguments_of(const keras::ClassRow& row) {
  std::vector<keras::FieldDescription> fields = row.describe ? row.describe() : std::vector<keras::FieldDescription>();
  for (keras::FieldDescription& field : fields) {
    if (field.default_value == "") field.default_value = nullptr;  // options hold an empty string for None
  }
  return fields;
}

Json as_json(const keras::ClassTable& table, const keras::ClassRow& row) {
  Json arguments = Json::array();
  for (const keras::FieldDescription& field : arguments_of(row)) {
    Json argument = {{"name", field.key}, {"type", field.type}, {"required", field.required}};
    if (!field.required) argument["default"] = field.default_value;
    arguments.push_back(std::move(argument));
  }
  return {{"name", row.name}, {"module", table.module()}, {"aliases", table.aliases(row)}, {"arguments", arguments}};
}

void print_class(const keras::ClassTable& table, const keras::ClassRow& row) {
  fmt::print("{}.{}\n", table.module(), row.name);
  const std::vector<std::string> aliases = table.aliases(row);
  if (!aliases.empty()) fmt::print("also: {}\n", fmt::join(aliases, ", "));
  const std::vector<keras::FieldDescription> fields = arguments_of(row);
  std::size_t key = 0, type = 0;
  for (const keras::FieldDescription& field : fields) {
    key = std::max(key, field.key.size());
    type = std::max(type, field.type.size());
  }
  for (const keras::FieldDescription& field : fields) {
    fmt::print("  {:<{}}  {:<{}}  {}\n", field.key, key, field.type, type,
               field.required ? "required" : dump_json(field.default_value));
  }
}

}  // namespace

bool is_class_family(const std::string& command) { return families().contains(command); }

int list_classes(const std::string& family, const Arguments& arguments) {
  const keras::ClassTable& table = *families().at(family)();
  if (const auto name = arguments.maybe("NAME")) {
    const keras::ClassRow* row = table.find(*name);
    if (!row) keras::throw_unknown_object(table.kind(), *name, table.names());
    if (arguments.has("--json")) {
      fmt::print("{}\n", dump_json(as_json(table, *row)));
    } else {
      print_class(table, *row);
    }
    return 0;
  }
  if (arguments.has("--json")) {
    Json classes = Json::array();
    for (const keras::ClassRow* row : table.rows()) classes.push_back(as_json(table, *row));
    fmt::print("{}\n", dump_json(classes));
    return 0;
  }
  std::size_t width = 0;
  for (const keras::ClassRow* row : table.rows()) width = std::max(width, row->name.size());
  for (const keras::ClassRow* row : table.rows()) {
    const std::string line = fmt::format("{:<{}}  {}", row->name, width, fmt::join(table.aliases(*row), ", "));
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return 0;
}

}  // namespace lockstep::cli
