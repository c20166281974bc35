// Complex numbers and their parts.
#pragma once

#include <fmt/format.h>

#include "lockstep/base/dtype.h"
#include "lockstep/base/error.h"

namespace lockstep::ops {

// TensorFlow has kernels from complex numbers to real ones, and back, of one precision only.
inline void require_one_precision(DType from, DType to) {
  const auto is_wide = [](DType dtype) { return dtype == DType::kFloat64 || dtype == DType::kComplex128; };
  if (is_wide(from) != is_wide(to))
    throw_invalid_argument(
        fmt::format("cannot convert {1} to {0}: their precisions differ", dtype_name(to), dtype_name(from)));
}

}  // namespace lockstep::ops
