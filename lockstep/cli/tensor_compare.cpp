#include "lockstep/cli/tensor_compare_internal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

namespace lockstep::cli {
namespace {

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

float from_float16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  float value = 0;
  if (exponent == 0x1f) {
    value = mantissa ? std::nanf("") : INFINITY;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

// Greater than 0 exactly where the elements differ: the difference of integers is taken before it becomes a double.
template <typename T>
double distance(T a, T b) {
  if (a == b) return 0;
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto low = static_cast<Unsigned>(std::min(a, b));
    return static_cast<double>(static_cast<Unsigned>(static_cast<Unsigned>(std::max(a, b)) - low));
  } else {
    if (std::isnan(a) && std::isnan(b)) return 0;
    const double apart = std::abs(static_cast<double>(a) - static_cast<double>(b));
    return std::isnan(apart) ? INFINITY : apart;
  }
}

template <typename T>
double distance(std::complex<T> a, std::complex<T> b) {
  return std::hypot(distance(a.real(), b.real()), distance(a.imag(), b.imag()));
}

// Stored elements of type S, compared after `convert`.
template <typename S, typename Convert>
Deviation scan(const formats::TensorData& a, const formats::TensorData& b, Convert convert) {
  Deviation out;
  out.total = a.bytes.size() / sizeof(S);
  double sum = 0;
  for (std::size_t i = 0; i < out.total; ++i) {
    S x;
    S y;
    std::memcpy(&x, a.bytes.data() + i * sizeof(S), sizeof(S));
    std::memcpy(&y, b.bytes.data() + i * sizeof(S), sizeof(S));
    const double apart = distance(convert(x), convert(y));
    if (apart == 0) continue;
    ++out.count;
    sum += apart;
    out.max = std::max(out.max, apart);
  }
  if (out.total > 0) out.mean = sum / static_cast<double>(out.total);
  return out;
}

template <typename T>
Deviation scan(const formats::TensorData& a, const formats::TensorData& b) {
  return scan<T>(a, b, [](T x) { return x; });
}

}  // namespace

Deviation deviation(const formats::TensorData& a, const formats::TensorData& b) {
  switch (a.dtype) {
    case DType::kFloat32: return scan<float>(a, b);
    case DType::kFloat64: return scan<double>(a, b);
    case DType::kFloat16: return scan<std::uint16_t>(a, b, from_float16);
    case DType::kBFloat16: return scan<std::uint16_t>(a, b, from_bfloat16);
    case DType::kInt8: return scan<std::int8_t>(a, b);
    case DType::kInt16: return scan<std::int16_t>(a, b);
    case DType::kInt32: return scan<std::int32_t>(a, b);
    case DType::kInt64: return scan<std::int64_t>(a, b);
    case DType::kUInt16: return scan<std::uint16_t>(a, b);
    case DType::kUInt32: return scan<std::uint32_t>(a, b);
    case DType::kUInt64: return scan<std::uint64_t>(a, b);
    case DType::kComplex64: return scan<std::complex<float>>(a, b);
    case DType::kComplex128: return scan<std::complex<double>>(a, b);
    default: return scan<std::uint8_t>(a, b);
  }
}

}  // namespace lockstep::cli
