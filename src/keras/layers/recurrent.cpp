#include "lockstep/keras/layers/recurrent.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace.h"
#include "lockstep/keras/layers/families.h"
#include "lockstep/keras/layers/fields.h"
#include "lockstep/keras/layers/recurrent_cells.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using layers::BidirectionalOptions;
using layers::RecurrentOptions;
using layers::TimeDistributedOptions;

// Runs a cell over axis 1. `Kind` names the class, lists its keywords and makes the cell.
template <typename Kind>
class Recurrent : public ConfiguredLayer<Recurrent<Kind>, RecurrentOptions> {
 public:
  using Base = ConfiguredLayer<Recurrent<Kind>, RecurrentOptions>;
  static constexpr const char* kClass = Kind::kClass;
  // SimpleRNN draws the seed of its dropout before those of its initializers, the others after.
  explicit Recurrent(RecurrentOptions options)
      : Recurrent(options, Kind::kSeedFirst ? std::make_shared<random::SeedGenerator>(options.seed) : nullptr) {}

  template <typename V>
  static void fields(V& v, RecurrentOptions& o) {
    v("return_sequences", o.return_sequences);
    v("return_state", o.return_state);
    v("go_backwards", o.go_backwards);
    v("stateful", o.stateful);
    v("unroll", o.unroll);
    v("zero_output_for_mask", o.zero_output_for_mask);
    v("units", o.units);
    v("activation", o.activation);
    if (Kind::kGated) v("recurrent_activation", o.recurrent_activation);
    v("use_bias", o.use_bias);
    v("kernel_initializer", o.kernel_initializer);
    v("recurrent_initializer", o.recurrent_initializer);
    v("bias_initializer", o.bias_initializer);
    if (Kind::kForgets) v("unit_forget_bias", o.unit_forget_bias);
    v("kernel_regularizer", o.kernel_regularizer);
    v("recurrent_regularizer", o.recurrent_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("recurrent_constraint", o.recurrent_constraint);
    v("bias_constraint", o.bias_constraint);
    v("dropout", o.dropout);
    v("recurrent_dropout", o.recurrent_dropout);
    if (Kind::kResets) v("reset_after", o.reset_after);
    if (Kind::kGated) v("seed", o.seed);
  }
  static void read_legacy(FieldReader& reader, RecurrentOptions& o) {
    for (const char* key : {"implementation", "use_cudnn"}) reader.drop(key);
    reader.drop("time_major", false);
    if (!Kind::kGated) reader("seed", o.seed);
  }

  std::string class_name() const override { return kClass; }
  bool uses_mask() const override { return true; }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultFalse; }
  void reset_states() override { carried_.clear(); }

  void build(const Nested<Shape>& shapes) override {
    const Shape& input = shapes.is_leaf() ? shapes.leaf() : shapes[0].leaf();
    if (input.rank() != 3) {
      throw_invalid_argument(fmt::format("{} '{}': it takes inputs of shape (batch, time, features), found {}", kClass, this->name(),
                                         input.to_string()));
    }
    cell_->ensure_built(Shape{input[0], input[2]});
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    Tensors given = inputs.flatten();
    Tensor x = given[0], mask = first_mask(context.mask);
    given.erase(given.begin());
    const Tensors initial = initial_states(x, given, context);
    if (this->options_.go_backwards) {
      x = ops::reverse(x, {1});
      if (mask.defined()) mask = ops::reverse(mask, {1});
    }
    const RecurrentDrops drops = context.training ? cell_->draw_drops(x, seeds_) : RecurrentDrops{};
    const Tensor projected = cell_->project(x, drops);
    Tensors states = initial;
    const Tensor output = x.dim(1) == kUnknownDim ? loop(projected, mask, drops, states) : unrolled(projected, mask, drops, states);
    if (this->options_.stateful && !states[0].is_symbolic()) {
      carried_.clear();
      for (const Tensor& state : states) carried_.push_back(ops::stop_gradient(state));
    }
    if (!this->options_.return_state) return output;
    Structure::List list{Structure(output)};
    for (const Tensor& state : states) list.push_back(Structure(state));
    return Structure::list(std::move(list));
  }

  Structure compute_mask(const Structure&, const Structure& mask, const Structure& outputs) override {
    const Tensor own = this->options_.return_sequences ? first_mask(mask) : Tensor();
    if (!this->options_.return_state) return own;
    Tensors masks(outputs.num_leaves());
    masks[0] = own;
    return outputs.pack(masks);
  }

