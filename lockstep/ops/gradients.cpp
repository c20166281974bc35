#include "lockstep/ops/gradients_internal.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
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
  static at::Tensor gradient(const at::Tensor& y, const at::Tensor& dy) { return dy * 0.5 / y; }
};
struct Rsqrt {
  static at::Tensor value(const at::Tensor& x) { return at::rsqrt(x); }
  static at::Tensor gradient(const at::Tensor& y, const at::Tensor& dy) { return dy * -0.5 * (y * y * y); }
};
struct Reciprocal {
  static at::Tensor value(const at::Tensor& x) { return at::reciprocal(x); }
  static at::Tensor gradient(const at::Tensor& y, const at::Tensor& dy) { return -(dy * (y * y)); }
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

struct LogitsLossNode : torch::autograd::Function<LogitsLossNode> {
  static variable_list forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& labels,
                               const at::Tensor& loss, const at::Tensor& backprop) {
    context->save_for_backward({backprop, logits, labels});
    at::Tensor second = backprop.alias();
    context->mark_non_differentiable({second});
    return {loss, second};
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto saved = context->get_saved_variables();
    at::Tensor to_logits, to_labels;
    if (dy[0].defined()) {
      const at::Tensor weight = dy[0].unsqueeze(-1);
      if (at::GradMode::is_enabled()) {
        // A gradient of the gradient needs the softmax as a function of the logits.
        const at::Tensor y = saved[2].dim() == 2 ? saved[2] : at::one_hot(saved[2].to(at::kLong), saved[1].size(1));
        to_logits = weight * (at::softmax(saved[1], -1) - y.to(saved[1].scalar_type()));
      } else {
        to_logits = weight * saved[0];
      }
      if (context->needs_input_grad(1)) to_labels = -weight * at::log_softmax(saved[1], -1);
    }
    return {to_logits, to_labels, at::Tensor(), at::Tensor()};
  }
};

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

CrossEntropy tie(const at::Tensor& logits, const at::Tensor& labels, CrossEntropy values) {
  if (!at::GradMode::is_enabled() || !(logits.requires_grad() || labels.requires_grad())) return values;
  const auto out = LogitsLossNode::apply(logits, labels, values.loss, values.backprop);
  return {out[0], out[1]};
}

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

CrossEntropy softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const auto y_and_x = at::broadcast_tensors({labels, logits});
  at::Tensor loss, backprop;
  {
    at::NoGradGuard guard;
    const at::Tensor log_p = at::log_softmax(y_and_x[1], -1);
    loss = -(y_and_x[0] * log_p).sum(-1);
    backprop = log_p.exp() - y_and_x[0];
  }
  return tie(y_and_x[1], y_and_x[0], {loss, backprop});
}

CrossEntropy sparse_softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const std::int64_t classes = logits.size(-1);
  at::Tensor loss, backprop;
  {
    at::NoGradGuard guard;
    const at::Tensor index = labels.to(at::kLong).contiguous();
    const auto* data = index.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < index.numel(); ++i) {
      if (data[i] < 0 || data[i] >= classes) {
        throw_invalid_argument(fmt::format("label {} at row {} is outside the {} classes: valid labels are [0, {})",
                                           data[i], i, classes, classes));
      }
    }
    const at::Tensor log_p = at::log_softmax(logits, -1).contiguous();
    backprop = log_p.exp();
    loss = at::empty({index.numel()}, log_p.options());
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, log_p.scalar_type(), "sparse_softmax_cross_entropy", [&] {
      const auto* const from = log_p.const_data_ptr<scalar_t>();
      auto* const to = loss.mutable_data_ptr<scalar_t>();
      auto* const gradient = backprop.mutable_data_ptr<scalar_t>();
      for (std::int64_t i = 0; i < index.numel(); ++i) {
        const std::int64_t at = i * classes + data[i];
        to[i] = -from[at];
        gradient[at] -= scalar_t(1);
      }
    });
  }
  return tie(logits, labels, {loss, backprop});
}

}  // namespace lockstep::ops
