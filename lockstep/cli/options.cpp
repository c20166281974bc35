#include "lockstep/cli/options_internal.h"

#include <algorithm>

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "lockstep/base/strings_internal.h"
#include "lockstep/cli/usage_error_internal.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kWidth = 100;

bool positional(const OptionRow& row) { return row.name[0] != '-'; }

bool is_needed(const OptionRow& row) { return row.required || (positional(row) && !row.optional); }

// `text` broken into lines that begin at column `indent`.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    if (column > indent && column + 1 + (end - at) > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(text, at, end - at);
    column += end - at;
    if (end < text.size() && text[end] == '\n') {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    at = end + 1;
  }
  return out;
}

std::string spelled(const OptionRow& row) { return row.value.empty() ? row.name : row.name + " " + row.value; }

std::string usage(const Command& command) {
  std::string line = "lockstep " + command.name;
  for (const OptionRow& row : command.rows) {
    const bool needed = is_needed(row);
    line += needed ? " " + spelled(row) : " [" + spelled(row) + "]";
  }
  if (!command.rest.empty()) line += " -- " + command.rest;
  return line;
}

[[noreturn]] void unknown_argument(const Command& command, const std::string& argument) {
  if (argument[0] != '-') {
    throw_usage(fmt::format("{}: unexpected argument '{}'; usage: {}", command.name, argument, usage(command)));
  }
  std::vector<std::string> known{"--help"};
  for (const OptionRow& row : command.rows) {
    if (!positional(row)) known.push_back(row.name);
  }
  const std::string name = argument.substr(0, argument.find('='));
  throw_usage(fmt::format("{}: unknown option {}{}; see lockstep {} --help", command.name, name,
                          did_you_mean(name, known), command.name));
}

void check_missing(const Command& command, const Arguments& arguments) {
  for (const OptionRow& row : command.rows) {
    if (is_needed(row) && !arguments.has(row.name)) {
      throw_usage(fmt::format("{}: {} is missing; usage: {}", command.name, spelled(row), usage(command)));
    }
  }
}

}  // namespace

std::string command_help(const Command& command) {
  std::string out = "usage: " + wrapped(usage(command), 9) + "\n\n" + wrapped(command.help, 0) + "\n\n";
  std::size_t width = 0;
  for (const OptionRow& row : command.rows) width = std::max(width, spelled(row).size());
  for (const OptionRow& row : command.rows) {
    std::string help = row.help;
    if (!row.default_value.empty()) help += fmt::format(" (default: {})", row.default_value);
    out += fmt::format("  {:<{}}  {}\n", spelled(row), width, wrapped(help, width + 4));
  }
  out += fmt::format("  {:<{}}  {}\n", "--help", width, "show this help and exit");
  if (!command.examples.empty()) out += "\nexamples:\n";
  for (const std::string& example : command.examples) out += "  " + example + "\n";
  out += "\nexit codes: 0 success, 1 failure, 2 wrong usage" + command.exit_codes + "\n";
  return out;
}

std::string overview(const std::vector<Command>& commands) {
  std::string out =
      "usage: lockstep COMMAND ...\n\nTrains Keras models under any distribution strategy, and reads, checks, compares "
      "and "
      "converts\nthe files of Keras and TensorFlow. MODEL is a .keras or .h5 file, a SavedModel folder, or a frozen\n"
      "GraphDef .pb.\n\n";
  for (const Command& command : commands) out += fmt::format("  {:<14}{}\n", command.name, command.summary);
  return out + "\nlockstep COMMAND --help describes a command; lockstep --version prints the version.\n";
}

std::vector<std::string> own_words(const Command& command, const std::vector<std::string>& given) {
  const auto end = command.rest.empty() ? given.end() : std::find(given.begin(), given.end(), "--");
  return {given.begin(), end};
}

Arguments parse_arguments(const Command& command, const std::vector<std::string>& all) {
  const std::vector<std::string> given = own_words(command, all);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, std::string> values;
  std::map<std::string, CLI::Option*> options;
  for (const OptionRow& row : command.rows) {
    options[row.name] =
        row.value.empty() && !positional(row) ? app.add_flag(row.name) : app.add_option(row.name, values[row.name]);
  }
  try {
    std::vector<std::string> reversed(given.rbegin(), given.rend());
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& e) {
    for (const OptionRow& row : command.rows) {  // the last option of the line has no value, or one was given twice
      if (!given.empty() && given.back() == row.name)
        throw_usage(fmt::format("{}: {} requires a value", command.name, spelled(row)));
      const auto named = [&](const std::string& word) { return word == row.name || word.starts_with(row.name + "="); };
      const auto times = std::count_if(given.begin(), given.end(), named);
      if (times > 1) throw_usage(fmt::format("{}: {} is given {} times; give it once", command.name, row.name, times));
    }
    throw_usage(fmt::format("{}: {}", command.name, e.what()));
  } catch (const CLI::Error& e) {
    throw_usage(fmt::format("{}: {}; see lockstep {} --help", command.name, e.what(), command.name));
  }
  if (!app.remaining().empty()) unknown_argument(command, app.remaining().front());
  Arguments arguments;
  for (const OptionRow& row : command.rows) {
    if (options[row.name]->count() > 0) {
      if (row.check) row.check(command.name + ": " + row.name, values[row.name]);
      arguments.set(row.name, values[row.name]);
    } else if (!row.default_value.empty() && !row.value.empty()) {
      arguments.set(row.name, row.default_value);
    }
  }
  if (given.size() < all.size())
    arguments.set_rest({all.begin() + static_cast<std::ptrdiff_t>(given.size()) + 1, all.end()});
  check_missing(command, arguments);
  return arguments;
}

}  // namespace lockstep::cli
