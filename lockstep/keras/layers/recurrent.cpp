#include "lockstep/keras/layers/recurrent.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/recurrence_internal.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/built_in_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/first_states_internal.h"
#include "lockstep/keras/layers/recurrent_cells_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// The new value where the step counts, else the old one. `mask` has the first axes of the values.
Tensor keep(const Tensor& mask, const Tensor& now, const Tensor& before) {
  Tensor wide = mask;
  while (wide.rank() < now.rank()) wide = ops::expand_dims(wide, -1);
  return ops::where(wide, now, before);
}

RnnCell::Result masked_step(RnnCell& cell, const Tensor& x, const Tensor& mask, const Tensors& states,
                            const Tensor& previous, bool zero_output, const CellMasks& drop) {
  RnnCell::Result result = cell.step(x, states, drop);
  if (!mask.defined()) return result;
  const Tensor other = zero_output || !previous.defined() ? ops::zeros_like(result.output) : previous;
  result.output = keep(mask, result.output, other);
  for (std::size_t i = 0; i < states.size(); ++i) result.states[i] = keep(mask, result.states[i], states[i]);
  return result;
}

Tensor at_time(const Tensor& x, std::int64_t t) {
  return ops::strided_slice(x, {ops::SliceSpec::all(), ops::SliceSpec::at(t)});
}

// Steps written out one after the other.
Outcome run_unrolled(RnnCell& cell, const Tensor& projected, const Tensor& mask, Tensors states, const Unroll& how,
                     const CellMasks& drop) {
  const std::int64_t steps = projected.dim(1);
  Tensors outputs;
  Tensor previous;
  const Tensors inputs = ops::unstack(projected, 1);
  const Tensors masks = mask.defined() ? ops::unstack(mask, 1) : Tensors();
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto t = static_cast<std::size_t>(how.go_backwards ? steps - 1 - i : i);
    RnnCell::Result one = masked_step(cell, inputs[t], mask.defined() ? masks[t] : Tensor(), states, previous,
                                      how.zero_output_for_mask, drop);
    previous = one.output;
    states = std::move(one.states);
    if (how.return_sequences) outputs.push_back(previous);
  }
  return {previous, how.return_sequences ? ops::stack(outputs, 1) : Tensor(), std::move(states)};
}

// Only shapes: one step determines all of them.
Outcome run_for_shapes(RnnCell& cell, const Tensor& projected, const Tensors& states, const Unroll& how,
                       const CellMasks& drop) {
  RnnCell::Result one = cell.step(at_time(projected, 0), states, drop);
  Outcome outcome{one.output, Tensor(), one.states};
  if (how.return_sequences) {
    const Tensor along = ops::slice_axis(projected, 2, 0, 1) * 0.0;
    outcome.all = ops::expand_dims(one.output, 1) + ops::cast(along, one.output.dtype());
  }
  return outcome;
}

constexpr std::int64_t kMostUnrolled = 32;

bool runs_in_loop(const Tensor& x) { return x.is_symbolic() && (x.dim(1) == kUnknownDim || x.dim(1) > kMostUnrolled); }

Outcome run_cell(RnnCell& cell, const Tensor& x, const Tensor& mask, const Tensors& states, const Unroll& how,
                 const CellMasks& drop) {
  if (!x.is_symbolic() && x.dim(1) == 0)
    throw_invalid_argument(fmt::format("'{}' was given a sequence without time steps", cell.name()));
  if (!x.is_symbolic() || graph::ScopedProgramTrace::active()) {
    if (auto outcome = cell.try_run(x, mask, states, how, drop)) return std::move(*outcome);
  }
  const Tensor projected = cell.project(x, drop);
  if (!x.is_symbolic()) return run_unrolled(cell, projected, mask, states, how, drop);
  if (graph::stands_for_shape(x)) return run_for_shapes(cell, projected, states, how, drop);
  if (runs_in_loop(x)) return run_loop(cell, projected, mask, states, how, drop);
  return run_unrolled(cell, projected, mask, states, how, drop);
}

// Whether a cell, or one of a stack, is of a class of the user's, which may begin with other states than zeros.
bool has_own_cell(RnnCell& cell) {
  const auto is_own = [](const LayerHandle& layer) { return dynamic_cast<const Cell*>(layer.ptr().get()) != nullptr; };
  const LayerHandle layer = cell.layer();
  if (is_own(layer)) return true;
  const std::vector<LayerHandle> parts = layer->sublayers();
  return std::any_of(parts.begin(), parts.end(), is_own);
}

