#include "lockstep/keras/layers/conv_lstm.h"

#include <algorithm>
#include <string_view>

#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/conv_lstm_internal.h"
#include "lockstep/keras/layers/convolution_internal.h"
#include "lockstep/keras/layers/first_states_internal.h"
#include "lockstep/keras/layers/recurrent_cells_internal.h"
#include "lockstep/ops/lstm_cell_internal.h"
#include "lockstep/random/graph_draws_internal.h"
#include "lockstep/random/random.h"

namespace lockstep::keras {
namespace {

using namespace layers;

constexpr int kGates = 4;  // input, forget, cell, output

// The variables of a layer, which files have below "cell". As in Keras, the constructor's `trainable` does not reach
// them.
class ConvLstmCell : public Layer {
 public:
  ConvLstmCell(ConvLSTMOptions& options, int rank, random::SeedGeneratorPtr generator)
      : Layer("ConvLSTMCell", {.name = "conv_lstm_cell", .dtype = options.dtype}),
        o_(options),
        rank_(rank),
        generator_(track(std::move(generator))) {}
  Structure call(const Structure&, const CallContext&) override {
    throw_unimplemented("a cell of a ConvLSTM cannot be called by itself");
  }
  // For the shape of one step, channels last.
  void build(const Nested<Shape>& shapes) override {
    const auto weight = [&](const char* name, std::int64_t channels, const auto& initializer, const auto& regularizer,
                            const auto& constraint) {
      std::vector<std::int64_t> dims = o_.kernel_size.values;
      dims.push_back(channels);
      dims.push_back(kGates * o_.filters);
      WeightOptions options;
      options.name = name;
      options.shape = Shape(dims);
      options.initializer = initializer.object();
      options.regularizer = regularizer.object();
      options.constraint = constraint.object();
      return add_weight(std::move(options));
    };
    kernel_ = weight("kernel", shapes.leaf()[-1], o_.kernel_initializer, o_.kernel_regularizer, o_.kernel_constraint);
    recurrent_ = weight("recurrent_kernel", o_.filters, o_.recurrent_initializer, o_.recurrent_regularizer,
                        o_.recurrent_constraint);
    if (!o_.use_bias) return;
    initializers::InitializerPtr start = o_.bias_initializer.object();
    if (o_.unit_forget_bias) start = std::make_shared<ForgetBias>(start, o_.filters);
    WeightOptions options;
    options.name = "bias";
    options.shape = {kGates * o_.filters};
    options.initializer = start;
    options.regularizer = o_.bias_regularizer.object();
    options.constraint = o_.bias_constraint.object();
    bias_ = add_weight(std::move(options));
  }

  // One for each gate; empty where nothing is dropped. Keras draws them in inference too; graphs do not.
  Tensors draw(const Tensor& like, double rate, bool training) const {
    Tensors masks;
    if (rate <= 0 || graph::stands_for_shape(like) || (like.is_symbolic() && !training)) return masks;
    const bool first = o_.data_format == "channels_first";  // the numbers are drawn in the order of the data
    std::vector<std::int64_t> dims = like.shape().dims();
    if (first) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
    for (int gate = 0; gate < kGates; ++gate) {
      const Tensor mask = like.is_symbolic()
                              ? random::dropout_mask_in_graph(computed(like, dims), rate, compute_dtype(), generator_)
                              : random::dropout_mask(Shape(dims), rate, compute_dtype(), generator_);
      masks.push_back(first ? to_channels_last(mask) : mask);
    }
    return masks;
  }
  // Both of channels-last values: one step's inputs and the output before it.
  Tensor project(const Tensor& x, const Tensors& masks) const {
    Tensor y = gates_of(x, value(kernel_), masks, o_.strides.values, upper(o_.padding), o_.dilation_rate.values);
    return bias_ ? y + value(bias_) : y;
  }
  Tensor recurrent_kernel() const { return value(recurrent_); }
  Tensor recur(const Tensor& h, const Tensors& masks) const {
    const Ints ones(static_cast<std::size_t>(rank_), 1);
    return gates_of(h, value(recurrent_), masks, ones, "SAME", ones);
  }

