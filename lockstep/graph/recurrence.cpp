#include "lockstep/graph/recurrence_internal.h"

#include <algorithm>

#include "lockstep/graph/lowering_internal.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/inference/recurrent_step_internal.h"
#include "lockstep/ops/attributes_internal.h"

namespace lockstep::graph {
namespace {

using inference::Dims;

thread_local bool t_for_programs = false;

// The attributes of the call: what its inputs are, and the options of the layer.
constexpr const char* kTexts = "_recurrence";
constexpr const char* kFlags = "_recurrence_flags";
enum Flag { kResetAfter, kSequences, kBackwards, kZeroOutput, kHasBias, kHasMask, kGivesStates, kFlags_ };

bool is_float_symbol(const Tensor& x, int rank) { return x.dtype() == DType::kFloat32 && x.rank() == rank; }

}  // namespace

ScopedProgramTrace::ScopedProgramTrace() : previous_(t_for_programs) { t_for_programs = true; }
ScopedProgramTrace::~ScopedProgramTrace() { t_for_programs = previous_; }
bool ScopedProgramTrace::active() {
  const Tracer* const tracer = t_for_programs ? TraceScope::current() : nullptr;
  return tracer && ops::ScopedRecorder::active() == tracer;
}

Tensors try_record_recurrence(const Recurrence& layer, const PlainSteps& steps) {
  const Tensor &x = layer.projected, &kernel = layer.kernel;
  const ops::RecurrentOptions& options = layer.options;
  if (!ScopedProgramTrace::active() || !is_float_symbol(x, 3) || !is_float_symbol(kernel, 2)) return {};
  const std::int64_t time = x.dim(1), units = kernel.dim(0);
  const auto pass = ops::recurrent_pass(options, time, units);
  if (!pass || kernel.dim(1) != ops::recurrent_gates(pass->cell) * units || x.dim(2) != kernel.dim(1)) return {};
  if (layer.bias.defined() && (pass->cell != ops::RecurrentCell::kGru || !is_float_symbol(layer.bias, 1))) return {};
  if (!std::ranges::all_of(layer.states, [](const Tensor& state) { return is_float_symbol(state, 2); })) return {};
  if (layer.mask.defined() && (layer.mask.dtype() != DType::kBool || layer.mask.rank() != 2)) return {};
  Tensors inputs = {x, kernel};
  if (layer.bias.defined()) inputs.push_back(layer.bias);
  inputs.insert(inputs.end(), layer.states.begin(), layer.states.end());
  if (layer.mask.defined()) inputs.push_back(layer.mask);
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) specs.emplace_back(input.shape(), input.dtype());
  const auto first_state = static_cast<std::ptrdiff_t>(layer.bias.defined() ? 3 : 2);
  const auto count = static_cast<std::ptrdiff_t>(layer.states.size());
  Tracer& tracer = *TraceScope::current();
  const TracedFunction traced = trace(
      tracer.inner_name("recurrence"),
      [&](const Tensors& symbols) {
        const auto begin = symbols.begin() + first_state;
        Tensors results =
            steps(symbols[0], layer.mask.defined() ? symbols.back() : Tensor(), Tensors(begin, begin + count));
        if (!layer.gives_states) results.resize(1);
        return results;
      },
      specs);
  tracer.add_function(traced.function, traced.library);
  inputs.insert(inputs.end(), traced.captures.begin(), traced.captures.end());
  std::vector<bool> flags(kFlags_);
  flags[kResetAfter] = options.reset_after, flags[kSequences] = options.return_sequences,
  flags[kBackwards] = options.go_backwards, flags[kZeroOutput] = options.zero_output_for_mask;
  flags[kHasBias] = layer.bias.defined(), flags[kHasMask] = layer.mask.defined(),
  flags[kGivesStates] = layer.gives_states;
  const Tensors made = record_operation(
      traced.function->stateful ? "StatefulPartitionedCall" : "PartitionedCall", inputs,
      {{"f", ops::FunctionName{traced.function->name, nullptr}},
       {"Tout", std::vector<DType>(traced.outputs.size(), DType::kFloat32)},
       {kTexts, std::vector<std::string>{options.cell, options.activation, options.recurrent_activation}},
       {kFlags, flags}});
  Tensors results;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto edge = std::dynamic_pointer_cast<const Edge>(made[i].symbol_value());
    const Shape shape = i == 0 && options.return_sequences ? Shape{x.dim(0), time, units} : Shape{x.dim(0), units};
    results.push_back(Tensor::symbol(std::make_shared<Edge>(edge->tracer(), edge->output(), DType::kFloat32, shape)));
  }
  return results;
}