// LSTM, GRU, SimpleRNN and RNN.
class RecurrentLayer : public Layer, public LoopsOverTime {
 public:
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kDefaultFalse; }
  std::vector<std::string> argument_names() const override { return {"sequences"}; }
  std::vector<std::string> call_parameters() const override {
    return {"sequences", "initial_state", "mask", "training"};
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = 3}}; }
  Structure compute_mask(const Structure&, const Structure& mask, const Structure& outputs) override {
    const std::vector<Tensor> masks = mask.flatten();
    const LoopOptions options = loop();
    const Tensor kept = options.return_sequences && !masks.empty() ? masks[0] : Tensor();
    if (!options.return_state) return kept;
    Tensors all(outputs.num_leaves());
    all[0] = kept;
    return outputs.pack(all);
  }

  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    const std::int64_t batch = shape[loop().time_major ? 1 : 0];
    cell_->layer()->ensure_built(Shape{batch, shape[-1]});
    if (!loop().stateful) return;
    if (batch == kUnknownDim) throw_unknown_batch(*this);
    const DType dtype = dtype_policy().variable_dtype();
    Tensors states;
    if (has_own_cell(*cell_)) {
      states = cell_->get_initial_state(batch).flatten();
    } else {
      for (std::int64_t size : cell_->state_sizes()) states.push_back(Tensor::zeros({batch, size}, dtype));
    }
    for (const Tensor& state : states)
      kept_.push_back(Variable::create(ops::cast(state, dtype), {.trainable = false, .name = "rnn_state"}));
  }

  Json get_build_config() const override { return states_.with_states(Layer::get_build_config()); }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor x = batch_first(inputs.leaf());
    states_.see(x, context);
    const LoopOptions options = loop();
    Tensors states = initial_states(x, context);
    const Tensor mask = context.mask.num_leaves() > 0 ? batch_first(context.mask.flatten()[0]) : Tensor();
    CellMasks drawn;
    const bool draws = context.training || graph::ScopedProgramTrace::active();
    if (!x.is_symbolic() || (draws && !graph::stands_for_shape(x))) drawn = cell_->draw_masks(at_time(x, 0));
    // Unrolled backwards, Keras applies the mask in forward order to the outputs in backward order.
    const bool crossed = mask.defined() && options.unroll && options.go_backwards && options.zero_output_for_mask;
    const Unroll how{options.return_sequences, options.go_backwards, options.zero_output_for_mask && !crossed,
                     options.return_state};
    if (has_own_cell(*cell_)) call_first(x, states, context.training ? drawn : CellMasks());
    Outcome outcome = run_cell(*cell_, x, mask.defined() ? ops::cast(mask, DType::kBool) : mask, states, how,
                               context.training ? drawn : CellMasks());
    if (crossed) {
      const Tensor steps = ops::cast(mask, DType::kBool);
      if (outcome.last.defined()) outcome.last = keep(at_time(steps, 0), outcome.last, ops::zeros_like(outcome.last));
      if (outcome.all.defined()) outcome.all = keep(steps, outcome.all, ops::zeros_like(outcome.all));
    }
    if (options.stateful && !x.is_symbolic()) {
      for (std::size_t i = 0; i < kept_.size(); ++i)
        kept_[i]->assign(ops::cast(ops::stop_gradient(outcome.states[i]), kept_[i]->dtype()));
    }
    const Tensor output =
        ops::cast(options.return_sequences ? batch_first(outcome.all) : outcome.last, compute_dtype());
    if (!options.return_state) return output;
    Structure::List all = {output};
    for (Tensor& state : outcome.states) state = ops::cast(state, compute_dtype());
    // As in Keras: nested as the given states, else as the shapes of a symbolic call, or as the cells' first states.
    const Argument* given = context.arguments->find("initial_state");
    const bool listed = given && given->is_list();
    for (Structure& item : cell_->nested(outcome.states, [&](std::size_t cell) {
           if (listed && cell < given->size()) return !given->parts()[cell].is_list();
           return x.is_symbolic() || cell_->begins_as_tensor(cell);
         }))
      all.push_back(std::move(item));
    return Structure::list(std::move(all));
  }

  Structure get_initial_state(const Extent& batch_size) const override { return cell_->get_initial_state(batch_size); }
  bool draws_masks() const override { return cell_->draws_masks(); }
  Nested<VariablePtr> kept_states() const override {
    Nested<VariablePtr>::List all;
    if (kept_.empty()) return Nested<VariablePtr>::list({});
    auto next = kept_.begin();
    for (const Structure& item :
         cell_->nested(Tensors(kept_.begin(), kept_.end()), [](std::size_t) { return false; })) {
      const auto end = next + static_cast<std::ptrdiff_t>(item.num_leaves());
      if (item.is_list()) {
        all.push_back(Nested<VariablePtr>::list(Nested<VariablePtr>::List(next, end)));
      } else {
        all.emplace_back(*next);
      }
      next = end;
    }
    return Nested<VariablePtr>::list(std::move(all));
  }
  void reset_states() override {
    for (const VariablePtr& state : kept_) state->assign(Tensor::zeros(state->shape(), state->dtype()));
  }

 protected:
  RecurrentLayer(std::string class_name, Layer::Options base) : Layer(std::move(class_name), std::move(base)) {}
  void set_cell(std::shared_ptr<RnnCell> cell) {
    cell_ = std::move(cell);
    track("cell", cell_->layer());
  }

 private:
  // Keras calls a cell once on the first step to learn its output, unless the steps are unrolled, and those of a stack
  // once for their dropout masks, and drops the results: a cell that draws random numbers or assigns variables does so
  // as often. A loop in a graph has the first of these calls already.
  void call_first(const Tensor& x, const Tensors& states, const CellMasks& drop) {
    if (graph::stands_for_shape(x) || x.dim(1) == 0) return;
    const bool for_output = !loop().unroll && !runs_in_loop(x);
    const bool for_masks = cell_->layer()->class_name() == "StackedRNNCells";
    const Tensor first = ops::stop_gradient(at_time(x, 0));
    for (int i = 0; i < int{for_output} + int{for_masks}; ++i) cell_->step(cell_->project(first, drop), states, drop);
  }
  Tensors initial_states(const Tensor& x, const CallContext& context) const {
    const Argument* given = context.arguments->find("initial_state");
    const std::vector<DType> dtypes = cell_->state_dtypes();
    Tensors states;
    if (given) {
      for (const ArgValue& value : given->flatten()) {
        if (value.is_tensor()) states.push_back(value.tensor);
      }
    }
    const Ints sizes = cell_->state_sizes();
    if (!states.empty()) {
      if (states.size() != sizes.size()) {
        throw_invalid_argument(fmt::format("{} '{}' has {} states, initial_state has {}", class_name(), name(),
                                           sizes.size(), states.size()));
      }
      for (std::size_t i = 0; i < sizes.size(); ++i) states[i] = ops::cast(states[i], dtypes[i]);
      return states;
    }
    if (!loop().stateful && has_own_cell(*cell_)) {
      states =
          cell_->get_initial_state(x.dim(0) != kUnknownDim ? Extent(x.dim(0)) : Extent(ops::dim_of(x, 0))).flatten();
      for (std::size_t i = 0; i < sizes.size(); ++i) states.at(i) = ops::cast(states.at(i), dtypes[i]);
      return states;
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (loop().stateful) {
        states.push_back(ops::cast(kept_.at(i)->read(), dtypes[i]));
      } else {
        const Tensor shape = shape_with_batch(x, sizes[i]);
        states.push_back(ops::fill(shape, Tensor::scalar(0.0, dtypes[i])));
      }
    }
    return states;
  }
  // (time, batch, …) as (batch, time, …), and the other way round, in a layer of Keras 2 that is time-major.
  Tensor batch_first(const Tensor& x) const {
    if (!loop().time_major || !x.defined()) return x;
    return ops::transpose(x, x.rank() == 2 ? ops::Ints{1, 0} : ops::Ints{1, 0, 2});
  }
  static Tensor shape_with_batch(const Tensor& x, std::int64_t size) {
    if (x.dim(0) != kUnknownDim) return ops::constant_ints({x.dim(0), size});
    return ops::stack({ops::dim_of(x, 0), Tensor::scalar(static_cast<std::int32_t>(size))});
  }

  std::shared_ptr<RnnCell> cell_;
  std::vector<VariablePtr> kept_;
  FirstStates states_;
};

