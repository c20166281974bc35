// What kernels of small programs do with the numbers of their inputs. Internal to lockstep/ops.
#pragma once

#include <array>
#include <cstdint>

#include "lockstep/ops/small_program_internal.h"

namespace lockstep::ops {

using SmallDims = std::array<std::int64_t, kSmallRank>;

inline bool is_index_type(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

inline std::int64_t small_number_at(const SmallValue& x, std::int64_t i) {
  return x.dtype == DType::kInt32 ? x.as<std::int32_t>()[i] : x.as<std::int64_t>()[i];
}
// The numbers of an index tensor with at most kSmallRank of them.
inline bool read_small_numbers(const SmallValue& x, SmallDims& numbers) {
  if (!x.data || x.rank > 1 || x.count > kSmallRank) return false;
  for (std::int64_t i = 0; i < x.count; ++i) numbers[static_cast<std::size_t>(i)] = small_number_at(x, i);
  return true;
}
// A negative axis counts from the end. False for an axis out of range.
inline bool take_whole_axis(std::int64_t& axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank;
}

}  // namespace lockstep::ops
