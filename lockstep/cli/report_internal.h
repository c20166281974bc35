// How the tool prints errors, and text that may come from a file.
#pragma once

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/strings_internal.h"

namespace lockstep::cli {

// One line on stderr, whatever the message contains.
inline void report(std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: {}\n", printable(message));
}

// One line on stdout, whatever the values contain.
template <typename... Values>
void print_line(fmt::format_string<Values...> format, Values&&... values) {
  fmt::print("{}\n", printable(fmt::format(format, std::forward<Values>(values)...)));
}

}  // namespace lockstep::cli
