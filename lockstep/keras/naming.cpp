#include "lockstep/keras/naming_internal.h"

#include <cctype>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace lockstep::keras {
namespace {

struct Counters {
  std::mutex mutex;
  std::unordered_map<std::string, int> next;
};

Counters& counters() {
  static Counters* instance = new Counters();
  return *instance;
}

bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool is_lower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string to_snake_case(std::string_view class_name) {
  // The one public layer whose Python class has another name, from which Keras makes names.
  if (class_name == "GroupQueryAttention") return "grouped_query_attention";
  // Keras: (.)([A-Z][a-z]+) -> \1_\2, then ([a-z])([A-Z]) -> \1_\2, lower-cased, non-word characters gone.
  std::string text;
  for (char c : class_name) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') text += c;
  }
  std::string first;
  for (std::size_t i = 0; i < text.size();) {
    if (i > 0 && is_upper(text[i]) && i + 1 < text.size() && is_lower(text[i + 1])) {
      first += '_';
      first += text[i++];
      while (i < text.size() && is_lower(text[i])) first += text[i++];
      // The next match needs a character before its capital that this one has not taken.
      if (i < text.size()) first += text[i++];
    } else {
      first += text[i++];
    }
  }
  std::string name;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (i > 0 && is_upper(first[i]) && is_lower(first[i - 1])) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(first[i])));
  }
  return name.starts_with('_') ? "private" + name : name;
}

std::string auto_name(std::string_view class_name) {
  const std::string prefix = to_snake_case(class_name);
  Counters& all = counters();
  const std::lock_guard lock(all.mutex);
  const int number = all.next[prefix]++;
  return number == 0 ? prefix : prefix + "_" + std::to_string(number);
}

std::vector<std::string> numbered_names(std::vector<std::string> layers) {
  std::unordered_map<std::string, int> next;
  std::unordered_set<std::string> taken;
  for (std::string& name : layers) {
    const std::string layer = name;
    while (!taken.insert(name).second) name = layer + "_" + std::to_string(++next[layer]);
  }
  return layers;
}

void reset_auto_names() {
  Counters& all = counters();
  const std::lock_guard lock(all.mutex);
  all.next.clear();
}

}  // namespace lockstep::keras
