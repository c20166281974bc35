#include "lockstep/ops/gradients_internal.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Sqrt {
  static at::Tensor value(const at::Tensor& x) { return at::sqrt(x); }
  static at::Tensor gradient(const at::Tensor& y, const at::Tensor& dy) { return dy * 0.5 / at::conj(y); }
};
struct Rsqrt {
  static at::Tensor value(const at::Tensor& x) { return at::rsqrt(x); }
  static at::Tensor gradient(const at::Tensor& y, const at::Tensor& dy) { return dy * -0.5 * at::conj(y * y * y); }
};
struct Reciprocal {
  static at::Tensor value(const at::Tensor& x) { return at::reciprocal(x); }
  static at::Tensor gradient(const at::Tensor& y, const at::Tensor& dy) { return -(dy * at::conj(y * y)); }
};

// A function whose gradient follows from its value, and is 0 where dy is.
template <typename F>
struct UnaryNode : torch::autograd::Function<UnaryNode<F>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    at::Tensor y = F::value(x);
    context->save_for_backward({y});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const at::Tensor y = context->get_saved_variables()[0];
    return {at::where(dy[0] == 0, at::zeros({}, y.options()), F::gradient(y, dy[0]))};
  }
};

template <typename F>
at::Tensor unary(const at::Tensor& x) {
  return x.requires_grad() && at::GradMode::is_enabled() ? UnaryNode<F>::apply(x) : F::value(x);
}

struct AdjointHolder : torch::CustomClassHolder {
  explicit AdjointHolder(std::function<Tensor(const Tensor&)> given) : adjoint(std::move(given)) {}
  std::function<Tensor(const Tensor&)> adjoint;
};

struct AdjointNode : torch::autograd::Function<AdjointNode> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor&, const at::Tensor& y,
                            const c10::intrusive_ptr<torch::CustomClassHolder>& holder) {
    context->saved_data["adjoint"] = at::IValue::make_capsule(holder);
    return y.alias();
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto holder = context->saved_data["adjoint"].toCapsule();
    const auto& adjoint = static_cast<const AdjointHolder&>(*holder).adjoint;
    return {aten(adjoint(wrap(dy[0].contiguous()))), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Tensor with_adjoint(const Tensor& x, const Tensor& y, std::function<Tensor(const Tensor&)> adjoint) {
  if (!at::GradMode::is_enabled() || !aten(x).requires_grad()) return y;
  return wrap(AdjointNode::apply(
      aten(x), aten(y).detach(),
      c10::intrusive_ptr<torch::CustomClassHolder>(c10::make_intrusive<AdjointHolder>(std::move(adjoint)))));
}

at::Tensor sqrt_like_tf(const at::Tensor& x) { return unary<Sqrt>(x); }
at::Tensor rsqrt_like_tf(const at::Tensor& x) { return unary<Rsqrt>(x); }
at::Tensor reciprocal_like_tf(const at::Tensor& x) { return unary<Reciprocal>(x); }

at::Tensor maximum_like_tf(const at::Tensor& a, const at::Tensor& b) {
  if (!at::GradMode::is_enabled() || !(a.requires_grad() || b.requires_grad())) return at::maximum(a, b);
  return at::where(at::logical_or(a >= b, at::isnan(a)), a, b);
}
at::Tensor minimum_like_tf(const at::Tensor& a, const at::Tensor& b) {
  if (!at::GradMode::is_enabled() || !(a.requires_grad() || b.requires_grad())) return at::minimum(a, b);
  return at::where(at::logical_or(a <= b, at::isnan(a)), a, b);
}

}  // namespace lockstep::ops
