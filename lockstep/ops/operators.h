// Operators of tensors other than arithmetic: comparisons, logic of booleans, remainders. All are elementwise, with
// broadcasting, and give tensors, as in TensorFlow: `if (x > 0)` needs a tensor of one element. A number takes the
// dtype of the tensor; an integer tensor cannot be combined with a fraction (InvalidArgument).
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/ops/functions.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {

Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator%(const Tensor& a, const Tensor& b);  // has the sign of b, as in Python

Tensor operator<(const Tensor& a, Number b);
Tensor operator<=(const Tensor& a, Number b);
Tensor operator>(const Tensor& a, Number b);
Tensor operator>=(const Tensor& a, Number b);
Tensor operator==(const Tensor& a, Number b);
Tensor operator!=(const Tensor& a, Number b);
Tensor operator%(const Tensor& a, Number b);
// Of tensors of strings: mood == "good".
template <typename Text>
concept TextOperand = std::convertible_to<const Text&, std::string> && !std::same_as<Text, std::nullptr_t>;
template <TextOperand Text>
Tensor operator==(const Tensor& a, const Text& text) {
  return a == Tensor::strings({std::string(text)}, {});
}
template <TextOperand Text>
Tensor operator!=(const Tensor& a, const Text& text) {
  return a != Tensor::strings({std::string(text)}, {});
}
Tensor operator<(Number a, const Tensor& b);
Tensor operator<=(Number a, const Tensor& b);
Tensor operator>(Number a, const Tensor& b);
Tensor operator>=(Number a, const Tensor& b);
#define LOCKSTEP_NUMBER_OPERATOR(op) \
  template <typename T>              \
  requires std::is_arithmetic_v<T> Tensor operator op(const Tensor& a, T b) { return a op Number(b); }
#define LOCKSTEP_NUMBER_COMPARISON(op) \
  LOCKSTEP_NUMBER_OPERATOR(op)         \
  template <typename T>                \
  requires std::is_arithmetic_v<T> Tensor operator op(T a, const Tensor& b) { return Number(a) op b; }
LOCKSTEP_NUMBER_COMPARISON(<)
LOCKSTEP_NUMBER_COMPARISON(<=)
LOCKSTEP_NUMBER_COMPARISON(>)
LOCKSTEP_NUMBER_COMPARISON(>=)
LOCKSTEP_NUMBER_OPERATOR(==)
LOCKSTEP_NUMBER_OPERATOR(!=)
LOCKSTEP_NUMBER_OPERATOR(%)
#undef LOCKSTEP_NUMBER_COMPARISON
#undef LOCKSTEP_NUMBER_OPERATOR
// Of a part of a structure: without these, `label == 0` would take the 0 for a nullptr and ask whether it is None.
template <typename T>
requires std::is_arithmetic_v<T> Tensor operator==(const Nested<Tensor>& a, T b) { return a.leaf() == b; }
template <typename T>
requires std::is_arithmetic_v<T> Tensor operator!=(const Nested<Tensor>& a, T b) { return a.leaf() != b; }
template <typename T>
requires std::is_arithmetic_v<T> Tensor operator==(T a, const Nested<Tensor>& b) { return b.leaf() == a; }
template <typename T>
requires std::is_arithmetic_v<T> Tensor operator!=(T a, const Nested<Tensor>& b) { return b.leaf() != a; }

// Of booleans, or of the bits of integers.
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& x);

// Lists of numbers: they take the dtype of the tensor, x + std::vector<float>{1, 2}.
#define LOCKSTEP_LIST_OPERATOR(op)                                                                \
  template <typename T>                                                                           \
  requires std::is_arithmetic_v<T> Tensor operator op(const Tensor& a, const std::vector<T>& b) { \
    return a op Tensor::from_vector(b).astype(a.dtype());                                         \
  }                                                                                               \
  template <typename T>                                                                           \
  requires std::is_arithmetic_v<T> Tensor operator op(const std::vector<T>& a, const Tensor& b) { \
    return Tensor::from_vector(a).astype(b.dtype()) op b;                                         \
  }
LOCKSTEP_LIST_OPERATOR(+)
LOCKSTEP_LIST_OPERATOR(-)
LOCKSTEP_LIST_OPERATOR(*)
LOCKSTEP_LIST_OPERATOR(/)
#undef LOCKSTEP_LIST_OPERATOR

// Python's list(): the elements of a dataset, or of another range, in a vector.
template <typename Range>
auto list(const Range& range) {
  std::vector<std::decay_t<decltype(*range.begin())>> elements;
  for (auto&& element : range) elements.push_back(element);
  return elements;
}

// Texts: tf.constant("a") + "b".
template <typename S>
concept TextOnly = std::is_convertible_v<const S&, std::string_view> && !std::is_convertible_v<const S&, Tensor>;
template <TextOnly S>
Tensor operator+(const Tensor& a, const S& b) {
  return a + Tensor::strings({std::string(b)}, {});
}
template <TextOnly S>
Tensor operator+(const S& a, const Tensor& b) {
  return Tensor::strings({std::string(a)}, {}) + b;
}
template <TextOnly S>
Tensor& operator+=(Tensor& a, const S& b) {
  return a = a + b;
}
// x[i] += y: changes the elements of an array, see Tensor::operator=.
#define LOCKSTEP_ASSIGNMENT(symbol)                                                                   \
  inline void operator symbol##=(Tensor&& part, const Tensor& b) { std::move(part) = part symbol b; } \
  template <typename T>                                                                               \
  requires std::is_arithmetic_v<T>                                                                    \
  void operator symbol##=(Tensor&& part, T b) { std::move(part) = part symbol b; }
LOCKSTEP_ASSIGNMENT(+)
LOCKSTEP_ASSIGNMENT(-)
LOCKSTEP_ASSIGNMENT(*)
LOCKSTEP_ASSIGNMENT(/)
#undef LOCKSTEP_ASSIGNMENT

// Python's len() of a model's result: the number of parts of a list or a dict, or the first extent of a tensor.
inline std::int64_t len(const Nested<Tensor>& structure) {
  return structure.is_leaf() ? len(structure.leaf()) : static_cast<std::int64_t>(structure.size());
}

// Of a structure of one tensor, as models return it: images *= 255.
template <typename T>
Nested<Tensor>& operator+=(Nested<Tensor>& a, const T& b) {
  return a = a.leaf() + b;
}
template <typename T>
Nested<Tensor>& operator-=(Nested<Tensor>& a, const T& b) {
  return a = a.leaf() - b;
}
template <typename T>
Nested<Tensor>& operator*=(Nested<Tensor>& a, const T& b) {
  return a = a.leaf() * b;
}
template <typename T>
Nested<Tensor>& operator/=(Nested<Tensor>& a, const T& b) {
  return a = a.leaf() / b;
}

}  // namespace lockstep
