#include "lockstep/keras/layers/recurrent_cells_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/recurrence_internal.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/bases.h"
#include "lockstep/keras/layers/overrides_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/random/graph_draws_internal.h"
#include "lockstep/random/random.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// What the three cells share: weights, dropout masks, projections.
template <typename Derived, CellKind kKind, int kGates>
class GatedCell : public RnnCell {
 public:
  using Options = RNNOptions;
  Json module() const override { return "keras.layers"; }
  template <typename V>
  static void fields(V& v, RNNOptions& o) {
    cell_fields<kKind, true>(v, o);
  }
  Json get_config() const override {
    Json config = Layer::get_config();
    FieldWriter writer(config);
    fields(writer, const_cast<RNNOptions&>(options_));
    return config;
  }

  const RNNOptions* cell_options() const override { return &options_; }
  Ints state_sizes() const override { return Ints(kKind == CellKind::kLstm ? 2 : 1, options_.units); }
  CellMasks draw_masks(const Tensor& x) override {
    CellMasks masks;
    if (graph::stands_for_shape(x)) return masks;
    if (options_.dropout > 0) masks.input = draw(x, x.dim(1), options_.dropout);
    if (options_.recurrent_dropout > 0) masks.recurrent = draw(x, options_.units, options_.recurrent_dropout);
    return masks;
  }

  bool draws_masks() const override { return options_.dropout > 0 || options_.recurrent_dropout > 0; }

  void build(const Nested<Shape>& shapes) override {
    const Shape shape = shapes.is_list() ? shapes.parts().at(0).leaf() : shapes.leaf();
    const std::int64_t in = shape.rank() > 0 ? shape[-1] : kUnknownDim;
    if (in == kUnknownDim) {
      throw_invalid_argument(fmt::format("{} '{}': the last axis of its input must be known, found shape {}",
                                         Derived::kClass, name(), shape.to_string()));
    }
    const std::int64_t u = options_.units;
    kernel_ = add_weight({.shape = {in, kGates * u},
                          .initializer = options_.kernel_initializer.object(),
                          .regularizer = options_.kernel_regularizer.object(),
                          .constraint = options_.kernel_constraint.object(),
                          .name = "kernel"});
    recurrent_ = add_weight({.shape = {u, kGates * u},
                             .initializer = options_.recurrent_initializer.object(),
                             .regularizer = options_.recurrent_regularizer.object(),
                             .constraint = options_.recurrent_constraint.object(),
                             .name = "recurrent_kernel"});
    if (!options_.use_bias) return;
    initializers::InitializerPtr start = options_.bias_initializer.object();
    if (kKind == CellKind::kLstm && options_.unit_forget_bias) start = std::make_shared<ForgetBias>(start, u);
    const bool two_rows = kKind == CellKind::kGru && options_.reset_after;
    bias_ = add_weight({.shape = two_rows ? Shape{2, kGates * u} : Shape{kGates * u},
                        .initializer = start,
                        .regularizer = options_.bias_regularizer.object(),
                        .constraint = options_.bias_constraint.object(),
                        .name = "bias"});
  }

  Tensor project(const Tensor& given, const CellMasks& masks) override {
    const Tensor x = ops::cast(given, compute_dtype()), kernel = value(kernel_), bias = input_bias();
    const auto masked = [&](const Tensor& mask) { return x * (x.rank() == 3 ? ops::expand_dims(mask, 1) : mask); };
    if (masks.input.empty()) return ops::dense_bias_act(x, kernel, bias, "");
    if (masks.input.size() == 1) return ops::dense_bias_act(masked(masks.input[0]), kernel, bias, "");
    const Tensors kernels = ops::split(kernel, kGates, 1);
    Tensors gates;
    for (std::size_t i = 0; i < kernels.size(); ++i) gates.push_back(ops::matmul(masked(masks.input[i]), kernels[i]));
    const Tensor all = ops::concat(gates, -1);
    return bias.defined() ? all + bias : all;
  }

