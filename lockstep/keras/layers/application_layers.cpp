#include "lockstep/keras/layers/application_layers.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/unexported_layer_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/random.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class LayerScaleLayer : public UnexportedLayer<LayerScaleLayer, LayerScaleOptions> {
 public:
  static constexpr const char* kClass = "LayerScale";
  static constexpr const char* kModule = "keras.src.applications.convnext";
  template <typename V>
  static void fields(V& v, LayerScaleOptions& o) {
    v("init_values", o.init_values, Field::kRequired);
    v("projection_dim", o.projection_dim, Field::kRequired);
  }
  explicit LayerScaleLayer(LayerScaleOptions options) : UnexportedLayer(std::move(options)) {
    if (options_.projection_dim < 1)
      throw_invalid_argument(
          fmt::format("LayerScale '{}': projection_dim is {}, expected at least 1", name(), options_.projection_dim));
  }
  void build(const Nested<Shape>&) override {
    gamma_ = add_weight(
        {.shape = {options_.projection_dim}, .initializer = initializers::Constant(options_.init_values.value)});
  }
  Structure call(const Structure& inputs, const CallContext&) override { return inputs.leaf() * value(gamma_); }

 private:
  VariablePtr gamma_;
};

class StochasticDepthLayer : public UnexportedLayer<StochasticDepthLayer, StochasticDepthOptions> {
 public:
  static constexpr const char* kClass = "StochasticDepth";
  static constexpr const char* kModule = "keras.src.applications.convnext";
  template <typename V>
  static void fields(V& v, StochasticDepthOptions& o) {
    v("drop_path_rate", o.drop_path_rate, Field::kRequired);
  }
  explicit StochasticDepthLayer(StochasticDepthOptions options) : UnexportedLayer(std::move(options)) {
    const double rate = options_.drop_path_rate;
    if (!(rate >= 0 && rate < 1))
      throw_invalid_argument(
          fmt::format("StochasticDepth '{}': drop_path_rate is {}, expected at least 0 and less than 1", name(), rate));
  }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& x = inputs.leaf();
    if (!context.training) return x;
    const double kept = 1 - options_.drop_path_rate;
    Tensor drawn;
    if (x.is_symbolic()) {
      Tensors sizes(static_cast<std::size_t>(x.rank()), Tensor::scalar(std::int32_t{1}));
      sizes[0] = ops::dim_of(x, 0);
      drawn = ops::call1("RandomUniform", {ops::stack(sizes)}, {{"dtype", DType::kFloat32}});
    } else {
      Shape shape = {x.dim(0)};
      for (int axis = 1; axis < x.rank(); ++axis) shape.push_back(1);
      drawn = random::uniform(shape, 0, 1);
    }
    return x / kept * ops::cast(ops::floor(drawn + kept), x.dtype());
  }
};

class CustomScale : public UnexportedLayer<CustomScale, CustomScaleLayerOptions> {
 public:
  static constexpr const char* kClass = "CustomScaleLayer";
  static constexpr const char* kModule = "keras.src.applications.inception_resnet_v2";
  template <typename V>
  static void fields(V& v, CustomScaleLayerOptions& o) {
    v("scale", o.scale, Field::kRequired);
  }
  explicit CustomScale(CustomScaleLayerOptions options) : UnexportedLayer(std::move(options)) {}
  Structure call(const Structure& inputs, const CallContext&) override {
    const std::vector<Tensor> parts = inputs.flatten();
    if (parts.size() != 2)
      throw_invalid_argument(
          fmt::format("CustomScaleLayer '{}' was called on {} tensors, expected two", name(), parts.size()));
    return parts[0] + parts[1] * options_.scale.value;
  }
};

}  // namespace

void register_application_layers(ClassTable& registry) {
  registry.add(layer_row<LayerScaleLayer>());
  registry.add(layer_row<StochasticDepthLayer>());
  registry.add(layer_row<CustomScale>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle LayerScale(double init_values, std::int64_t projection_dim, LayerScaleOptions options) {
  options.init_values = init_values;
  options.projection_dim = projection_dim;
  return std::make_shared<keras::LayerScaleLayer>(std::move(options));
}
LayerHandle StochasticDepth(double drop_path_rate, StochasticDepthOptions options) {
  options.drop_path_rate = drop_path_rate;
  return std::make_shared<keras::StochasticDepthLayer>(std::move(options));
}
LayerHandle CustomScaleLayer(double scale, CustomScaleLayerOptions options) {
  options.scale = scale;
  return std::make_shared<keras::CustomScale>(std::move(options));
}

}  // namespace lockstep::layers
