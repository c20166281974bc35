// Paths as arguments.
#pragma once

#include <concepts>
#include <string>

namespace lockstep {

// A path by position, where a function also takes arguments by name: GCC would take {.filepath = "m.keras", .overwrite
// = true} for a std::string, the text from place 1 on.
class PathArg {
 public:
  template <std::convertible_to<std::string> Path>
  PathArg(const Path& path) : path_(path) {}
  operator const std::string&() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lockstep