 private:
  Recurrent(RecurrentOptions options, random::SeedGeneratorPtr seeds) : Base(std::move(options)) {
    seeds_ = seeds ? this->track(std::move(seeds)) : this->add_seed_generator(this->options_.seed);
    cell_ = this->track("cell", Kind::cell(this->options_));
  }

  static Tensor first_mask(const Structure& mask) {
    const Tensors masks = mask.flatten();
    return masks.empty() ? Tensor() : masks[0];
  }

  Tensors initial_states(const Tensor& x, const Tensors& given, const CallContext& context) const {
    Tensors states = given;
    if (states.empty() && context.arguments) {
      if (const Argument* keyword = context.arguments->find("initial_state")) {
        for (const Tensor& state : to_structure(*keyword).flatten()) {
          if (state.defined()) states.push_back(state);
        }
      }
    }
    if (!states.empty() && states.size() != static_cast<std::size_t>(cell_->num_states())) {
      throw_invalid_argument(fmt::format("{} '{}': {} initial states were given, it has {}", kClass, this->name(), states.size(),
                                         cell_->num_states()));
    }
    if (states.empty() && this->options_.stateful && !carried_.empty() && !x.is_symbolic()) return carried_;
    while (states.size() < static_cast<std::size_t>(cell_->num_states())) {
      const Tensor dims = ops::stack({ops::dim_of(x, 0), Tensor::scalar(static_cast<std::int32_t>(cell_->units()))});
      states.push_back(ops::fill(dims, ops::constant(0.0, x.dtype())));
    }
    return states;
  }

  // One step; where `mask` (batch, 1) is false the states and the output stay as they were.
  Tensor advance(const Tensor& projected, const Tensor& mask, const RecurrentDrops& drops, const Tensor& last, Tensors& states) const {
    Tensors next = cell_->step(projected, states, drops);
    Tensor output = next[0];
    if (mask.defined()) {
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = ops::where(mask, next[i], states[i]);
      output = ops::where(mask, output, this->options_.zero_output_for_mask || !last.defined() ? ops::zeros_like(output) : last);
    }
    states = std::move(next);
    return output;
  }

  Tensor unrolled(const Tensor& projected, const Tensor& mask, const RecurrentDrops& drops, Tensors& states) const {
    const Tensors steps = ops::unstack(projected, 1);
    const Tensors masks = mask.defined() ? ops::unstack(mask, 1) : Tensors();
    Tensors outputs;
    Tensor last;
    for (std::size_t t = 0; t < steps.size(); ++t) {
      const Tensor step_mask = masks.empty() ? Tensor() : ops::expand_dims(masks[t], 1);
      last = advance(steps[t], step_mask, drops, last, states);
      if (this->options_.return_sequences) outputs.push_back(last);
    }
    if (!this->options_.return_sequences) return last.defined() ? last : states[0];
    return outputs.empty() ? ops::slice_axis(projected, 2, 0, cell_->units()) : ops::stack(outputs, 1);
  }

  // The same for a number of steps that is not known while a graph is built.
  Tensor loop(const Tensor& projected, const Tensor& mask, const RecurrentDrops& drops, Tensors& states) const {
    const Tensor steps = ops::transpose(projected, {1, 0, 2});
    const Tensor masks = mask.defined() ? ops::expand_dims(ops::transpose(mask, {1, 0}), 2) : Tensor();
    const Tensor count = ops::dim_of(steps, 0);
    const Tensor element = ops::constant_ints({-1, cell_->units()});
    const bool sequences = this->options_.return_sequences;
    Tensors variables{Tensor::scalar(std::int32_t{0}), ops::zeros_like(states[0])};
    variables.insert(variables.end(), states.begin(), states.end());
    if (sequences) variables.push_back(ops::call1("TensorListReserve", {element, count}, {{"element_dtype", projected.dtype()}}));
    const std::size_t num_states = states.size();
    const Tensors final = graph::while_loop(
        [&](const Tensors& v) { return ops::less(v[0], count); },
        [&](const Tensors& v) {
          Tensors now(v.begin() + 2, v.begin() + 2 + static_cast<std::ptrdiff_t>(num_states));
          const Tensor output = advance(ops::gather(steps, v[0]), masks.defined() ? ops::gather(masks, v[0]) : Tensor(), drops, v[1], now);
          Tensors next{ops::add(v[0], Tensor::scalar(std::int32_t{1})), output};
          next.insert(next.end(), now.begin(), now.end());
          if (sequences) next.push_back(ops::call1("TensorListSetItem", {v.back(), v[0], output}));
          return next;
        },
        variables);
    states.assign(final.begin() + 2, final.begin() + 2 + static_cast<std::ptrdiff_t>(num_states));
    if (!sequences) return final[1];
    const Tensor stacked = ops::call1("TensorListStack", {final.back(), element}, {{"element_dtype", projected.dtype()}});
    return ops::transpose(stacked, {1, 0, 2});
  }

