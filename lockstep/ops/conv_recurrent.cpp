// ConvLSTM over all its steps as one operation.
#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/conv_direct_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/lstm_cell_internal.h"
#include "lockstep/ops/lstm_values_internal.h"

namespace lockstep::ops {
namespace {

// Inputs: the input's part of the gates [batch, steps, h, w, 4 · units], the recurrent kernel [kh, kw, units,
// 4 · units], and the states [batch, h, w, units], undefined: zeros. Outputs: h of all steps [batch, steps, …] in the
// order of computing, or of the last one; and both states.
class ConvLstm : public Composite {
 public:
  ConvLstm(LstmActivations activations, ConvWindow window, bool sequences, bool backwards)
      : activations_(activations), window_(std::move(window)), sequences_(sequences), backwards_(backwards) {}

  Made forward(const Values& inputs, bool keep) const override {
    const at::Tensor x = inputs[0].contiguous(), kernel = inputs[1].contiguous();
    const std::int64_t steps = x.size(1), units = kernel.size(2);
    std::vector<std::int64_t> shape = {steps + 1, x.size(0), x.size(2), x.size(3), units};
    // States before each step, and after the last one.
    const at::Tensor hs = at::empty(shape, x.options()), cs = at::empty(shape, x.options());
    set_state(hs, inputs[2]), set_state(cs, inputs[3]);
    shape[0] = keep ? steps : 1, shape.back() = 4 * units;
    const at::Tensor gates = at::empty(shape, x.options());
    for (std::int64_t i = 0; i < steps; ++i) {
      const bool zero = i == 0 && !inputs[2].defined();
      const at::Tensor z =
          zero ? at::zeros(gates[0].sizes(), x.options()) : direct_forward(hs[i], kernel, at::Tensor(), false, window_);
      lstm_forward(activations_, x.select(1, time_of(i, steps)), z, cs[i], hs[i + 1], cs[i + 1],
                   keep ? gates[i] : at::Tensor());
    }
    const at::Tensor last = hs[steps].clone();
    Made made{{sequences_ ? hs.narrow(0, 1, steps).transpose(0, 1).contiguous() : last, last, cs[steps].clone()}, {}};
    if (keep) made.kept = {hs, cs, gates};
    return made;
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor kernel = recorded.inputs[1].contiguous();
    const at::Tensor &hs = recorded.kept[0], &cs = recorded.kept[1], &gates = recorded.kept[2];
    const std::int64_t steps = gates.size(0);
    const bool zero = !recorded.inputs[2].defined();
    const at::Tensor d_z = at::empty(gates.sizes(), gates.options());
    at::Tensor d_h = dys[1], d_c = dys[2];
    if (!sequences_ && dys[0].defined()) d_h = d_h.defined() ? d_h + dys[0] : dys[0];
    for (std::int64_t i = steps; i-- > 0;) {
      if (sequences_ && dys[0].defined()) {
        const at::Tensor of_step = dys[0].select(1, i);
        d_h = d_h.defined() ? d_h + of_step : of_step;
      }
      const at::Tensor before = at::empty(cs[i].sizes(), cs.options());
      lstm_backward(activations_, gates[i], cs[i], cs[i + 1], d_h, d_c, d_z[i], before);
      d_c = before;
      if (i > 0 || (!zero && recorded.wanted[2]))
        d_h = direct_backward(hs[i], kernel, at::Tensor(), d_z[i], window_, nullptr, {.images = true}).images;
    }
    Values gradients(4);
    if (recorded.wanted[0]) gradients[0] = (backwards_ ? d_z.flip(0) : d_z).transpose(0, 1);
    if (recorded.wanted[1]) {
      const std::int64_t first = zero ? 1 : 0, count = steps - first;
      const auto images = [&](const at::Tensor& x) { return x.narrow(0, first, count).flatten(0, 1); };
      gradients[1] = count == 0 ? at::zeros(kernel.sizes(), kernel.options())
                                : direct_backward(images(hs), kernel, at::Tensor(), images(d_z), window_, nullptr,
                                                  {.kernel = true})
                                      .kernel;
    }
    if (recorded.wanted[2]) gradients[2] = d_h;
    if (recorded.wanted[3]) gradients[3] = d_c;
    return gradients;
  }

  Values plain(const Values& inputs) const override {
    const std::int64_t steps = inputs[0].size(1), units = inputs[1].size(2);
    const at::Tensor zeros = at::zeros_like(inputs[0].select(1, 0).narrow(-1, 0, units));
    at::Tensor h = inputs[2].defined() ? inputs[2] : zeros, c = inputs[3].defined() ? inputs[3] : zeros;
    Values all;
    for (std::int64_t i = 0; i < steps; ++i) {
      const at::Tensor z = image_out(convolve(image_in(h, false), kernel_in(inputs[1]), std::nullopt, window_), false);
      const Values next = lstm_plain(activations_, inputs[0].select(1, time_of(i, steps)), z, c);
      h = next[0], c = next[1];
      all.push_back(h);
    }
    return {sequences_ ? at::stack(all, 1) : h, h, c};
  }

 private:
  std::int64_t time_of(std::int64_t i, std::int64_t steps) const { return backwards_ ? steps - 1 - i : i; }
  static void set_state(const at::Tensor& all, const at::Tensor& state) {
    if (state.defined()) {
      all[0].copy_(state);
    } else {
      all[0].zero_();
    }
  }

  LstmActivations activations_;
  ConvWindow window_;
  bool sequences_, backwards_;
};

bool is_value_of(const Tensor& x, const std::vector<std::int64_t>& dims) {
  return x.is_value() && x.dtype() == DType::kFloat32 && aten(x).is_cpu() && x.shape().dims() == dims;
}

}  // namespace

std::optional<ConvLstmResult> try_conv_lstm(const Tensor& projected, const Tensor& kernel, const Tensor& h,
                                            const Tensor& c, const ConvLstmOptions& options) {
  if (!projected.is_value() || projected.rank() != 5 || !kernel.is_value() || kernel.rank() != 4) return std::nullopt;
  const std::int64_t units = kernel.dim(2), height = projected.dim(2), width = projected.dim(3);
  const auto activations = lstm_activations(options.activation, options.recurrent_activation);
  if (!activations || !is_value_of(projected, {projected.dim(0), projected.dim(1), height, width, 4 * units}) ||
      !is_value_of(kernel, {kernel.dim(0), kernel.dim(1), units, 4 * units}) || projected.shape().num_elements() == 0)
    return std::nullopt;
  for (const Tensor* state : {&h, &c}) {
    if (state->defined() && !is_value_of(*state, {projected.dim(0), height, width, units})) return std::nullopt;
  }
  ConvWindow w;
  w.strides = w.dilations = {1, 1};
  w.kernel = {kernel.dim(0), kernel.dim(1)};
  w.input = w.output = {height, width};
  for (const std::int64_t size : w.kernel) w.before.push_back((size - 1) / 2), w.after.push_back(size / 2);
  if (!is_direct(aten(kernel), w) || !has_direct_adjoint(aten(kernel), w)) return std::nullopt;
  const auto value = [](const Tensor& x) { return x.defined() ? aten(x) : at::Tensor(); };
  Values made = run(std::make_shared<ConvLstm>(*activations, std::move(w), options.sequences, options.backwards),
                    {aten(projected), aten(kernel), value(h), value(c)});
  return ConvLstmResult{wrap(std::move(made[0])), wrap(std::move(made[1])), wrap(std::move(made[2]))};
}

}  // namespace lockstep::ops
