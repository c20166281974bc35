// Layers around layers: Bidirectional, TimeDistributed.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/first_states_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/layers/recurrent_cells_internal.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// A layer that may be null.
struct LayerOrNull {
  LayerHandle& layer;
};

}  // namespace

template <>
struct FieldType<LayerOrNull> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "layer or null"; }
  static bool read(const Json& found, const LayerOrNull& v) {
    return found.is_null() || FieldType<LayerHandle>::read(found, v.layer);
  }
  static Json write(const LayerOrNull& v) { return FieldType<LayerHandle>::write(v.layer); }
};

namespace {

std::string prefixed(const std::string& prefix, const std::string& name) {
  return name.starts_with(prefix) ? name : prefix + name;
}

class BidirectionalLayer : public ConfiguredLayer<BidirectionalLayer, BidirectionalOptions> {
 public:
  static constexpr const char* kClass = "Bidirectional";
  template <typename V>
  static void fields(V& v, BidirectionalOptions& o) {
    v("merge_mode", o.merge_mode);
    v("layer", o.layer, Field::kRequired);
    v("backward_layer", LayerOrNull{o.backward_layer});
    v.dropped("weights");
    v.dropped("num_constants");
  }
  explicit BidirectionalLayer(BidirectionalOptions options) : ConfiguredLayer(std::move(options)) {
    const LayerHandle layer = options_.layer;
    const auto& merge_mode = options_.merge_mode;
    if (!layer) throw_invalid_argument(fmt::format("Bidirectional '{}' requires a layer", name()));
    if (merge_mode && *merge_mode != "concat" && *merge_mode != "sum" && *merge_mode != "mul" && *merge_mode != "ave") {
      throw_invalid_argument(
          fmt::format("Bidirectional '{}': merge_mode is '{}', expected 'concat', 'sum', 'mul', 'ave' or null", name(),
                      *merge_mode));
    }
    if (!loop_options(*layer)) {
      throw_invalid_argument(fmt::format("Bidirectional '{}': '{}' ({}) is not a recurrent layer", name(),
                                         layer->name(), layer->class_name()));
    }
    // Both are built from the layer's config, so that they carry nothing of it.
    Json config = serialize_operation(*layer);
    config.erase("build_config");
    const std::string base = layer->name();
    config["config"]["name"] = prefixed("forward_", base);
    forward_ = deserialize_layer(config);
    if (options_.backward_layer) {
      backward_ = options_.backward_layer.ptr();
    } else {
      config["config"]["go_backwards"] = true;
      config["config"]["name"] = prefixed("backward_", base);
      backward_ = deserialize_layer(config);
    }
    const auto ahead = loop_options(*forward_), back = loop_options(*backward_);
    if (!back || back->go_backwards == ahead->go_backwards || back->return_sequences != ahead->return_sequences ||
        back->return_state != ahead->return_state || back->stateful != ahead->stateful) {
      throw_invalid_argument(
          fmt::format("Bidirectional '{}': its layers must go in opposite directions and agree in stateful, "
                      "return_sequences and return_state",
                      name()));
    }
    options_.layer = LayerHandle(forward_);
    options_.backward_layer = LayerHandle(backward_);
    return_sequences_ = ahead->return_sequences;
    return_state_ = ahead->return_state;
    time_axis_ = ahead->time_major ? 0 : 1;
    set_zero_output_for_mask(*forward_, return_sequences_);
    set_zero_output_for_mask(*backward_, return_sequences_);
    track("forward_layer", forward_);
    track("backward_layer", backward_);
  }

  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  std::vector<std::string> argument_names() const override { return {"sequences"}; }
  std::vector<std::string> call_parameters() const override {
    return {"sequences", "initial_state", "mask", "training"};
  }
  std::vector<InputSpec> input_spec() const override { return forward_->input_spec(); }
  void build(const Nested<Shape>& shapes) override {
    forward_->ensure_built(shapes);
    backward_->ensure_built(shapes);
  }
  Structure compute_mask(const Structure&, const Structure& mask, const Structure& outputs) override {
    const std::vector<Tensor> masks = mask.flatten();
    const Tensor kept = return_sequences_ && !masks.empty() ? masks[0] : Tensor();
    if (options_.merge_mode && !return_state_) return kept;
    Structure::List all(outputs.num_leaves());
    all[0] = kept;
    if (!options_.merge_mode && all.size() > 1) all[1] = kept;
    return Structure::list(std::move(all));
  }

