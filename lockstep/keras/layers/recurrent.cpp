#include "lockstep/keras/layers/recurrent.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/recurrent_cells_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// The new value where the step counts, else the old one. `mask` is (batch).
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

// A loop in the graph, for traces with a number of steps that is unknown or large.
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

// Only shapes: one step tells them all.
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

Outcome run_cell(RnnCell& cell, const Tensor& x, const Tensor& mask, const Tensors& states, const Unroll& how,
                 const CellMasks& drop) {
  constexpr std::int64_t kMostUnrolled = 32;
  if (!x.is_symbolic()) {
    if (x.dim(1) == 0) throw_invalid_argument(fmt::format("'{}' was given a sequence without time steps", cell.name()));
    if (auto outcome = cell.try_run(x, mask, states, how, drop)) return std::move(*outcome);
  }
  const Tensor projected = cell.project(x, drop);
  if (!x.is_symbolic()) return run_unrolled(cell, projected, mask, states, how, drop);
  if (!graph::TraceScope::current()) return run_for_shapes(cell, projected, states, how, drop);
  if (x.dim(1) != kUnknownDim && x.dim(1) <= kMostUnrolled)
    return run_unrolled(cell, projected, mask, states, how, drop);
  return run_loop(cell, projected, mask, states, how, drop);
}

// LSTM, GRU, SimpleRNN and RNN.
class RecurrentLayer : public Layer {
 public:
  RecurrentLayer(std::string class_name, Layer::Options base, RNNOptions& flags, std::shared_ptr<RnnCell> cell)
      : Layer(std::move(class_name), std::move(base)), flags_(flags), cell_(std::move(cell)) {
    track("cell", cell_);
  }
  Json module() const override { return "keras.layers"; }
  Json get_config() const override {
    Json config = Layer::get_config();
    FieldWriter writer(config);
    flag_fields(writer, const_cast<RNNOptions&>(flags_));
    if (class_name() == "LSTM") cell_fields<CellKind::kLstm, false>(writer, const_cast<RNNOptions&>(flags_));
    if (class_name() == "GRU") cell_fields<CellKind::kGru, false>(writer, const_cast<RNNOptions&>(flags_));
    if (class_name() == "SimpleRNN") cell_fields<CellKind::kSimple, false>(writer, const_cast<RNNOptions&>(flags_));
    if (class_name() == "RNN") config["cell"] = serialize_operation(*cell_);
    return config;
  }
  template <typename V>
  static void flag_fields(V& v, RNNOptions& o) {
    v("return_sequences", o.return_sequences);
    v("return_state", o.return_state);
    v("go_backwards", o.go_backwards);
    v("stateful", o.stateful);
    v("unroll", o.unroll);
    v("zero_output_for_mask", o.zero_output_for_mask);
  }

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
    const Tensor kept = flags_.return_sequences && !masks.empty() ? masks[0] : Tensor();
    if (!flags_.return_state) return kept;
    Structure::List all(outputs.num_leaves());
    all[0] = kept;
    return Structure::list(std::move(all));
  }

  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    cell_->ensure_built(Shape{shape[0], shape[-1]});
    if (!flags_.stateful) return;
    if (shape[0] == kUnknownDim) {
      throw_invalid_argument(
          fmt::format("{} '{}' is stateful: the batch size of its input must be known (give Input a batch_size)",
                      class_name(), name()));
    }
    for (std::int64_t size : cell_->state_sizes()) {
      kept_.push_back(Variable::create(Tensor::zeros({shape[0], size}, compute_dtype()),
                                       {.name = "rnn_state", .trainable = false}));
    }
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& x = inputs.leaf();
    if (flags_.unroll && x.dim(1) == kUnknownDim) {
      throw_invalid_argument(
          fmt::format("{} '{}' cannot unroll: the number of time steps is not known", class_name(), name()));
    }
    Tensors states = initial_states(x, context);
    const Tensor mask = context.mask.num_leaves() > 0 ? context.mask.flatten()[0] : Tensor();
    const CellMasks drawn = cell_->draw_masks(x.is_symbolic() ? x : at_time(x, 0));
    const Unroll how{flags_.return_sequences, flags_.go_backwards, flags_.zero_output_for_mask};
    Outcome outcome = run_cell(*cell_, x, mask.defined() ? ops::cast(mask, DType::kBool) : mask, states, how,
                               context.training ? drawn : CellMasks());
    if (flags_.stateful && !x.is_symbolic()) {
      for (std::size_t i = 0; i < kept_.size(); ++i) kept_[i]->assign(ops::stop_gradient(outcome.states[i]));
    }
    const Tensor output = flags_.return_sequences ? outcome.all : outcome.last;
    if (!flags_.return_state) return output;
    Structure::List all = {output};
    for (Tensor& state : outcome.states) all.emplace_back(std::move(state));
    return Structure::list(std::move(all));
  }

  void reset_states() override {
    for (const VariablePtr& state : kept_) state->assign(Tensor::zeros(state->shape(), state->dtype()));
  }
  const RNNOptions& flags() const { return flags_; }
  void set_zero_output_for_mask(bool zero) { flags_.zero_output_for_mask = zero; }

 private:
  Tensors initial_states(const Tensor& x, const CallContext& context) const {
    const Argument* given = context.arguments->find("initial_state");
    Tensors states;
    if (given) {
      for (const ArgValue& value : given->flatten()) {
        if (value.is_tensor()) states.push_back(ops::cast(value.tensor, compute_dtype()));
      }
    }
    const Ints sizes = cell_->state_sizes();
    if (!states.empty()) {
      if (states.size() != sizes.size()) {
        throw_invalid_argument(fmt::format("{} '{}' has {} states, initial_state has {}", class_name(), name(),
                                           sizes.size(), states.size()));
      }
      return states;
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (flags_.stateful) {
        states.push_back(kept_.at(i)->read());
      } else {
        const Tensor shape = shape_with_batch(x, sizes[i]);
        states.push_back(ops::fill(shape, Tensor::scalar(0.0, compute_dtype())));
      }
    }
    return states;
  }
  static Tensor shape_with_batch(const Tensor& x, std::int64_t size) {
    if (x.dim(0) != kUnknownDim) return ops::constant_ints({x.dim(0), size});
    return ops::stack({ops::dim_of(x, 0), Tensor::scalar(static_cast<std::int32_t>(size))});
  }

  RNNOptions flags_;  // as given, with initializers and the like resolved
  std::shared_ptr<RnnCell> cell_;
  std::vector<VariablePtr> kept_;
};

