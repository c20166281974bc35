// Recurrent layers over all their steps as one operation.
#include <algorithm>
#include <map>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/lstm_cell_internal.h"
#include "lockstep/ops/lstm_values_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/product_internal.h"
#include "lockstep/ops/recurrent_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kRecurrentRows = 16;   // of a batch that one thread takes, unless there are too few
constexpr std::int64_t kFloatsOfStep = 8192;  // of the state, of a single step

std::optional<Squash> squash_of(std::string_view name) {
  static const std::map<std::string_view, Squash> known = {{"linear", Squash::kLinear},
                                                           {"tanh", Squash::kTanh},
                                                           {"sigmoid", Squash::kSigmoid},
                                                           {"relu", Squash::kRelu},
                                                           {"hard_sigmoid", Squash::kHardSigmoid}};
  const auto it = known.find(name);
  return it == known.end() ? std::nullopt : std::optional(it->second);
}

at::Tensor squashed(Squash kind, const at::Tensor& x) {
  switch (kind) {
    case Squash::kTanh: return at::tanh(x);
    case Squash::kSigmoid: return at::sigmoid(x);
    case Squash::kRelu: return at::relu(x);
    case Squash::kHardSigmoid: return at::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case Squash::kLinear: break;
  }
  return x;
}

const float* floats(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }
float* floats_to_write(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }
at::Tensor flat(const at::Tensor& x) { return x.view({-1, x.size(-1)}); }

// The weights of `parts` times `width` columns of a kernel [units, columns], part after part.
std::int64_t pack_columns(std::int64_t units, const float* kernel, std::int64_t columns, std::int64_t parts,
                          std::int64_t width, bool transpose, float* to) {
  const std::int64_t depth = transpose ? width : units, wide = transpose ? units : width;
  const std::int64_t size = row_kernels().packed_size(depth, wide);
  for (std::int64_t i = 0; to && i < parts; ++i)
    row_kernels().pack_matrix(kernel + i * width, columns, transpose, depth, wide, to + i * size);
  return parts * size;
}

// Columns of the kernel that come first: all, or those of the two gates that the candidate's product follows.
std::int64_t first_columns(const RecurrentPass& pass) {
  return (pass.cell == RecurrentCell::kGruResetBefore ? 2 : recurrent_gates(pass.cell)) * pass.units;
}

class Recurrent : public Composite {
 public:
  enum Input { kProjected, kKernel, kBias, kH, kC, kInputs };
  enum Output { kOutput, kLastH, kLastC };
  enum Kept { kGatesKept, kBefore, kCells, kActivated };

  Recurrent(const RecurrentPass& shape, at::Tensor mask, at::Tensor dropped, bool sequences)
      : shape_(shape), mask_(std::move(mask)), dropped_(std::move(dropped)), sequences_(sequences) {
    if (mask_.defined()) shape_.mask = reinterpret_cast<const std::uint8_t*>(mask_.const_data_ptr<bool>());
    shape_.dropped = floats(dropped_);
  }

