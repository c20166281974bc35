#include "lockstep/keras/layers/regularization.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/random.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// A layer that changes its input at random in training and passes it on otherwise.
template <typename Derived, typename Options>
class NoiseLayer : public ConfiguredLayer<Derived, Options> {
 public:
  using Base = ConfiguredLayer<Derived, Options>;
  bool supports_masking() const override { return true; }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultFalse; }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& x = inputs.leaf();
    if (!context.training || !active()) return x;
    if (graph::stands_for_shape(x)) return x;
    return disturb(x);
  }

 protected:
  explicit NoiseLayer(Options options) : Base(std::move(options)) { this->set_built_in_constructor(); }
  virtual bool active() const = 0;
  virtual Tensor disturb(const Tensor& x) = 0;
  // A rate in [0, 1]; draws the seed of the generator unless nothing will ever be drawn.
  void set_rate(double rate, std::optional<std::int64_t> seed) {
    if (!(rate >= 0 && rate <= 1)) {
      throw_invalid_argument(
          fmt::format("{} '{}': rate is {}, expected a number from 0 to 1", Derived::kClass, this->name(), rate));
    }
    if (rate > 0) generator_ = this->add_seed_generator(seed);
  }
  random::SeedGeneratorPtr generator_;
};

// A shape whose unknown extents are those of x, which the graph computes.
ShapeArg known_or_computed(const Shape& shape, const Tensor& x) {
  if (shape.fully_known()) return shape;
  std::vector<Extent> extents;
  for (int axis = 0; axis < shape.rank(); ++axis)
    extents.push_back(shape[axis] == kUnknownDim ? Extent(ops::dim_of(x, axis)) : Extent(shape[axis]));
  return extents;
}

ShapeArg extents_of(const Tensor& x) {
  return x.shape().fully_known() ? ShapeArg(x.shape()) : ShapeArg(ops::shape_of(x));
}

// The noise shape with the input's extents where it leaves them open.
Shape fill_noise_shape(const std::optional<std::vector<std::int64_t>>& noise_shape, const Tensor& x,
                       const std::string& who) {
  if (!noise_shape) return x.shape();
  if (static_cast<int>(noise_shape->size()) != x.rank()) {
    throw_invalid_argument(
        fmt::format("{}: noise_shape has {} entries, its input {} axes", who, noise_shape->size(), x.rank()));
  }
  Shape out(*noise_shape);
  for (int i = 0; i < out.rank(); ++i) {
    if (out[i] == kUnknownDim) out[i] = x.dim(i);
  }
  return out;
}

template <typename Derived>
class DropoutBase : public NoiseLayer<Derived, DropoutOptions> {
 public:
  template <typename V>
  static void fields(V& v, DropoutOptions& o) {
    v.renamed("p", "rate", o.rate);  // Keras 1
    v("rate", o.rate, Field::kRequired);
    v("seed", o.seed);
    v("noise_shape", Dims{o.noise_shape});
  }
  explicit DropoutBase(DropoutOptions options) : NoiseLayer<Derived, DropoutOptions>(std::move(options)) {
    this->set_rate(this->options_.rate, this->options_.seed);
  }

 protected:
  bool active() const override { return this->options_.rate > 0; }
};

class DropoutLayer : public DropoutBase<DropoutLayer> {
 public:
  static constexpr const char* kClass = "Dropout";
  using DropoutBase::DropoutBase;

 protected:
  Tensor disturb(const Tensor& x) override {
    std::optional<Shape> noise_shape;
    if (options_.noise_shape)
      noise_shape = fill_noise_shape(options_.noise_shape, x, fmt::format("Dropout '{}'", name()));
    return random::dropout(x, options_.rate, noise_shape, generator_);
  }
};

class AlphaDropoutLayer : public DropoutBase<AlphaDropoutLayer> {
 public:
  static constexpr const char* kClass = "AlphaDropout";
  using DropoutBase::DropoutBase;

 protected:
  Tensor disturb(const Tensor& x) override {
    const Shape shape = fill_noise_shape(options_.noise_shape, x, fmt::format("AlphaDropout '{}'", name()));
    const Tensor draw = random::uniform(known_or_computed(shape, x), 0.0, 1.0, DType::kFloat32, generator_);
    return dropped(x, ops::cast(ops::greater_equal(draw, options_.rate), x.dtype()));
  }

