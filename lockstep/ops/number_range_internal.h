// The numbers of each dtype.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "lockstep/base/dtype.h"

namespace lockstep::ops {

// Finite limits of a dtype, and the bits of its integers or of the significands of floating numbers.
struct NumberRange {
  double low, high;
  int bits;
};

// None of dtypes without an order.
inline std::optional<NumberRange> number_range(DType dtype) {
  const auto of = []<typename T>(T) {
    using Limits = std::numeric_limits<T>;
    return NumberRange{static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max()), Limits::digits};
  };
  switch (dtype) {
    case DType::kBool: return NumberRange{0, 1, 1};
    case DType::kInt8: return of(std::int8_t{});
    case DType::kInt16: return of(std::int16_t{});
    case DType::kInt32: return of(std::int32_t{});
    case DType::kInt64: return of(std::int64_t{});
    case DType::kUInt8: return of(std::uint8_t{});
    case DType::kUInt16: return of(std::uint16_t{});
    case DType::kUInt32: return of(std::uint32_t{});
    case DType::kUInt64: return of(std::uint64_t{});
    case DType::kFloat16: return NumberRange{-65504, 65504, 11};
    case DType::kBFloat16: return NumberRange{-0x1.FEp127, 0x1.FEp127, 8};
    case DType::kFloat32: return of(float{});
    case DType::kFloat64: return of(double{});
    default: return std::nullopt;
  }
}

}  // namespace lockstep::ops
