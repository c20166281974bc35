#include "lockstep/keras/layers/activation.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layer_activation_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/following_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// A layer given where an activation function is expected.
class LayerActivation : public activations::Activation {
 public:
  explicit LayerActivation(LayerPtr layer) : layer_(std::move(layer)) {}
  std::string name() const override { return layer_->name(); }
  Tensor operator()(const Tensor& x) const override { return (*layer_)(x).leaf(); }
  Json serialize() const override { return serialize_operation(*layer_); }
  std::shared_ptr<void> layer() const override { return layer_; }

 private:
  LayerPtr layer_;
};

class ActivationLayer : public ConfiguredLayer<ActivationLayer, ActivationOptions> {
 public:
  static constexpr const char* kClass = "Activation";
  template <typename V>
  static void fields(V& v, ActivationOptions& o) {
    v("activation", o.activation, Field::kRequired);
  }
  explicit ActivationLayer(ActivationOptions options) : ConfiguredLayer(std::move(options)) {
    set_built_in_constructor();
    if (auto layer = options_.activation.object()->layer()) track("activation", std::static_pointer_cast<Layer>(layer));
  }
  void set_activation(const activations::ActivationPtr& activation) override { options_.activation = activation; }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return (*options_.activation.object())(inputs);
  }
  std::optional<ElementwiseActivation> elementwise() const {
    const activations::Activation& activation = *options_.activation.object();
    if (activation.serialize() != Json(activation.name())) return std::nullopt;  // one of the user's
    for (const char* const name : {"relu", "relu6", "silu", "gelu", "hard_sigmoid", "hard_silu"}) {
      if (activation.name() == name) return ElementwiseActivation{name};
    }
    return std::nullopt;
  }
};

class ReLULayer : public ConfiguredLayer<ReLULayer, ReLUOptions> {
 public:
  static constexpr const char* kClass = "ReLU";
  template <typename V>
  static void fields(V& v, ReLUOptions& o) {
    v("max_value", o.max_value);
    v("negative_slope", o.negative_slope);
    v("threshold", o.threshold);
  }
  explicit ReLULayer(ReLUOptions options) : ConfiguredLayer(std::move(options)) {
    if ((options_.max_value && options_.max_value->value < 0) || options_.negative_slope < 0 ||
        options_.threshold < 0) {
      throw_invalid_argument(
          fmt::format("ReLU '{}': max_value, negative_slope and threshold must not be negative", name()));
    }
    set_built_in_constructor();
  }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const auto max = options_.max_value ? std::optional<double>(options_.max_value->value) : std::nullopt;
    return activations::relu(inputs, options_.negative_slope, max, options_.threshold);
  }
  std::optional<ElementwiseActivation> elementwise() const {
    if (options_.threshold != 0) return std::nullopt;
    if (options_.negative_slope == 0) {
      if (!options_.max_value) return ElementwiseActivation{"relu"};
      if (options_.max_value->value == 6) return ElementwiseActivation{"relu6"};
    } else if (!options_.max_value) {
      return ElementwiseActivation{"leaky_relu", options_.negative_slope};
    }
    return std::nullopt;
  }
};

class LeakyReLULayer : public ConfiguredLayer<LeakyReLULayer, LeakyReLUOptions> {
 public:
  static constexpr const char* kClass = "LeakyReLU";
  template <typename V>
  static void fields(V& v, LeakyReLUOptions& o) {
    v.renamed("alpha", "negative_slope", o.negative_slope);
    v("negative_slope", o.negative_slope);
  }
  explicit LeakyReLULayer(LeakyReLUOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.negative_slope < 0) {
      throw_invalid_argument(fmt::format("LeakyReLU '{}': negative_slope must not be negative", name()));
    }
    set_built_in_constructor();
  }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return activations::leaky_relu(inputs, options_.negative_slope);
  }
  std::optional<ElementwiseActivation> elementwise() const {
    return ElementwiseActivation{"leaky_relu", options_.negative_slope};
  }
};

class PReLULayer : public ConfiguredLayer<PReLULayer, PReLUOptions> {
 public:
  static constexpr const char* kClass = "PReLU";
  template <typename V>
  static void fields(V& v, PReLUOptions& o) {
    v("alpha_initializer", o.alpha_initializer);
    v("alpha_regularizer", o.alpha_regularizer);
    v("alpha_constraint", o.alpha_constraint);
    v("shared_axes", o.shared_axes);
  }
  explicit PReLULayer(PReLUOptions options) : ConfiguredLayer(std::move(options)) {}
  bool supports_masking() const override { return true; }
  void build(const Nested<Shape>& shapes) override {
    Shape shape = shapes.leaf();
    std::vector<std::int64_t> dims(shape.dims().begin() + 1, shape.dims().end());
    for (std::int64_t axis : options_.shared_axes.value_or(Ints{})) {
      if (axis < 1 || axis > static_cast<std::int64_t>(dims.size())) {
        throw_invalid_argument(
            fmt::format("PReLU '{}': shared axis {} is not among the axes of {}", name(), axis, shape.to_string()));
      }
      dims[static_cast<std::size_t>(axis - 1)] = 1;
    }
    alpha_ = add_weight({.shape = Shape(dims),
                         .initializer = options_.alpha_initializer.object(),
                         .regularizer = options_.alpha_regularizer.object(),
                         .constraint = options_.alpha_constraint.object(),
                         .name = "alpha"});
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    return ops::relu(x) + ops::neg(value(alpha_)) * ops::relu(ops::neg(x));
  }