  Json get_build_config() const override { return states_.with_states(Layer::get_build_config()); }

  Structure call(const Structure& inputs, const CallContext& context) override {
    states_.see(inputs.leaf(), context);
    const Tensor mask = context.mask.num_leaves() > 0 ? context.mask.flatten()[0] : Tensor();
    CallArguments ahead, back;
    ahead.args = {ArgValue(inputs.leaf())};
    ahead.set("training", ArgValue(Json(context.training)));
    if (mask.defined()) ahead.set("mask", ArgValue(mask));
    back = ahead;
    set_states(context, ahead, back);
    Structure y = forward_->invoke(std::move(ahead)), reversed = backward_->invoke(std::move(back));
    Structure::List states;
    if (return_state_) {
      states.insert(states.end(), y.parts().begin() + 1, y.parts().end());
      states.insert(states.end(), reversed.parts().begin() + 1, reversed.parts().end());
      y = Structure(y.parts()[0]);
      reversed = Structure(reversed.parts()[0]);
    }
    Tensor a = ops::cast(y.leaf(), compute_dtype()), b = ops::cast(reversed.leaf(), compute_dtype());
    if (return_sequences_) b = ops::reverse(b, {time_axis_});
    if (!options_.merge_mode) {
      Structure::List out = {Structure(a), Structure(b)};
      out.insert(out.end(), states.begin(), states.end());
      return Structure::list(std::move(out));
    }
    const Tensor merged = merge(a, b);
    if (!return_state_) return merged;
    states.insert(states.begin(), Structure(merged));
    return Structure::list(std::move(states));
  }
  void reset_states() override {
    forward_->reset_states();
    backward_->reset_states();
  }

 private:
  Tensor merge(const Tensor& a, const Tensor& b) const {
    if (*options_.merge_mode == "concat") return ops::concat({a, b}, -1);
    if (*options_.merge_mode == "sum") return a + b;
    if (*options_.merge_mode == "mul") return a * b;
    return (a + b) / 2.0;
  }
  // The first half of initial_state goes to the forward layer.
  static void set_states(const CallContext& context, CallArguments& ahead, CallArguments& back) {
    const Argument* given = context.arguments->find("initial_state");
    if (!given) return;
    std::vector<ArgValue> all = given->flatten();
    all.erase(std::remove_if(all.begin(), all.end(), [](const ArgValue& v) { return !v.is_tensor(); }), all.end());
    if (all.empty()) return;
    const auto half = static_cast<std::ptrdiff_t>(all.size() / 2);
    ahead.set("initial_state", Argument(std::vector<ArgValue>(all.begin(), all.begin() + half)));
    back.set("initial_state", Argument(std::vector<ArgValue>(all.begin() + half, all.end())));
  }

  LayerPtr forward_, backward_;
  FirstStates states_;
  bool return_sequences_ = false, return_state_ = false;
  std::int64_t time_axis_ = 1;
};

class TimeDistributedLayer : public ConfiguredLayer<TimeDistributedLayer, TimeDistributedOptions>, public OldRules {
 public:
  static constexpr const char* kClass = "TimeDistributed";
  template <typename V>
  static void fields(V& v, TimeDistributedOptions& o) {
    v("layer", o.layer, Field::kRequired);
  }
  explicit TimeDistributedLayer(TimeDistributedOptions options)
      : ConfiguredLayer(std::move(options)), layer_(options_.layer.ptr()) {
    if (!layer_) throw_invalid_argument(fmt::format("TimeDistributed '{}' requires a layer", name()));
    track("layer", layer_);
  }