 private:
  static Tensor computed(const Tensor& like, std::vector<std::int64_t> dims) {
    std::vector<Extent> extents(dims.begin(), dims.end());
    extents[0] = ops::dim_of(like, 0);
    return ops::shape_tensor(extents);
  }
  Tensor gates_of(const Tensor& x, const Tensor& kernel, const Tensors& masks, const Ints& strides,
                  const std::string& padding, const Ints& dilations) const {
    if (masks.empty()) return convolve(x, kernel, strides, padding, dilations);
    const Tensors kernels = ops::split(kernel, kGates, -1);
    Tensors gates;
    for (std::size_t i = 0; i < kernels.size(); ++i)
      gates.push_back(convolve(x * masks[i], kernels[i], strides, padding, dilations));
    return ops::concat(gates, -1);
  }
  Tensor convolve(const Tensor& x, const Tensor& kernel, const Ints& strides, const std::string& padding,
                  const Ints& dilations) const {
    if (rank_ == 3)
      return ops::conv3d(x, kernel,
                         {.strides = strides, .padding = padding, .dilations = dilations, .data_format = "NDHWC"});
    if (rank_ == 2) return conv2d_in_graph(x, kernel, {.strides = strides, .padding = padding, .dilations = dilations});
    return drop_height(conv2d_in_graph(
        add_height(x), ops::expand_dims(kernel, 0),
        {.strides = with_height(strides, 1), .padding = padding, .dilations = with_height(dilations, 1)}));
  }

  const ConvLSTMOptions& o_;
  int rank_;
  random::SeedGeneratorPtr generator_;
  VariablePtr kernel_, recurrent_, bias_;
};

template <int kRank>
class ConvLstmLayer : public ConfiguredLayer<ConvLstmLayer<kRank>, ConvLSTMOptions>, public LoopsOverTime {
 public:
  static constexpr const char* kClass = kRank == 1 ? "ConvLSTM1D" : kRank == 2 ? "ConvLSTM2D" : "ConvLSTM3D";
  template <typename V>
  static void fields(V& v, ConvLSTMOptions& o) {
    v("return_sequences", o.return_sequences);
    v("return_state", o.return_state);
    v("go_backwards", o.go_backwards);
    v("stateful", o.stateful);
    v("unroll", o.unroll);
    v("zero_output_for_mask", o.zero_output_for_mask);
    v.dropped("time_major", false);
    v.dropped("implementation");
    v("filters", o.filters, Field::kRequired);
    v("kernel_size", o.kernel_size, Field::kRequired);
    v("strides", o.strides);
    v("padding", o.padding);
    v("data_format", DataFormat{o.data_format});
    v("dilation_rate", o.dilation_rate);
    v("activation", o.activation);
    v("recurrent_activation", o.recurrent_activation);
    v("use_bias", o.use_bias);
    v("kernel_initializer", o.kernel_initializer);
    v("recurrent_initializer", o.recurrent_initializer);
    v("bias_initializer", o.bias_initializer);
    v("unit_forget_bias", o.unit_forget_bias);
    v("kernel_regularizer", o.kernel_regularizer);
    v("recurrent_regularizer", o.recurrent_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("recurrent_constraint", o.recurrent_constraint);
    v("bias_constraint", o.bias_constraint);
    v("dropout", o.dropout);
    v("recurrent_dropout", o.recurrent_dropout);
    v("seed", o.seed);
  }
  // The generator draws its seed before the initializers do.
  explicit ConvLstmLayer(const ConvLSTMOptions& options)
      : ConvLstmLayer(std::make_shared<random::SeedGenerator>(options.seed), options) {}
  ConvLstmLayer(random::SeedGeneratorPtr generator, ConvLSTMOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    check_convolution(o, kRank, who(), false);
    if (o.filters < 1)
      throw_invalid_argument(fmt::format("invalid {}: filters is {}, expected at least 1", who(), o.filters));
    cell_ = this->track("cell", std::make_shared<ConvLstmCell>(o, kRank, std::move(generator)));
  }

  Nested<VariablePtr> kept_states() const override {
    return Nested<VariablePtr>::list(Nested<VariablePtr>::List(kept_.begin(), kept_.end()));
  }
  LoopOptions loop() const override {
    const auto& o = this->options_;
    return {.return_sequences = o.return_sequences,
            .return_state = o.return_state,
            .go_backwards = o.go_backwards,
            .stateful = o.stateful,
            .zero_output_for_mask = zeros_.value_or(o.zero_output_for_mask)};
  }
  void set_zero_output_for_mask(bool zero) override { zeros_ = zero; }
  bool draws_masks() const override {
    return this->options_.dropout.value > 0 || this->options_.recurrent_dropout.value > 0;
  }
  Json get_build_config() const override { return states_.with_states(Layer::get_build_config()); }
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultFalse; }
  std::vector<std::string> argument_names() const override { return {"sequences"}; }
  std::vector<std::string> call_parameters() const override {
    return {"sequences", "initial_state", "mask", "training"};
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = kRank + 3}}; }
  Structure compute_mask(const Structure&, const Structure& mask, const Structure& outputs) override {
    const std::vector<Tensor> masks = mask.flatten();
    const Tensor kept = this->options_.return_sequences && !masks.empty() ? masks[0] : Tensor();
    if (!this->options_.return_state) return kept;
    Structure::List all(outputs.num_leaves());
    all[0] = kept;
    return Structure::list(std::move(all));
  }

