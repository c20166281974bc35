// A dtype, or its name, as an argument of a function.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/dtype.h"
#include "lockstep/base/error.h"

namespace lockstep {

// parse_dtype(), and "int", the name that NumPy and Keras have for int64.
inline std::optional<DType> find_dtype(std::string_view name) {
  return name == "int" ? DType::kInt64 : parse_dtype(name);
}

// float32, or "float32". Throws InvalidArgument for an unknown name.
class DTypeLike {
 public:
  constexpr DTypeLike(DType dtype) noexcept : dtype_(dtype) {}
  template <std::convertible_to<std::string_view> Name>
  DTypeLike(const Name& name) : dtype_(named(name)) {}
  constexpr operator DType() const noexcept { return dtype_; }

 private:
  static DType named(std::string_view name) {
    const auto dtype = find_dtype(name);
    if (!dtype) throw_invalid_argument("unknown dtype '" + std::string(name) + "'");
    return *dtype;
  }
  DType dtype_;
};

}  // namespace lockstep
