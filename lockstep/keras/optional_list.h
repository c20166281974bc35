// A list that an option may leave out.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

// None, one value, values in braces, a vector, or a tensor of one axis: {.vocabulary = {"a", "b"}}. (Two texts in
// braces would make a std::vector<std::string> of the characters between two addresses.)
template <typename T>
class OptionalList : public std::optional<std::vector<T>> {
 public:
  OptionalList(std::nullopt_t = std::nullopt) {}
  OptionalList(std::initializer_list<T> values) : std::optional<std::vector<T>>(std::vector<T>(values)) {}
  OptionalList(std::vector<T> values) : std::optional<std::vector<T>>(std::move(values)) {}
  OptionalList(std::optional<std::vector<T>> values) : std::optional<std::vector<T>>(std::move(values)) {}
  template <std::convertible_to<T> U>
  OptionalList(const U& value) : OptionalList(std::initializer_list<T>{static_cast<T>(value)}) {}
  // Throws InvalidArgument for a tensor of another dtype.
  template <std::same_as<Tensor> U>
  OptionalList(const U& values) : std::optional<std::vector<T>>(elements(values)) {}

 private:
  static std::vector<T> elements(const Tensor& values) {
    if constexpr (std::is_same_v<T, std::string>) {
      return values.string_values();
    } else {
      return values.to_vector<T>();
    }
  }
};

}  // namespace lockstep::keras
