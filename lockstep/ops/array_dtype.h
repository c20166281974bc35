// The dtypes of NumPy's arrays.
#pragma once

#include "lockstep/base/dtype.h"

namespace lockstep::ops {

// The dtype in which NumPy combines arrays of these two: float64 of integers with fractions, unless the integers are
// much narrower.
DType array_dtype(DType a, DType b);

}  // namespace lockstep::ops
