#include "lockstep/ops/gradients_internal.h"

#include <algorithm>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Sqrt {
  static at::Tensor value(const at::Tensor& x) { return at::sqrt(x); }
  static at::Tensor gradient(const at::Tensor& y, const at::Tensor& dy) { return dy * half_of_inverse(y); }
};
struct Rsqrt {
  static at::Tensor value(const at::Tensor& x) { return at::rsqrt(x); }
  static at::Tensor gradient(const at::Tensor& y, const at::Tensor& dy) {
    const at::Tensor root = at::conj(y);  // its third power may be beyond the type
    return dy * root * -0.5 * (root * root);
  }
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
    return {zero_where_dy_is(dy[0], F::gradient(y, dy[0]))};
  }
};

template <typename F>
at::Tensor unary(const at::Tensor& x) {
  return x.requires_grad() && at::GradMode::is_enabled() ? UnaryNode<F>::apply(x) : F::value(x);
}

// The state of a node with given gradients, without its dense captures.
struct GivenGradients : torch::CustomClassHolder {
  GradientsOf gradients;
  std::size_t num_outputs = 0;
  std::vector<std::size_t> inputs, outputs, captures;  // places of those that autograd knows
  Tensors captured;
};

bool in_autograd(const Tensor& x) {
  return x.defined() && x.is_value() && (is_floating(x.dtype()) || is_complex(x.dtype()));
}

struct GivenNode : torch::autograd::Function<GivenNode> {
  static variable_list forward(AutogradContext* context, at::TensorList, at::TensorList outputs,
                               at::TensorList captured, const c10::intrusive_ptr<GivenGradients>& given) {
    context->save_for_backward(captured.vec());
    context->saved_data["given"] = at::IValue::make_capsule(given);
    context->set_materialize_grads(false);
    variable_list results;
    for (const at::Tensor& output : outputs) results.push_back(output.alias());
    return results;
  }
  static variable_list backward(AutogradContext* context, const variable_list& dys) {
    const auto given = c10::static_intrusive_pointer_cast<GivenGradients>(context->saved_data["given"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    Tensors slopes(given->num_outputs), captured = given->captured;
    for (std::size_t i = 0; i < dys.size(); ++i) {
      if (dys[i].defined()) slopes[given->outputs[i]] = wrap(dys[i].contiguous());
    }
    for (std::size_t i = 0; i < saved.size(); ++i) captured[given->captures[i]] = wrap(saved[i]);
    variable_list gradients;
    if (std::none_of(dys.begin(), dys.end(), [](const at::Tensor& dy) { return dy.defined(); })) {
      gradients.resize(given->inputs.size() + dys.size() + saved.size() + 1);
      return gradients;
    }
    const Tensors found = given->gradients(slopes, captured);
    for (const std::size_t i : given->inputs)
      gradients.push_back(found.at(i).defined() ? aten(found[i]) : at::Tensor());
    gradients.resize(gradients.size() + dys.size() + saved.size() + 1);
    return gradients;
  }
};

}  // namespace

Tensors with_gradients(const Tensors& inputs, const Tensors& outputs, const Tensors& captured, GradientsOf gradients) {
  const auto given = c10::make_intrusive<GivenGradients>();
  given->gradients = std::move(gradients);
  given->num_outputs = outputs.size();
  variable_list in, out, kept;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !requires_grad(inputs[i])) continue;
    given->inputs.push_back(i);
    in.push_back(aten(inputs[i]));
  }
  Tensors results = outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!in_autograd(outputs[i])) continue;
    given->outputs.push_back(i);
    out.push_back(aten(outputs[i]).detach());
    results[i] = wrap(out.back());
  }
  if (in.empty() || out.empty() || !at::GradMode::is_enabled()) return results;
  given->captured = captured;
  for (std::size_t i = 0; i < captured.size(); ++i) {
    if (!in_autograd(captured[i])) continue;
    given->captures.push_back(i);
    kept.push_back(aten(captured[i]));
    given->captured[i] = Tensor();
  }
  const variable_list made = GivenNode::apply(at::TensorList(in), at::TensorList(out), at::TensorList(kept), given);
  for (std::size_t i = 0; i < made.size(); ++i) results[given->outputs[i]] = wrap(made[i]);
  return results;
}

Tensor with_adjoint(const Tensor& x, const Tensor& y, std::function<Tensor(const Tensor&)> adjoint) {
  return with_gradients({x}, {y}, {}, [adjoint = std::move(adjoint)](const Tensors& dys, const Tensors&) {
    return Tensors{adjoint(dys[0])};
  })[0];
}

at::Tensor sqrt_like_tf(const at::Tensor& x) { return unary<Sqrt>(x); }
at::Tensor zero_where_dy_is(const at::Tensor& dy, const at::Tensor& dx) {
  return at::where(dy.detach() == 0, at::zeros({}, dx.options()), dx);
}
at::Tensor below_zero_slope(const at::Tensor& dy, const at::Tensor& y, double shift, double scale) {
  const at::Tensor below = y.detach() < 0, zero = at::zeros({}, dy.options());
  if (!at::GradMode::is_enabled() || !(dy.requires_grad() || y.requires_grad()))
    return at::where(below, dy * (y + shift), dy * scale);
  return at::where(below, at::where(below, dy, zero) * (at::where(below, y, zero) + shift), dy * scale);
}
at::Tensor half_of_inverse(const at::Tensor& y) { return at::full({}, 0.5, y.options()) / at::conj(y); }
at::Tensor rsqrt_like_tf(const at::Tensor& x) { return unary<Rsqrt>(x); }
at::Tensor reciprocal_like_tf(const at::Tensor& x) { return unary<Reciprocal>(x); }

