#include "lockstep/ops/array_dtype.h"
#include "lockstep/ops/arrays_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::ops {
namespace {

bool is_whole(DType dtype) { return dtype == DType::kBool || is_integer(dtype); }
bool is_unsigned(DType dtype) { return dtype_name(dtype).starts_with('u'); }

DType of_integers(DType a, DType b) {
  if (is_unsigned(a) == is_unsigned(b)) return dtype_size(a) >= dtype_size(b) ? a : b;
  const DType with_sign = is_unsigned(a) ? b : a, without = is_unsigned(a) ? a : b;
  if (dtype_size(with_sign) > dtype_size(without)) return with_sign;
  switch (dtype_size(without)) {
    case 1: return DType::kInt16;
    case 2: return DType::kInt32;
    case 4: return DType::kInt64;
    default: return DType::kFloat64;
  }
}

DType of_fraction_and_integer(DType fraction, DType integer) {
  if (dtype_size(integer) == 1) return fraction;
  if (dtype_size(integer) == 2) return dtype_size(fraction) == 2 ? DType::kFloat32 : fraction;
  return DType::kFloat64;
}

// Of an array that a tape watches, the result stays a tensor: the tape has recorded it.
Tensor array_of(const Tensor& result) {
  const bool is_recorded = result.is_value() && result.dtype() != DType::kString && aten(result).requires_grad();
  return is_recorded ? result : result.numpy();
}

}  // namespace

DType array_dtype(DType a, DType b) {
  if (a == b || b == DType::kBool) return a;
  if (a == DType::kBool) return b;
  if (is_complex(a) || is_complex(b)) {
    const auto is_wide = [](DType dtype) {
      return dtype == DType::kComplex128 || dtype == DType::kFloat64 || (is_integer(dtype) && dtype_size(dtype) > 2);
    };
    return is_wide(a) || is_wide(b) ? DType::kComplex128 : DType::kComplex64;
  }
  if (is_whole(a) && is_whole(b)) return of_integers(a, b);
  if (is_whole(a) != is_whole(b)) return is_whole(a) ? of_fraction_and_integer(b, a) : of_fraction_and_integer(a, b);
  return dtype_size(a) >= dtype_size(b) ? a : b;
}

Tensor like(const Tensor& x, const Tensor& result) { return is_array(x) ? array_of(result) : result; }

Tensor like(const Tensor& a, const Tensor& b, const Tensor& result) {
  const auto is_operand = [](const Tensor& x) { return is_array(x) || x.is_number(); };
  return (is_array(a) || is_array(b)) && is_operand(a) && is_operand(b) ? array_of(result) : result;
}

Tensor array_next_to(const Tensor& x, Number number) {
  if (!is_array(x)) return x;
  if (is_whole(x.dtype()) && !number.is_integer()) return x.astype(DType::kFloat64);
  return x.dtype() == DType::kBool && !number.is_bool() ? x.astype(DType::kInt64) : x;
}

}  // namespace lockstep::ops
