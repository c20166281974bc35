// Numbers of an interval, a mean and a deviation, made of what the operations draw.
#pragma once

#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/operators.h"
#include "lockstep/random/stateless.h"

namespace lockstep::random {

constexpr std::int32_t kPhilox = 1;  // the number of the algorithm in TensorFlow's operations

inline Tensor number(Number value, DType dtype) { return ops::cast(Tensor::scalar(value.integer()), dtype); }

// The kinds of uniform numbers: in [0, 1), in a range of integers, or all integers of the dtype.
template <typename Real, typename Whole, typename Full>
Tensor draw_uniform(const UniformNumbers& o, Real real, Whole whole, Full full) {
  if (!is_integer(o.dtype)) {
    const double low = o.minval ? o.minval->value() : 0, high = o.maxval ? o.maxval->value() : 1;
    const Tensor drawn = real();
    return low == 0 && high == 1 ? drawn : drawn * Number(high - low) + Number(low);
  }
  if (o.minval.has_value() != o.maxval.has_value()) {
    throw_invalid_argument(
        fmt::format("uniform: numbers of {} require both minval and maxval, or neither", dtype_name(o.dtype)));
  }
  return o.minval ? whole(number(*o.minval, o.dtype), number(*o.maxval, o.dtype)) : full();
}
inline Tensor scaled(const Tensor& drawn, double mean, double stddev) {
  return mean == 0 && stddev == 1 ? drawn : drawn * Number(stddev) + Number(mean);
}
// The smallest positive number that is not subnormal: gamma returns no smaller number.
inline double smallest_normal(DType dtype) {
  return dtype == DType::kFloat64   ? std::numeric_limits<double>::min()
         : dtype == DType::kFloat16 ? 0x1p-14
                                    : std::numeric_limits<float>::min();
}

}  // namespace lockstep::random
