// How the tool prints an error.
#pragma once

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace lockstep::cli {

// One line on stderr, whatever the message contains.
inline void report(std::string message) {
  for (char& c : message) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: {}\n", message);
}

}  // namespace lockstep::cli
