#include "lockstep/keras/layers/preprocessing.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/keras/layers/families.h"
#include "lockstep/keras/layers/fields.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

void flatten_numbers(const Json& json, std::vector<double>& out, const char* layer) {
  if (json.is_array()) {
    for (const Json& item : json) flatten_numbers(item, out, layer);
  } else if (json.is_number()) {
    out.push_back(json.get<double>());
  } else if (json.is_object() && json.contains("config") && json["config"].contains("value")) {
    flatten_numbers(json["config"]["value"], out, layer);  // __numpy__ and __tensor__
  } else {
    throw_invalid_argument(fmt::format("{}: {} is no number or list of numbers", layer, dump_json(json)));
  }
}

// A number or a vector of them.
Tensor numbers(const Json& json, DType dtype, const char* layer) {
  std::vector<double> values;
  flatten_numbers(json, values, layer);
  if (json.is_number()) return ops::constant(values[0], dtype);
  return ops::cast(Tensor::from_vector(values), dtype);
}

class RescalingLayer : public ConfiguredLayer<RescalingLayer, RescalingOptions> {
 public:
  static constexpr const char* kClass = "Rescaling";
  explicit RescalingLayer(RescalingOptions options) : ConfiguredLayer(std::move(options)) { set_built_in_constructor(); }
  template <typename V>
  static void fields(V& v, RescalingOptions& o) {
    v("scale", o.scale);
    v("offset", o.offset);
  }
  std::string class_name() const override { return kClass; }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor x = ops::cast(inputs.leaf(), compute_dtype());
    return x * numbers(options_.scale, x.dtype(), kClass) + numbers(options_.offset, x.dtype(), kClass);
  }
};

class NormalizationLayer : public ConfiguredLayer<NormalizationLayer, NormalizationOptions> {
 public:
  static constexpr const char* kClass = "Normalization";
  explicit NormalizationLayer(NormalizationOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.axis.is_number_integer()) options_.axis = Json::array({options_.axis});
    if (options_.axis.is_null()) options_.axis = Json::array();
    if (options_.mean.is_null() != options_.variance.is_null()) {
      throw_invalid_argument("Normalization: mean and variance must be given together, or neither");
    }
  }
  template <typename V>
  static void fields(V& v, NormalizationOptions& o) {
    v("axis", o.axis);
    v("invert", o.invert);
    v("mean", o.mean);
    v("variance", o.variance);
  }
  std::string class_name() const override { return kClass; }

  void build(const Nested<Shape>& shapes) override {
    const Shape& input = shapes.leaf();
    kept_.clear();
    Shape kept_shape;
    for (const Json& item : options_.axis) {
      int axis = item.get<int>();
      if (axis < 0) axis += input.rank();
      if (axis < 0 || axis >= input.rank() || input[axis] == kUnknownDim) {
        throw_invalid_argument(fmt::format("Normalization '{}': axis {} of an input of shape {} has no known extent", name(),
                                           item.get<int>(), input.to_string()));
      }
      kept_.push_back(axis);
    }
    std::sort(kept_.begin(), kept_.end());
    for (int axis : kept_) kept_shape.push_back(input[axis]);
    broadcast_ = ops::Ints(static_cast<std::size_t>(input.rank()), 1);
    for (int axis : kept_) broadcast_[static_cast<std::size_t>(axis)] = input[axis];
    if (!options_.mean.is_null()) return;
    mean_ = add_weight({.name = "mean", .shape = kept_shape, .initializer = initializers::Zeros(), .trainable = false});
    variance_ = add_weight({.name = "variance", .shape = kept_shape, .initializer = initializers::Ones(), .trainable = false});
    count_ = add_weight({.name = "count", .shape = {}, .initializer = initializers::Zeros(), .dtype = DType::kInt32, .trainable = false});
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor x = ops::cast(inputs.leaf(), compute_dtype());
    const auto spread = [&](const Json& given, const VariablePtr& variable) {
      const Tensor value = given.is_null() ? Layer::value(variable) : numbers(given, x.dtype(), kClass);
      return value.rank() == 0 ? value : ops::reshape(value, broadcast_);
    };
    const Tensor mean = spread(options_.mean, mean_);
    const Tensor deviation = ops::maximum(ops::sqrt(spread(options_.variance, variance_)), 1e-7);
    return options_.invert ? mean + x * deviation : (x - mean) / deviation;
  }

  void adapt(const Tensor& data) {
    if (!options_.mean.is_null()) {
      throw_invalid_argument(fmt::format("Normalization '{}': mean and variance were given, so it cannot adapt", name()));
    }
    ensure_built(Nested<Shape>(data.shape()));
    ops::Ints reduced;
    for (int axis = 0; axis < data.rank(); ++axis) {
      if (std::find(kept_.begin(), kept_.end(), axis) == kept_.end()) reduced.push_back(axis);
    }
    const ops::Moments moments = ops::moments(ops::cast(data, DType::kFloat32), reduced);
    mean_->assign(ops::cast(moments.mean, mean_->dtype()));
    variance_->assign(ops::cast(moments.variance, variance_->dtype()));
  }

 private:
  std::vector<int> kept_;
  ops::Ints broadcast_;
  VariablePtr mean_, variance_, count_;
};

}  // namespace

void register_preprocessing_layers(LayerRegistry& registry) {
  registry.add(layer_row<RescalingLayer>());
  registry.add(layer_row<NormalizationLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

keras::LayerHandle Rescaling(Json scale, Json offset, RescalingOptions options) {
  options.scale = std::move(scale);
  options.offset = std::move(offset);
  return keras::make_layer<keras::RescalingLayer>(std::move(options));
}
keras::LayerHandle Normalization(NormalizationOptions options) {
  return keras::make_layer<keras::NormalizationLayer>(std::move(options));
}
void adapt(const keras::LayerHandle& normalization, const Tensor& data) {
  auto layer = std::dynamic_pointer_cast<keras::NormalizationLayer>(normalization.ptr());
  if (!layer) throw_invalid_argument(fmt::format("adapt: '{}' is no Normalization layer", normalization->name()));
  layer->adapt(data);
}

}  // namespace lockstep::layers
