// Commands and their options as rows: the same rows parse the command line and print its help.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

struct OptionRow {
  std::string name;   // "--batch-size", or "MODEL" for a positional argument
  std::string value;  // "N": name of the value; empty for a switch
  std::string help;
  std::string default_value;  // shown in the help and given by Arguments::text; empty: none
  bool required = false;
  // Throws UsageError for a value of another form; null: any text. Runs when the command line is parsed.
  void (*check)(const std::string& name, const std::string& value) = nullptr;
  bool optional = false;  // a positional argument that may be left out
};

// The values of a command line, by the names of the rows.
class Arguments {
 public:
  void set(std::string name, std::string value) { values_[std::move(name)] = std::move(value); }
  bool has(const std::string& name) const { return values_.contains(name); }
  // The value, or the default of the row; empty without either.
  std::string text(const std::string& name) const;
  std::optional<std::string> maybe(const std::string& name) const;
  // Of an option whose row checks the number.
  std::int64_t integer(const std::string& name) const;
  std::optional<std::int64_t> maybe_integer(const std::string& name) const;
  // "a,b,c" as its parts; empty when the option was not given.
  std::vector<std::string> list(const std::string& name) const;
  // The words after "--", for commands that take them.
  const std::vector<std::string>& rest() const { return rest_; }
  void set_rest(std::vector<std::string> rest) { rest_ = std::move(rest); }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> rest_;
};

struct Command {
  std::string name;
  std::string summary;          // one line for the list of commands
  std::string help;             // a paragraph or more
  std::vector<OptionRow> rows;  // positional ones first
  std::vector<std::string> examples;
  std::string exit_codes;  // in addition to 0 success, 1 failure, 2 wrong usage
  // Returns the exit status. Null: the command is in the engine.
  int (*run)(const Arguments&) = nullptr;
  // The words after "--" in its usage ("COMMAND ..."); empty if it takes none.
  std::string rest;
};

// "lockstep <command> --help".
std::string command_help(const Command& command);
// "lockstep --help".
std::string overview(const std::vector<Command>& commands);

// The words before "--", where the command takes others after it; else all.
std::vector<std::string> own_words(const Command& command, const std::vector<std::string>& given);

// The arguments after the command's name, checked by their rows; defaults filled in. Throws UsageError; for an unknown
// option it names the nearest one.
Arguments parse_arguments(const Command& command, const std::vector<std::string>& given);

}  // namespace lockstep::cli