  std::shared_ptr<RecurrentCell> cell_;
  random::SeedGeneratorPtr seeds_;
  Tensors carried_;  // of a stateful layer
};

struct SimpleRnnKind {
  static constexpr const char* kClass = "SimpleRNN";
  static constexpr bool kSeedFirst = true, kGated = false, kForgets = false, kResets = false;
  static std::shared_ptr<RecurrentCell> cell(const RecurrentOptions& o) { return simple_rnn_cell(o); }
};
struct LstmKind {
  static constexpr const char* kClass = "LSTM";
  static constexpr bool kSeedFirst = false, kGated = true, kForgets = true, kResets = false;
  static std::shared_ptr<RecurrentCell> cell(const RecurrentOptions& o) { return lstm_cell(o); }
};
struct GruKind {
  static constexpr const char* kClass = "GRU";
  static constexpr bool kSeedFirst = false, kGated = true, kForgets = false, kResets = true;
  static std::shared_ptr<RecurrentCell> cell(const RecurrentOptions& o) { return gru_cell(o); }
};

// A copy of a layer from its config, under another name and with keywords changed.
LayerPtr copy_layer(const Layer& layer, const std::string& name, const std::vector<std::pair<std::string, Json>>& changes) {
  Json object = serialize_operation(layer);
  object["config"]["name"] = name;
  for (const auto& [key, value] : changes) {
    if (object["config"].contains(key)) object["config"][key] = value;
  }
  object.erase("build_config");
  return deserialize_layer(object);
}

