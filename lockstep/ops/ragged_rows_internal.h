// The splits of ragged rows as numbers.
#pragma once

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep {

inline Tensor ints(const ops::Ints& values) { return ops::constant_ints(values, DType::kInt64); }
inline ops::Ints read(const Tensor& vector) { return ops::cast(vector, DType::kInt64).to_vector<std::int64_t>(); }

// 0, and the sums of the first lengths. Throws InvalidArgument for a negative length.
inline ops::Ints running_total(const ops::Ints& lengths) {
  ops::Ints splits = {0};
  for (const std::int64_t length : lengths) {
    if (length < 0) throw_invalid_argument(fmt::format("RaggedTensor: invalid row length: found {}", length));
    splits.push_back(splits.back() + length);
  }
  return splits;
}

}  // namespace lockstep
