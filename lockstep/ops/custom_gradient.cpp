#include "lockstep/ops/custom_gradient.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/given_gradients_internal.h"

namespace lockstep::internal {

Nested<Tensor> call_with_gradient(const Tensors& arguments,
                                  const std::function<WithGradient(const Tensors& arguments)>& function) {
  const bool symbolic =
      std::any_of(arguments.begin(), arguments.end(), [](const Tensor& x) { return x.is_symbolic(); });
  const bool differentiated = std::any_of(arguments.begin(), arguments.end(), ops::requires_grad);
  WithGradient made = function(arguments);
  if (symbolic || !ops::grad_enabled() || !differentiated) return made.results;
  Tensors outputs = made.results.flatten();
  const auto gradients = [gradient = std::move(made.gradient), outputs, count = arguments.size()](const Tensors& given,
                                                                                                  const Tensors&) {
    std::vector<Nested<Tensor>> dys;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      dys.emplace_back(given[i].defined() ? given[i] : ops::zeros_like(outputs[i]));
    Tensors slopes = gradient(dys.size() == 1 ? dys[0] : Nested<Tensor>::list(std::move(dys))).flatten();
    if (slopes.size() != count) {
      throw_invalid_argument(fmt::format(
          "custom_gradient: the function of the gradient returned {} gradients, expected one for each of {} argument{}",
          slopes.size(), count, count == 1 ? "" : "s"));
    }
    return slopes;
  };
  return made.results.pack(ops::with_gradients(arguments, outputs, {}, gradients));
}

}  // namespace lockstep::internal