  void build(const Nested<Shape>& shapes) override {
    const Shape shape = shapes.leaf();
    if (shape.rank() != kRank + 3)
      throw_invalid_argument(
          fmt::format("invalid input of {}: found shape {}, expected rank {}", who(), shape.to_string(), kRank + 3));
    std::vector<std::int64_t> step = {shape[0]};
    const int begin = channels_first() ? 3 : 2;
    for (int axis = begin; axis < begin + kRank; ++axis) step.push_back(shape[axis]);
    step.push_back(channels_first() ? shape[2] : shape[-1]);
    for (std::size_t axis = 1; axis < step.size(); ++axis) {
      if (step[axis] == kUnknownDim)
        throw_invalid_argument(fmt::format(
            "invalid input of {}: found shape {}, expected known extents behind the time", who(), shape.to_string()));
    }
    cell_->ensure_built(Shape(step));
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const auto& o = this->options_;
    states_.see(inputs.leaf(), context);
    const Tensor x = channels_last(inputs.leaf());
    const Tensor first = at_time(x, 0);
    const Tensors dropped = cell_->draw(first, o.dropout.value, context.training);
    Run run;
    if (context.training) run.dropped = dropped;
    if (context.mask.num_leaves() > 0 && context.mask.flatten()[0].defined())
      run.mask = ops::cast(context.mask.flatten()[0], DType::kBool);
    const bool shapes_only = graph::stands_for_shape(x);
    const bool one_by_one = shapes_only || x.dim(1) == kUnknownDim;
    if (!shapes_only && x.dim(1) == 0) throw_invalid_argument(fmt::format("{} requires at least one time step", who()));
    if (!one_by_one && run.dropped.empty()) {
      const Tensor all = projected_together(x);
      if (auto steps = try_all_steps(all, run, context)) return kept_result(*std::move(steps), x);
      run.projected = ops::unstack(all, 1);
    } else {
      run.projected = one_by_one ? Tensors{cell_->project(first, {})} : projected_steps(x, run.dropped);
    }
    Tensors states = initial_states(run.projected[0], context);
    const Tensors forgotten = cell_->draw(states[0], o.recurrent_dropout.value, context.training);
    if (context.training) run.forgotten = forgotten;
    if (shapes_only) {
      Tensors next = step(run.projected[0], states, run);
      return result({next[0], next}, x);
    }
    return kept_result(one_by_one ? run_loop(x, std::move(states), run) : run_steps(std::move(states), run), x);
  }
  void reset_states() override {
    for (const VariablePtr& state : kept_) state->assign(Tensor::zeros(state->shape(), state->dtype()));
  }