  Made forward(const Values& inputs, bool keep) const override {
    const at::Tensor projected = inputs[kProjected].contiguous(), h0 = inputs[kH].contiguous();
    const at::Tensor bias = inputs[kBias].defined() ? inputs[kBias].contiguous() : inputs[kBias];
    const at::Tensor c0 = has_cells() ? inputs[kC].contiguous() : at::Tensor();
    const std::int64_t batch = projected.size(0), steps = shape_.steps, u = shape_.units;
    const auto make = [&](at::IntArrayRef sizes) { return at::empty(sizes, projected.options()); };
    const at::Tensor all = sequences_ ? make({batch, steps, u}) : at::Tensor(), last = make({batch, u}),
                     h = make({batch, u}), c = has_cells() ? make({batch, u}) : at::Tensor();
    Values kept(4);
    if (keep) {
      const std::int64_t width = shape_.cell == RecurrentCell::kGru ? 4 : recurrent_gates(shape_.cell);
      kept[kGatesKept] = make({batch, steps, width * u});
      kept[kBefore] = make({batch, steps, u});
      if (has_cells()) kept[kCells] = make({batch, steps, u}), kept[kActivated] = make({batch, steps, u});
    }
    RecurrentForward pass;
    static_cast<RecurrentPass&>(pass) = with_kept(kept);
    const Values packed = pack(inputs[kKernel], false, pass);
    pass.projected = floats(projected), pass.bias = floats(bias), pass.h0 = floats(h0), pass.c0 = floats(c0);
    pass.all = floats_to_write(all), pass.last = floats_to_write(last), pass.h = floats_to_write(h),
    pass.c = floats_to_write(c);
    parallel_for(0, batch, recurrent_grain(batch),
                 [&](std::int64_t begin, std::int64_t end) { row_kernels().recurrent_forward(pass, begin, end); });
    Values outputs = {sequences_ ? all : last, h};
    if (has_cells()) outputs.push_back(c);
    return {std::move(outputs), std::move(kept)};
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor &projected = recorded.inputs[kProjected], &kernel = recorded.inputs[kKernel];
    const std::int64_t batch = projected.size(0), u = shape_.units;
    Values given;
    for (const at::Tensor& dy : dys) given.push_back(dy.defined() ? dy.contiguous() : dy);
    const auto make = [&](at::IntArrayRef sizes) { return at::empty(sizes, projected.options()); };
    Values gradients(kInputs);
    const at::Tensor dx = make(projected.sizes()), dh = make({batch, u});
    const at::Tensor dc = has_cells() ? make({batch, u}) : at::Tensor();
    const at::Tensor inner = shape_.cell == RecurrentCell::kGru ? make(projected.sizes()) : dx;
    RecurrentBackward pass;
    static_cast<RecurrentPass&>(pass) = with_kept(recorded.kept);
    const Values packed = pack(kernel, true, pass);
    (sequences_ ? pass.d_all : pass.d_last) = floats(given[kOutput]);
    pass.d_h = floats(given[kLastH]), pass.d_c = has_cells() ? floats(given[kLastC]) : nullptr;
    pass.d_projected = floats_to_write(dx), pass.d_inner = inner.is_same(dx) ? nullptr : floats_to_write(inner);
    pass.d_h0 = floats_to_write(dh), pass.d_c0 = floats_to_write(dc);
    parallel_for(0, batch, recurrent_grain(batch),
                 [&](std::int64_t begin, std::int64_t end) { row_kernels().recurrent_backward(pass, begin, end); });
    if (recorded.wanted[kKernel]) gradients[kKernel] = kernel_gradient(recorded.kept, inner);
    if (recorded.wanted[kBias]) gradients[kBias] = relu_bias_gradient({}, flat(inner), true).db;
    gradients[kProjected] = dx, gradients[kH] = dh;
    if (has_cells()) gradients[kC] = dc;
    return gradients;
  }

  Values plain(const Values& inputs) const override {
    const Values steps = inputs[kProjected].unbind(1);
    const at::Tensor& kernel = inputs[kKernel];
    const std::int64_t u = shape_.units;
    const bool resets = shape_.cell == RecurrentCell::kGruResetBefore;
    const auto act = [&](const at::Tensor& x) { return squashed(shape_.activation, x); };
    const auto gate = [&](const at::Tensor& x) { return squashed(shape_.recurrent_activation, x); };
    at::Tensor h = inputs[kH], c = inputs[kC], output = at::zeros_like(h);
    const at::Tensor zero = output;
    Values all;
    for (std::int64_t s = 0; s < shape_.steps; ++s) {
      const std::int64_t t = shape_.backwards ? shape_.steps - 1 - s : s;
      const at::Tensor& x = steps[static_cast<std::size_t>(t)];
      at::Tensor z = gate_products(h, resets ? kernel.narrow(1, 0, 2 * u) : kernel), next_h, next_c = c;
      if (inputs[kBias].defined()) z = z + inputs[kBias];
      const auto part = [&](const at::Tensor& of, std::int64_t i) { return of.narrow(1, i * u, u); };
      if (has_cells()) {
        const at::Tensor sum = x + z;
        next_c = gate(part(sum, 1)) * c + gate(part(sum, 0)) * act(part(sum, 2));
        next_h = gate(part(sum, 3)) * act(next_c);
      } else if (shape_.cell == RecurrentCell::kSimple) {
        next_h = act(x + z);
      } else {
        const at::Tensor update = gate(part(x, 0) + part(z, 0)), reset = gate(part(x, 1) + part(z, 1));
        const at::Tensor inner =
            resets ? at::matmul(reset * dropped(h, 2), kernel.narrow(1, 2 * u, u)) : reset * part(z, 2);
        next_h = update * h + (1.0 - update) * act(part(x, 2) + inner);
      }
      if (mask_.defined()) {
        const at::Tensor counts = mask_.select(1, t).unsqueeze(1);
        output = at::where(counts, next_h, shape_.zero_output ? zero : output);
        h = at::where(counts, next_h, h);
        if (has_cells()) c = at::where(counts, next_c, c);
      } else {
        output = h = next_h;
        c = next_c;
      }
      all.push_back(output);
    }
    Values outputs = {sequences_ ? at::stack(all, 1) : output, h};
    if (has_cells()) outputs.push_back(c);
    return outputs;
  }