  std::optional<Outcome> try_run(const Tensor& x, const Tensor& mask, const Tensors& states, const Unroll& how,
                                 const CellMasks& masks) override {
    const ops::RecurrentOptions options{
        .cell = kKind == CellKind::kLstm  ? "LSTM"
                : kKind == CellKind::kGru ? "GRU"
                                          : "SimpleRNN",
        .reset_after = options_.reset_after,
        .activation = name_of(activation()),
        .recurrent_activation = kKind == CellKind::kSimple ? "linear" : name_of(recurrent_activation()),
        .return_sequences = how.return_sequences,
        .go_backwards = how.go_backwards,
        .zero_output_for_mask = how.zero_output_for_mask};
    Outcome outcome;
    if (x.is_symbolic()) {
      if (!masks.input.empty() || !masks.recurrent.empty()) return std::nullopt;
      const graph::Recurrence layer{options, project(x, masks), value(recurrent_), recurrent_bias(), mask,
                                    states,  how.return_state};
      Tensors made =
          graph::try_record_recurrence(layer, [&](const Tensor& projected, const Tensor& counts, const Tensors& first) {
            Outcome all = run_loop(*this, projected, counts, first, how, masks);
            all.states.insert(all.states.begin(), how.return_sequences ? all.all : all.last);
            return all.states;
          });
      if (made.empty()) return std::nullopt;
      (how.return_sequences ? outcome.all : outcome.last) = made[0];
      outcome.states.assign(made.begin() + 1, made.end());
      return outcome;
    }
    auto made = ops::try_recurrent(project(x, masks), value(recurrent_), recurrent_bias(), mask, masks.recurrent,
                                   states, options);
    if (!made) return std::nullopt;
    (how.return_sequences ? outcome.all : outcome.last) = made->output;
    outcome.states = std::move(made->states);
    return outcome;
  }

 protected:
  explicit GatedCell(RNNOptions options)
      : RnnCell(Derived::kClass, {.name = options.name, .trainable = options.trainable, .dtype = options.dtype}),
        options_(std::move(options)) {
    if (options_.units < 1)
      throw_invalid_argument(
          fmt::format("{} '{}': units is {}, expected at least 1", Derived::kClass, name(), options_.units));
    for (const double rate : {options_.dropout.value, options_.recurrent_dropout.value}) {
      if (!(rate >= 0 && rate <= 1))
        throw_invalid_argument(
            fmt::format("{} '{}': a dropout rate is {}, expected 0 to 1", Derived::kClass, name(), rate));
    }
    if (kKind == CellKind::kSimple) generator_ = add_seed_generator(options_.seed);
    FieldResolver resolver(fmt::format("{} '{}'", Derived::kClass, name()));
    fields(resolver, options_);
    if (kKind != CellKind::kSimple) generator_ = add_seed_generator(options_.seed);
  }
  bool split_gates() const { return kKind != CellKind::kSimple && options_.recurrent_dropout > 0; }
  // Empty for a function of the user's.
  static std::string name_of(const activations::Activation& activation) {
    return activation.serialize().is_string() ? activation.name() : "";
  }
  // The bias of project(), and that of the recurrent product of a GRU with reset_after.
  virtual Tensor input_bias() const { return bias_ ? value(bias_) : Tensor(); }
  virtual Tensor recurrent_bias() const { return Tensor(); }
  const activations::Activation& activation() const { return *options_.activation.object(); }
  const activations::Activation& recurrent_activation() const { return *options_.recurrent_activation.object(); }
  // h · the recurrent kernel of gates first … last-1, masked for each gate.
  Tensor recur(const Tensor& h, int first, int last, const CellMasks& masks) const {
    const Tensor kernel = value(recurrent_);
    const std::int64_t u = options_.units;
    const auto columns = [&](int from, int to) {
      return from == 0 && to == kGates ? kernel : ops::slice_axis(kernel, 1, from * u, to * u);
    };
    const Tensors& drawn = masks.recurrent;
    if (drawn.empty()) return ops::matmul(h, columns(first, last));
    if (drawn.size() == 1) return ops::matmul(h * drawn[0], columns(first, last));
    Tensors gates;
    for (int i = first; i < last; ++i)
      gates.push_back(ops::matmul(h * drawn[static_cast<std::size_t>(i)], columns(i, i + 1)));
    return gates.size() == 1 ? gates[0] : ops::concat(gates, -1);
  }

  RNNOptions options_;
  VariablePtr kernel_, recurrent_, bias_;

 private:
  // For each row of x.
  Tensors draw(const Tensor& x, std::int64_t width, double rate) {
    Tensors masks(split_gates() ? kGates : 1);
    for (Tensor& mask : masks) {
      mask = x.is_symbolic() ? random::dropout_mask_in_graph(ops::shape_tensor({ops::dim_of(x, 0), width}), rate,
                                                             compute_dtype(), generator_)
                             : random::dropout_mask({x.dim(0), width}, rate, compute_dtype(), generator_);
    }
    return masks;
  }
  random::SeedGeneratorPtr generator_;
};

