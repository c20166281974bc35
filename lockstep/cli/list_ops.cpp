// lockstep ops: the operations of TensorFlow that lockstep runs, and their signatures.
#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/cli/engine_commands_internal.h"
#include "lockstep/graph/executor_internal.h"
#include "lockstep/graph/plan_internal.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::ops {
// The lines of signatures.tsv, by name.
extern const std::string_view kSignatureLines[];
extern const std::size_t kSignatureCount;
}  // namespace lockstep::ops

namespace lockstep::cli {
namespace {

// The parts of `text` between `separator`s that are not within brackets, braces or quotes.
std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (!quoted && (text[i] == '[' || text[i] == '{')) ++depth;
    if (!quoted && (text[i] == ']' || text[i] == '}')) --depth;
    if (depth == 0 && !quoted && text.substr(i, separator.size()) == separator) {
      parts.push_back(std::move(part));
      part.clear();
      i += separator.size() - 1;
    } else {
      part += text[i];
    }
  }
  parts.push_back(std::move(part));
  return parts;
}

// A line of signatures.tsv: name, inputs, outputs, attributes (each "-" for none), 1 for operations with state.
struct Line {
  std::string name;
  std::vector<std::string> inputs, outputs, attributes;
  bool stateful = false;
};

Line parse(std::string_view text) {
  const std::vector<std::string> columns = split(text, "\t");
  const auto list = [&](std::size_t i) {
    return columns.at(i) == "-" ? std::vector<std::string>() : split(columns[i], ", ");
  };
  return {columns.at(0), list(1), list(2), list(3), columns.at(4) == "1"};
}

std::string_view name_of(std::string_view line) { return line.substr(0, line.find('\t')); }

bool runs(std::string_view name) {
  // Operations that the executor handles without a kernel: constants, and the control flow of TensorFlow 1.
  static const std::set<std::string_view> kOfExecutor = {
      "Const",     "_SwitchN", "Switch",   "Merge",   "Enter",           "Exit", "NextIteration", "LoopCond",
      "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration"};
  const ops::Op* op = ops::Table::instance().find(name);
  return (op && op->kernel) || graph::find_executor_op(name) || kOfExecutor.contains(name);
}

Json as_json(const Line& line) {
  return {{"name", line.name},
          {"inputs", line.inputs},
          {"outputs", line.outputs},
          {"attributes", line.attributes},
          {"stateful", line.stateful}};
}

void print_op(const Line& line) {
  fmt::print("{}{}\n", line.name, line.stateful ? " (stateful)" : "");
  const auto print = [](const char* title, const std::vector<std::string>& values) {
    for (const std::string& value : values) fmt::print("  {:<9}  {}\n", title, value);
  };
  print("input", line.inputs);
  print("output", line.outputs);
  print("attribute", line.attributes);
}

}  // namespace

int list_ops(const Arguments& arguments) {
  std::vector<std::string_view> lines;
  for (std::size_t i = 0; i < ops::kSignatureCount; ++i) {
    if (runs(name_of(ops::kSignatureLines[i]))) lines.push_back(ops::kSignatureLines[i]);
  }
  const bool json = arguments.has("--json");
  if (const auto name = arguments.maybe("NAME")) {
    const auto found =
        std::find_if(lines.begin(), lines.end(), [&](std::string_view line) { return name_of(line) == *name; });
    if (found == lines.end()) {
      std::vector<std::string> known;
      for (const std::string_view line : lines) known.emplace_back(name_of(line));
      keras::throw_unknown_object("operation", *name, known);
    }
    if (json) {
      fmt::print("{}\n", dump_json(as_json(parse(*found))));
    } else {
      print_op(parse(*found));
    }
    return 0;
  }
  Json all = Json::array();
  for (const std::string_view line : lines) {
    if (json) {
      all.push_back(as_json(parse(line)));
    } else {
      fmt::print("{}\n", name_of(line));
    }
  }
  if (json) fmt::print("{}\n", dump_json(all));
  return 0;
}

}  // namespace lockstep::cli
