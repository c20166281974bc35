// Recurrent cells as one operation, as older models have them: LSTMBlockCell, BlockLSTM, GRUBlockCell.
#include <algorithm>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

// What all steps of an LSTM share.
struct LstmBlock {
  at::Tensor w, wci, wcf, wco, b;  // the kernel [inputs + units, 4 units]; peepholes [units]; bias [4 units]
  std::int64_t units = 0;
  double forget_bias = 0, clip = 0;
  bool peephole = false;
  bool forget_second = false;  // gates in the order i, f, c, o instead of i, c, f, o
};

struct LstmStep {
  at::Tensor i, cs, f, o, ci, co, h;
};

LstmStep run_step(const LstmBlock& block, const at::Tensor& x, const at::Tensor& cs_before,
                  const at::Tensor& h_before) {
  const at::Tensor gates = at::addmm(block.b, at::cat({x, h_before}, 1), block.w);
  const auto gate = [&](std::int64_t k) { return gates.slice(1, k * block.units, (k + 1) * block.units); };
  at::Tensor to_i = gate(0), to_f = gate(block.forget_second ? 1 : 2) + block.forget_bias, to_o = gate(3);
  if (block.peephole) {
    to_i = to_i + cs_before * block.wci;
    to_f = to_f + cs_before * block.wcf;
  }
  LstmStep step;
  step.i = at::sigmoid(to_i);
  step.f = at::sigmoid(to_f);
  step.ci = at::tanh(gate(block.forget_second ? 2 : 1));
  step.cs = step.ci * step.i + cs_before * step.f;
  if (block.clip > 0) step.cs = at::clamp(step.cs, -block.clip, block.clip);
  if (block.peephole) to_o = to_o + step.cs * block.wco;
  step.o = at::sigmoid(to_o);
  step.co = at::tanh(step.cs);
  step.h = step.co * step.o;
  return step;
}

// Inputs number `first` and following: cs_prev, h_prev, w, wci, wcf, wco, b.
LstmBlock block_in(const Call& call, int first, std::int64_t inputs, std::int64_t batch) {
  LstmBlock block;
  block.w = in(call, first + 2), block.b = in(call, first + 6);
  block.wci = in(call, first + 3), block.wcf = in(call, first + 4), block.wco = in(call, first + 5);
  block.units = in(call, first).dim() == 2 ? in(call, first).size(1) : 0;
  const auto expect = [&](int input, const Ints& shape) {
    if (in(call, input).sizes() != at::IntArrayRef(shape)) {
      throw_invalid_argument(fmt::format("invalid {}: found shape {}, expected {}",
                                         call.signature().inputs[static_cast<std::size_t>(input)].name,
                                         call.input(input).shape().to_string(), Shape(shape).to_string()));
    }
  };
  expect(first, {batch, block.units});
  expect(first + 1, {batch, block.units});
  expect(first + 2, {inputs + block.units, 4 * block.units});
  expect(first + 6, {4 * block.units});
  if (const float* bias = call.find_attr<float>("forget_bias")) block.forget_bias = static_cast<double>(*bias);
  block.clip = static_cast<double>(call.attr<float>("cell_clip"));
  block.peephole = call.attr<bool>("use_peephole");
  if (block.peephole) {
    for (int k = 3; k <= 5; ++k) expect(first + k, {block.units});
  }
  return block;
}

Tensors lstm_block_cell(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const LstmStep s = run_step(block_in(call, 1, x.size(1), x.size(0)), x, in(call, 1), in(call, 2));
  return {wrap(s.i), wrap(s.cs), wrap(s.f), wrap(s.o), wrap(s.ci), wrap(s.co), wrap(s.h)};
}

// All steps of a sequence [time, batch, inputs]; rows of steps from seq_len_max on are 0.
Tensors run_block_lstm(const Call& call) {
  const at::Tensor& x = in(call, 1);
  const std::int64_t time = x.size(0), last = int_in(call, 0);
  if (last < 0 || last > time)
    throw_invalid_argument(fmt::format("invalid seq_len_max: found {}, expected 0 to {}", last, time));
  LstmBlock block = block_in(call, 2, x.size(2), x.size(1));
  block.forget_second = call.name() == "BlockLSTMV2";
  at::Tensor cs = in(call, 2), h = in(call, 3);
  std::vector<at::Tensor> parts[7];
  for (std::int64_t t = 0; t < last; ++t) {
    const LstmStep s = run_step(block, x.select(0, t), cs, h);
    cs = s.cs, h = s.h;
    const at::Tensor* const made[] = {&s.i, &s.cs, &s.f, &s.o, &s.ci, &s.co, &s.h};
    for (int k = 0; k < 7; ++k) parts[k].push_back(*made[k]);
  }
  const at::Tensor rest = at::zeros({time - last, x.size(1), block.units}, x.options());
  Tensors out;
  for (const std::vector<at::Tensor>& part : parts)
    out.push_back(wrap(part.empty() ? rest : at::cat({at::stack(part), rest})));
  return out;
}

