// Small helpers over the configs of Keras's files.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/json.h"

namespace lockstep::saving {

// Of text with spaces between them.
inline std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    if (space > 0) out.emplace_back(text.substr(0, space));
    text.remove_prefix(std::min(text.size(), space + 1));
  }
  return out;
}

inline bool contains_word(std::string_view text, std::string_view word) {
  const std::vector<std::string> all = words(text);
  return std::find(all.begin(), all.end(), word) != all.end();
}

// A text of an object; empty where there is none.
inline std::string text_of(const Json& object, const char* key) {
  const Json value = object.is_object() ? object.value(key, Json()) : Json();
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace lockstep::saving
