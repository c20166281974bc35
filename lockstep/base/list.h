// A list with Python's indices.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

// What converts to a whole number where a cast asks for it: a tensor.
template <typename I>
concept IndexObject = std::is_class_v<I> && std::is_constructible_v<std::int64_t, const I&> &&
    !std::is_convertible_v<const I&, std::int64_t>;

// A vector whose list[-1] is the last element. Throws OutOfRange for an index that no element has.
template <typename T>
class List : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  List(std::vector<T> items) : std::vector<T>(std::move(items)) {}

  decltype(auto) operator[](std::int64_t index) { return std::vector<T>::operator[](position(index)); }
  decltype(auto) operator[](std::int64_t index) const { return std::vector<T>::operator[](position(index)); }
  // An index that is a tensor of one number.
  template <IndexObject I>
  decltype(auto) operator[](const I& index) {
    return (*this)[static_cast<std::int64_t>(index)];
  }
  template <IndexObject I>
  decltype(auto) operator[](const I& index) const {
    return (*this)[static_cast<std::int64_t>(index)];
  }
  // The elements begin, … before end, as Python's list[:-1]: list[{0, -1}], list[{1, {}}]. As there, indices beyond the
  // list mean its ends.
  struct Range {
    std::optional<std::int64_t> begin, end;
  };
  // const auto [kernel, bias] = layer.get_weights(), and of N elements list.parts<N>(). Throw OutOfRange for a list of
  // another length.
  template <std::size_t I>
  decltype(auto) get() const& {
    require_length(2);
    return std::vector<T>::operator[](I);
  }
  template <std::size_t I>
  T get() && {
    return std::as_const(*this).template get<I>();
  }
  template <std::size_t N>
  std::array<T, N> parts() const {
    require_length(N);
    std::array<T, N> out;
    std::copy(this->begin(), this->end(), out.begin());
    return out;
  }

  List operator[](const Range& range) const {
    const auto count = static_cast<std::int64_t>(this->size());
    const auto place = [count](std::int64_t index) {
      return std::clamp<std::int64_t>(index < 0 ? index + count : index, 0, count);
    };
    const std::int64_t first = place(range.begin.value_or(0)), last = place(range.end.value_or(count));
    return first < last ? List(std::vector<T>(this->begin() + first, this->begin() + last)) : List();
  }
  // As in Python. pop() throws OutOfRange when no element has this index.
  void append(T item) { this->push_back(std::move(item)); }
  void extend(const std::vector<T>& items) { this->insert(this->end(), items.begin(), items.end()); }
  T pop(std::int64_t index = -1) {
    const auto at = this->begin() + static_cast<std::ptrdiff_t>(position(index));
    T item = std::move(*at);
    this->erase(at);
    return item;
  }
  // Python's list + list: model.layers()[{0, -1}] + other_layers.
  friend List operator+(List a, const std::vector<T>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

 private:
  void require_length(std::size_t length) const {
    if (this->size() == length) return;
    throw_out_of_range("a list of " + std::to_string(this->size()) + " elements was given where one of " +
                       std::to_string(length) + " is needed");
  }
  std::size_t position(std::int64_t index) const {
    const auto count = static_cast<std::int64_t>(this->size());
    if (index < -count || index >= count) {
      throw_out_of_range("list index " + std::to_string(index) + " is out of range: the list has " +
                         std::to_string(count) + " elements");
    }
    return static_cast<std::size_t>(index < 0 ? index + count : index);
  }
};

}  // namespace lockstep

template <typename T>
struct std::tuple_size<lockstep::List<T>> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I, typename T>
struct std::tuple_element<I, lockstep::List<T>> {
  using type = T;
};
