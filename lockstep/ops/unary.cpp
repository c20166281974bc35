// Activations that plain operations compute in several passes.
#include <map>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kUnaryGrain = 32768;  // elements for which a thread is worth waking

class UnaryComposite : public Composite {
 public:
  explicit UnaryComposite(Unary kind) : kind_(kind) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    at::Tensor y = at::empty_like(x);
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel_for(0, x.numel(), kUnaryGrain, [&](std::int64_t begin, std::int64_t end) {
      row_kernels().unary(kind_, end - begin, from + begin, to + begin);
    });
    return {{y}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), dy = dys[0].contiguous();
    at::Tensor dx = at::empty_like(x);
    const float *const from = x.const_data_ptr<float>(), *const d = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, x.numel(), kUnaryGrain, [&](std::int64_t begin, std::int64_t end) {
      row_kernels().unary_gradient(kind_, end - begin, from + begin, d + begin, to + begin);
    });
    return {dx};
  }
  Values plain(const Values& inputs) const override {
    const at::Tensor& x = inputs[0];
    const auto hard = [&] { return at::hardtanh(x + 3.0, 0, 6) / 6.0; };
    switch (kind_) {
      case Unary::kGelu: return {x * 0.5 * (at::erf(x / 1.4142135623730951) + 1.0)};
      case Unary::kGeluTanh: return {x * 0.5 * (at::tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1.0)};
      case Unary::kSilu: return {x * at::sigmoid(x)};
      case Unary::kRelu6: return {at::hardtanh(x, 0, 6)};
      case Unary::kHardSigmoid: return {hard()};
      case Unary::kHardSilu: return {x * hard()};
    }
    return {x};
  }

 private:
  Unary kind_;
};

}  // namespace

std::optional<Tensor> try_unary(std::string_view name, const Tensor& x) {
  static const std::map<std::string_view, Unary> known = {
      {"gelu", Unary::kGelu},   {"gelu_tanh", Unary::kGeluTanh},       {"silu", Unary::kSilu},
      {"relu6", Unary::kRelu6}, {"hard_sigmoid", Unary::kHardSigmoid}, {"hard_silu", Unary::kHardSilu}};
  if (!x.is_value() || x.dtype() != DType::kFloat32 || !aten(x).is_cpu()) return std::nullopt;
  return wrap(run(std::make_shared<UnaryComposite>(known.at(name)), {aten(x)})[0]);
}

}  // namespace lockstep::ops