std::string without_prefix(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

class BidirectionalLayer : public ConfiguredLayer<BidirectionalLayer, BidirectionalOptions> {
 public:
  static constexpr const char* kClass = "Bidirectional";
  explicit BidirectionalLayer(BidirectionalOptions options) : ConfiguredLayer(std::move(options)) {
    if (!options_.layer) throw_invalid_argument("Bidirectional: the layer is missing");
    const auto mode = options_.merge_mode;
    if (mode && *mode != "concat" && *mode != "sum" && *mode != "mul" && *mode != "ave") {
      throw_invalid_argument(fmt::format("Bidirectional: merge_mode is '{}', expected concat, sum, mul, ave or null", *mode));
    }
    const Json config = options_.layer->get_config();
    const bool backwards = config.value("go_backwards", false);
    sequences_ = config.value("return_sequences", false);
    states_ = config.value("return_state", false);
    const std::string name = without_prefix(options_.layer->name(), "forward_");
    forward_ = track("forward_layer", copy_layer(*options_.layer, "forward_" + name, {{"zero_output_for_mask", sequences_}}));
    LayerPtr backward = options_.backward_layer ? options_.backward_layer.ptr()
                                                : copy_layer(*options_.layer, "backward_" + name,
                                                             {{"go_backwards", !backwards}, {"zero_output_for_mask", sequences_}});
    backward_ = track("backward_layer", std::move(backward));
    options_.layer = LayerHandle(forward_);
    options_.backward_layer = LayerHandle(backward_);
  }
  template <typename V>
  static void fields(V& v, BidirectionalOptions& o) {
    v("merge_mode", o.merge_mode);
    v("layer", o.layer);
    v("backward_layer", o.backward_layer);
  }
  std::string class_name() const override { return kClass; }
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  void reset_states() override {
    forward_->reset_states();
    backward_->reset_states();
  }

  void build(const Nested<Shape>& shapes) override {
    forward_->ensure_built(shapes);
    backward_->ensure_built(shapes);
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const CallOptions options{context.training, context.mask};
    Structure from = inputs, to = inputs;
    if (inputs.is_list() && inputs.items().size() > 1) {
      const std::size_t half = (inputs.items().size() - 1) / 2;
      Structure::List first{inputs[0]}, second{inputs[0]};
      for (std::size_t i = 0; i < half; ++i) {
        first.push_back(inputs[1 + i]);
        second.push_back(inputs[1 + half + i]);
      }
      from = Structure::list(std::move(first));
      to = Structure::list(std::move(second));
    }
    const Structure a = (*forward_)(from, options), b = (*backward_)(to, options);
    const Tensors ahead = a.flatten(), back = b.flatten();
    const Tensor reversed = sequences_ ? ops::reverse(back[0], {1}) : back[0];
    Structure::List out = merge(ahead[0], reversed);
    if (states_) {
      for (std::size_t i = 1; i < ahead.size(); ++i) out.push_back(Structure(ahead[i]));
      for (std::size_t i = 1; i < back.size(); ++i) out.push_back(Structure(back[i]));
    }
    return out.size() == 1 ? out[0] : Structure::list(std::move(out));
  }

  Structure compute_mask(const Structure&, const Structure& mask, const Structure& outputs) override {
    const Tensors masks = mask.flatten();
    Tensors out(outputs.num_leaves());
    if (sequences_ && !masks.empty()) {
      out[0] = masks[0];
      if (!options_.merge_mode && out.size() > 1) out[1] = masks[0];
    }
    return outputs.pack(out);
  }

 private:
  Structure::List merge(const Tensor& a, const Tensor& b) const {
    if (!options_.merge_mode) return {Structure(a), Structure(b)};
    if (*options_.merge_mode == "concat") return {Structure(ops::concat({a, b}, -1))};
    if (*options_.merge_mode == "sum") return {Structure(a + b)};
    if (*options_.merge_mode == "ave") return {Structure((a + b) / 2.0)};
    return {Structure(a * b)};
  }

  LayerPtr forward_, backward_;
  bool sequences_ = false, states_ = false;
};

class TimeDistributedLayer : public ConfiguredLayer<TimeDistributedLayer, TimeDistributedOptions> {
 public:
  static constexpr const char* kClass = "TimeDistributed";
  explicit TimeDistributedLayer(TimeDistributedOptions options) : ConfiguredLayer(std::move(options)) {
    if (!options_.layer) throw_invalid_argument("TimeDistributed: the layer is missing");
    track("layer", options_.layer.ptr());
  }
  template <typename V>
  static void fields(V& v, TimeDistributedOptions& o) {
    v("layer", o.layer);
  }
  std::string class_name() const override { return kClass; }
  bool supports_masking() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }

  void build(const Nested<Shape>& shapes) override {
    const Shape& input = shapes.leaf();
    if (input.rank() < 3) {
      throw_invalid_argument(fmt::format("TimeDistributed '{}': it takes inputs of rank 3 or more, found shape {}", name(), input.to_string()));
    }
    Shape inner{input[0]};
    for (int axis = 2; axis < input.rank(); ++axis) inner.push_back(input[axis]);
    options_.layer->ensure_built(inner);
  }

  // Time and batch become one axis: every step is computed at once.
  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& x = inputs.leaf();
    ops::Ints inner{-1};
    for (int axis = 2; axis < x.rank(); ++axis) inner.push_back(x.dim(axis));
    const Tensor out = options_.layer(ops::reshape(x, inner), {.training = context.training}).leaf();
    Tensors dims{ops::dim_of(x, 0), ops::dim_of(x, 1)};
    for (int axis = 1; axis < out.rank(); ++axis) dims.push_back(ops::dim_of(out, axis));
    return ops::reshape(out, ops::stack(dims));
  }
};

}  // namespace

void register_recurrent_layers(LayerRegistry& registry) {
  registry.add(layer_row<Recurrent<SimpleRnnKind>>());
  registry.add(layer_row<Recurrent<LstmKind>>());
  registry.add(layer_row<Recurrent<GruKind>>());
  registry.add(layer_row<BidirectionalLayer>());
  registry.add(layer_row<TimeDistributedLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

using keras::LayerHandle;

namespace {

template <typename Kind>
LayerHandle recurrent(std::int64_t units, RecurrentOptions options) {
  options.units = units;
  return keras::make_layer<keras::Recurrent<Kind>>(std::move(options));
}

}  // namespace

LayerHandle SimpleRNN(std::int64_t units, RecurrentOptions options) { return recurrent<keras::SimpleRnnKind>(units, std::move(options)); }
LayerHandle LSTM(std::int64_t units, RecurrentOptions options) { return recurrent<keras::LstmKind>(units, std::move(options)); }
LayerHandle GRU(std::int64_t units, RecurrentOptions options) { return recurrent<keras::GruKind>(units, std::move(options)); }

LayerHandle Bidirectional(LayerHandle layer, BidirectionalOptions options) {
  options.layer = std::move(layer);
  return keras::make_layer<keras::BidirectionalLayer>(std::move(options));
}

LayerHandle TimeDistributed(LayerHandle layer, TimeDistributedOptions options) {
  options.layer = std::move(layer);
  return keras::make_layer<keras::TimeDistributedLayer>(std::move(options));
}

}  // namespace lockstep::layers