template <typename Derived, typename OptionsT>
class ConfiguredRecurrent : public ConfiguredLayer<Derived, OptionsT, RecurrentLayer> {
 public:
  LoopOptions loop() const override {
    const OptionsT& o = this->options_;
    return {o.return_sequences, o.return_state,         o.go_backwards, o.stateful,
            o.unroll,           o.zero_output_for_mask, time_major_};
  }
  void make_time_major() { time_major_ = true; }
  Json get_config() const override {
    Json config = ConfiguredLayer<Derived, OptionsT, RecurrentLayer>::get_config();
    if (time_major_) config["time_major"] = true;
    return config;
  }
  void set_zero_output_for_mask(bool zero) override { this->options_.zero_output_for_mask = zero; }

 protected:
  using ConfiguredLayer<Derived, OptionsT, RecurrentLayer>::ConfiguredLayer;
  template <typename V>
  static void loop_fields(V& v, OptionsT& o) {
    v("return_sequences", o.return_sequences);
    v("return_state", o.return_state);
    v("go_backwards", o.go_backwards);
    v("stateful", o.stateful);
    v("unroll", o.unroll);
    v("zero_output_for_mask", o.zero_output_for_mask);
  }

 private:
  bool time_major_ = false;
};

// LSTM, GRU and SimpleRNN: the arguments are those of the cell and of the loop.
template <typename Derived, CellKind kKind>
class GatedLayer : public ConfiguredRecurrent<Derived, RNNOptions> {
 public:
  template <typename V>
  static void fields(V& v, RNNOptions& o) {
    Derived::loop_fields(v, o);
    cell_fields<kKind, false>(v, o);
  }