class LstmCell : public GatedCell<LstmCell, CellKind::kLstm, 4> {
 public:
  static constexpr const char* kClass = "LSTMCell";
  explicit LstmCell(RNNOptions options) : GatedCell(std::move(options)) {}
  Result step(const Tensor& projected, const Tensors& states, const CellMasks& masks) override {
    const Tensor z = projected + recur(states[0], 0, 4, masks);
    const Tensors gates = ops::split(z, 4, 1);
    const Tensor i = recurrent_activation()(gates[0]), f = recurrent_activation()(gates[1]);
    const Tensor c = f * states[1] + i * activation()(gates[2]);
    const Tensor h = recurrent_activation()(gates[3]) * activation()(c);
    return {h, {h, c}};
  }
};

class GruCell : public GatedCell<GruCell, CellKind::kGru, 3> {
 public:
  static constexpr const char* kClass = "GRUCell";
  explicit GruCell(RNNOptions options) : GatedCell(std::move(options)) {}
  Result step(const Tensor& projected, const Tensors& states, const CellMasks& masks) override {
    const Tensor& h = states[0];
    const Tensors x = ops::split(projected, 3, 1);
    Tensor inner = options_.reset_after ? recur(h, 0, 3, masks) : recur(h, 0, 2, masks);
    if (const Tensor bias = recurrent_bias(); bias.defined()) inner = inner + bias;
    const std::int64_t u = options_.units;
    const Tensor z = recurrent_activation()(x[0] + ops::slice_axis(inner, 1, 0, u));
    const Tensor r = recurrent_activation()(x[1] + ops::slice_axis(inner, 1, u, 2 * u));
    const Tensor candidate =
        options_.reset_after ? r * ops::slice_axis(inner, 1, 2 * u, 3 * u) : recur_candidate(r, h, masks);
    const Tensor hh = activation()(x[2] + candidate);
    const Tensor next = z * h + (1.0 - z) * hh;
    return {next, {next}};
  }

  Tensor input_bias() const override { return bias_ ? bias_row(0) : Tensor(); }
  Tensor recurrent_bias() const override { return bias_ && options_.reset_after ? bias_row(1) : Tensor(); }

 private:
  Tensor bias_row(int row) const {
    const Tensor bias = value(bias_);
    return options_.reset_after ? ops::strided_slice(bias, {ops::SliceSpec::at(row)}) : bias;
  }
  Tensor recur_candidate(const Tensor& r, const Tensor& h, const CellMasks& masks) const {
    const Tensor kernel = ops::slice_axis(value(recurrent_), 1, 2 * options_.units, 3 * options_.units);
    return ops::matmul(r * (masks.recurrent.size() == 3 ? h * masks.recurrent[2] : h), kernel);
  }
};

class SimpleCell : public GatedCell<SimpleCell, CellKind::kSimple, 1> {
 public:
  static constexpr const char* kClass = "SimpleRNNCell";
  explicit SimpleCell(RNNOptions options) : GatedCell(std::move(options)) {}
  Result step(const Tensor& projected, const Tensors& states, const CellMasks& masks) override {
    const Tensor h = activation()(projected + recur(states[0], 0, 1, masks));
    return {h, {h}};
  }
};

// A cell of the user's.
class UserCell : public RnnCell {
 public:
  explicit UserCell(std::shared_ptr<layers::Cell> cell) : cell_(std::move(cell)) {}
  LayerHandle layer() override { return cell_; }
  Ints state_sizes() const override { return cell_->state_size(); }
  std::int64_t output_size() const override { return cell_->output_size(); }
  std::vector<DType> state_dtypes() const override {
    return std::vector<DType>(state_sizes().size(), cell_->compute_dtype());
  }
  bool begins_as_tensor(std::size_t) const override { return true; }
  Structure get_initial_state(const Extent& batch_size) const override { return cell_->get_initial_state(batch_size); }
  CellMasks draw_masks(const Tensor&) override { return {}; }
  Tensor project(const Tensor& x, const CellMasks&) override { return ops::cast(x, cell_->compute_dtype()); }
  Result step(const Tensor& x, const Tensors& states, const CellMasks&) override {
    const Structure given = Structure::list({states.begin(), states.end()});
    const auto [output, next] = (*cell_)(x, given);
    return {output.leaf(), Tensors(next.flatten())};
  }

 private:
  std::shared_ptr<layers::Cell> cell_;
};

