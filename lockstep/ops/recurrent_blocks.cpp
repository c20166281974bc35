// Recurrent cells as one operation, as older models have them: LSTMBlockCell, BlockLSTM, GRUBlockCell.
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
Tensors block_lstm(const Call& call) {
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
}

}  // namespace lockstep::ops
