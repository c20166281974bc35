// Python's str.format and f-strings: format("Epoch {}: loss {:.4f}", epoch, loss).
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// A number, a string, a tensor, or something else that operator<< writes.
class FormatArgument {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> FormatArgument(T number) : kind_(Kind::kNumber), number_(number) {}
  FormatArgument(const Item& item) : kind_(Kind::kNumber), number_(item) {}
  FormatArgument(std::string_view text) : kind_(Kind::kText), text_(text) {}
  FormatArgument(const std::string& text) : kind_(Kind::kText), text_(text) {}
  FormatArgument(const char* text) : kind_(Kind::kText), text_(text) {}
  template <typename T>
  requires(std::is_class_v<T> && !std::derived_from<T, Number>) FormatArgument(const T& value) : object_(&value) {
    if constexpr (requires(std::ostream & out) { out << value; } && !std::derived_from<T, Tensor>)
      print_ = [](std::ostream& out, const void* object) { out << *static_cast<const T*>(object); };
    if constexpr (std::is_convertible_v<const T&, Tensor>) {
      kind_ = Kind::kTensor;
      tensor_ = static_cast<Tensor>(value);
    } else if constexpr (std::is_convertible_v<const T&, double>) {
      kind_ = Kind::kNumber;
      number_ = static_cast<double>(value);
    } else {
      static_assert(
          requires(std::ostream & out) { out << value; },
          "format: the argument is not a number, a string or a tensor, and has no operator<<");
    }
  }

 private:
  friend class Formatter;
  enum class Kind { kNumber, kText, kTensor, kObject };
  Kind kind_ = Kind::kObject;
  Number number_ = 0;
  std::string_view text_;
  Tensor tensor_;
  const void* object_ = nullptr;
  void (*print_)(std::ostream&, const void*) = nullptr;
};
std::string format_arguments(std::string_view text, std::initializer_list<FormatArgument> arguments);

// The text with its fields replaced: "{}", by position "{1}", with a format of Python's "{:>8.3f}", "{:,}", "{:.1%}",
// "{:03d}", of a tensor that of its only element; "{{" is a brace. Without a format numbers are written as Python
// writes them (True, 0.1), tensors as their values as NumPy arrays, and other objects as std::cout does. Throws
// InvalidArgument for fields that have no argument and formats that do not fit them.
template <typename... Arguments>
std::string format(std::string_view text, const Arguments&... arguments) {
  return format_arguments(text, {FormatArgument(arguments)...});
}

}  // namespace lockstep