// The masks of the sequence in which a cell of a derived class runs on this thread.
thread_local const CellMasks* t_masks = nullptr;

// A cell of a class derived from one of Keras's.
class DerivedCell : public RnnCell {
 public:
  explicit DerivedCell(std::shared_ptr<BuiltInCell> cell)
      : cell_(std::move(cell)),
        built_in_(std::dynamic_pointer_cast<RnnCell>(cell_->built_in().ptr())),
        own_step_(cell_->overrides_step()) {}
  LayerHandle layer() override { return cell_; }
  Ints state_sizes() const override { return built_in_->state_sizes(); }
  std::vector<DType> state_dtypes() const override { return built_in_->state_dtypes(); }
  CellMasks draw_masks(const Tensor& x) override { return built_in_->draw_masks(x); }
  bool draws_masks() const override { return built_in_->draws_masks(); }
  Tensor project(const Tensor& x, const CellMasks& masks) override {
    return own_step_ ? ops::cast(x, cell_->compute_dtype()) : built_in_->project(x, masks);
  }
  Result step(const Tensor& x, const Tensors& states, const CellMasks& masks) override {
    if (!own_step_) return built_in_->step(x, states, masks);
    struct Masks {
      explicit Masks(const CellMasks* masks) : before(std::exchange(t_masks, masks)) {}
      ~Masks() { t_masks = before; }
      const CellMasks* before;
    } const scope(&masks);
    const auto [output, next] = (*cell_)(x, Structure::list({states.begin(), states.end()}));
    return {output.leaf(), Tensors(next.flatten())};
  }
  std::optional<Outcome> try_run(const Tensor& x, const Tensor& mask, const Tensors& states, const Unroll& how,
                                 const CellMasks& masks) override {
    return own_step_ ? std::nullopt : built_in_->try_run(x, mask, states, how, masks);
  }

 private:
  std::shared_ptr<BuiltInCell> cell_;
  std::shared_ptr<RnnCell> built_in_;
  bool own_step_;
};

struct StackedOptions {
  std::vector<LayerHandle> cells = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};

