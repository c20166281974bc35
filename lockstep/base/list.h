// A list with Python's indices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

// A vector whose list[-1] is the last element. Throws OutOfRange for an index that no element has.
template <typename T>
class List : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  List(std::vector<T> items) : std::vector<T>(std::move(items)) {}

  T& operator[](std::int64_t index) { return std::vector<T>::operator[](position(index)); }
  const T& operator[](std::int64_t index) const { return std::vector<T>::operator[](position(index)); }
  // The elements begin, … before end, as Python's list[:-1]: list[{0, -1}], list[{1, {}}]. As there, places beyond the
  // list mean its ends.
  struct Range {
    std::optional<std::int64_t> begin, end;
  };
  List operator[](const Range& range) const {
    const auto count = static_cast<std::int64_t>(this->size());
    const auto place = [count](std::int64_t index) {
      return std::clamp<std::int64_t>(index < 0 ? index + count : index, 0, count);
    };
    const std::int64_t first = place(range.begin.value_or(0)), last = place(range.end.value_or(count));
    return first < last ? List(std::vector<T>(this->begin() + first, this->begin() + last)) : List();
  }

 private:
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
