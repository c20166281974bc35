// A list that an option may leave out.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// None, one value, values in braces, a vector, or a tensor of one axis: {.vocabulary = {"a", "b"}}. (Two strings in
// braces would make a std::vector<std::string> of the characters between two addresses.)
template <typename T>
class OptionalList : public std::optional<std::vector<T>> {
 public:
  // One value: {{"a", "b"}} is the vector, and not one string.
  struct Item {
    template <std::convertible_to<T> U>
    Item(const U& value) : value(static_cast<T>(value)) {}
    T value;
  };
  OptionalList(std::nullopt_t = std::nullopt) {}
  OptionalList(std::initializer_list<Item> values) : std::optional<std::vector<T>>(std::vector<T>()) {
    for (const Item& item : values) (*this)->push_back(item.value);
  }
  OptionalList(std::vector<T> values) : std::optional<std::vector<T>>(std::move(values)) {}
  OptionalList(std::optional<std::vector<T>> values) : std::optional<std::vector<T>>(std::move(values)) {}
  template <std::convertible_to<T> U>
  OptionalList(const U& value) : std::optional<std::vector<T>>(std::vector<T>{static_cast<T>(value)}) {}
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

}  // namespace lockstep
