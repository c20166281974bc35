// A list with Python's indices.
#pragma once

#include <cstddef>
#include <cstdint>
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
