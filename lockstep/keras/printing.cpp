#include "lockstep/keras/printing.h"

#include <ostream>

#include "lockstep/base/json.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {
namespace {

void print_value(std::ostream& out, double value) { out << python_float(value); }
void print_value(std::ostream& out, std::int64_t value) { out << value; }
void print_value(std::ostream& out, int value) { out << value; }
// As repr(): in double quotes if the string contains single quotes only.
void print_value(std::ostream& out, const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  out << quote << text << quote;
}
void print_value(std::ostream& out, const keras::LogValue& value);

template <typename Items>
std::ostream& print_items(std::ostream& out, const Items& items) {
  out << '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out << ", ";
    first = false;
    print_value(out, item);
  }
  return out << ']';
}
void print_value(std::ostream& out, const keras::LogValue& value) {
  if (value.is_vector()) {
    print_items(out, value.numbers());
  } else {
    print_value(out, static_cast<double>(value));
  }
}
void print_value(std::ostream& out, const std::vector<keras::LogValue>& values) { print_items(out, values); }

template <typename Entries>
std::ostream& print_dict(std::ostream& out, const Entries& entries) {
  out << '{';
  bool first = true;
  for (const auto& [name, value] : entries) {
    if (!first) out << ", ";
    first = false;
    print_value(out, name);
    out << ": ";
    print_value(out, value);
  }
  return out << '}';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const List<double>& list) { return print_items(out, list); }
std::ostream& operator<<(std::ostream& out, const List<float>& list) {
  return print_items(out, std::vector<double>(list.begin(), list.end()));
}
std::ostream& operator<<(std::ostream& out, const List<int>& list) { return print_items(out, list); }
std::ostream& operator<<(std::ostream& out, const List<std::int64_t>& list) { return print_items(out, list); }
std::ostream& operator<<(std::ostream& out, const List<std::string>& list) { return print_items(out, list); }
std::ostream& operator<<(std::ostream& out, const List<Tensor>& list) {
  return out << Nested<Tensor>::list({list.begin(), list.end()});
}

namespace keras {

std::ostream& operator<<(std::ostream& out, const Results& results) {
  const std::vector<LogValue> values = results.values();
  if (values.size() != 1) return print_items(out, values);
  print_value(out, values[0]);
  return out;
}
std::ostream& operator<<(std::ostream& out, const LogValues& values) { return print_items(out, values); }
std::ostream& operator<<(std::ostream& out, const Logs& logs) { return print_dict(out, logs); }
std::ostream& operator<<(std::ostream& out, const History::Values& history) { return print_dict(out, history); }

}  // namespace keras
}  // namespace lockstep
