// A value in places that have none, as arguments named default_value are.
#pragma once

#include <type_traits>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// A number, a string, or a tensor of one element.
class FillValue : public Tensor {
 public:
  FillValue() = default;
  FillValue(const Tensor& value) : Tensor(value) {}
  FillValue(const char* text) : Tensor(Tensor::strings({text}, {})) {}
  template <typename T>
  requires std::is_arithmetic_v<T> FillValue(T number) : Tensor(Tensor::scalar(number)) {}
};

}  // namespace lockstep
