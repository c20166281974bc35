// Numbers that are attributes of objects, as keras.Variable is in Python.
#pragma once

#include <functional>
#include <ostream>
#include <type_traits>
#include <utility>

#include "lockstep/tensor/tensor.h"

namespace lockstep::internal {

// optimizer.learning_rate() and optimizer.iterations(): a number where numbers are needed, a scalar where tensors are,
// and an attribute that can be assigned.
template <typename Value>
class ScalarAttribute : public Tensor {
 public:
  ScalarAttribute(Value value, std::function<void(double)> assign)
      : Tensor(value), value_(value), assign_(std::move(assign)) {}
  operator Value() const { return value_; }
  Value value() const { return value_; }
  // Throw FailedPrecondition for a learning rate that is a schedule or a function.
  void assign(double value) const { assign_(value); }
  void assign(const Tensor& value) const { assign_(value.item<double>()); }
  // optimizer.learning_rate() = 0.1
  void operator=(double value) && { assign_(value); }
  void operator*=(double factor) && { assign_(static_cast<double>(value_) * factor); }

  // With numbers it is a number.
#define LOCKSTEP_ATTRIBUTE_OPERATOR(op)                                            \
  template <typename N>                                                            \
  requires std::is_arithmetic_v<N>                                                 \
  friend auto operator op(const ScalarAttribute& a, N b) { return a.value_ op b; } \
  template <typename N>                                                            \
  requires std::is_arithmetic_v<N>                                                 \
  friend auto operator op(N a, const ScalarAttribute& b) { return a op b.value_; }
  LOCKSTEP_ATTRIBUTE_OPERATOR(+)
  LOCKSTEP_ATTRIBUTE_OPERATOR(-)
  LOCKSTEP_ATTRIBUTE_OPERATOR(*)
  LOCKSTEP_ATTRIBUTE_OPERATOR(/)
  LOCKSTEP_ATTRIBUTE_OPERATOR(%)
  LOCKSTEP_ATTRIBUTE_OPERATOR(<)
  LOCKSTEP_ATTRIBUTE_OPERATOR(<=)
  LOCKSTEP_ATTRIBUTE_OPERATOR(>)
  LOCKSTEP_ATTRIBUTE_OPERATOR(>=)
  LOCKSTEP_ATTRIBUTE_OPERATOR(==)
  LOCKSTEP_ATTRIBUTE_OPERATOR(!=)
#undef LOCKSTEP_ATTRIBUTE_OPERATOR
  friend Value operator-(const ScalarAttribute& a) { return -a.value_; }
  friend bool operator==(const ScalarAttribute& a, const ScalarAttribute& b) { return a.value_ == b.value_; }
  friend std::ostream& operator<<(std::ostream& out, const ScalarAttribute& attribute) {
    return out << attribute.value_;
  }

 private:
  Value value_;
  std::function<void(double)> assign_;
};

}  // namespace lockstep::internal