// Cells one after the other in each step; states in cell order.
class StackedCells : public ConfiguredLayer<StackedCells, StackedOptions, RnnCell> {
 public:
  static constexpr const char* kClass = "StackedRNNCells";
  template <typename V>
  static void fields(V& v, StackedOptions& o) {
    v("cells", o.cells, Field::kRequired);
  }
  explicit StackedCells(StackedOptions options) : ConfiguredLayer(std::move(options)) {
    LayerTree::List tree;
    for (const LayerHandle& handle : options_.cells) {
      auto cell = as_cell(handle);
      if (!cell)
        throw_invalid_argument(fmt::format("StackedRNNCells '{}': '{}' is not an RNN cell", name(), handle->name()));
      cells_.push_back(cell);
      tree.push_back(handle);
    }
    if (cells_.empty()) throw_invalid_argument("StackedRNNCells needs at least one cell");
    track_tree("cells", LayerTree::list(std::move(tree)));
  }
  Ints state_sizes() const override {
    Ints sizes;
    for (const auto& cell : cells_) {
      for (std::int64_t size : cell->state_sizes()) sizes.push_back(size);
    }
    return sizes;
  }
  Structure get_initial_state(const Extent& batch_size) const override {
    Tensors states;
    for (const auto& cell : cells_) {
      for (const Tensor& state : cell->get_initial_state(batch_size).flatten()) states.push_back(state);
    }
    return Structure::list(nested(states, [this](std::size_t cell) { return begins_as_tensor(cell); }));
  }
  std::vector<DType> state_dtypes() const override {
    std::vector<DType> dtypes;
    for (const auto& cell : cells_) {
      for (const DType dtype : cell->state_dtypes()) dtypes.push_back(dtype);
    }
    return dtypes;
  }
  Structure::List nested(const Tensors& states, const IsTensor& is_tensor) const override {
    Structure::List items;
    auto next = states.begin();
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const auto end = next + static_cast<std::ptrdiff_t>(cells_[i]->state_sizes().size());
      if (end - next == 1 && is_tensor(i))
        items.emplace_back(*next);
      else
        items.push_back(Structure::list({next, end}));
      next = end;
    }
    return items;
  }
  bool begins_as_tensor(std::size_t cell) const override { return cells_.at(cell)->begins_as_tensor(0); }
  bool draws_masks() const override {
    return std::ranges::any_of(cells_, [](const auto& cell) { return cell->draws_masks(); });
  }
  std::int64_t output_size() const override { return cells_.back()->output_size(); }
  void build(const Nested<Shape>& shapes) override {
    Shape shape = shapes.is_list() ? shapes.parts().at(0).leaf() : shapes.leaf();
    for (const auto& cell : cells_) {
      cell->layer()->ensure_built(shape);
      shape = {shape[0], cell->output_size()};
    }
  }
  CellMasks draw_masks(const Tensor& x) override {
    CellMasks masks;
    Tensor like = x;
    for (const auto& cell : cells_) {
      masks.cells.push_back(cell->draw_masks(like));
      if (!graph::stands_for_shape(x)) like = ops::zeros({ops::dim_of(x, 0), cell->output_size()}, x.dtype());
    }
    return masks;
  }
  Tensor project(const Tensor& x, const CellMasks& masks) override { return cells_[0]->project(x, masks.of_cell(0)); }
  Result step(const Tensor& projected, const Tensors& states, const CellMasks& masks) override {
    Result result{projected, {}};
    std::size_t next = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const std::size_t count = cells_[i]->state_sizes().size();
      const Tensors own(states.begin() + static_cast<std::ptrdiff_t>(next),
                        states.begin() + static_cast<std::ptrdiff_t>(next + count));
      const Tensor input = i == 0 ? projected : cells_[i]->project(result.output, masks.of_cell(i));
      Result one = cells_[i]->step(input, own, masks.of_cell(i));
      result.output = one.output;
      result.states.insert(result.states.end(), one.states.begin(), one.states.end());
      next += count;
    }
    return result;
  }
  // One cell after the other, each over all steps. No state changes in a masked step, so the input of a cell in it does
  // not matter. With go_backwards, outputs are in the order of the computation and the mask is not.
  std::optional<Outcome> try_run(const Tensor& x, const Tensor& mask, const Tensors& states, const Unroll& how,
                                 const CellMasks& masks) override {
    if (mask.defined() && how.go_backwards && cells_.size() > 1) return std::nullopt;
    Outcome outcome{{}, x, {}};
    auto next = states.begin();
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const bool last = i + 1 == cells_.size();
      const auto end = next + static_cast<std::ptrdiff_t>(cells_[i]->state_sizes().size());
      auto one = cells_[i]->try_run(outcome.all, mask, Tensors(next, end),
                                    {.return_sequences = !last || how.return_sequences,
                                     .go_backwards = i == 0 && how.go_backwards,
                                     .zero_output_for_mask = last && how.zero_output_for_mask,
                                     .return_state = how.return_state},
                                    masks.of_cell(i));
      if (!one) return std::nullopt;
      outcome.last = one->last, outcome.all = one->all;
      outcome.states.insert(outcome.states.end(), one->states.begin(), one->states.end());
      next = end;
    }
    return outcome;
  }

 private:
  std::vector<std::shared_ptr<RnnCell>> cells_;
};

}  // namespace

Structure RnnCell::call(const Structure& inputs, const CallContext& context) {
  if (!inputs.is_list() || inputs.parts().size() < 2) {
    throw_invalid_argument(fmt::format("{} '{}' is called on its input and its states", class_name(), name()));
  }
  const Tensor& x = inputs[0].leaf();
  Tensors states;
  for (std::size_t i = 1; i < inputs.parts().size(); ++i) {
    for (const Tensor& state : inputs[i].flatten()) states.push_back(state);
  }
  if (states.size() != state_sizes().size()) {
    throw_invalid_argument(
        fmt::format("{} '{}' has {} states, {} were given", class_name(), name(), state_sizes().size(), states.size()));
  }
  return run_step(x, states, context.training, inputs[1]);
}

Structure RnnCell::get_initial_state(const Extent& batch_size) const {
  Tensors states;
  const std::vector<DType> dtypes = state_dtypes();
  for (std::int64_t size : state_sizes()) states.push_back(ops::zeros({batch_size, size}, dtypes[states.size()]));
  return Structure::list(nested(states, [this](std::size_t cell) { return begins_as_tensor(cell); }));
}

