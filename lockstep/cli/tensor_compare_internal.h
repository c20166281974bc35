// How far two tensors of the same dtype and shape are apart.
#pragma once

#include <cstdint>

#include "lockstep/formats/tensor_data.h"

namespace lockstep::cli {

struct Deviation {
  std::uint64_t total = 0;
  std::uint64_t count = 0;  // elements that differ; two NaNs are equal
  double max = 0;
  double mean = 0;  // over all elements
};

// Of numbers and bools. Integers are compared exactly; the deviation of complex numbers is the magnitude of their
// difference; types of one byte are compared as unsigned numbers.
Deviation deviation(const formats::TensorData& a, const formats::TensorData& b);

}  // namespace lockstep::cli
