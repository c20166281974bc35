#include "lockstep/keras/layers/bases.h"

#include <algorithm>

#include "lockstep/keras/layers/built_in_internal.h"
#include "lockstep/keras/layers/convolution_internal.h"
#include "lockstep/keras/layers/overrides_internal.h"
#include "lockstep/keras/layers/recurrent_cells_internal.h"
#include "lockstep/keras/layers/registry.h"

namespace lockstep::keras {
namespace {

constexpr const char* kHeldName = "built_in";

// The object on this thread whose call() without a context runs, called by the one with a context.
thread_local const BuiltInLayer* t_calling = nullptr;

class Calling {
 public:
  explicit Calling(const BuiltInLayer* layer) : previous_(std::exchange(t_calling, layer)) {}
  ~Calling() { t_calling = previous_; }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

 private:
  const BuiltInLayer* previous_;
};

bool contains(const std::vector<VariablePtr>& variables, const VariablePtr& variable) {
  return std::find(variables.begin(), variables.end(), variable) != variables.end();
}

}  // namespace

BuiltInLayer::BuiltInLayer(std::string& name) {
  if (!name.empty()) set_name(name);
  name = kHeldName;
}

BuiltInLayer::BuiltInLayer(const char* class_name, const Json& config) {
  Json held = config;
  held["name"] = kHeldName;
  hold(deserialize_layer({{"module", "keras.layers"}, {"class_name", class_name}, {"config", std::move(held)}}));
}

LayerHandle BuiltInLayer::layer_from_config(const char* class_name, const Json& config) {
  return deserialize_layer({{"module", "keras.layers"}, {"class_name", class_name}, {"config", config}});
}

void BuiltInLayer::hold(LayerPtr built_in) {
  built_in_ = std::move(built_in);
  trainable_ = built_in_->trainable_;
  policy_ = built_in_->policy_;
  input_shape_ = built_in_->input_shape_;
  activity_regularizer_ = built_in_->activity_regularizer_;
  take_parts();
  if (built_in_->built_in_constructor()) set_built_in_constructor();
}

void BuiltInLayer::take_parts() {
  std::erase_if(own_weights_, [this](const Weight& weight) { return contains(taken_, weight.variable); });
  taken_.clear();
  for (const Weight& weight : built_in_->own_weights_) {
    own_weights_.push_back(weight);
    taken_.push_back(weight.variable);
  }
  for (const auto& [attribute, layers] : built_in_->children_) track_tree(attribute, layers);
  for (const random::SeedGeneratorPtr& generator : built_in_->seed_generators_) {
    if (std::find(seed_generators_.begin(), seed_generators_.end(), generator) == seed_generators_.end())
      track(generator);
  }
}

void BuiltInLayer::trainable_changed() { built_in_->trainable_ = trainable_; }

Json BuiltInLayer::get_config() const {
  Json config = built_in_->get_config();
  config.update(Layer::get_config());
  return config;
}

void BuiltInLayer::build(const Nested<Shape>& shapes) {
  built_in_->set_name(name());
  built_in_->policy_ = policy_;
  built_in_->build(shapes);
  built_in_->built_ = true;
  built_in_->build_shapes_ = shapes;
  take_parts();
}

const BuiltInLayer& BuiltInLayer::plain() {
  static const auto* const layer = new BuiltInLayer(nullptr);
  return *layer;
}

bool BuiltInLayer::overrides_call() const {
  using Call = Structure (Layer::*)(const Structure&);
  return overrides<Layer>(*this, plain(), Call(&Layer::call));
}

Structure BuiltInLayer::call(const Structure& inputs) { return run_built_in(inputs, {}); }

Structure BuiltInLayer::call(const Structure& inputs, const CallContext& context) {
  if (t_calling == this || !overrides_call()) return run_built_in(inputs, context);
  const Calling scope(this);
  return call(inputs);
}

Structure BuiltInLayer::run_built_in(const Structure& inputs, const CallContext& context) {
  static const auto* const none = new CallArguments();
  CallContext complete = context;
  if (!complete.arguments) complete.arguments = none;
  if (complete.mask.is_leaf() && !complete.mask.defined())
    complete.mask = inputs.map([](const Tensor&) { return Tensor(); });
  return built_in_->call(inputs, complete);
}

Structure BuiltInLayer::compute_mask(const Structure& inputs, const Structure& mask, const Structure& outputs) {
  return built_in_->compute_mask(inputs, mask, outputs);
}

OwnState BuiltInLayer::own_state() const {
  return overrides_layer(*built_in_, &Layer::own_state) ? built_in_->own_state() : Layer::own_state();
}

void BuiltInLayer::enable_lora(const LoraOptions& options) {
  built_in_->enable_lora(options);
  take_parts();
}

Layer::TrainingArgument BuiltInLayer::training_argument() const {
  return overrides_call() ? TrainingArgument::kNone : built_in_->training_argument();
}

std::vector<std::string> BuiltInLayer::call_parameters() const {
  return overrides_call() ? Layer::call_parameters() : built_in_->call_parameters();
}

std::vector<InputSpec> BuiltInLayer::input_spec() const { return built_in_->input_spec(); }
bool BuiltInLayer::supports_masking() const { return built_in_->supports_masking(); }
bool BuiltInLayer::uses_mask() const { return built_in_->uses_mask(); }
bool BuiltInLayer::casts_inputs() const { return built_in_->casts_inputs(); }
std::vector<std::string> BuiltInLayer::argument_names() const { return built_in_->argument_names(); }
void BuiltInLayer::reset_states() { built_in_->reset_states(); }
void BuiltInLayer::set_activation(const activations::ActivationPtr& activation) {
  built_in_->set_activation(activation);
}
Structure BuiltInLayer::get_initial_state(const Extent& batch_size) const {
  return built_in_->get_initial_state(batch_size);
}
void BuiltInLayer::adapt(const Structure& data) { built_in_->adapt(data); }
void BuiltInLayer::adapt(const data::Dataset& batches) { built_in_->adapt(batches); }
Tensor BuiltInLayer::mean() const { return built_in_->mean(); }
Tensor BuiltInLayer::variance() const { return built_in_->variance(); }

Layer& built_in_of(Layer& layer) {
  auto* const derived = dynamic_cast<BuiltInLayer*>(&layer);
  return derived && derived->built_in() ? *derived->built_in() : layer;
}

bool BuiltInConvolution::overrides_operation() const {
  class Plain final : public BuiltInConvolution {
   public:
    Plain() : BuiltInConvolution(nullptr) {}
  };
  static const auto* const plain = new Plain();
  return overrides<BuiltInConvolution>(*this, *plain, &BuiltInConvolution::convolution_op);
}

const Json& BuiltInConvolution::argument(std::string_view name) const {
  if (arguments_.is_null()) arguments_ = built_in()->get_config();
  return std::as_const(arguments_)[name];
}

Structure BuiltInConvolution::call(const Structure& inputs, const CallContext& context) {
  if (!overrides_operation()) return BuiltInLayer::call(inputs, context);
  Tensor y = convolution_op(inputs, value(kernel()));
  if (use_bias()) {
    Tensor bias = value(this->bias());
    if (data_format() == "channels_first") {
      ops::Ints shape(static_cast<std::size_t>(y.rank()), 1);
      shape[1] = filters();
      bias = ops::reshape(bias, shape);
    }
    y = y + bias;
  }
  return activation()(y);
}

Tensor BuiltInConvolution::convolution_op(const Tensor& inputs, const Tensor& kernel) {
  const bool first = data_format() == "channels_first", flat = inputs.rank() == 3, causal = padding() == "causal";
  Tensor x = first ? to_channels_last(inputs) : inputs;
  if (causal) x = pad_causal(x, kernel_size()[0], dilation_rate()[0]);
  const std::string name = causal ? "VALID" : upper(padding());
  const Ints step = strides(), dilations = dilation_rate();
  Tensor y;
  if (inputs.rank() == 5) {
    y = ops::conv3d(x, kernel, {.strides = step, .padding = name, .dilations = dilations, .data_format = "NDHWC"});
  } else if (flat) {
    y = drop_height(
        ops::conv2d(add_height(x), ops::expand_dims(kernel, 0),
                    {.strides = with_height(step, 1), .padding = name, .dilations = with_height(dilations, 1)}));
  } else {
    y = ops::conv2d(x, kernel, {.strides = step, .padding = name, .dilations = dilations});
  }
  return first ? to_channels_first(y) : y;
}

std::vector<std::int64_t> BuiltInCell::state_size() const {
  return dynamic_cast<const RnnCell&>(*built_in()).state_sizes();
}

Structure BuiltInCell::call(const Structure& inputs, const Structure& states) {
  return dynamic_cast<RnnCell&>(*built_in()).run_step(inputs.leaf(), states.flatten(), current_training(), states);
}

Structure BuiltInCell::call(const Structure& given, const CallContext&) {
  const auto& [inputs, states] = given;
  return call(inputs, states);
}

bool BuiltInCell::overrides_step() const {
  class PlainCell : public BuiltInCell {
   public:
    PlainCell() : BuiltInCell(nullptr) {}
  };
  static const auto* const plain = new PlainCell();
  using Step = Structure (BuiltInCell::*)(const Structure&, const Structure&);
  using Call = Structure (BuiltInCell::*)(const Structure&, const CallContext&);
  return overrides<BuiltInCell>(*this, *plain, Step(&BuiltInCell::call)) ||
         overrides<BuiltInCell>(*this, *plain, Call(&BuiltInCell::call));
}

}  // namespace lockstep::keras

namespace lockstep::layers {

Wrapper::Wrapper(LayerHandle layer, keras::LayerOptions options) : Layer(std::move(options)), layer(std::move(layer)) {
  if (!this->layer) throw_invalid_argument(class_name() + " requires a layer");
  track("layer", this->layer);
}

LayerHandle Wrapper::wrapped_in(const Json& config) { return keras::deserialize_layer(config.at("layer")); }

void Wrapper::build(const keras::Nested<Shape>& shapes) { layer->ensure_built(shapes); }

Json Wrapper::get_config() const {
  Json config = Layer::get_config();
  config["layer"] = keras::serialize_operation(*layer);
  return config;
}

}  // namespace lockstep::layers
