#include "lockstep/keras/layers/regularization.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/keras/layers/families.h"
#include "lockstep/keras/layers/fields.h"
#include "lockstep/keras/random/random.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

void check_rate(double rate, bool one_allowed, const char* layer) {
  if (!(rate >= 0 && (one_allowed ? rate <= 1 : rate < 1))) {
    throw_invalid_argument(fmt::format("{}: rate is {}, expected between 0 and 1", layer, rate));
  }
}

// The shape of a mask: the layer's noise_shape, null entries filled in from the input.
Shape mask_shape(const Json& noise_shape, const Tensor& x, const char* layer) {
  if (noise_shape.is_null()) return x.shape();
  if (!noise_shape.is_array() || noise_shape.size() != static_cast<std::size_t>(x.rank())) {
    throw_invalid_argument(fmt::format("{}: noise_shape {} does not fit an input of shape {}", layer, dump_json(noise_shape),
                                       x.shape().to_string()));
  }
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Json& dim = noise_shape[static_cast<std::size_t>(axis)];
    shape.push_back(dim.is_null() ? x.dim(axis) : dim.get<std::int64_t>());
  }
  return shape;
}

// Base of layers that change values only while training, on values (a graph being built keeps the input).
template <typename Derived, typename OptionsT>
class TrainingOnly : public ConfiguredLayer<Derived, OptionsT> {
 public:
  std::string class_name() const override { return Derived::kClass; }
  bool supports_masking() const override { return true; }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultFalse; }
  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& x = inputs.leaf();
    if (!context.training || !seeds_ || x.is_symbolic()) return inputs;
    return static_cast<Derived*>(this)->draw(x);
  }

 protected:
  TrainingOnly(OptionsT options, bool draws) : ConfiguredLayer<Derived, OptionsT>(std::move(options)) {
    if (draws) seeds_ = this->add_seed_generator(this->options_.seed);
    this->set_built_in_constructor();
  }
  random::SeedGeneratorPtr seeds_;
};

class DropoutLayer : public TrainingOnly<DropoutLayer, DropoutOptions> {
 public:
  static constexpr const char* kClass = "Dropout";
  explicit DropoutLayer(DropoutOptions options) : TrainingOnly(options, options.rate > 0) { check_rate(options_.rate, true, kClass); }
  template <typename V>
  static void fields(V& v, DropoutOptions& o) {
    v("rate", o.rate);
    v("seed", o.seed);
    v("noise_shape", o.noise_shape);
  }
  Tensor draw(const Tensor& x) {
    if (options_.rate >= 1) return ops::zeros_like(x);
    return random::dropout(x, options_.rate, mask_shape(options_.noise_shape, x, kClass), seeds_);
  }
};

class AlphaDropoutLayer : public TrainingOnly<AlphaDropoutLayer, DropoutOptions> {
 public:
  static constexpr const char* kClass = "AlphaDropout";
  explicit AlphaDropoutLayer(DropoutOptions options) : TrainingOnly(options, options.rate > 0) { check_rate(options_.rate, false, kClass); }
  template <typename V>
  static void fields(V& v, DropoutOptions& o) {
    v("rate", o.rate);
    v("seed", o.seed);
    v("noise_shape", o.noise_shape);
  }
  // Klambauer et al., "Self-Normalizing Neural Networks", appendix L.
  Tensor draw(const Tensor& x) {
    constexpr double kAlpha = -1.6732632423543772 * 1.0507009873554805;
    const double rate = options_.rate;
    const Tensor u = random::uniform(mask_shape(options_.noise_shape, x, kClass), 0.0, 1.0, DType::kFloat32, seeds_);
    const Tensor kept = ops::cast(ops::greater_equal(u, ops::constant(rate, u.dtype())), x.dtype());
    const double a = 1 / std::sqrt((1 - rate) * (1 + rate * kAlpha * kAlpha));
    const double b = -a * kAlpha * rate;
    return (x * kept + (1.0 - kept) * kAlpha) * a + b;
  }
};

template <int kSpatial>
class SpatialDropoutLayer : public TrainingOnly<SpatialDropoutLayer<kSpatial>, SpatialDropoutOptions> {
 public:
  using Base = TrainingOnly<SpatialDropoutLayer<kSpatial>, SpatialDropoutOptions>;
  static constexpr const char* kClass = kSpatial == 1 ? "SpatialDropout1D" : "SpatialDropout2D";
  explicit SpatialDropoutLayer(SpatialDropoutOptions options) : Base(options, options.rate > 0) {
    check_rate(this->options_.rate, true, kClass);
    if (kSpatial == 2 && !this->options_.data_format) this->options_.data_format = "channels_last";
  }
  template <typename V>
  static void fields(V& v, SpatialDropoutOptions& o) {
    v("rate", o.rate);
    v("seed", o.seed);
    if (kSpatial == 2) v("data_format", o.data_format);
  }
  // Only these keys: no `trainable`, and dtype as a plain string.
  Json get_config() const override {
    Json config = {{"rate", this->options_.rate}, {"seed", nullptr}, {"name", this->name()}, {"dtype", this->dtype_policy().name()}};
    if (this->options_.seed) config["seed"] = *this->options_.seed;
    if (kSpatial == 2) config["data_format"] = *this->options_.data_format;
    return config;
  }
  Tensor draw(const Tensor& x) {
    const int rank = kSpatial + 2;
    if (x.rank() != rank) {
      throw_invalid_argument(fmt::format("{}: it takes inputs of rank {}, found shape {}", kClass, rank, x.shape().to_string()));
    }
    if (this->options_.rate >= 1) return ops::zeros_like(x);
    const bool first = kSpatial == 2 && *this->options_.data_format == "channels_first";
    Shape shape = x.shape();
    for (int axis = 1; axis < rank; ++axis) {
      if (axis != (first ? 1 : rank - 1)) shape[axis] = 1;
    }
    return random::dropout(x, this->options_.rate, shape, this->seeds_);
  }
};