 protected:
  // The generator and the initializers draw their seeds in the constructor of the cell, SimpleRNN's generator before
  // its initializers; the layer takes the cell's objects over, and writes them into its config.
  explicit GatedLayer(const RNNOptions& options) : GatedLayer(make_cell(options), options) {}

 private:
  GatedLayer(std::shared_ptr<RnnCell> cell, RNNOptions options)
      : ConfiguredRecurrent<Derived, RNNOptions>((take_objects(*cell, options), std::move(options))) {
    this->set_cell(std::move(cell));
  }
  static std::shared_ptr<RnnCell> make_cell(RNNOptions options) {
    constexpr const char* kNames[] = {"lstm_cell", "gru_cell", "simple_rnn_cell"};
    options.name = kNames[static_cast<int>(kKind)];
    if constexpr (kKind == CellKind::kLstm) return make_lstm_cell(std::move(options));
    if constexpr (kKind == CellKind::kGru) return make_gru_cell(std::move(options));
    return make_simple_rnn_cell(std::move(options));
  }
};

class LstmLayer : public GatedLayer<LstmLayer, CellKind::kLstm> {
 public:
  static constexpr const char* kClass = "LSTM";
  explicit LstmLayer(const RNNOptions& options) : GatedLayer(options) {}
};
class GruLayer : public GatedLayer<GruLayer, CellKind::kGru> {
 public:
  static constexpr const char* kClass = "GRU";
  explicit GruLayer(const RNNOptions& options) : GatedLayer(options) {}
};
class SimpleRnnLayer : public GatedLayer<SimpleRnnLayer, CellKind::kSimple> {
 public:
  static constexpr const char* kClass = "SimpleRNN";
  explicit SimpleRnnLayer(const RNNOptions& options) : GatedLayer(options) {}
};

class RnnLayer : public ConfiguredRecurrent<RnnLayer, GenericRNNOptions> {
 public:
  static constexpr const char* kClass = "RNN";
  template <typename V>
  static void fields(V& v, GenericRNNOptions& o) {
    loop_fields(v, o);
    v("cell", o.cell, Field::kRequired);
    v.dropped("num_constants");
    v.dropped("time_major", false);
  }
  explicit RnnLayer(GenericRNNOptions options) : ConfiguredRecurrent(std::move(options)) {
    auto cell = as_cell(options_.cell);
    if (!cell) {
      throw_invalid_argument(
          fmt::format("RNN '{}' requires a cell: LSTMCell, another RNN cell, or one of a class that derives from "
                      "layers::Cell",
                      name()));
    }
    set_cell(std::move(cell));
  }
};

// Keras 2's layers have an argument that Keras 3 lacks.
template <typename L>
ClassRow recurrent_row() {
  ClassRow row = layer_row<L>();
  row.make = [make = row.make](const Json& config) -> std::shared_ptr<void> {
    if (!config.is_object() || config.value("time_major", Json(false)) != Json(true)) return make(config);
    Json own = config;
    own.erase("time_major");
    std::shared_ptr<void> made = make(own);
    dynamic_cast<L&>(*std::static_pointer_cast<Layer>(made)).make_time_major();
    return made;
  };
  return row;
}

template <typename L>
LayerHandle make_gated(std::int64_t units, RNNOptions options) {
  options.units = units;
  return std::make_shared<L>(options);
}

}  // namespace

