// tf.custom_gradient: functions whose gradient is written by hand.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "lockstep/base/require_function.h"
#include "lockstep/ops/control_flow.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {
namespace internal {

// The results of a function and what turns their gradients into those of the arguments, as structures.
struct WithGradient {
  Nested<Tensor> results;
  ops::internal::StructureFunction gradient;
};
Nested<Tensor> call_with_gradient(const Tensors& arguments,
                                  const std::function<WithGradient(const Tensors& arguments)>& function);

template <typename Fn, typename... Arguments>
auto call_custom_gradient(Fn& function, const Arguments&... arguments) {
  using Made = std::invoke_result_t<Fn&, const Arguments&...>;
  static_assert(
      requires(Made made) {
        Nested<Tensor>(made.first);
        made.second;
      },
      "custom_gradient(fn): fn must return a pair of its result, a tensor or several, and a function of the gradient "
      "of "
      "each, (const Tensor& dy), which returns the gradient of each argument");
  const auto call = [&]<std::size_t... I>(const Tensors& given, std::index_sequence<I...>) {
    Made made = function(given[I]...);
    return WithGradient{made.first, ops::internal::of_parts(std::move(made.second))};
  };
  const auto results = call_with_gradient({arguments...}, [&](const Tensors& given) {
    return call(given, std::make_index_sequence<sizeof...(Arguments)>());
  });
  if constexpr (std::is_convertible_v<typename Made::first_type, Tensor>) {
    return results.leaf();
  } else {
    return results;
  }
}

}  // namespace internal

// A function of tensors, built from a function that returns its result, or a pair or list of results, and the function
// that turns the gradient of each result into the gradient of each argument:
//
//   const auto clip_gradients = custom_gradient([](const Tensor& x) {
//     return std::pair(x, [](const Tensor& dy) { return ops::clip_by_norm(dy, 0.5); });
//   });
//   const auto product = custom_gradient([](const Tensor& x, const Tensor& y) {
//     return std::pair(x * y, [=](const Tensor& dy) { return std::pair(dy * y, dy * x); });
//   });
//
// The gradient of a result that nothing depends on is zeros. The result has no gradient with respect to anything else
// that the function uses. Second derivatives are those of the gradient function, as in TensorFlow.
template <typename Fn>
class CustomGradient {
 public:
  explicit CustomGradient(Fn function) : function_(std::move(function)) {}
  // Of one argument, which may be written in braces.
  auto operator()(const Tensor& x) const requires std::is_invocable_v<Fn&, const Tensor&> {
    return internal::call_custom_gradient(function_, x);
  }
  template <std::convertible_to<Tensor>... X>
  requires(sizeof...(X) > 1) auto operator()(const X&... arguments) const {
    return internal::call_custom_gradient(function_, static_cast<Tensor>(arguments)...);
  }

 private:
  mutable Fn function_;
};

template <typename Fn>
CustomGradient<Fn> custom_gradient(Fn function) {
  require_function(function, "custom_gradient");
  return CustomGradient<Fn>(std::move(function));
}

}  // namespace lockstep
