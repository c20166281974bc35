// Texts as arguments.
#pragma once

#include <concepts>
#include <string>

namespace lockstep {

// A path or another string by position, where a function also takes arguments by name: GCC would take {.filepath =
// "m.keras", .overwrite = true} for a std::string, the string from position 1 on.
class TextArg {
 public:
  template <std::convertible_to<std::string> Text>
  TextArg(const Text& text) : text_(text) {}
  operator const std::string&() const { return text_; }

 private:
  std::string text_;
};

}  // namespace lockstep