template <CellKind kKind>
std::shared_ptr<RnnCell> cell_for(RNNOptions& o) {
  RNNOptions cell = o;
  cell.trainable = o.trainable;
  constexpr const char* kNames[] = {"lstm_cell", "gru_cell", "simple_rnn_cell"};
  cell.name = kNames[static_cast<int>(kKind)];
  // The generator and the initializers draw their seeds in the constructor of the cell; the layer writes
  // the same objects into its config.
  if constexpr (kKind == CellKind::kLstm) return make_lstm_cell(std::move(cell));
  if constexpr (kKind == CellKind::kGru) return make_gru_cell(std::move(cell));
  return make_simple_rnn_cell(std::move(cell));
}

constexpr const char* class_of(CellKind kind) {
  return kind == CellKind::kLstm ? "LSTM" : kind == CellKind::kGru ? "GRU" : "SimpleRNN";
}

template <CellKind kKind>
LayerPtr make_recurrent(RNNOptions o, Layer::Options base) {
  // Resolve once: SimpleRNN's generator draws before its initializers, so the cell must be the first to
  // resolve; its objects are then taken over.
  std::shared_ptr<RnnCell> cell = cell_for<kKind>(o);
  take_objects(*cell, o);
  return std::make_shared<RecurrentLayer>(class_of(kKind), std::move(base), o, std::move(cell));
}

template <CellKind kKind, typename V>
void recurrent_fields(V& v, RNNOptions& o) {
  RecurrentLayer::flag_fields(v, o);
  cell_fields<kKind, false>(v, o);
}

template <CellKind kKind>
LayerPtr recurrent_from_config(const Json& config) {
  FieldReader reader(class_of(kKind), config);
  RNNOptions o;
  recurrent_fields<kKind>(reader, o);
  Layer::Options base = read_layer_options(reader);
  o.trainable = base.trainable;
  o.dtype = base.dtype;
  base.activity_regularizer = o.activity_regularizer;
  // Keras 1 and early Keras 2 had no reset_after: the bias then has one row.
  if (kKind == CellKind::kGru && config.contains("implementation") && !config.contains("reset_after"))
    o.reset_after = false;
  reader.finish();
  return make_recurrent<kKind>(std::move(o), std::move(base));
}