std::optional<std::vector<Lowered>> lower_recurrence(Lowering& lowering, const Step& step,
                                                     std::span<const Lowered> inputs) {
  const auto* texts = ops::find_attribute<std::vector<std::string>>(step.attrs, kTexts);
  const auto* flags = ops::find_attribute<std::vector<bool>>(step.attrs, kFlags);
  if (!texts || texts->size() != 3 || !flags || flags->size() != kFlags_ || inputs.size() < 3) return std::nullopt;
  const Lowered &x = inputs[0], &kernel = inputs[1];
  const auto flag = [&](Flag which) -> bool { return (*flags)[which]; };
  lowering.require(!x.is_constant() && x.value >= 0 && x.dtype == DType::kFloat32 && x.dims.size() == 3 &&
                   kernel.is_constant() && !kernel.series && kernel.dims.size() == 2);
  const std::int64_t batch = x.dims[0], time = x.dims[1], units = kernel.dims[0];
  const auto pass = ops::recurrent_pass({.cell = (*texts)[0],
                                         .reset_after = flag(kResetAfter),
                                         .activation = (*texts)[1],
                                         .recurrent_activation = (*texts)[2],
                                         .return_sequences = flag(kSequences),
                                         .go_backwards = flag(kBackwards),
                                         .zero_output_for_mask = flag(kZeroOutput)},
                                        time, units);
  const std::size_t states = (*texts)[0] == "LSTM" ? 2 : 1, first_state = flag(kHasBias) ? 3 : 2;
  lowering.require(pass && inputs.size() >= first_state + states + flag(kHasMask));
  const std::int64_t width = ops::recurrent_gates(pass->cell) * units;
  lowering.require(kernel.dims[1] == width && x.dims[2] == width);
  inference::Recurrence layer;
  layer.pass = *pass, layer.batch = batch, layer.kernel = lowering.floats(kernel);
  layer.sequences = flag(kSequences), layer.masked = flag(kHasMask), layer.gives_states = flag(kGivesStates);
  if (flag(kHasBias)) {
    layer.bias = lowering.floats(inputs[2]);
    lowering.require(layer.bias.size == width);
  }
  // Values with the rows of x.
  const auto like_of = [&](Dims rest) {
    Lowered like;
    like.dtype = DType::kFloat32, like.dims = like.other_dims = std::move(rest);
    like.dims.insert(like.dims.begin(), batch), like.other_dims.insert(like.other_dims.begin(), x.other_dims.at(0));
    return like;
  };
  const auto value_of = [&](const Lowered& input, DType dtype, const Dims& rest) {
    lowering.require(input.dtype == dtype && !input.series && input.dims == like_of(rest).dims);
    lowering.require_by_rows(input.is_constant() || input.row_axis == 0);
    return lowering.by_rows() ? lowering.start(input) : lowering.bytes(input);
  };
  lowering.require_by_rows(x.row_axis == 0);
  std::vector<int> reads = {x.value};
  for (std::size_t i = 0; i < states; ++i) reads.push_back(value_of(inputs[first_state + i], DType::kFloat32, {units}));
  if (layer.masked) reads.push_back(value_of(inputs[first_state + states], DType::kBool, {time}));
  const std::int64_t floats = inference::floats_of(layer);
  const Lowered output = lowering.result(like_of(layer.sequences ? Dims{time, units} : Dims{units}));
  std::vector<Lowered> results = {output};
  if (!layer.gives_states) {
    lowering.program().add(inference::recurrent(std::move(reads), output.value, output.dims, std::move(layer)));
    return results;
  }
  const int all = lowering.program().add_value(floats);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < states; ++i) results.push_back(lowering.result(like_of({units})));
  lowering.program().add(inference::recurrent(std::move(reads), all, {floats}, std::move(layer)));
  for (const Lowered& part : results) {
    const Dims count = {inference::product_of(part.dims)};
    lowering.program().add(inference::copies(part.value, count, {{all, count, {1}, {1}, offset}}, true));
    offset += inference::aligned(count[0]);
  }
  return results;
}

}  // namespace lockstep::graph