 private:
  // Keeps mean and variance of normalized inputs.
  Tensor dropped(const Tensor& x, const Tensor& kept) const {
    const double r = options_.rate, alpha = -1.6732632423543772 * 1.0507009873554805;
    const double a = std::pow((1 - r) * (1 + r * alpha * alpha), -0.5), b = -a * alpha * r;
    return (x * kept + (1.0 - kept) * alpha) * a + b;
  }
};

template <typename Derived, int kRank>
class SpatialDropoutLayer : public NoiseLayer<Derived, SpatialDropoutOptions> {
 public:
  template <typename V>
  static void fields(V& v, SpatialDropoutOptions& o) {
    v.renamed("p", "rate", o.rate);  // Keras 1
    v("rate", o.rate, Field::kRequired);
    v("seed", o.seed);
    if constexpr (kRank > 1) v("data_format", DataFormat{o.data_format});
    v.dropped("noise_shape");
  }
  explicit SpatialDropoutLayer(SpatialDropoutOptions options)
      : NoiseLayer<Derived, SpatialDropoutOptions>(std::move(options)) {
    this->set_rate(this->options_.rate, this->options_.seed);
    normalize_data_format(this->options_.data_format,
                          fmt::format("{} '{}': data_format", Derived::kClass, this->name()));
  }
  // Keras writes fewer keys than other layers have, and the dtype as a string.
  Json get_config() const override {
    Json config = {{"rate", this->options_.rate.integer ? Json(static_cast<std::int64_t>(this->options_.rate))
                                                        : Json(this->options_.rate.value)},
                   {"seed", this->options_.seed ? Json(*this->options_.seed) : Json(nullptr)},
                   {"name", this->name()},
                   {"dtype", std::string(dtype_name(this->compute_dtype()))}};
    if (kRank > 1) config["data_format"] = this->options_.data_format;
    return config;
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = kRank + 2}}; }

 protected:
  bool active() const override { return this->options_.rate > 0; }
  Tensor disturb(const Tensor& x) override {
    return random::dropout(x, this->options_.rate, noise_shape(x), this->generator_);
  }

 private:
  // Whole channels of a sample go or stay.
  Shape noise_shape(const Tensor& x) const {
    Shape noise(Ints(kRank + 2, 1));
    noise[0] = x.dim(0);
    const int channels = this->options_.data_format == "channels_first" ? 1 : kRank + 1;
    noise[channels] = x.dim(channels);
    return noise;
  }
};

struct SpatialDropout1DLayer : SpatialDropoutLayer<SpatialDropout1DLayer, 1> {
  static constexpr const char* kClass = "SpatialDropout1D";
  using SpatialDropoutLayer::SpatialDropoutLayer;
};
struct SpatialDropout2DLayer : SpatialDropoutLayer<SpatialDropout2DLayer, 2> {
  static constexpr const char* kClass = "SpatialDropout2D";
  using SpatialDropoutLayer::SpatialDropoutLayer;
};
struct SpatialDropout3DLayer : SpatialDropoutLayer<SpatialDropout3DLayer, 3> {
  static constexpr const char* kClass = "SpatialDropout3D";
  using SpatialDropoutLayer::SpatialDropoutLayer;
};

class GaussianDropoutLayer : public NoiseLayer<GaussianDropoutLayer, GaussianDropoutOptions> {
 public:
  static constexpr const char* kClass = "GaussianDropout";
  template <typename V>
  static void fields(V& v, GaussianDropoutOptions& o) {
    v("rate", o.rate, Field::kRequired);
    v("seed", o.seed);
  }
  explicit GaussianDropoutLayer(GaussianDropoutOptions options) : NoiseLayer(std::move(options)) {
    set_rate(options_.rate, options_.seed);
    if (options_.rate >= 1) throw_invalid_argument(fmt::format("GaussianDropout '{}': rate must be below 1", name()));
  }

 protected:
  bool active() const override { return options_.rate > 0; }
  Tensor disturb(const Tensor& x) override {
    return x * random::normal(extents_of(x), 1.0, deviation(), x.dtype(), generator_);
  }