template <CellKind kKind>
ClassRow recurrent_row(std::vector<std::string> aliases = {}) {
  return {class_of(kKind), std::move(aliases), recurrent_from_config<kKind>, [] {
            return describe_layer([](FieldDescriber& describer) {
              RNNOptions o;
              recurrent_fields<kKind>(describer, o);
            });
          }};
}

template <typename V>
void rnn_fields(V& v, LayerHandle& cell, RNNOptions& o) {
  v("cell", cell, Field::kRequired);
  RecurrentLayer::flag_fields(v, o);
  v.dropped("num_constants");
  v.dropped("time_major");
}

LayerPtr rnn_from_config(const Json& config) {
  FieldReader reader("RNN", config);
  RNNOptions o;
  LayerHandle handle;
  rnn_fields(reader, handle, o);
  Layer::Options base = read_layer_options(reader);
  reader.finish();
  auto cell = std::dynamic_pointer_cast<RnnCell>(handle.ptr());
  if (!cell) throw_invalid_argument(fmt::format("RNN '{}': it has no cell, or one that is no RNN cell", base.name));
  return std::make_shared<RecurrentLayer>("RNN", std::move(base), o, std::move(cell));
}

Layer::Options base_options(const RNNOptions& o) {
  return {.name = o.name, .trainable = o.trainable, .dtype = o.dtype, .activity_regularizer = o.activity_regularizer};
}

}  // namespace

void register_recurrent_layers(ClassTable& registry) {
  registry.add(recurrent_row<CellKind::kLstm>({"CuDNNLSTM"}));
  registry.add(recurrent_row<CellKind::kGru>());
  registry.add(recurrent_row<CellKind::kSimple>());
  registry.add({"RNN", {}, rnn_from_config, [] {
                  return describe_layer([](FieldDescriber& describer) {
                    LayerHandle cell;
                    RNNOptions o;
                    rnn_fields(describer, cell, o);
                  });
                }});
  register_recurrent_cells(registry);
  register_wrappers(registry);
}

bool recurrent_flags(const Layer& layer, layers::RNNOptions& out) {
  const auto* recurrent = dynamic_cast<const RecurrentLayer*>(&layer);
  if (recurrent) out = recurrent->flags();
  return recurrent != nullptr;
}

void set_zero_output_for_mask(Layer& layer, bool zero) {
  if (auto* recurrent = dynamic_cast<RecurrentLayer*>(&layer)) recurrent->set_zero_output_for_mask(zero);
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle LSTM(std::int64_t units, RNNOptions options) {
  options.units = units;
  keras::Layer::Options base = keras::base_options(options);
  return LayerHandle(keras::make_recurrent<keras::CellKind::kLstm>(std::move(options), std::move(base)));
}
LayerHandle GRU(std::int64_t units, RNNOptions options) {
  options.units = units;
  keras::Layer::Options base = keras::base_options(options);
  return LayerHandle(keras::make_recurrent<keras::CellKind::kGru>(std::move(options), std::move(base)));
}
LayerHandle SimpleRNN(std::int64_t units, RNNOptions options) {
  options.units = units;
  keras::Layer::Options base = keras::base_options(options);
  return LayerHandle(keras::make_recurrent<keras::CellKind::kSimple>(std::move(options), std::move(base)));
}
LayerHandle RNN(LayerHandle cell, GenericRNNOptions options) {
  auto rnn_cell = std::dynamic_pointer_cast<keras::RnnCell>(cell.ptr());
  if (!rnn_cell) throw_invalid_argument("RNN needs an RNN cell");
  RNNOptions flags{.return_sequences = options.return_sequences,
                   .return_state = options.return_state,
                   .go_backwards = options.go_backwards,
                   .stateful = options.stateful,
                   .unroll = options.unroll,
                   .zero_output_for_mask = options.zero_output_for_mask};
  keras::Layer::Options base{.name = options.name, .trainable = options.trainable, .dtype = options.dtype};
  return std::make_shared<keras::RecurrentLayer>("RNN", std::move(base), flags, std::move(rnn_cell));
}

}  // namespace lockstep::layers