void register_recurrent_layers(ClassTable& registry) {
  registry.add(recurrent_row<LstmLayer>());
  registry.add(recurrent_row<GruLayer>());
  registry.add(recurrent_row<SimpleRnnLayer>());
  registry.add(recurrent_row<RnnLayer>());
  register_recurrent_cells(registry);
  register_wrappers(registry);
}

void throw_unknown_batch(const Layer& layer) {
  throw_invalid_argument(
      fmt::format("{} '{}' is stateful: the batch size of its input must be known (give Input a batch_size)",
                  layer.class_name(), layer.name()));
}

std::optional<LoopOptions> loop_options(const Layer& layer) {
  const auto* recurrent = dynamic_cast<const LoopsOverTime*>(&built_in_of(layer));
  return recurrent ? std::optional(recurrent->loop()) : std::nullopt;
}

bool draws_masks(const Layer& layer) {
  const auto* recurrent = dynamic_cast<const LoopsOverTime*>(&built_in_of(layer));
  return recurrent && recurrent->draws_masks();
}

Nested<VariablePtr> kept_states(const Layer& layer) {
  const auto* recurrent = dynamic_cast<const LoopsOverTime*>(&built_in_of(layer));
  return recurrent ? recurrent->kept_states() : Nested<VariablePtr>::list({});
}

std::vector<Tensor> LayerHandle::states() const {
  const std::vector<VariablePtr> states = kept_states(object()).flatten();
  return {states.begin(), states.end()};
}

void set_zero_output_for_mask(Layer& layer, bool zero) {
  if (auto* recurrent = dynamic_cast<LoopsOverTime*>(&built_in_of(layer))) recurrent->set_zero_output_for_mask(zero);
}

Outcome run_loop(RnnCell& cell, const Tensor& projected, const Tensor& mask, const Tensors& states, const Unroll& how,
                 const CellMasks& drop) {
  const Tensor one = Tensor::scalar(std::int32_t{1}), steps = ops::dim_of(projected, 1);
  const Tensor first = ops::slice_axis(projected, 1, 0, 1);
  const Tensor blank = ops::zeros_like(cell.step(ops::squeeze(first, {1}), states, drop).output);
  Shape element = {kUnknownDim, cell.output_size()};
  const Tensor element_shape = ops::constant_ints({-1, cell.output_size()});
  Tensor list = ops::call1("TensorListReserve", {element_shape, steps}, {{"element_dtype", blank.dtype()}});
  Tensors loop = {Tensor::scalar(std::int32_t{0}), blank, list};
  loop.insert(loop.end(), states.begin(), states.end());
  const auto body = [&](const Tensors& v) -> Tensors {
    const Tensor t = how.go_backwards ? ops::sub(ops::sub(steps, one), v[0]) : v[0];
    const Tensor x = ops::gather(projected, t, 1);
    const Tensor m = mask.defined() ? ops::gather(mask, t, 1) : Tensor();
    RnnCell::Result next =
        masked_step(cell, x, m, Tensors(v.begin() + 3, v.end()), v[1], how.zero_output_for_mask, drop);
    Tensors out = {ops::add(v[0], one), next.output,
                   how.return_sequences ? ops::call1("TensorListSetItem", {v[2], v[0], next.output}) : v[2]};
    out.insert(out.end(), next.states.begin(), next.states.end());
    return out;
  };
  const Tensors end = graph::while_loop([&](const Tensors& v) { return ops::less(v[0], steps); }, body, loop);
  Outcome outcome{end[1], Tensor(), Tensors(end.begin() + 3, end.end())};
  if (how.return_sequences) {
    const Tensor all = ops::call1("TensorListStack", {end[2], element_shape}, {{"element_dtype", blank.dtype()}});
    outcome.all = ops::transpose(all, {1, 0, 2});
  }
  return outcome;
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle LSTM(std::int64_t units, RNNOptions options) {
  return keras::make_gated<keras::LstmLayer>(units, std::move(options));
}
LayerHandle GRU(std::int64_t units, RNNOptions options) {
  return keras::make_gated<keras::GruLayer>(units, std::move(options));
}
LayerHandle SimpleRNN(std::int64_t units, RNNOptions options) {
  return keras::make_gated<keras::SimpleRnnLayer>(units, std::move(options));
}
LayerHandle RNN(GenericRNNOptions options) { return std::make_shared<keras::RnnLayer>(std::move(options)); }

}  // namespace lockstep::layers
