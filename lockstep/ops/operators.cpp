#include "lockstep/ops/operators.h"

#include "lockstep/base/error.h"
#include "lockstep/ops/arrays_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/number_internal.h"

namespace lockstep {

#define LOCKSTEP_COMPARISON(symbol, op)                                                                        \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { return ops::like(a, b, ops::call1(op, {a, b})); } \
  Tensor operator symbol(const Tensor& a, Number b) {                                                          \
    const Tensor left = ops::array_next_to(a, b);                                                              \
    return ops::like(a, ops::call1(op, {left, ops::number_like(left, b)}));                                    \
  }
LOCKSTEP_COMPARISON(<, "Less")
LOCKSTEP_COMPARISON(<=, "LessEqual")
LOCKSTEP_COMPARISON(>, "Greater")
LOCKSTEP_COMPARISON(>=, "GreaterEqual")
LOCKSTEP_COMPARISON(==, "Equal")
LOCKSTEP_COMPARISON(!=, "NotEqual")
LOCKSTEP_COMPARISON(%, "FloorMod")
#undef LOCKSTEP_COMPARISON

Tensor operator<(Number a, const Tensor& b) { return b > a; }
Tensor operator<=(Number a, const Tensor& b) { return b >= a; }
Tensor operator>(Number a, const Tensor& b) { return b < a; }
Tensor operator>=(Number a, const Tensor& b) { return b <= a; }

namespace {

Tensor logical(const char* of_booleans, const char* of_bits, const Tensor& a, const Tensor& b) {
  if (!a.defined()) throw_invalid_argument("an operator was applied to an undefined tensor");
  return ops::like(a, b, ops::call1(a.dtype() == DType::kBool ? of_booleans : of_bits, {a, b}));
}

}  // namespace

Tensor operator&(const Tensor& a, const Tensor& b) { return logical("LogicalAnd", "BitwiseAnd", a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return logical("LogicalOr", "BitwiseOr", a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) {
  return a.defined() && a.dtype() == DType::kBool ? a != b : logical("NotEqual", "BitwiseXor", a, b);
}
Tensor operator~(const Tensor& x) {
  return ops::like(x, x.defined() && x.dtype() == DType::kBool ? ops::logical_not(x) : ops::call1("Invert", {x}));
}

}  // namespace lockstep
