// tf.custom_gradient: functions whose gradient is written by hand.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "lockstep/base/require_function.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// A function of one tensor, built from a function that returns its result and the function that turns the gradient of
// the result into that of the argument:
//
//   const auto clip_gradients = custom_gradient([](const Tensor& x) {
//     return std::pair(x, [](const Tensor& dy) { return ops::clip_by_norm(dy, 0.5); });
//   });
//
// The result has no gradient with respect to anything else that the function uses, and no second derivative.
using GradientFunction = std::function<Tensor(const Tensor& dy)>;
Tensor call_with_gradient(const Tensor& x,
                          const std::function<std::pair<Tensor, GradientFunction>(const Tensor&)>& function);

template <typename Fn>
auto custom_gradient(Fn function) {
  static_assert(std::is_invocable_r_v<std::pair<Tensor, GradientFunction>, Fn&, const Tensor&>,
                "custom_gradient(fn): fn must take a const Tensor& and return a pair of the result and a function of "
                "its gradient, (const Tensor& dy)");
  require_function(function, "custom_gradient");
  return [function = std::move(function)](const Tensor& x) { return call_with_gradient(x, function); };
}

}  // namespace lockstep