Structure RnnCell::run_step(const Tensor& x, const Tensors& states, bool training, const Structure& given) {
  const bool draws = training || !x.is_symbolic();  // Keras draws in inference, too; a graph without them computes less
  const CellMasks drawn = t_masks ? *t_masks : draws ? draw_masks(x) : CellMasks();
  const CellMasks masks = t_masks || training ? drawn : CellMasks();
  const Result result = step(project(x, masks), states, masks);
  Structure::List next = nested(result.states, [&](std::size_t cell) {
    return given.is_list() && cell < given.size() && !given.parts()[cell].is_list();
  });
  const bool alone = next.size() == 1 && !given.is_list();
  return Structure::list({Structure(result.output), alone ? next[0] : Structure::list(std::move(next))});
}

void take_objects(const RnnCell& cell, RNNOptions& options) {
  const RNNOptions& resolved = *cell.cell_options();
  options.activation = resolved.activation;
  options.recurrent_activation = resolved.recurrent_activation;
  options.kernel_initializer = resolved.kernel_initializer;
  options.recurrent_initializer = resolved.recurrent_initializer;
  options.bias_initializer = resolved.bias_initializer;
  options.kernel_regularizer = resolved.kernel_regularizer;
  options.recurrent_regularizer = resolved.recurrent_regularizer;
  options.bias_regularizer = resolved.bias_regularizer;
  options.activity_regularizer = regularizers::get(options.activity_regularizer);
  options.kernel_constraint = resolved.kernel_constraint;
  options.recurrent_constraint = resolved.recurrent_constraint;
  options.bias_constraint = resolved.bias_constraint;
}

std::shared_ptr<RnnCell> make_lstm_cell(RNNOptions options) { return std::make_shared<LstmCell>(std::move(options)); }
std::shared_ptr<RnnCell> make_gru_cell(RNNOptions options) { return std::make_shared<GruCell>(std::move(options)); }
std::shared_ptr<RnnCell> make_simple_rnn_cell(RNNOptions options) {
  return std::make_shared<SimpleCell>(std::move(options));
}
std::shared_ptr<RnnCell> as_cell(const LayerHandle& layer) {
  if (auto cell = std::dynamic_pointer_cast<RnnCell>(layer.ptr())) return cell;
  if (auto cell = std::dynamic_pointer_cast<BuiltInCell>(layer.ptr()))
    return std::make_shared<DerivedCell>(std::move(cell));
  auto cell = std::dynamic_pointer_cast<layers::Cell>(layer.ptr());
  return cell ? std::make_shared<UserCell>(std::move(cell)) : nullptr;
}
std::vector<std::int64_t> LayerHandle::state_size() const {
  if (const auto cell = as_cell(*this)) return cell->state_sizes();
  throw_invalid_argument(fmt::format("{} '{}' has no state_size: it is not a cell", class_name(), name()));
}
std::shared_ptr<RnnCell> make_stacked_cells(std::vector<LayerHandle> cells, NamedOptions options) {
  return std::make_shared<StackedCells>(
      StackedOptions{std::move(cells), std::move(options.name), options.trainable, std::move(options.dtype)});
}

void register_recurrent_cells(ClassTable& registry) {
  registry.add(layer_row<LstmCell>());
  registry.add(layer_row<GruCell>());
  registry.add(layer_row<SimpleCell>());
  registry.add(layer_row<StackedCells>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle LSTMCell(std::int64_t units, RNNOptions options) {
  options.units = units;
  return keras::make_lstm_cell(std::move(options));
}
LayerHandle GRUCell(std::int64_t units, RNNOptions options) {
  options.units = units;
  return keras::make_gru_cell(std::move(options));
}
LayerHandle SimpleRNNCell(std::int64_t units, RNNOptions options) {
  options.units = units;
  return keras::make_simple_rnn_cell(std::move(options));
}
keras::Structure Cell::call(const keras::Structure& given, const keras::CallContext& context) {
  const auto& [inputs, states] = given;
  return call(inputs, states, context);
}
keras::Structure Cell::call(const keras::Structure& inputs, const keras::Structure& states, const keras::CallContext&) {
  return call(inputs, states);
}
keras::Structure Cell::call(const keras::Structure&, const keras::Structure&) {
  throw_unimplemented(fmt::format("class {} does not override call(inputs, states)", class_name()));
}
keras::Structure Cell::get_initial_state(const Extent& batch_size) const {
  keras::Structure::List states;
  for (const std::int64_t size : state_size()) states.emplace_back(ops::zeros({batch_size, size}, compute_dtype()));
  return keras::Structure::list(std::move(states));
}

LayerHandle StackedRNNCells(std::vector<LayerHandle> cells, NamedOptions options) {
  return keras::make_stacked_cells(std::move(cells), std::move(options));
}

}  // namespace lockstep::layers
