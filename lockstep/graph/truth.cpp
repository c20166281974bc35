#include "lockstep/graph/truth_internal.h"

namespace lockstep::graph {

bool is_true(const Tensor& value) {
  if (value.rank() != 0) return value.num_elements() > 0;
  if (value.dtype() == DType::kString) return !value.string_values()[0].empty();
  if (value.dtype() == DType::kBool) return value.item<bool>();
  return value.item<double>() != 0;
}

}  // namespace lockstep::graph
