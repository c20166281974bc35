// A dtype as an argument.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>

#include "lockstep/base/dtype_like.h"

namespace lockstep::keras {

// A dtype, its name, or nothing: float32, "float32".
class DTypeArg {
 public:
  DTypeArg() = default;
  DTypeArg(std::nullopt_t) {}
  DTypeArg(DType dtype) : dtype_(dtype) {}
  DTypeArg(std::optional<DType> dtype) : dtype_(dtype) {}
  template <std::derived_from<DTypeLike> T>  // np::float32
  DTypeArg(const T& dtype) : dtype_(static_cast<DType>(dtype)) {}
  // Throws InvalidArgument for an unknown name.
  template <std::convertible_to<std::string_view> Name>
  DTypeArg(const Name& name) : dtype_(DTypeLike(name)) {}

  const std::optional<DType>& get() const { return dtype_; }

 private:
  std::optional<DType> dtype_;
};

}  // namespace lockstep::keras
