// The random choices of one case, by its seed alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::fuzz {

class Choices {
 public:
  explicit Choices(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next();                                                        // splitmix64
  std::size_t below(std::size_t count) { return count ? next() % count : 0; }  // [0, count)
  bool chance(unsigned percent) { return next() % 100 < percent; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

  // Mostly 0 to 4; else a number where arithmetic of extents goes wrong: -1, 2^31, 2^63-1 and their neighbours.
  std::int64_t integer();
  double real();  // small numbers, infinities and NaN
  std::string text();
  DType dtype();  // any, mostly float32, int32 and int64
  // Up to `max_rank` axes of 0 to 8 entries; an empty one may have huge axes.
  Shape shape(int max_rank = 5);
  // A shape as an attribute holds it: of unknown rank, with unknown and huge axes.
  Shape partial_shape();
  // A value of a dtype, some with strides. A resource is a variable of dtype `holds`; a variant is a list.
  Tensor value(DType dtype, const Shape& shape, DType holds);

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::fuzz
