// Activations and sums: one pass over memory, on several threads.
#include <map>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kUnaryGrain = 32768;  // elements for which a thread is worth waking

class UnaryComposite : public Composite {
 public:
  UnaryComposite(Unary kind, double alpha) : kind_(kind), alpha_(alpha) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    at::Tensor y = at::empty_like(x);
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel_for(0, x.numel(), kUnaryGrain, [&](std::int64_t begin, std::int64_t end) {
      row_kernels().unary(kind_, static_cast<float>(alpha_), end - begin, from + begin, to + begin);
    });
    return {{y}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = (has_gradient_of_value(kind_) ? recorded.outputs : recorded.inputs)[0].contiguous(),
                     dy = dys[0].contiguous();
    at::Tensor dx = at::empty_like(x);
    const float *const from = x.const_data_ptr<float>(), *const d = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, x.numel(), kUnaryGrain, [&](std::int64_t begin, std::int64_t end) {
      row_kernels().unary_gradient(kind_, static_cast<float>(alpha_), end - begin, from + begin, d + begin, to + begin);
    });
    return {dx};
  }
  Values plain(const Values& inputs) const override { return {plain_unary(kind_, alpha_, inputs[0])}; }

 private:
  Unary kind_;
  double alpha_;
};

// loop(count, x, y, to) over two tensors of equal shapes, in pieces.
template <typename Loop>
at::Tensor pairwise(const at::Tensor& a, const at::Tensor& b, const Loop& loop) {
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  at::Tensor made = at::empty_like(left);
  const float *const x = left.const_data_ptr<float>(), *const y = right.const_data_ptr<float>();
  float* const to = made.mutable_data_ptr<float>();
  parallel_for(0, made.numel(), kUnaryGrain,
               [&](std::int64_t begin, std::int64_t end) { loop(end - begin, x + begin, y + begin, to + begin); });
  return made;
}
at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) { return pairwise(a, b, row_kernels().add); }

struct SumNode : torch::autograd::Function<SumNode> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& a, const at::Tensor& b) {
    return sum_of(a, b);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& dys) {
    return {dys[0], dys[0]};
  }
};

// a · b of equal shapes.
class ProductOf : public Composite {
 public:
  Made forward(const Values& inputs, bool) const override { return {{product(inputs[0], inputs[1])}, {}}; }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    Values gradients(2);
    for (std::size_t i = 0; i < 2; ++i) {
      if (recorded.wanted[i]) gradients[i] = product(dys[0], recorded.inputs[1 - i]);
    }
    return gradients;
  }
  Values plain(const Values& inputs) const override { return {inputs[0] * inputs[1]}; }

 private:
  static at::Tensor product(const at::Tensor& a, const at::Tensor& b) { return pairwise(a, b, row_kernels().multiply); }
};

// a · b of equal shapes, zero where b is zero even if a is not finite. b has no gradient.
class ProductNoNan : public Composite {
 public:
  Made forward(const Values& inputs, bool) const override { return {{product(inputs[0], inputs[1])}, {}}; }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    return {product(dys[0], recorded.inputs[1]), {}};
  }
  Values plain(const Values& inputs) const override {
    return {at::where(inputs[1] == 0, at::zeros({}, inputs[0].options()), inputs[0] * inputs[1])};
  }

 private:
  static at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
    return pairwise(a, b, row_kernels().multiply_no_nan);
  }
};

Unary unary_of(std::string_view name) {
  static const std::map<std::string_view, Unary> known = {
      {"gelu", Unary::kGelu},
      {"gelu_tanh", Unary::kGeluTanh},
      {"silu", Unary::kSilu},
      {"relu", Unary::kRelu},
      {"leaky_relu", Unary::kLeakyRelu},
      {"relu6", Unary::kRelu6},
      {"hard_sigmoid", Unary::kHardSigmoid},
      {"hard_silu", Unary::kHardSilu},
      {"tanh", Unary::kTanh},
      {"sigmoid", Unary::kSigmoid},
      {"elu", Unary::kElu},
      {"selu", Unary::kSelu},
  };
  return known.at(name);
}

struct Follower {
  FollowingNorm norm;
  FollowingActivation activation;
  bool waiting = false;
};
thread_local Follower t_follower;

}  // namespace

bool has_own_pair(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat && a.numel() >= kOwnElements && a.is_cpu() &&
         a.sizes() == b.sizes();
}
at::Tensor own_sum(const at::Tensor& a, const at::Tensor& b) {
  const bool recorded = at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
  return recorded ? SumNode::apply(a, b) : sum_of(a, b);
}

at::Tensor own_product(const at::Tensor& a, const at::Tensor& b) {
  return run(std::make_shared<ProductOf>(), {a, b})[0];
}

at::Tensor own_product_no_nan(const at::Tensor& a, const at::Tensor& b) {
  return run(std::make_shared<ProductNoNan>(), {a, b})[0];
}

at::Tensor plain_unary(Unary kind, double alpha, const at::Tensor& x) {
  const auto hard = [&] { return at::hardtanh(x + 3.0, 0, 6) / 6.0; };
  switch (kind) {
    case Unary::kLinear: break;
    case Unary::kGelu: return x * 0.5 * (at::erf(x / 1.4142135623730951) + 1.0);
    case Unary::kGeluTanh: return x * 0.5 * (at::tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1.0);
    case Unary::kSilu: return x * at::sigmoid(x);
    case Unary::kRelu: return at::relu(x);
    case Unary::kLeakyRelu: return at::leaky_relu(x, alpha);
    case Unary::kRelu6: return at::hardtanh(x, 0, 6);
    case Unary::kHardSigmoid: return hard();
    case Unary::kHardSilu: return x * hard();
    case Unary::kTanh: return at::tanh(x);
    case Unary::kSigmoid: return at::sigmoid(x);
    case Unary::kElu: return at::elu(x);
    case Unary::kSelu: return at::selu(x);
  }
  return x;
}

FollowingActivation take_follower() {
  if (!t_follower.waiting || t_follower.norm.mean.defined()) return {};
  t_follower.waiting = false;
  return t_follower.activation;
}
ConvFollowers take_conv_followers() {
  if (!t_follower.waiting || !t_follower.norm.mean.defined()) return {};
  t_follower.waiting = false;
  return {std::move(t_follower.norm), t_follower.activation};
}

void activate(const FollowingActivation& activation, std::int64_t count, float* values) {
  if (activation.kind == Unary::kLinear) return;
  row_kernels().unary(activation.kind, static_cast<float>(activation.alpha), count, values, values);
}

ScopedFollower::ScopedFollower(std::string_view activation, double alpha) {
  t_follower = {{}, {unary_of(activation), alpha}, true};
}
ScopedFollower::ScopedFollower(const FixedNorm& norm, std::string_view activation, double alpha) {
  const auto value = [](const Tensor& x) { return x.defined() ? aten(x) : at::Tensor(); };
  t_follower = {{value(norm.gamma), value(norm.beta), value(norm.mean), value(norm.variance), norm.epsilon},
                {activation.empty() ? Unary::kLinear : unary_of(activation), alpha},
                true};
}
ScopedFollower::~ScopedFollower() { t_follower = {}; }
bool ScopedFollower::taken() const { return !t_follower.waiting; }

std::optional<Tensor> try_unary(std::string_view name, const Tensor& x, double alpha) {
  if (!x.is_value() || x.dtype() != DType::kFloat32 || !aten(x).is_cpu()) return std::nullopt;
  return wrap(run(std::make_shared<UnaryComposite>(unary_of(name), alpha), {aten(x)})[0]);
}

}  // namespace lockstep::ops
