// The texts of arrays.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// As numpy.set_printoptions sets them for the process.
struct ArrayPrintOptions {
  int precision = 8;              // digits after the point
  std::int64_t threshold = 1000;  // more elements are summarized
  std::int64_t edge_items = 3;    // as this many at each end of an axis
  std::int64_t line_width = 75;
  bool suppress = false;  // no exponents
};

ArrayPrintOptions array_print_options();
void set_array_print_options(const ArrayPrintOptions& options);

// "[1. 2.]": str() of the value as a NumPy array. The tensor must have a value.
std::string array_text(const Tensor& tensor);
// "array([1., 2.], dtype=float32)", or a number: repr() of it.
std::string array_repr(const Tensor& tensor);

}  // namespace lockstep