 private:
  double deviation() const { return std::sqrt(options_.rate / (1.0 - options_.rate)); }
};

class GaussianNoiseLayer : public NoiseLayer<GaussianNoiseLayer, GaussianNoiseOptions> {
 public:
  static constexpr const char* kClass = "GaussianNoise";
  template <typename V>
  static void fields(V& v, GaussianNoiseOptions& o) {
    v.renamed("sigma", "stddev", o.stddev);  // Keras 1
    v("stddev", o.stddev, Field::kRequired);
    v("seed", o.seed);
  }
  explicit GaussianNoiseLayer(GaussianNoiseOptions options) : NoiseLayer(std::move(options)) {
    if (!(options_.stddev >= 0))
      throw_invalid_argument(fmt::format("GaussianNoise '{}': stddev must not be negative", name()));
    if (options_.stddev > 0) generator_ = add_seed_generator(options_.seed);
  }

 protected:
  bool active() const override { return options_.stddev > 0; }
  Tensor disturb(const Tensor& x) override {
    return x + random::normal(extents_of(x), 0.0, options_.stddev, x.dtype(), generator_);
  }
};

class ActivityRegularizationLayer : public ConfiguredLayer<ActivityRegularizationLayer, ActivityRegularizationOptions> {
 public:
  static constexpr const char* kClass = "ActivityRegularization";
  template <typename V>
  static void fields(V& v, ActivityRegularizationOptions& o) {
    v("l1", null_read_as(o.l1, 0));
    v("l2", null_read_as(o.l2, 0));
  }
  explicit ActivityRegularizationLayer(ActivityRegularizationOptions options)
      : ConfiguredLayer(options, Layer::Options{.activity_regularizer = regularizers::L1L2(options.l1, options.l2)}) {
    set_built_in_constructor();
  }
  // The regularizer is not a keyword of this class: l1 and l2 define it.
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    config.erase("activity_regularizer");
    return config;
  }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override { return inputs; }
};

}  // namespace

void register_regularization_layers(ClassTable& registry) {
  registry.add(layer_row<DropoutLayer>());
  registry.add(layer_row<AlphaDropoutLayer>());
  registry.add(layer_row<SpatialDropout1DLayer>());
  registry.add(layer_row<SpatialDropout2DLayer>());
  registry.add(layer_row<SpatialDropout3DLayer>());
  registry.add(layer_row<GaussianDropoutLayer>());
  registry.add(layer_row<GaussianNoiseLayer>());
  registry.add(layer_row<ActivityRegularizationLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Dropout(double rate, DropoutOptions options) {
  options.rate = rate;
  return std::make_shared<keras::DropoutLayer>(std::move(options));
}
LayerHandle AlphaDropout(double rate, DropoutOptions options) {
  options.rate = rate;
  return std::make_shared<keras::AlphaDropoutLayer>(std::move(options));
}
LayerHandle SpatialDropout1D(double rate, SpatialDropoutOptions options) {
  options.rate = rate;
  return std::make_shared<keras::SpatialDropout1DLayer>(std::move(options));
}
LayerHandle SpatialDropout2D(double rate, SpatialDropoutOptions options) {
  options.rate = rate;
  return std::make_shared<keras::SpatialDropout2DLayer>(std::move(options));
}
LayerHandle SpatialDropout3D(double rate, SpatialDropoutOptions options) {
  options.rate = rate;
  return std::make_shared<keras::SpatialDropout3DLayer>(std::move(options));
}
LayerHandle GaussianDropout(double rate, GaussianDropoutOptions options) {
  options.rate = rate;
  return std::make_shared<keras::GaussianDropoutLayer>(std::move(options));
}
LayerHandle GaussianNoise(double stddev, GaussianNoiseOptions options) {
  options.stddev = stddev;
  return std::make_shared<keras::GaussianNoiseLayer>(std::move(options));
}
LayerHandle ActivityRegularization(ActivityRegularizationOptions options) {
  return std::make_shared<keras::ActivityRegularizationLayer>(std::move(options));
}

}  // namespace lockstep::layers