 private:
  bool has_cells() const { return shape_.cell == RecurrentCell::kLstm; }

  // What the product of gate g sees of the states [batch, units].
  at::Tensor dropped(const at::Tensor& h, std::int64_t g) const {
    return dropped_.defined() ? h * dropped_.select(1, g) : h;
  }
  at::Tensor gate_products(const at::Tensor& h, const at::Tensor& kernel) const {
    if (!dropped_.defined()) return at::matmul(h, kernel);
    Values parts;
    for (std::int64_t g = 0; g * shape_.units < kernel.size(1); ++g)
      parts.push_back(at::matmul(dropped(h, g), kernel.narrow(1, g * shape_.units, shape_.units)));
    return at::cat(parts, 1);
  }

  RecurrentPass with_kept(const Values& kept) const {
    RecurrentPass pass = shape_;
    pass.gates = floats_to_write(kept[kGatesKept]), pass.before = floats_to_write(kept[kBefore]);
    pass.cells = floats_to_write(kept[kCells]), pass.activated = floats_to_write(kept[kActivated]);
    return pass;
  }

  // The memory of the packed weights of `pass`.
  Values pack(const at::Tensor& given, bool transpose, RecurrentPass& pass) const {
    const at::Tensor kernel = given.contiguous();
    const std::int64_t u = shape_.units, columns = kernel.size(1);
    const bool resets = shape_.cell == RecurrentCell::kGruResetBefore;
    const auto packed = [&](std::int64_t first, std::int64_t count) {
      const std::int64_t parts = dropped_.defined() ? count / u : 1;
      const float* const from = kernel.const_data_ptr<float>() + first;
      const auto pack_to = [&](float* to) {
        return pack_columns(u, from, columns, parts, count / parts, transpose, to);
      };
      at::Tensor memory = at::empty({pack_to(nullptr)}, kernel.options());
      pack_to(memory.mutable_data_ptr<float>());
      return memory;
    };
    Values memory = {packed(0, first_columns(shape_))};
    if (resets) memory.push_back(packed(2 * u, u));
    pass.kernel = floats(memory[0]);
    if (resets) pass.candidate_kernel = floats(memory[1]);
    return memory;
  }

  at::Tensor kernel_gradient(const Values& kept, const at::Tensor& inner) const {
    const std::int64_t u = shape_.units, gates = recurrent_gates(shape_.cell);
    const at::Tensor before = flat(kept[kBefore]), d = flat(inner);
    const auto times = [](const at::Tensor& a, const at::Tensor& b) {
      return has_product(a, b) ? product(a, true, b, false) : at::mm(a.t(), b);
    };
    const bool resets = shape_.cell == RecurrentCell::kGruResetBefore;
    const auto reset = [&](const at::Tensor& h) { return flat(kept[kGatesKept]).narrow(1, u, u) * h; };
    Values parts;
    if (dropped_.defined()) {
      for (std::int64_t g = 0; g < gates; ++g) {
        const at::Tensor seen = flat(kept[kBefore] * dropped_.narrow(1, g, 1));
        parts.push_back(times(resets && g == 2 ? reset(seen) : seen, d.narrow(1, g * u, u)));
      }
    } else if (resets) {
      parts = {times(before, d.narrow(1, 0, 2 * u)), times(reset(before), d.narrow(1, 2 * u, u))};
    } else {
      return times(before, d);
    }
    return at::cat(parts, 1);
  }

  RecurrentPass shape_;
  at::Tensor mask_, dropped_;
  bool sequences_;
};

// Inputs: both parts of the gates, and the cell state. Outputs: h and c.
class LstmStepComposite : public Composite {
 public:
  explicit LstmStepComposite(LstmActivations activations) : activations_(activations) {}

