// Sums of raw elements.
#pragma once

#include <cstddef>

#include "lockstep/base/dtype.h"

namespace lockstep::collectives {

// result[i] = addends[0][i] + addends[1][i] + …, added in this order and rounded to the dtype after each addition;
// `bytes` is the size of one addend, of which there are `count` >= 2. The result may be one of the addends.
using ElementSum = void (*)(const std::byte* const* addends, int count, std::size_t bytes, std::byte* result);

// Null for a dtype whose elements are not added.
ElementSum element_sum(DType dtype);

}  // namespace lockstep::collectives
