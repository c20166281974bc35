#include "lockstep/ops/custom_gradient.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::internal {
namespace {

// The gradients of `count` arguments.
Tensors slopes_of(const ops::internal::StructureFunction& gradient, const Tensors& dys, std::size_t count) {
  Tensors slopes =
      gradient(dys.size() == 1 ? Nested<Tensor>(dys[0]) : Nested<Tensor>::list({dys.begin(), dys.end()})).flatten();
  if (slopes.size() != count) {
    throw_invalid_argument(fmt::format(
        "custom_gradient: the function of the gradient returned {} gradients, expected one for each of {} argument{}",
        slopes.size(), count, count == 1 ? "" : "s"));
  }
  return slopes;
}

}  // namespace

Nested<Tensor> call_with_gradient(const Tensors& arguments,
                                  const std::function<WithGradient(const Tensors& arguments)>& function) {
  const std::size_t count = arguments.size();
  const bool differentiated = std::any_of(arguments.begin(), arguments.end(), ops::requires_grad);
  const auto symbol = std::find_if(arguments.begin(), arguments.end(), [](const Tensor& x) { return x.is_symbolic(); });
  const WithGradient made = function(arguments);
  const Tensors outputs = made.results.flatten();
  if (symbol != arguments.end()) {
    return made.results.pack(symbol->symbol_value()->recorder().record_gradient(
        outputs, arguments, [&](const Tensors& dys) { return slopes_of(made.gradient, dys, count); }));
  }
  if (!ops::grad_enabled() || !differentiated) return made.results;
  const auto gradients = [gradient = made.gradient, outputs, count](const Tensors& given, const Tensors&) {
    Tensors dys;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      dys.push_back(given[i].defined() ? given[i] : ops::zeros_like(outputs[i]));
    return slopes_of(gradient, dys, count);
  };
  return made.results.pack(ops::with_gradients(arguments, outputs, {}, gradients));
}

}  // namespace lockstep::internal

namespace lockstep::ops {

Tensors Recorder::record_gradient(const Tensors& results, const Tensors&, const Gradient&) { return results; }

}  // namespace lockstep::ops