namespace {

// f(a, b), where the gradients of both are those that `partials` makes of a, b and dy.
using Pair = std::pair<at::Tensor, at::Tensor>;
using Partials = Pair (*)(const at::Tensor& a, const at::Tensor& b, const at::Tensor& dy);
at::Tensor with_partials(const at::Tensor& a, const at::Tensor& b,
                         at::Tensor (*f)(const at::Tensor&, const at::Tensor&), Partials partials) {
  if (!at::GradMode::is_enabled() || !(a.requires_grad() || b.requires_grad())) return f(a, b);
  const auto both = at::broadcast_tensors({a, b});
  const Tensors inputs{wrap(both[0]), wrap(both[1])};
  const auto gradients = [partials](const Tensors& dys, const Tensors& captured) {
    const auto [da, db] = partials(dense(captured[0]), dense(captured[1]), dense(dys[0]));
    return Tensors{wrap(da), wrap(db)};
  };
  return dense(with_gradients(inputs, {wrap(f(a.detach(), b.detach()))}, inputs, gradients)[0]);
}

at::Tensor zero_where(const at::Tensor& zero, const at::Tensor& y) {
  return at::where(zero, at::zeros({}, y.options()), y);
}
at::Tensor one_where(const at::Tensor& zero, const at::Tensor& y) {
  return at::where(zero, at::ones({}, y.options()), y);
}
// 1 where x is not zero.
at::Tensor not_zero(const at::Tensor& x) { return x.detach().ne(0).to(x.scalar_type()); }

}  // namespace

at::Tensor conjugate_gradient(const at::Tensor& x) {
  if (!at::isComplexType(x.scalar_type()) || !x.requires_grad() || !at::GradMode::is_enabled()) return x;
  return dense(with_adjoint(wrap(x), wrap(x.detach()),
                            [](const Tensor& dy) { return wrap(at::conj(dense(dy)).resolve_conj()); }));
}

at::Tensor multiply_no_nan_like_tf(const at::Tensor& a, const at::Tensor& b) {
  return with_partials(
      a, b, [](const at::Tensor& x, const at::Tensor& y) { return zero_where(y == 0, x * y); },
      [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& dy) {
        return Pair{multiply_no_nan_like_tf(dy, y), multiply_no_nan_like_tf(x, dy)};
      });
}
at::Tensor x_divided_y_like_tf(const at::Tensor& a, const at::Tensor& b) {
  return with_partials(
      a, b, [](const at::Tensor& x, const at::Tensor& y) { return zero_where(x == 0, x / one_where(x == 0, y)); },
      [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& dy) {
        return Pair{x_divided_y_like_tf(not_zero(x), y) * dy, x_divided_y_like_tf(-x, y * y) * dy};
      });
}
at::Tensor x_log_y_like_tf(const at::Tensor& a, const at::Tensor& b) {
  return with_partials(
      a, b,
      [](const at::Tensor& x, const at::Tensor& y) { return zero_where(x == 0, x * at::log(one_where(x == 0, y))); },
      [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& dy) {
        return Pair{x_log_y_like_tf(not_zero(x), y) * dy, x_divided_y_like_tf(x, y) * dy};
      });
}
at::Tensor x_log1p_y_like_tf(const at::Tensor& a, const at::Tensor& b) {
  return with_partials(
      a, b,
      [](const at::Tensor& x, const at::Tensor& y) { return zero_where(x == 0, x * at::log1p(zero_where(x == 0, y))); },
      [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& dy) {
        return Pair{x_log1p_y_like_tf(not_zero(x), y) * dy, x_divided_y_like_tf(x, y + 1) * dy};
      });
}
at::Tensor atan2_like_tf(const at::Tensor& a, const at::Tensor& b) {
  return with_partials(
      a, b, [](const at::Tensor& y, const at::Tensor& x) { return at::atan2(y, x); },
      [](const at::Tensor& y, const at::Tensor& x, const at::Tensor& dy) {
        const at::Tensor scaled = dy / (y * y + x * x);
        return Pair{x * scaled, -y * scaled};
      });
}
// The logarithm of a base that is not above zero counts as zero.
at::Tensor power_like_tf(const at::Tensor& a, const at::Tensor& b) {
  return with_partials(
      a, b, [](const at::Tensor& x, const at::Tensor& y) { return at::pow(x, y); },
      [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& dy) {
        const bool is_complex = at::isComplexType(x.scalar_type());
        const at::Tensor cx = is_complex ? at::conj(x) : x, cy = is_complex ? at::conj(y) : y;
        const at::Tensor outside = is_complex ? x.detach() == 0 : (x.detach() > 0).logical_not();  // NaN too
        return Pair{dy * cy * at::pow(cx, cy - 1), dy * at::pow(cx, cy) * at::log(one_where(outside, cx))};
      });
}

namespace {

// The gradient of `value` goes to a where `first` holds, else to b: to b too where a is NaN, as in TensorFlow.
at::Tensor chosen(const at::Tensor& a, const at::Tensor& b, const at::Tensor& first, const at::Tensor& value) {
  return dense(with_adjoint(wrap(at::where(first, a, b)), wrap(value), [](const Tensor& dy) { return dy; }));
}

}  // namespace

at::Tensor maximum_like_tf(const at::Tensor& a, const at::Tensor& b) {
  if (!at::GradMode::is_enabled() || !(a.requires_grad() || b.requires_grad())) return at::maximum(a, b);
  return chosen(a, b, a >= b, at::maximum(a.detach(), b.detach()));
}
at::Tensor minimum_like_tf(const at::Tensor& a, const at::Tensor& b) {
  if (!at::GradMode::is_enabled() || !(a.requires_grad() || b.requires_grad())) return at::minimum(a, b);
  return chosen(a, b, a <= b, at::minimum(a.detach(), b.detach()));
}

}  // namespace lockstep::ops