  // Keras 3 calls a layer that differs in training once for each step, so that BatchNormalization has statistics of
  // each. Keras 1 and 2 call it once, with the steps as samples of a batch; files of theirs get "steps_as_samples"
  // (old_config_table.cpp).
  void take_steps_as_samples() { as_samples_ = true; }

  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  std::vector<std::string> call_parameters() const override { return {"inputs", "training", "mask"}; }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.min_ndim = 3}}; }
  void build(const Nested<Shape>& shapes) override {
    std::vector<std::int64_t> dims = shapes.leaf().dims();
    dims.erase(dims.begin() + 1);
    layer_->ensure_built(Shape(std::move(dims)));
    const std::vector<Layer*> parts = layer_->flatten_layers();
    draws_ = std::any_of(parts.begin(), parts.end(), [](const Layer* part) { return draws_masks(*part); });
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& x = inputs.leaf();
    const Tensor mask = context.mask.is_leaf() ? context.mask.leaf() : Tensor();
    std::optional<PausedLosses> no_losses;  // Keras 3 calls call(), which leaves the layer's own activity out
    if (!as_samples_ && layer_->activity_regularizer()) no_losses.emplace();
    std::optional<DirectCalls> direct;
    call_directly(direct, x);
    const bool steps = !x.is_symbolic() || (context.training && !graph::stands_for_shape(x));
    if (steps && per_step(context, mask) && x.dim(1) != kUnknownDim) return step_by_step(x, mask, context.training);
    const CallOptions options{.mask = mask_of_samples(mask), .training = context.training};
    const Tensor y = result_of(merged(x), options);
    if (is_called_for_masks(context) && !x.is_symbolic()) (*layer_)(merged(x), options);
    return separated(y, x);
  }

  // Keras 3 passes the mask on. In Keras 1 and 2 the steps have the masks that the layer gives them.
  Structure compute_mask(const Structure& inputs, const Structure& mask, const Structure& outputs) override {
    if (!as_samples_) return ConfiguredLayer::compute_mask(inputs, mask, outputs);
    const Tensor& x = inputs.leaf();
    const Tensor given = mask.is_leaf() ? mask.leaf() : Tensor();
    const Tensor of_samples = given.defined() ? merged(given) : Tensor();
    Tensor found;
    if (layer_->supports_masking()) found = layer_->compute_mask(merged(x), of_samples, Tensor()).leaf();
    if (found.defined() && !same_tensor(found, of_samples)) return separated(found, x);
    if (!given.defined() || given.rank() == 2 || found.defined()) return given;
    ops::Ints inner;
    for (int i = 2; i < given.rank(); ++i) inner.push_back(i);
    return ops::reduce_any(given, inner);
  }

 private:
  // Layers whose result for one step depends on others in the batch, that take a mask, or that draw numbers for each
  // call, as recurrent layers with dropout do in inference too.
  bool per_step(const CallContext& context, const Tensor& mask) const {
    if (as_samples_) return false;
    if ((mask.defined() && layer_->uses_mask()) || draws_) return true;
    const std::vector<Layer*> parts = layer_->flatten_layers();
    return std::any_of(parts.begin(), parts.end(), [&](const Layer* part) {
      if (part != layer_.get() && part->activity_regularizer()) return true;  // whose losses are of one step each
      return context.training && part->training_argument() != TrainingArgument::kNone;
    });
  }
  // Keras 2 calls a model within once more for the mask of its result: moving statistics change and losses of
  // activities count twice.
  bool is_called_for_masks(const CallContext& context) const {
    if (!as_samples_ || !dynamic_cast<const ModelImpl*>(layer_.get())) return false;
    if (context.training && !layer_->non_trainable_weights().empty()) return true;
    const std::vector<Layer*> parts = layer_->flatten_layers();
    return std::any_of(parts.begin(), parts.end(),
                       [](const Layer* part) { return part->activity_regularizer() != nullptr; });
  }
  // (batch · time, …) of (batch, time, …).
  static Tensor merged(const Tensor& x) {
    Tensors sizes = {Tensor::scalar(std::int32_t{-1})};
    ops::Ints shape = {-1};
    bool known = true;
    for (int i = 2; i < x.rank(); ++i) {
      shape.push_back(x.dim(i));
      known = known && x.dim(i) != kUnknownDim;
      sizes.push_back(ops::dim_of(x, i));
    }
    return known ? ops::reshape(x, shape) : ops::reshape(x, ops::stack(sizes));
  }
  // (batch, time, …) of (batch · time, …), with the sizes of x.
  static Tensor separated(const Tensor& y, const Tensor& x) {
    if (x.dim(1) != kUnknownDim) {
      ops::Ints shape = {-1, x.dim(1)};
      bool rest = true;
      for (int i = 1; i < y.rank(); ++i) {
        shape.push_back(y.dim(i));
        rest = rest && y.dim(i) != kUnknownDim;
      }
      if (rest) return ops::reshape(y, shape);
    }
    Tensors out = {ops::dim_of(x, 0), ops::dim_of(x, 1)};
    for (int i = 1; i < y.rank(); ++i) out.push_back(ops::dim_of(y, i));
    return ops::reshape(y, ops::stack(out));
  }
  // Keras 3 calls call(), to which the policy of the layer within does not apply.
  void call_directly(std::optional<DirectCalls>& calls, const Tensor& x) const {
    if (as_samples_) return;
    if (const DirectCalls* own = DirectCalls::of(*this)) {
      calls.emplace(*layer_, own->autocast(), x.dtype());
      return;
    }
    const bool mixed = is_floating(compute_dtype()) && dtype_policy().variable_dtype() != compute_dtype();
    calls.emplace(*layer_, mixed ? std::optional(compute_dtype()) : std::nullopt, x.dtype());
  }
  // Two layers cast their results to the dtype of their inputs.
  Tensor result_of(const Tensor& x, const CallOptions& options) const {
    const Tensor y = (*layer_)(x, options).leaf();
    const std::string kind = as_samples_ ? "" : layer_->class_name();
    const bool casts = kind == "RMSNormalization" || kind == "SpectralNormalization";
    return casts && is_floating(x.dtype()) && y.dtype() != x.dtype() ? ops::cast(y, x.dtype()) : y;
  }
  Tensor mask_of_samples(const Tensor& mask) const {
    return as_samples_ && mask.defined() && layer_->uses_mask() ? merged(mask) : Tensor();
  }
  static bool same_tensor(const Tensor& a, const Tensor& b) {
    return a.is_symbolic() && b.defined() && as_keras_tensor(a) == as_keras_tensor(b);
  }
  Structure step_by_step(const Tensor& x, const Tensor& mask, bool training) {
    const Tensors steps = ops::unstack(x, 1);
    const Tensors masks = mask.defined() && layer_->uses_mask() ? ops::unstack(mask, 1) : Tensors();
    Tensors outputs;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      CallOptions options{.training = training};
      if (!masks.empty()) options.mask = masks[i];
      outputs.push_back(result_of(steps[i], options));
    }
    return ops::stack(outputs, 1);
  }
  LayerPtr layer_;
  bool as_samples_ = false;
  bool draws_ = false;
};

}  // namespace

void register_wrappers(ClassTable& registry) {
  registry.add(layer_row<BidirectionalLayer>());
  registry.add(flagged_row<TimeDistributedLayer>(
      "steps_as_samples", [](TimeDistributedLayer& layer, const Json&) { layer.take_steps_as_samples(); }));
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Bidirectional(BidirectionalOptions options) {
  return std::make_shared<keras::BidirectionalLayer>(std::move(options));
}
LayerHandle TimeDistributed(TimeDistributedOptions options) {
  return std::make_shared<keras::TimeDistributedLayer>(std::move(options));
}

}  // namespace lockstep::layers
