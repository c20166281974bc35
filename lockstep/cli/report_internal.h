// How the tool prints errors, and text that may come from a file.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/strings_internal.h"

namespace lockstep::cli {

// One line on stderr, whatever the message contains. Of a message with a long name or shape the middle is left out.
inline void report(std::string_view message) {
  constexpr std::size_t kMost = 4000;
  std::string text = printable(message);
  if (text.size() > kMost) {
    // Cuts are at the start of a character of UTF-8.
    const auto whole = [&](std::size_t at) {
      while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
      return at;
    };
    text = text.substr(0, whole(kMost / 2)) + " … " + text.substr(whole(text.size() - kMost / 2));
  }
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: {}\n", text);
}

// One line on stdout, whatever the values contain.
template <typename... Values>
void print_line(fmt::format_string<Values...> format, Values&&... values) {
  fmt::print("{}\n", printable(fmt::format(format, std::forward<Values>(values)...)));
}

}  // namespace lockstep::cli
