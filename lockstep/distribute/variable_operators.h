// The operators of ops/operators.h on variables, which stand for their values. `==` of two variables alone is another
// thing: whether they are the same variable.
#pragma once

#include <type_traits>
#include <vector>

#include "lockstep/distribute/variable.h"
#include "lockstep/ops/operators.h"

namespace lockstep::distribute {

using lockstep::operator<;
using lockstep::operator<=;
using lockstep::operator>;
using lockstep::operator>=;
using lockstep::operator%;
// Elementwise, of a variable and a number.
template <typename N>
requires std::is_arithmetic_v<N> Tensor operator==(const Variable& a, N b) { return a.value() == Number(b); }
template <typename N>
requires std::is_arithmetic_v<N> Tensor operator!=(const Variable& a, N b) { return a.value() != Number(b); }
inline Tensor operator<(const Variable& a, const Variable& b) { return a.value() < b.value(); }
inline Tensor operator<=(const Variable& a, const Variable& b) { return a.value() <= b.value(); }
inline Tensor operator>(const Variable& a, const Variable& b) { return a.value() > b.value(); }
inline Tensor operator>=(const Variable& a, const Variable& b) { return a.value() >= b.value(); }
// encoder.trainable_variables() + decoder.trainable_variables(): both lists, one after the other.
std::vector<Variable> operator+(std::vector<Variable> a, const std::vector<Variable>& b);

}  // namespace lockstep::distribute