class GaussianNoiseLayer : public TrainingOnly<GaussianNoiseLayer, NoiseOptions> {
 public:
  static constexpr const char* kClass = "GaussianNoise";
  explicit GaussianNoiseLayer(NoiseOptions options) : TrainingOnly(options, options.amount > 0) {
    if (!(options_.amount >= 0)) throw_invalid_argument(fmt::format("GaussianNoise: stddev is {}, expected at least 0", options_.amount));
  }
  template <typename V>
  static void fields(V& v, NoiseOptions& o) {
    v("stddev", o.amount);
    v("seed", o.seed);
  }
  Tensor draw(const Tensor& x) { return x + random::normal(x.shape(), 0.0, options_.amount, x.dtype(), seeds_); }
};

class GaussianDropoutLayer : public TrainingOnly<GaussianDropoutLayer, NoiseOptions> {
 public:
  static constexpr const char* kClass = "GaussianDropout";
  explicit GaussianDropoutLayer(NoiseOptions options) : TrainingOnly(options, options.amount > 0) { check_rate(options_.amount, false, kClass); }
  template <typename V>
  static void fields(V& v, NoiseOptions& o) {
    v("rate", o.amount);
    v("seed", o.seed);
  }
  Tensor draw(const Tensor& x) {
    const double stddev = std::sqrt(options_.amount / (1 - options_.amount));
    return x * random::normal(x.shape(), 1.0, stddev, x.dtype(), seeds_);
  }
};

class ActivityRegularizationLayer : public ConfiguredLayer<ActivityRegularizationLayer, ActivityRegularizationOptions> {
 public:
  static constexpr const char* kClass = "ActivityRegularization";
  explicit ActivityRegularizationLayer(ActivityRegularizationOptions options)
      : ConfiguredLayer(options, Layer::Options{.activity_regularizer = regularizers::L1L2({options.l1, options.l2})}) {
    set_built_in_constructor();
  }
  template <typename V>
  static void fields(V& v, ActivityRegularizationOptions& o) {
    v("l1", o.l1);
    v("l2", o.l2);
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    config.erase("activity_regularizer");
    return config;
  }
  std::string class_name() const override { return kClass; }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override { return inputs; }
};

}  // namespace

void register_regularization_layers(LayerRegistry& registry) {
  registry.add(layer_row<DropoutLayer>());
  registry.add(layer_row<AlphaDropoutLayer>());
  registry.add(layer_row<SpatialDropoutLayer<1>>());
  registry.add(layer_row<SpatialDropoutLayer<2>>());
  registry.add(layer_row<GaussianNoiseLayer>());
  registry.add(layer_row<GaussianDropoutLayer>());
  registry.add(layer_row<ActivityRegularizationLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

using keras::LayerHandle;
using keras::make_layer;

LayerHandle Dropout(double rate, DropoutOptions options) {
  options.rate = rate;
  return make_layer<keras::DropoutLayer>(std::move(options));
}
LayerHandle AlphaDropout(double rate, DropoutOptions options) {
  options.rate = rate;
  return make_layer<keras::AlphaDropoutLayer>(std::move(options));
}
LayerHandle SpatialDropout1D(double rate, SpatialDropoutOptions options) {
  options.rate = rate;
  return make_layer<keras::SpatialDropoutLayer<1>>(std::move(options));
}
LayerHandle SpatialDropout2D(double rate, SpatialDropoutOptions options) {
  options.rate = rate;
  return make_layer<keras::SpatialDropoutLayer<2>>(std::move(options));
}
LayerHandle GaussianNoise(double stddev, NoiseOptions options) {
  options.amount = stddev;
  return make_layer<keras::GaussianNoiseLayer>(std::move(options));
}
LayerHandle GaussianDropout(double rate, NoiseOptions options) {
  options.amount = rate;
  return make_layer<keras::GaussianDropoutLayer>(std::move(options));
}
LayerHandle ActivityRegularization(ActivityRegularizationOptions options) {
  return make_layer<keras::ActivityRegularizationLayer>(std::move(options));
}

}  // namespace lockstep::layers
