#include "lockstep/ops/custom_gradient.h"

#include "lockstep/ops/autograd_internal.h"

namespace lockstep {
namespace {

class PausedGradients {
 public:
  PausedGradients() { ops::set_grad_enabled(false); }
  ~PausedGradients() { ops::set_grad_enabled(before_); }
  PausedGradients(const PausedGradients&) = delete;
  PausedGradients& operator=(const PausedGradients&) = delete;

 private:
  bool before_ = ops::grad_enabled();
};

}  // namespace

Tensor call_with_gradient(const Tensor& x,
                          const std::function<std::pair<Tensor, GradientFunction>(const Tensor&)>& function) {
  if (x.is_symbolic() || !ops::grad_enabled() || !ops::requires_grad(x)) return function(x).first;
  std::pair<Tensor, GradientFunction> result;
  {
    const PausedGradients paused;
    result = function(ops::detach(x));
  }
  return ops::with_adjoint(x, result.first, std::move(result.second));
}

}  // namespace lockstep