  Made forward(const Values& inputs, bool keep) const override {
    // A step of all steps of a batch is not contiguous, but those of its rows are.
    const bool in_rows = inputs[0].dim() > 1 && inputs[0].select(0, 0).is_contiguous();
    const at::Tensor x = in_rows ? inputs[0] : inputs[0].contiguous(), z = inputs[1].contiguous(),
                     c = inputs[2].contiguous();
    const at::Tensor h = at::empty(c.sizes(), c.options()), next = at::empty(c.sizes(), c.options()),
                     gates = keep ? at::empty(x.sizes(), x.options()) : at::Tensor();
    lstm_forward(activations_, x, z, c, h, next, gates);
    return {{h, next}, {gates}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor c = recorded.inputs[2].contiguous(), &gates = recorded.kept[0];
    const at::Tensor d_z = at::empty(gates.sizes(), gates.options()), d_c = at::empty(c.sizes(), c.options());
    lstm_backward(activations_, gates, c, recorded.outputs[1], dys[0], dys[1], d_z, d_c);
    return {d_z, d_z, d_c};
  }
  Values plain(const Values& inputs) const override {
    return lstm_plain(activations_, inputs[0], inputs[1], inputs[2]);
  }

 private:
  LstmActivations activations_;
};

template <typename Work>
void for_lstm_rows(const at::Tensor& c, const Work& work) {
  const std::int64_t units = c.size(-1);
  parallel_for(0, c.numel() / units, std::max<std::int64_t>(1, kFloatsOfStep / units), work);
}

bool is_float_value(const Tensor& x) { return x.is_value() && x.dtype() == DType::kFloat32 && aten(x).is_cpu(); }
bool is_float_value(const Tensor& x, int rank) { return is_float_value(x) && x.rank() == rank; }

}  // namespace

std::optional<LstmActivations> lstm_activations(const std::string& activation,
                                                const std::string& recurrent_activation) {
  const auto of_cell = squash_of(activation), of_gates = squash_of(recurrent_activation);
  return of_cell && of_gates ? std::optional(LstmActivations{*of_cell, *of_gates}) : std::nullopt;
}

void lstm_forward(const LstmActivations& activations, const at::Tensor& x, const at::Tensor& z, const at::Tensor& c,
                  const at::Tensor& h, const at::Tensor& next_c, const at::Tensor& gates) {
  LstmCell cell;
  cell.units = c.size(-1), cell.activation = activations.cell, cell.recurrent_activation = activations.gates;
  cell.x = floats(x), cell.z = floats(z), cell.c = floats(c);
  cell.image_rows = c.numel() / c.size(0) / cell.units, cell.image_x = x.stride(0);
  cell.h = floats_to_write(h), cell.next_c = floats_to_write(next_c), cell.gates = floats_to_write(gates);
  for_lstm_rows(c, [&](std::int64_t begin, std::int64_t end) { row_kernels().lstm_cell(cell, begin, end); });
}

void lstm_backward(const LstmActivations& activations, const at::Tensor& gates, const at::Tensor& c,
                   const at::Tensor& next_c, const at::Tensor& d_h, const at::Tensor& d_next_c, const at::Tensor& d_z,
                   const at::Tensor& d_c) {
  const auto given = [](const at::Tensor& dy) { return dy.defined() ? dy.contiguous() : dy; };
  const at::Tensor of_h = given(d_h), of_c = given(d_next_c);
  LstmCellGradient cell;
  cell.units = c.size(-1), cell.activation = activations.cell, cell.recurrent_activation = activations.gates;
  cell.gates = floats(gates), cell.c = floats(c), cell.next_c = floats(next_c);
  cell.d_h = floats(of_h), cell.d_next_c = floats(of_c);
  cell.d_z = floats_to_write(d_z), cell.d_c = floats_to_write(d_c);
  for_lstm_rows(c, [&](std::int64_t begin, std::int64_t end) { row_kernels().lstm_cell_gradient(cell, begin, end); });
}

Values lstm_plain(const LstmActivations& activations, const at::Tensor& x, const at::Tensor& z, const at::Tensor& c) {
  const Values parts = (x + z).chunk(4, -1);
  const auto gate = [&](std::size_t g) { return squashed(activations.gates, parts[g]); };
  const at::Tensor next = gate(1) * c + gate(0) * squashed(activations.cell, parts[2]);
  return {gate(3) * squashed(activations.cell, next), next};
}

std::optional<RecurrentPass> recurrent_pass(const RecurrentOptions& options, std::int64_t steps, std::int64_t units) {
  const auto activation = squash_of(options.activation), recurrent = squash_of(options.recurrent_activation);
  if (!activation || !recurrent || steps < 1 || units < 1) return std::nullopt;
  RecurrentPass pass;
  pass.cell = options.cell == "LSTM"        ? RecurrentCell::kLstm
              : options.cell == "SimpleRNN" ? RecurrentCell::kSimple
              : options.reset_after         ? RecurrentCell::kGru
                                            : RecurrentCell::kGruResetBefore;
  pass.activation = *activation, pass.recurrent_activation = *recurrent;
  pass.steps = steps, pass.units = units;
  pass.backwards = options.go_backwards, pass.zero_output = options.zero_output_for_mask;
  return pass;
}