// TensorFlow's gradient of both versions is BlockLSTMGrad, which knows no clipping, takes slopes of cs and h only and
// has the gates in the order of the first version.
Tensors block_lstm(const Call& call) {
  const Tensors inputs(call.inputs().begin(), call.inputs().end());
  if (!grad_enabled() || std::none_of(inputs.begin(), inputs.end(), requires_grad)) return run_block_lstm(call);
  Tensors outputs;
  {
    const GradientsOff off;
    outputs = run_block_lstm(call);
  }
  Tensors captured = inputs;
  captured.insert(captured.end(), outputs.begin(), outputs.end());
  return with_gradients(inputs, outputs, captured,
                        [peephole = call.attr<bool>("use_peephole")](const Tensors& dys, const Tensors& known) {
                          if (!dys[1].defined() && !dys[6].defined()) return Tensors(9);
                          Tensors given = known;
                          for (const std::size_t i : {1U, 6U}) {
                            const Tensor& h = known.back();
                            given.push_back(dys[i].defined() ? dys[i] : Tensor::zeros(h.shape(), h.dtype()));
                          }
                          Tensors slopes = ops::call("BlockLSTMGrad", given, {{"use_peephole", peephole}});
                          slopes.insert(slopes.begin(), Tensor());
                          return slopes;
                        });
}

Tensors gru_block_cell(const Call& call) {
  const at::Tensor &x = in(call, 0), &before = in(call, 1);
  const std::int64_t units = before.size(1);
  if (before.size(0) != x.size(0)) throw_invalid_argument("x and h_prev differ in their rows");
  const Ints expected[] = {{x.size(1) + units, 2 * units}, {x.size(1) + units, units}, {2 * units}, {units}};
  for (int k = 0; k < 4; ++k) {
    if (in(call, 2 + k).sizes() != at::IntArrayRef(expected[k])) {
      throw_invalid_argument(fmt::format("invalid {}: found shape {}, expected {}",
                                         call.signature().inputs[static_cast<std::size_t>(2 + k)].name,
                                         call.input(2 + k).shape().to_string(), Shape(expected[k]).to_string()));
    }
  }
  const at::Tensor both = at::sigmoid(at::addmm(in(call, 4), at::cat({x, before}, 1), in(call, 2)));
  const at::Tensor r = both.slice(1, 0, units), u = both.slice(1, units);
  const at::Tensor c = at::tanh(at::addmm(in(call, 5), at::cat({x, before * r}, 1), in(call, 3)));
  return {wrap(r.contiguous()), wrap(u.contiguous()), wrap(c), wrap(u * before + (1 - u) * c)};
}

// ---- gradients, from what the forward operations returned ----------------------------------------------------------
struct LstmGradient {
  at::Tensor cs_before, gates, wci, wcf, wco;  // gates in the order of the kernel; those of peepholes may be undefined
};

LstmGradient step_gradient(const LstmBlock& block, const LstmStep& s, const at::Tensor& cs_before,
                           const at::Tensor& cs_grad, const at::Tensor& h_grad) {
  LstmGradient out;
  const at::Tensor to_o = s.o * (1 - s.o) * h_grad * s.co;
  at::Tensor to_cs = (1 - s.co * s.co) * h_grad * s.o + cs_grad;
  if (block.peephole) to_cs = to_cs + to_o * block.wco;
  const at::Tensor to_ci = (1 - s.ci * s.ci) * to_cs * s.i, to_f = s.f * (1 - s.f) * to_cs * cs_before,
                   to_i = s.i * (1 - s.i) * to_cs * s.ci;
  out.gates = block.forget_second ? at::cat({to_i, to_f, to_ci, to_o}, 1) : at::cat({to_i, to_ci, to_f, to_o}, 1);
  out.cs_before = to_cs * s.f;
  if (!block.peephole) return out;
  out.cs_before = out.cs_before + to_i * block.wci + to_f * block.wcf;
  out.wci = (to_i * cs_before).sum(0), out.wcf = (to_f * cs_before).sum(0), out.wco = (to_o * s.cs).sum(0);
  return out;
}

LstmBlock gradient_block(const Call& call, int first) {
  LstmBlock block;
  block.w = in(call, first), block.b = in(call, first + 4);
  block.wci = in(call, first + 1), block.wcf = in(call, first + 2), block.wco = in(call, first + 3);
  block.peephole = call.attr<bool>("use_peephole");
  block.units = in(call, first - 2).size(1);
  return block;
}

at::Tensor or_zeros(const at::Tensor& x, const at::Tensor& like) { return x.defined() ? x : at::zeros_like(like); }

Tensors lstm_cell_gradient(const Call& call) {
  const LstmBlock block = gradient_block(call, 3);
  const LstmStep s{in(call, 8), in(call, 9), in(call, 10), in(call, 11), in(call, 12), in(call, 13), {}};
  const LstmGradient g = step_gradient(block, s, in(call, 1), in(call, 14), in(call, 15));
  return {wrap(g.cs_before), wrap(g.gates), wrap(or_zeros(g.wci, block.wci)), wrap(or_zeros(g.wcf, block.wcf)),
          wrap(or_zeros(g.wco, block.wco))};
}

