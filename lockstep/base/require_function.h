// A check of functions that are given as arguments.
#pragma once

#include <string>
#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep {

// Throws InvalidArgument for an empty std::function and for a null pointer: "what" requires a function. Other callables
// are never empty.
template <typename F>
void require_function(const F& function, const char* what) {
  if constexpr (std::is_pointer_v<F> || requires { function.target_type(); }) {
    if (!function) throw_invalid_argument(std::string(what) + " requires a function, found an empty one");
  }
}

}  // namespace lockstep