std::int64_t recurrent_grain(std::int64_t batch) {
  return std::clamp<std::int64_t>(batch / parallel_threads(), 4, kRecurrentRows);
}

std::int64_t packed_recurrent_size(const RecurrentPass& pass) {
  const std::int64_t columns = recurrent_gates(pass.cell) * pass.units, first = first_columns(pass);
  return pack_columns(pass.units, nullptr, columns, 1, first, false, nullptr) +
         (first < columns ? pack_columns(pass.units, nullptr, columns, 1, columns - first, false, nullptr) : 0);
}

void pack_recurrent(const RecurrentPass& pass, const float* kernel, float* packed) {
  const std::int64_t columns = recurrent_gates(pass.cell) * pass.units, first = first_columns(pass);
  packed += pack_columns(pass.units, kernel, columns, 1, first, false, packed);
  if (first < columns) pack_columns(pass.units, kernel + first, columns, 1, columns - first, false, packed);
}

void set_recurrent_weights(const float* packed, RecurrentPass& pass) {
  pass.kernel = packed;
  if (pass.cell == RecurrentCell::kGruResetBefore)
    pass.candidate_kernel = packed + row_kernels().packed_size(pass.units, first_columns(pass));
}

std::optional<RecurrentResult> try_recurrent(const Tensor& projected, const Tensor& kernel, const Tensor& bias,
                                             const Tensor& mask, const Tensors& dropped, const Tensors& states,
                                             const RecurrentOptions& options) {
  if (!is_float_value(projected, 3) || !is_float_value(kernel, 2)) return std::nullopt;
  if (bias.defined() && !is_float_value(bias, 1)) return std::nullopt;
  const auto known = recurrent_pass(options, projected.dim(1), kernel.dim(0));
  if (!known) return std::nullopt;
  const RecurrentPass& shape = *known;
  const std::int64_t batch = projected.dim(0), width = recurrent_gates(shape.cell) * shape.units;
  if (batch == 0) return std::nullopt;
  if (projected.dim(2) != width || kernel.dim(1) != width || (bias.defined() && bias.dim(0) != width))
    return std::nullopt;
  if (bias.defined() && shape.cell != RecurrentCell::kGru) return std::nullopt;
  if (states.size() != (shape.cell == RecurrentCell::kLstm ? 2u : 1u)) return std::nullopt;
  for (const Tensor& state : states) {
    if (!is_float_value(state, 2) || state.dim(0) != batch || state.dim(1) != shape.units) return std::nullopt;
  }
  at::Tensor counts;
  if (mask.defined()) {
    if (!mask.is_value() || mask.dtype() != DType::kBool || mask.rank() != 2 || mask.dim(0) != batch ||
        mask.dim(1) != shape.steps)
      return std::nullopt;
    counts = aten(mask).contiguous();
  }
  Values factors;
  for (const Tensor& factor : dropped) {
    if (!is_float_value(factor, 2) || factor.dim(0) != batch || factor.dim(1) != shape.units) return std::nullopt;
    factors.push_back(aten(factor));
  }
  if (!factors.empty() && static_cast<int>(factors.size()) != recurrent_gates(shape.cell)) return std::nullopt;
  const at::Tensor drops = factors.empty() ? at::Tensor() : at::stack(factors, 1);
  Values inputs = {aten(projected), aten(kernel), bias.defined() ? aten(bias) : at::Tensor(), aten(states[0]),
                   states.size() > 1 ? aten(states[1]) : at::Tensor()};
  Values made = run(std::make_shared<Recurrent>(shape, std::move(counts), drops, options.return_sequences), inputs);
  RecurrentResult result{wrap(std::move(made[0])), {}};
  for (std::size_t i = 1; i < made.size(); ++i) result.states.push_back(wrap(std::move(made[i])));
  return result;
}

std::optional<LstmStep> try_lstm_step(const Tensor& x, const Tensor& z, const Tensor& c, const std::string& activation,
                                      const std::string& recurrent_activation) {
  const auto activations = lstm_activations(activation, recurrent_activation);
  if (!activations || !is_float_value(x) || !is_float_value(z) || !is_float_value(c)) return std::nullopt;
  std::vector<std::int64_t> gates = c.shape().dims();
  if (gates.size() < 2 || c.shape().num_elements() == 0) return std::nullopt;
  gates.back() *= 4;
  if (x.shape().dims() != gates || z.shape().dims() != gates) return std::nullopt;
  const Values made = run(std::make_shared<LstmStepComposite>(*activations), {aten(x), aten(z), aten(c)});
  return LstmStep{wrap(made[0]), wrap(made[1])};
}

}  // namespace lockstep::ops
