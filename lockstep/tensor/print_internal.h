// Texts of values as TensorFlow and NumPy write them.
#pragma once

#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// What repr() of numpy() shows in the repr() of a tensor or a variable: "array([1, 2], dtype=int32)", of a scalar the
// number alone.
std::string numpy_repr(const Tensor& value);
// The lists of a ragged tensor, as str() shows them: the row splits of its axes, the outermost first, and its values.
std::string ragged_text(const Tensors& row_splits, const Tensor& flat_values);

}  // namespace lockstep
