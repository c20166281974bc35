// How arrays print, as numpy.set_printoptions sets it for the process.
#pragma once

#include <cstdint>

namespace lockstep {

struct ArrayPrintOptions {
  int precision = 8;              // digits after the point
  std::int64_t threshold = 1000;  // more elements are summarized
  std::int64_t edge_items = 3;    // as this many at each end of an axis
  std::int64_t line_width = 75;
  bool suppress = false;  // no exponents
};

ArrayPrintOptions array_print_options();
void set_array_print_options(const ArrayPrintOptions& options);

}  // namespace lockstep
