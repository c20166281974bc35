#include "lockstep/collectives/element_sum_internal.h"

#include <complex>
#include <cstdint>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace lockstep::collectives {
namespace {

template <typename T>
void add_up(const std::byte* const* addends, int count, std::size_t bytes, std::byte* result) {
  auto* const out = reinterpret_cast<T*>(result);
  const auto* const first = reinterpret_cast<const T*>(addends[0]);
  const auto* const second = reinterpret_cast<const T*>(addends[1]);
  const std::size_t elements = bytes / sizeof(T);
  if (count == 2) {
    for (std::size_t i = 0; i < elements; ++i) out[i] = static_cast<T>(first[i] + second[i]);
    return;
  }
  for (std::size_t i = 0; i < elements; ++i) {
    T sum = static_cast<T>(first[i] + second[i]);
    for (int k = 2; k < count; ++k) sum = static_cast<T>(sum + reinterpret_cast<const T*>(addends[k])[i]);
    out[i] = sum;
  }
}

}  // namespace

ElementSum element_sum(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return add_up<float>;
    case DType::kFloat64: return add_up<double>;
    case DType::kFloat16: return add_up<c10::Half>;
    case DType::kBFloat16: return add_up<c10::BFloat16>;
    case DType::kInt8:
    case DType::kUInt8: return add_up<std::uint8_t>;  // modulo 2^8, whatever the sign
    case DType::kInt16:
    case DType::kUInt16: return add_up<std::uint16_t>;
    case DType::kInt32:
    case DType::kUInt32: return add_up<std::uint32_t>;
    case DType::kInt64:
    case DType::kUInt64: return add_up<std::uint64_t>;
    case DType::kComplex64: return add_up<std::complex<float>>;
    case DType::kComplex128: return add_up<std::complex<double>>;
    default: return nullptr;
  }
}

}  // namespace lockstep::collectives