 private:
  using Base = ConfiguredLayer<ConvLstmLayer<kRank>, ConvLSTMOptions>;
  struct Run {
    Tensors projected;  // the input's part of the gates, of each step
    Tensors dropped, forgotten;
    Tensor mask;  // (batch, time), or undefined
  };
  struct Steps {
    Tensor output;  // of all steps, or of the last one
    Tensors states;
  };
  std::string who() const { return fmt::format("{} '{}'", kClass, this->name()); }
  bool channels_first() const { return this->options_.data_format == "channels_first"; }

  static Tensor at_time(const Tensor& x, std::int64_t t) {
    return ops::strided_slice(x, {ops::SliceSpec::all(), ops::SliceSpec::at(t)});
  }
  // Channels from behind the time, or the batch, to the end, or back.
  Tensor moved(const Tensor& x, bool to_last) const {
    const int at = x.rank() - kRank - 1;
    ops::Ints order;
    for (int axis = 0; axis < at; ++axis) order.push_back(axis);
    if (!to_last) order.push_back(x.rank() - 1);
    for (int axis = at; axis < at + kRank; ++axis) order.push_back(axis + (to_last ? 1 : 0));
    if (to_last) order.push_back(at);
    return ops::transpose(x, order);
  }

  // Inside the layer channels are last.
  Tensor channels_last(const Tensor& x) const { return channels_first() ? moved(x, true) : x; }
  Tensor in_layout_of_data(const Tensor& x) const { return channels_first() ? moved(x, false) : x; }

  // Those of the batch before, in the layout of the data, where the layer is stateful.
  void keep_states(const Shape& shape) {
    if (!kept_.empty()) return;
    if (shape[0] == kUnknownDim) throw_unknown_batch(*this);
    for (int i = 0; i < 2; ++i) {
      kept_.push_back(Variable::create(Tensor::zeros(shape, this->dtype_policy().variable_dtype()),
                                       {.trainable = false, .name = "rnn_state"}));
    }
  }

  Tensors initial_states(const Tensor& projected, const CallContext& context) {
    Tensors states;
    if (const Argument* given = context.arguments->find("initial_state")) {
      for (const ArgValue& value : given->flatten()) {
        if (!value.is_tensor()) continue;
        states.push_back(channels_last(ops::cast(value.tensor, this->compute_dtype())));
      }
    }
    if (states.empty()) {
      const Tensor zeros = ops::zeros_like(ops::slice_axis(projected, projected.rank() - 1, 0, this->options_.filters));
      states = {zeros, zeros};
      if (this->options_.stateful) {
        keep_states(in_layout_of_data(zeros).shape());
        for (std::size_t i = 0; i < 2; ++i)
          states[i] = channels_last(ops::cast(kept_[i]->read(), this->compute_dtype()));
      }
    }
    if (states.size() != 2)
      throw_invalid_argument(
          fmt::format("invalid initial_state of {}: found {} tensors, expected 2", who(), states.size()));
    return states;
  }

  Tensors projected_steps(const Tensor& x, const Tensors& dropped) const {
    Tensors all;
    for (std::int64_t t = 0; t < x.dim(1); ++t) all.push_back(cell_->project(at_time(x, t), dropped));
    return all;
  }
  // All steps at once, where nothing is dropped: (batch, time, ...).
  Tensor projected_together(const Tensor& x) const {
    const auto extents = [](const Tensor& of, int from, ops::Ints first) {
      for (int axis = from; axis < of.rank(); ++axis) first.push_back(of.dim(axis));
      return first;
    };
    const Tensor y = cell_->project(ops::reshape(x, extents(x, 2, {-1})), {});
    return ops::reshape(y, extents(y, 1, {-1, x.dim(1)}));
  }

