// Names and paths that come from files.
#pragma once

#include <string_view>

namespace lockstep::io {

// Whether this is the name of one entry of a folder, a group or an archive: not empty, "." or "..", without a slash and
// a NUL byte.
constexpr bool is_entry_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

// Whether all parts of a relative path are such names, so that it stays below the folder it is relative to.
constexpr bool is_path_below(std::string_view path) {
  for (;;) {
    const auto slash = path.find('/');
    if (!is_entry_name(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace lockstep::io