Tensors block_lstm_gradient(const Call& call) {
  const at::Tensor& x = in(call, 1);
  const std::int64_t time = x.size(0), inputs = x.size(2), last = int_in(call, 0);
  if (last < 0 || last > time)
    throw_invalid_argument(fmt::format("invalid seq_len_max: found {}, expected 0 to {}", last, time));
  LstmBlock block = gradient_block(call, 4);
  block.forget_second = call.name() == "BlockLSTMGradV2";
  for (int k = 9; k <= 17; ++k) {
    if (in(call, k).dim() != 3 || in(call, k).size(0) < last)
      throw_invalid_argument("invalid results of the forward pass: their length differs from that of x");
  }
  at::Tensor x_grad = at::zeros_like(x), w_grad = at::zeros_like(block.w), b_grad = at::zeros_like(block.b);
  at::Tensor wci = at::zeros_like(block.wci), wcf = at::zeros_like(block.wcf), wco = at::zeros_like(block.wco);
  at::Tensor cs_grad = at::zeros_like(in(call, 2)), h_grad = at::zeros_like(in(call, 3));
  for (std::int64_t t = last - 1; t >= 0; --t) {
    const auto at_step = [&](int input) { return in(call, input).select(0, t); };
    const LstmStep s{at_step(9), at_step(10), at_step(11), at_step(12), at_step(13), at_step(14), {}};
    const at::Tensor cs_before = t == 0 ? in(call, 2) : in(call, 10).select(0, t - 1);
    const at::Tensor h_before = t == 0 ? in(call, 3) : in(call, 15).select(0, t - 1);
    const LstmGradient g = step_gradient(block, s, cs_before, at_step(16) + cs_grad, at_step(17) + h_grad);
    const at::Tensor both = at::mm(g.gates, block.w.t());
    x_grad.select(0, t).copy_(both.slice(1, 0, inputs));
    h_grad = both.slice(1, inputs);
    cs_grad = g.cs_before;
    w_grad = w_grad + at::mm(at::cat({x.select(0, t), h_before}, 1).t(), g.gates);
    b_grad = b_grad + g.gates.sum(0);
    if (block.peephole) wci = wci + g.wci, wcf = wcf + g.wcf, wco = wco + g.wco;
  }
  return {wrap(x_grad), wrap(cs_grad), wrap(h_grad.contiguous()), wrap(w_grad), wrap(wci), wrap(wcf),
          wrap(wco),    wrap(b_grad)};
}

Tensors gru_cell_gradient(const Call& call) {
  const at::Tensor &before = in(call, 1), &r = in(call, 6), &u = in(call, 7), &c = in(call, 8), &dh = in(call, 9);
  const std::int64_t inputs = in(call, 0).size(1);
  const at::Tensor to_c = dh * (1 - u) * (1 - c * c), to_u = dh * (before - c) * u * (1 - u);
  const at::Tensor inner = at::mm(to_c, in(call, 3).t());
  const at::Tensor to_reset = inner.slice(1, inputs);
  const at::Tensor to_r = to_reset * before * r * (1 - r);
  const at::Tensor gates = at::cat({to_r, to_u}, 1);
  const at::Tensor outer = at::mm(gates, in(call, 2).t());
  return {wrap(outer.slice(1, 0, inputs) + inner.slice(1, 0, inputs)),
          wrap(outer.slice(1, inputs) + to_reset * r + dh * u), wrap(to_c), wrap(gates)};
}

Shapes like_state(const Call& call, int state, std::size_t outputs) {
  return Shapes(outputs, call.input(state).shape());
}

}  // namespace

void register_recurrent_blocks(Table& table) {
  table.add(
      "LSTMBlockCell", [](const Call& call) { return like_state(call, 1, 7); }, lstm_block_cell);
  for (auto name : {"BlockLSTM", "BlockLSTMV2"}) {
    table.add(
        name,
        [](const Call& call) {
          const Shape &x = call.input(1).shape(), &state = call.input(2).shape();
          const bool known = x.known_rank() && x.rank() == 3;
          return Shapes(7, Shape{known ? x[0] : kUnknownDim, known ? x[1] : kUnknownDim,
                                 state.known_rank() && state.rank() == 2 ? state[1] : kUnknownDim});
        },
        block_lstm);
  }
  table.add(
      "GRUBlockCell", [](const Call& call) { return like_state(call, 1, 4); }, gru_block_cell);
  table.add("LSTMBlockCellGrad", nullptr, lstm_cell_gradient);
  table.add("BlockLSTMGrad", nullptr, block_lstm_gradient);
  table.add("BlockLSTMGradV2", nullptr, block_lstm_gradient);
  table.add("GRUBlockCellGrad", nullptr, gru_cell_gradient);
}

}  // namespace lockstep::ops