  // As one operation, from the input's part of the gates of all steps. Nothing: step by step.
  std::optional<Steps> try_all_steps(const Tensor& projected, const Run& run, const CallContext& context) {
    const auto& o = this->options_;
    if (kRank == 3 || !projected.is_value() || run.mask.defined() || o.recurrent_dropout.value > 0) return std::nullopt;
    Tensors states(2);  // undefined: zeros
    if (o.stateful || context.arguments->find("initial_state")) states = initial_states(at_time(projected, 0), context);
    Tensor gates = projected, kernel = cell_->recurrent_kernel();
    if (kRank == 1) {
      gates = ops::expand_dims(gates, 2), kernel = ops::expand_dims(kernel, 0);
      for (Tensor& state : states) state = state.defined() ? add_height(state) : state;
    }
    const auto made = ops::try_conv_lstm(gates, kernel, states[0], states[1],
                                         {.activation = o.activation.object()->name(),
                                          .recurrent_activation = o.recurrent_activation.object()->name(),
                                          .sequences = o.return_sequences,
                                          .backwards = o.go_backwards});
    if (!made) return std::nullopt;
    if (kRank == 2) return Steps{made->output, {made->h, made->c}};
    return Steps{ops::squeeze(made->output, {o.return_sequences ? 2 : 1}),
                 {drop_height(made->h), drop_height(made->c)}};
  }

  // The result; a stateful layer keeps the states.
  Structure kept_result(Steps steps, const Tensor& x) {
    if (this->options_.stateful && !x.is_symbolic()) {
      for (std::size_t i = 0; i < kept_.size(); ++i)
        kept_[i]->assign(ops::cast(ops::stop_gradient(in_layout_of_data(steps.states[i])), kept_[i]->dtype()));
    }
    return result(std::move(steps), x);
  }

  // Of channels-last values. A function along an axis, such as softmax, is one of the layer's own data format.
  Tensor activated(const activations::Activation& function, const Tensor& x) const {
    constexpr std::string_view kOfElements[] = {"tanh", "sigmoid", "hard_sigmoid", "relu", "linear"};
    if (!channels_first() || std::ranges::find(kOfElements, function.name()) != std::end(kOfElements))
      return function(x);
    return moved(function(moved(x, false)), true);
  }

  Tensors step(const Tensor& projected, const Tensors& states, const Run& run) const {
    const auto& o = this->options_;
    const Tensor recurrent = cell_->recur(states[0], run.forgotten);
    if (const auto made = ops::try_lstm_step(projected, recurrent, states[1], o.activation.object()->name(),
                                             o.recurrent_activation.object()->name()))
      return {made->h, made->c};
    const Tensor z = projected + recurrent;
    const Tensors gates = ops::split(z, kGates, -1);
    const auto squash = [&](const Tensor& x) { return activated(*o.recurrent_activation.object(), x); };
    const auto activation = [&](const Tensor& x) { return activated(*o.activation.object(), x); };
    const Tensor c = squash(gates[1]) * states[1] + squash(gates[0]) * activation(gates[2]);
    return {squash(gates[3]) * activation(c), c};
  }

  // The step's output and the states after it; `mask` is that of the step, or undefined.
  Steps masked_step(const Tensor& projected, Tensor mask, const Tensor& previous, const Tensors& states,
                    const Run& run) const {
    Tensors next = step(projected, states, run);
    if (!mask.defined()) return {next[0], next};
    while (mask.rank() < next[0].rank()) mask = ops::expand_dims(mask, -1);
    const bool zeros = loop().zero_output_for_mask || !previous.defined();
    const Tensor output = ops::where(mask, next[0], zeros ? ops::zeros_like(next[0]) : previous);
    for (std::size_t s = 0; s < 2; ++s) next[s] = ops::where(mask, next[s], states[s]);
    return {output, std::move(next)};
  }