 private:
  VariablePtr alpha_;
};

class ELULayer : public ConfiguredLayer<ELULayer, ELUOptions> {
 public:
  static constexpr const char* kClass = "ELU";
  template <typename V>
  static void fields(V& v, ELUOptions& o) {
    v("alpha", o.alpha);
  }
  explicit ELULayer(ELUOptions options) : ConfiguredLayer(std::move(options)) { set_built_in_constructor(); }
  // Keras writes it without its own get_config, in the constructor's order.
  Json get_config() const override {
    Json config = Json::object();
    config["name"] = name();
    FieldWriter writer(config);
    fields(writer, const_cast<ELUOptions&>(options_));
    const Json base = Layer::get_config();
    for (const auto& [key, value] : base.items()) config[key] = value;
    return config;
  }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return activations::elu(inputs, options_.alpha);
  }
};

class SoftmaxLayer : public ConfiguredLayer<SoftmaxLayer, SoftmaxOptions>, public MaskedSoftmax {
 public:
  static constexpr const char* kClass = "Softmax";
  template <typename V>
  static void fields(V& v, SoftmaxOptions& o) {
    v("axis", NullAs{o.axis});
  }
  explicit SoftmaxLayer(SoftmaxOptions options) : ConfiguredLayer(std::move(options)) { set_built_in_constructor(); }
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  Structure call(const Structure& inputs, const CallContext& context) override {
    Tensor x = inputs;
    Tensor kept;
    if (context.mask.is_leaf() && context.mask.leaf().defined()) {
      const Tensor& given = context.mask.leaf();
      const Tensor mask = given.dtype() == DType::kBool
                              ? given
                              : ops::greater(ops::cast(given, DType::kFloat32), Tensor::scalar(0.5, DType::kFloat32));
      const bool old = masks_ != Masks::kZero;
      const double low = x.dtype() != DType::kFloat16 ? -1e9 : old ? -65504.0 : -3e4;
      x = masks_ == Masks::kAdded ? x + (1.0 - ops::cast(given, x.dtype())) * low
                                  : ops::where(mask, x, ops::zeros_like(x) + low);
      if (!old) kept = mask;
    }
    Tensor y;
    if (options_.axis.empty()) {  // over the batch too
      y = ops::reshape(ops::softmax(ops::reshape(x, {-1})), x.shape());
    } else if (options_.axis.size() > 1) {
      y = ops::exp(x - ops::reduce_logsumexp(x, options_.axis, true));
    } else {
      y = activations::softmax(x, static_cast<int>(options_.axis[0]));
    }
    return kept.defined() ? ops::where(kept, y, ops::zeros_like(y)) : y;
  }
};

}  // namespace

std::optional<ElementwiseActivation> elementwise_activation(const Layer& layer) {
  if (layer.activity_regularizer()) return std::nullopt;
  if (const auto* activation = dynamic_cast<const ActivationLayer*>(&layer)) return activation->elementwise();
  if (const auto* relu = dynamic_cast<const ReLULayer*>(&layer)) return relu->elementwise();
  if (const auto* leaky = dynamic_cast<const LeakyReLULayer*>(&layer)) return leaky->elementwise();
  return std::nullopt;
}

void register_activation_layers(ClassTable& registry) {
  registry.add(layer_row<ActivationLayer>());
  registry.add(layer_row<ReLULayer>());
  registry.add(layer_row<LeakyReLULayer>());
  registry.add(layer_row<PReLULayer>());
  registry.add(layer_row<ELULayer>());
  registry.add(masked_softmax_row<SoftmaxLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::activations {
ActivationPtr layer_as_activation(const Json& object) {
  return std::make_shared<keras::LayerActivation>(keras::deserialize_layer(object));
}
}  // namespace lockstep::activations

namespace lockstep::layers {

LayerHandle Activation(ActivationOptions options) {
  return std::make_shared<keras::ActivationLayer>(std::move(options));
}
LayerHandle ReLU(ReLUOptions options) { return std::make_shared<keras::ReLULayer>(std::move(options)); }
LayerHandle LeakyReLU(LeakyReLUOptions options) { return std::make_shared<keras::LeakyReLULayer>(std::move(options)); }
LayerHandle PReLU(PReLUOptions options) { return std::make_shared<keras::PReLULayer>(std::move(options)); }
LayerHandle ELU(ELUOptions options) { return std::make_shared<keras::ELULayer>(std::move(options)); }
LayerHandle Softmax(SoftmaxOptions options) { return std::make_shared<keras::SoftmaxLayer>(std::move(options)); }

}  // namespace lockstep::layers
