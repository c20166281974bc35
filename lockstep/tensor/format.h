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
    if constexpr (requires(std::ostream & out) { out << value; })
      print_ = [](std::ostream& out, const void* object) { out << *static_cast<const T*>(object); };
    if constexpr (requires { value.is_number_integer() && value.is_string(); }) {  // JSON
      if (value.is_number()) {
        kind_ = Kind::kNumber;
        number_ = value.is_number_integer() ? Number(value.template get<std::int64_t>())
                                            : Number(value.template get<double>());
      } else if (value.is_boolean()) {
        kind_ = Kind::kNumber;
        number_ = value.template get<bool>();
      } else if (value.is_string()) {
        kind_ = Kind::kText;
        own_text_ = value.template get<std::string>();
      }
    } else if constexpr (std::derived_from<T, Tensor>) {
      set_tensor(value);
    } else if constexpr (requires { value.is_leaf() && value.leaf().defined(); }) {  // a structure
      if (value.is_leaf()) set_tensor(value.leaf());
    } else if constexpr (requires { value.ragged_rank(); }) {
      if (value.ragged_rank() == 0) set_tensor(value.flat_values());
    } else if constexpr (std::is_convertible_v<const T&, Tensor>) {
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
  void set_tensor(const Tensor& tensor) {
    kind_ = Kind::kTensor;
    tensor_ = tensor;
    print_ = nullptr;
  }
  enum class Kind { kNumber, kText, kTensor, kObject };
  Kind kind_ = Kind::kObject;
  Number number_ = 0;
  std::string_view text() const { return own_text_.empty() ? text_ : own_text_; }
  std::string_view text_;
  std::string own_text_;
  Tensor tensor_;
  const void* object_ = nullptr;
  void (*print_)(std::ostream&, const void*) = nullptr;
};
std::string format_arguments(std::string_view text, std::initializer_list<FormatArgument> arguments);

// The text with its fields replaced: "{}", by position "{1}", with a format of Python's "{:>8.3f}", "{:,}", "{:.1%}",
// "{:03d}", of a tensor that of its only element; "{{" is a brace. Without a format numbers are written as Python
// writes them (True, 0.1), tensors as their arrays, other objects as std::cout writes them. Throws InvalidArgument for
// fields that have no argument and formats that do not fit them.
template <typename... Arguments>
std::string format(std::string_view text, const Arguments&... arguments) {
  return format_arguments(text, {FormatArgument(arguments)...});
}

}  // namespace lockstep