  Steps run_steps(Tensors states, const Run& run) const {
    const auto& o = this->options_;
    const auto steps = static_cast<std::int64_t>(run.projected.size());
    Tensors outputs;
    Tensor previous;
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t t = o.go_backwards ? steps - 1 - i : i;
      const Tensor mask = run.mask.defined() ? at_time(run.mask, t) : Tensor();
      Steps next = masked_step(run.projected[static_cast<std::size_t>(t)], mask, previous, states, run);
      states = std::move(next.states);
      previous = next.output;
      if (o.return_sequences) outputs.push_back(previous);
    }
    return {o.return_sequences ? ops::stack(outputs, 1) : previous, std::move(states)};
  }

  // A loop in the graph, for traces with an unknown number of steps.
  Steps run_loop(const Tensor& x, Tensors states, const Run& run) const {
    const auto& o = this->options_;
    const Tensor one = Tensor::scalar(std::int32_t{1}), steps = ops::dim_of(x, 1);
    const Tensor blank = ops::zeros_like(states[0]);
    ops::Ints dims = {-1};
    for (int axis = 1; axis < blank.rank(); ++axis) dims.push_back(blank.dim(axis));
    const Tensor element_shape = ops::constant_ints(dims);
    const Tensor list = ops::call1("TensorListReserve", {element_shape, steps}, {{"element_dtype", blank.dtype()}});
    const auto body = [&](const Tensors& v) -> Tensors {
      const Tensor t = o.go_backwards ? ops::sub(ops::sub(steps, one), v[0]) : v[0];
      const Tensor mask = run.mask.defined() ? ops::gather(run.mask, t, 1) : Tensor();
      const Steps next = masked_step(cell_->project(ops::gather(x, t, 1), {}), mask, v[1], {v[3], v[4]}, run);
      return {ops::add(v[0], one), next.output,
              o.return_sequences ? ops::call1("TensorListSetItem", {v[2], v[0], next.output}) : v[2], next.states[0],
              next.states[1]};
    };
    const Tensors end = graph::while_loop([&](const Tensors& v) { return ops::less(v[0], steps); }, body,
                                          {Tensor::scalar(std::int32_t{0}), blank, list, states[0], states[1]});
    Tensor output = end[1];
    if (o.return_sequences) {
      const Tensor all = ops::call1("TensorListStack", {end[2], element_shape}, {{"element_dtype", blank.dtype()}});
      ops::Ints order = {1, 0};
      for (int axis = 2; axis < all.rank(); ++axis) order.push_back(axis);
      output = ops::transpose(all, order);
    }
    return {output, {end[3], end[4]}};
  }

  Structure result(Steps steps, const Tensor& x) const {
    const auto& o = this->options_;
    Tensor output = steps.output;
    if (o.return_sequences && graph::stands_for_shape(x)) {
      // (batch, 1, …) along the (1, time, 1, …) of the input
      Tensor along = x;
      for (int axis = 2; axis < x.rank(); ++axis) along = ops::slice_axis(along, axis, 0, 1);
      output = ops::expand_dims(output, 1) + ops::cast(along * 0.0, output.dtype());
    }
    output = in_layout_of_data(output);
    if (!o.return_state) return output;
    return Structure::list({Structure(output), Structure(in_layout_of_data(steps.states[0])),
                            Structure(in_layout_of_data(steps.states[1]))});
  }

  std::shared_ptr<ConvLstmCell> cell_;
  FirstStates states_;
  std::vector<VariablePtr> kept_;
  std::optional<bool> zeros_;  // for masked steps, where a Bidirectional has decided; Keras 2 has no argument for it
};

template <int kRank>
LayerHandle make_conv_lstm(ConvLSTMOptions options) {
  return std::make_shared<ConvLstmLayer<kRank>>(std::move(options));
}

}  // namespace

void register_conv_lstm_layers(ClassTable& registry) {
  registry.add(layer_row<ConvLstmLayer<1>>());
  registry.add(layer_row<ConvLstmLayer<2>>());
  registry.add(layer_row<ConvLstmLayer<3>>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle ConvLSTM1D(ConvLSTMOptions options) { return keras::make_conv_lstm<1>(std::move(options)); }
LayerHandle ConvLSTM2D(ConvLSTMOptions options) { return keras::make_conv_lstm<2>(std::move(options)); }
LayerHandle ConvLSTM3D(ConvLSTMOptions options) { return keras::make_conv_lstm<3>(std::move(options)); }

}  // namespace lockstep::layers
