// A dtype, or its name, as an argument of a function.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "lockstep/base/dtype.h"
#include "lockstep/base/error.h"

namespace lockstep {

// float32, or "float32". Throws InvalidArgument for an unknown name.
class DTypeLike {
 public:
  constexpr DTypeLike(DType dtype) noexcept : dtype_(dtype) {}
  template <std::convertible_to<std::string_view> Name>
  DTypeLike(const Name& name) : dtype_(named(name)) {}
  constexpr operator DType() const noexcept { return dtype_; }

 private:
  static DType named(std::string_view name) {
    if (name == "int") return DType::kInt64;  // as of NumPy and Keras
    const auto dtype = parse_dtype(name);
    if (!dtype) throw_invalid_argument("unknown dtype '" + std::string(name) + "'");
    return *dtype;
  }
  DType dtype_;
};

}  // namespace lockstep
