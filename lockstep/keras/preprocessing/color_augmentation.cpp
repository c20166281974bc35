// The layers of augmentation.h that change colors.
#include <algorithm>
#include <cmath>

#include "lockstep/keras/backend.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {

Tensor to_grayscale(const Tensor& x) {
  if (x.dim(-1) == 1) return x;
  if (x.dim(-1) != 3)
    throw_invalid_argument(fmt::format("invalid images: found {} channels, expected 3 (RGB) or 1", x.dim(-1)));
  const Tensor weights = ops::cast(Tensor::from_vector(std::vector<float>{0.2989f, 0.5870f, 0.1140f}), x.dtype());
  return ops::reduce_sum(x * weights, ops::Ints{-1}, true);
}

namespace {

using namespace layers;

// As tf.image.rgb_to_hsv and hsv_to_rgb: three tensors (batch, height, width).
struct Channels {
  Tensor a, b, c;
};
Channels split_channels(const Tensor& x, const std::string& who) {
  if (x.dim(-1) != 3)
    throw_invalid_argument(fmt::format("invalid input of {}: found {} channels, expected 3 (RGB)", who, x.dim(-1)));
  const Tensors parts = ops::unstack(x, -1);
  return {parts[0], parts[1], parts[2]};
}
Channels to_hsv(const Channels& rgb) {
  const auto& [r, g, b] = rgb;
  const Tensor value = ops::maximum(r, ops::maximum(g, b));
  const Tensor range = value - ops::minimum(r, ops::minimum(g, b));
  const Tensor zero = ops::zeros_like(value);
  const Tensor saturation = ops::where(ops::greater(value, 0.0), range / value, zero);
  const Tensor norm = 1.0 / (6.0 * range);
  Tensor hue = ops::where(ops::equal(r, value), norm * (g - b),
                          ops::where(ops::equal(g, value), norm * (b - r) + 2.0 / 6.0, norm * (r - g) + 4.0 / 6.0));
  hue = ops::where(ops::greater(range, 0.0), hue, zero);
  hue = ops::where(ops::less(hue, 0.0), hue + 1.0, hue);
  return {hue, saturation, value};
}
Tensor to_rgb(const Channels& hsv) {
  const auto& [hue, saturation, value] = hsv;
  const Tensor turn = hue * 6.0;
  const auto channel = [&](const Tensor& amount) {
    return ((1.0 - saturation) + saturation * ops::clip_by_value(amount, 0.0, 1.0)) * value;
  };
  return ops::stack(
      {channel(ops::abs(turn - 3.0) - 1.0), channel(2.0 - ops::abs(turn - 2.0)), channel(2.0 - ops::abs(turn - 4.0))},
      -1);
}

// One window over each channel, zeros around the image.
Tensor blurred(const Tensor& x, const Tensor& window) {
  const Tensor kernel = ops::tile(ops::reshape(window, {window.dim(0), window.dim(1), 1, 1}), {1, 1, x.dim(-1), 1});
  return ops::depthwise_conv2d(x, ops::cast(kernel, x.dtype()), {.padding = "SAME"});
}

// Layers with a factor, a value range and a seed, in the order of most classes.
template <typename Derived, typename Options>
class ColorLayer : public AugmentationLayer<Derived, Options> {
 public:
  static constexpr Field kFactor = Field::kRequired;
  template <typename V>
  static void fields(V& v, Options& o) {
    image_fields(v, o);
    if constexpr (requires { Derived::kNullFactor; }) {
      v("factor", null_read_as(o.factor, Derived::kNullFactor), Derived::kFactor);
    } else {
      v("factor", o.factor, Derived::kFactor);
    }
    v("value_range", o.value_range);
    v("seed", o.seed);
  }

 protected:
  using Base = AugmentationLayer<Derived, Options>;
  ColorLayer(Options options, double least, double most) : Base(std::move(options)) {
    auto& o = this->options_;
    this->generator_ = this->add_seed_generator(o.seed);
    range_ = resolve_factor(o.factor, least, most, this->who() + ": factor");
    check_value_range(o.value_range, this->who());
  }
  const std::vector<double>& values() const { return this->options_.value_range; }
  FactorRange range_;
};

class RandomContrastLayer : public ColorLayer<RandomContrastLayer, RandomContrastOptions> {
 public:
  static constexpr const char* kClass = "RandomContrast";
  bool keeps_dtype_in_inference() const override { return true; }
  explicit RandomContrastLayer(RandomContrastOptions options) : ColorLayer(std::move(options), 0, 1) {}
  Tensors draw(const Tensor& x) override {
    return {uniform_to_compute(x, {1, 1, 1}, {1 - range_.lower, 1 + range_.upper})};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    const Tensor mean = ops::reduce_mean(ops::reduce_mean(x, ops::Ints{1}, true), ops::Ints{2}, true);
    return clip_to((x - mean) * ops::cast(drawn[0], x.dtype()) + mean, values());
  }
};

class RandomBrightnessLayer : public ColorLayer<RandomBrightnessLayer, RandomContrastOptions> {
 public:
  static constexpr const char* kClass = "RandomBrightness";
  static constexpr int kNullFactor = 0;
  bool keeps_dtype_in_inference() const override { return true; }
  explicit RandomBrightnessLayer(RandomContrastOptions options) : ColorLayer(std::move(options), -1, 1) {}
  Tensors draw(const Tensor& x) override { return {uniform(x, {1, 1, 1}, range_)}; }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    return clip_to(x + ops::cast(drawn[0] * (values()[1] - values()[0]), x.dtype()), values());
  }
};

class RandomHueLayer : public ColorLayer<RandomHueLayer, RandomHueOptions> {
 public:
  static constexpr const char* kClass = "RandomHue";
  bool keeps_dtype_in_inference() const override { return true; }
  explicit RandomHueLayer(RandomHueOptions options) : ColorLayer(std::move(options), 0, 1) {}
  bool draws_in_inference() const override { return true; }
  Tensors draw(const Tensor& x) override {
    const Tensor side = uniform(x, {}, {0, 1});
    const Tensor amount = uniform(x, {}, range_);
    return {ops::where(ops::greater(side, 0.5), -amount, amount) * 0.5};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    const Tensor images = ops::cast(x, compute_dtype());
    Channels hsv = to_hsv(split_channels(change_range(images, values(), kUnit), who()));
    hsv.a = hsv.a + ops::cast(ops::reshape(drawn[0], {-1, 1, 1}), hsv.a.dtype());
    hsv.a = ops::where(ops::greater(hsv.a, 1.0), hsv.a - 1.0, hsv.a);
    hsv.a = ops::where(ops::less(hsv.a, 0.0), hsv.a + 1.0, hsv.a);
    return ops::cast(change_range(ops::clip_by_value(to_rgb(hsv), 0.0, 1.0), kUnit, values()), compute_dtype());
  }
};

class RandomSaturationLayer : public ColorLayer<RandomSaturationLayer, RandomHueOptions> {
 public:
  static constexpr const char* kClass = "RandomSaturation";
  bool keeps_dtype_in_inference() const override { return true; }
  explicit RandomSaturationLayer(RandomHueOptions options) : ColorLayer(std::move(options), -1, 1) {}
  bool draws_in_inference() const override { return true; }
  Tensors draw(const Tensor& x) override {
    const Tensor factor = uniform(x, {}, range_);
    return {factor / (1.0 - factor + backend::epsilon())};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    Channels hsv = to_hsv(split_channels(x, who()));
    const DType both = common_dtype(x.dtype(), compute_dtype());
    const Tensor factor = ops::cast(ops::reshape(drawn[0], {-1, 1, 1}), compute_dtype());
    hsv.b = clip_to(ops::cast(hsv.b, both) * ops::cast(factor, both), values());
    return to_rgb({ops::cast(hsv.a, both), hsv.b, ops::cast(hsv.c, both)});
  }
};

class RandomSharpnessLayer : public ColorLayer<RandomSharpnessLayer, RandomHueOptions> {
 public:
  static constexpr const char* kClass = "RandomSharpness";
  explicit RandomSharpnessLayer(RandomHueOptions options) : ColorLayer(std::move(options), 0, 1) {}
  bool draws_in_inference() const override { return true; }
  Tensors draw(const Tensor& x) override { return {uniform(x, {}, range_)}; }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    std::vector<float> window(9, 1.0f / 13);
    window[4] = 5.0f / 13;
    const Tensor smooth = blurred(x, Tensor::from_vector(window, Shape{3, 3}));
    const Tensor amount = ops::cast(ops::reshape(drawn[0] * 2.0, {-1, 1, 1, 1}), x.dtype());
    return clip_to(x + (1.0 - amount) * (smooth - x), values());
  }
};

class RandomColorDegenerationLayer : public ColorLayer<RandomColorDegenerationLayer, RandomHueOptions> {
 public:
  static constexpr const char* kClass = "RandomColorDegeneration";
  bool keeps_dtype_in_inference() const override { return true; }
  explicit RandomColorDegenerationLayer(RandomHueOptions options) : ColorLayer(std::move(options), -1, 1) {}
  bool draws_in_inference() const override { return true; }
  Tensors draw(const Tensor& x) override { return {uniform(x, {1, 1, 1}, range_)}; }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    return clip_to(x + ops::cast(drawn[0], x.dtype()) * (to_grayscale(x) - x), values());
  }
};

class RandomPosterizationLayer : public ColorLayer<RandomPosterizationLayer, RandomHueOptions> {
 public:
  static constexpr const char* kClass = "RandomPosterization";
  bool keeps_dtype_in_inference() const override { return true; }
  explicit RandomPosterizationLayer(RandomHueOptions options) : ColorLayer(std::move(options), 1, 8) {}
  bool draws_in_inference() const override { return true; }
  Tensors draw(const Tensor& x) override {
    const auto least = static_cast<std::int64_t>(range_.lower), most = static_cast<std::int64_t>(range_.upper);
    if (least == most) return {Tensor::full(Shape{1}, static_cast<double>(8 - least))};
    const Tensor bits = random::randint({ops::dim_of(x, 0)}, least, most, DType::kInt64, generator_);
    return {8.0 - ops::cast(bits, DType::kFloat32)};
  }
  // The lowest bits of a byte are lost in a division by their power of two.
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    const Tensor bytes = ops::cast(ops::cast(change_range(x, values(), kBytes), DType::kUInt8), DType::kFloat32);
    const Tensor power = ops::pow(2.0 + ops::zeros_like(drawn[0]), drawn[0]);
    const Tensor step = ops::reshape(power, {-1, 1, 1, 1});
    return change_range(ops::cast(ops::floor(bytes / step) * step, x.dtype()), kBytes, values());
  }
};

class RandomInvertLayer : public ColorLayer<RandomInvertLayer, RandomInvertOptions> {
 public:
  static constexpr const char* kClass = "RandomInvert";
  bool keeps_dtype_in_inference() const override { return true; }
  static constexpr Field kFactor = Field::kOptional;
  explicit RandomInvertLayer(RandomInvertOptions options) : ColorLayer(std::move(options), 0, 1) {}
  Tensors draw(const Tensor& x) override {
    const Tensor probability = uniform(x, {}, range_);
    return {ops::less(uniform(x, {}, {0, 1}), probability)};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    return choose_images(drawn[0], values()[1] - x, x);
  }
};

class RandomGrayscaleLayer : public AugmentationLayer<RandomGrayscaleLayer, RandomGrayscaleOptions> {
 public:
  static constexpr const char* kClass = "RandomGrayscale";
  bool keeps_dtype_in_inference() const override { return true; }
  template <typename V>
  static void fields(V& v, RandomGrayscaleOptions& o) {
    image_fields(v, o);
    v("factor", o.factor);
    v("seed", o.seed, Field::kUnwritten);
  }
  explicit RandomGrayscaleLayer(RandomGrayscaleOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    read_factor(options_.factor, 0, 1, who() + ": factor");
  }
  bool draws_in_inference() const override { return true; }
  Tensors draw(const Tensor& x) override { return {ops::less(uniform(x, {}, {0, 1}), options_.factor)}; }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    return choose_images(drawn[0], to_grayscale(x) + ops::zeros_like(x), x);
  }
};

class RandomColorJitterLayer : public AugmentationLayer<RandomColorJitterLayer, RandomColorJitterOptions> {
 public:
  static constexpr const char* kClass = "RandomColorJitter";
  bool keeps_dtype_in_inference() const override { return true; }
  template <typename V>
  static void fields(V& v, RandomColorJitterOptions& o) {
    image_fields(v, o);
    v("value_range", o.value_range);
    v("brightness_factor", o.brightness_factor);
    v("contrast_factor", o.contrast_factor);
    v("saturation_factor", o.saturation_factor);
    v("hue_factor", o.hue_factor);
    v("seed", o.seed);
  }
  explicit RandomColorJitterLayer(RandomColorJitterOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    check_value_range(options_.value_range, who());
    add<RandomBrightnessLayer, RandomContrastOptions>(options_.brightness_factor);
    add<RandomContrastLayer, RandomContrastOptions>(options_.contrast_factor);
    add<RandomSaturationLayer, RandomHueOptions>(options_.saturation_factor);
    add<RandomHueLayer, RandomHueOptions>(options_.hue_factor);
  }
  Tensors draw(const Tensor& x) override {
    Tensors drawn;
    for (const auto& part : parts_) drawn.push_back(part->draw_with(x, generator_).at(0));
    return drawn;
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    Tensor y = x;
    for (std::size_t i = 0; i < parts_.size(); ++i) y = parts_[i]->change(y, {drawn.at(i)});
    return ops::cast(y, compute_dtype());
  }

 private:
  // Keras gives its parts the global policy, not this layer's.
  template <typename L, typename Options>
  void add(const Json& factor) {
    if (factor.is_null()) return;
    Options options;
    options.factor = factor;
    options.value_range = options_.value_range;
    options.seed = options_.seed;
    parts_.push_back(std::make_shared<L>(std::move(options)));
  }
  std::vector<std::shared_ptr<ImageChange>> parts_;
};

class RandomErasingLayer : public AugmentationLayer<RandomErasingLayer, RandomErasingOptions> {
 public:
  static constexpr const char* kClass = "RandomErasing";
  template <typename V>
  static void fields(V& v, RandomErasingOptions& o) {
    image_fields(v, o);
    v("factor", o.factor);
    v("scale", o.scale);
    v("fill_value", o.fill_value);
    v("value_range", o.value_range);
    v("seed", o.seed);
  }
  explicit RandomErasingLayer(RandomErasingOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    range_ = resolve_factor(options_.factor, 0, 1, who() + ": factor");
    scale_ = resolve_factor(options_.scale, 0, 1, who() + ": scale");
    check_value_range(options_.value_range, who());
    const Json& fill = options_.fill_value;
    const bool list =
        fill.is_array() && fill.size() == 3 && fill[0].is_number() && fill[1].is_number() && fill[2].is_number();
    if (!fill.is_null() && !fill.is_number() && !list)
      throw_invalid_argument(fmt::format("invalid {}: fill_value is {}, expected a number or three", who(),
                                         dump_json(fill).substr(0, 60)));
  }
  Tensors draw(const Tensor& x) override {
    const Tensor sides = ops::sqrt(uniform_to_compute(x, {2}, scale_));
    const auto bounds = [&](std::int64_t column, int axis) {
      const Tensor extent = ops::cast(ops::dim_of(x, axis), sides.dtype());
      const Tensor length = ops::squeeze(ops::slice_axis(sides, 1, column, column + 1), {1}) * extent;
      const Tensor start = uniform_to_compute(x, {}, {0, 1}) * (extent - length);
      return std::pair(ops::cast(start, DType::kFloat32), ops::cast(start + length, DType::kFloat32));
    };
    const auto [left, right] = bounds(0, 2);
    const auto [top, bottom] = bounds(1, 1);
    const Tensor probability = uniform(x, {}, range_);
    const Tensor chosen = ops::less(uniform(x, {}, {0, 1}), probability);
    return {left, right, top, bottom, chosen, fill_of(x)};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    const Tensor inside = in_rectangle(x, drawn[0], drawn[1], drawn[2], drawn[3]);
    return choose_images(drawn[4], ops::where(inside, ops::cast(drawn[5], x.dtype()), x), x);
  }

 private:
  Tensor fill_of(const Tensor& x) {
    const Json& fill = options_.fill_value;
    if (fill.is_number()) return clip_to(Tensor::scalar(fill.get<double>(), DType::kFloat32), options_.value_range);
    if (fill.is_array()) {
      std::vector<float> values;
      for (const Json& value : fill) values.push_back(value.get<float>());
      return clip_to(Tensor::from_vector(values), options_.value_range);
    }
    const bool first = options_.data_format == "channels_first";
    std::vector<Extent> shape;
    for (const int axis : first ? std::vector{0, 3, 1, 2} : std::vector{0, 1, 2, 3})
      shape.emplace_back(ops::dim_of(x, axis));
    const Tensor drawn = random::normal(shape, 0.0, 1.0, compute_dtype(), generator_);
    const Tensor noise = first ? to_channels_last(drawn) : drawn;
    return clip_to(noise * options_.value_range[1], options_.value_range);
  }
  FactorRange range_, scale_;
};

class RandomGaussianBlurLayer : public AugmentationLayer<RandomGaussianBlurLayer, RandomGaussianBlurOptions> {
 public:
  static constexpr const char* kClass = "RandomGaussianBlur";
  template <typename V>
  static void fields(V& v, RandomGaussianBlurOptions& o) {
    image_fields(v, o);
    v("factor", o.factor);
    v("kernel_size", o.kernel_size);
    v("sigma", o.sigma);
    v("value_range", o.value_range);
    v("seed", o.seed);
  }
  explicit RandomGaussianBlurLayer(RandomGaussianBlurOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    range_ = resolve_factor(options_.factor, 0, 1, who() + ": factor");
    sigma_ = resolve_factor(options_.sigma, 0, 1, who() + ": sigma");
    check_value_range(options_.value_range, who());
    read_sizes();
  }
  Tensors draw(const Tensor& x) override {
    const Tensor probability = uniform(x, {}, range_);
    const Tensor chosen = ops::less(uniform(x, {}, {0, 1}), probability);
    const Tensor both = random::uniform(Shape{2}, sigma_.lower, sigma_.upper, compute_dtype(), generator_);
    return {chosen, ops::cast(both + 1e-6, DType::kFloat32)};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    const auto bell = [&](std::int64_t which) {
      std::vector<float> places;
      for (std::int64_t i = 0; i < sizes_[static_cast<std::size_t>(which)]; ++i)
        places.push_back(static_cast<float>(i) - static_cast<float>(sizes_[static_cast<std::size_t>(which)] - 1) / 2);
      const Tensor sigma = ops::slice_axis(drawn[1], 0, which, which + 1);
      const Tensor raw = ops::exp(ops::square(Tensor::from_vector(places) / sigma) * -0.5);
      return raw / ops::reduce_sum(raw);
    };
    const Tensor window = ops::matmul(ops::expand_dims(bell(1), 1), ops::expand_dims(bell(0), 0));
    const Tensor soft = blurred(x, ops::reshape(window, {sizes_[0], sizes_[1]}));
    return clip_to(choose_images(drawn[0], soft, x), options_.value_range);
  }

 private:
  void read_sizes() {
    Json& given = options_.kernel_size;
    if (given.is_number_integer()) {
      Json both = Json::array();
      both.push_back(given);
      both.push_back(given);
      given = both;
    }
    const bool two =
        given.is_array() && given.size() == 2 && given[0].is_number_integer() && given[1].is_number_integer();
    for (std::size_t i = 0; two && i < 2; ++i) sizes_.push_back(given[i].get<std::int64_t>());
    if (!two || sizes_[0] < 1 || sizes_[1] < 1 || sizes_[0] % 2 == 0 || sizes_[1] % 2 == 0 || sizes_[0] > 1001 ||
        sizes_[1] > 1001)
      throw_invalid_argument(
          fmt::format("invalid {}: kernel_size is {}, expected one or two odd numbers of at most 1001", who(),
                      dump_json(given).substr(0, 60)));
  }
  FactorRange range_, sigma_;
  std::vector<std::int64_t> sizes_;
};

class SolarizationLayer : public AugmentationLayer<SolarizationLayer, SolarizationOptions> {
 public:
  static constexpr const char* kClass = "Solarization";
  template <typename V>
  static void fields(V& v, SolarizationOptions& o) {
    image_fields(v, o);
    v("value_range", o.value_range);
    v("addition_factor", o.addition_factor);
    v("threshold_factor", o.threshold_factor);
    v("seed", o.seed);
  }
  explicit SolarizationLayer(SolarizationOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    addition_ = resolve_factor(options_.addition_factor, 0, 1, who() + ": addition_factor");
    threshold_ = resolve_factor(options_.threshold_factor, 0, 1, who() + ": threshold_factor");
    check_value_range(options_.value_range, who());
  }
  Tensors draw(const Tensor& x) override {
    const Tensor additions = uniform_to_compute(x, {1, 1, 1}, {addition_.lower, addition_.upper * 255});
    return {additions, uniform_to_compute(x, {1, 1, 1}, {threshold_.lower, threshold_.upper * 255})};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    const Tensor y =
        ops::clip_by_value(change_range(x, options_.value_range, kBytes) + ops::cast(drawn[0], x.dtype()), 0.0, 255.0);
    return change_range(ops::where(ops::less(y, ops::cast(drawn[1], x.dtype())), y, 255.0 - y), kBytes,
                        options_.value_range);
  }

 private:
  FactorRange addition_, threshold_;
};

class AutoContrastLayer : public AugmentationLayer<AutoContrastLayer, AutoContrastOptions> {
 public:
  static constexpr const char* kClass = "AutoContrast";
  template <typename V>
  static void fields(V& v, AutoContrastOptions& o) {
    image_fields(v, o);
    v("value_range", o.value_range);
  }
  explicit AutoContrastLayer(AutoContrastOptions options) : AugmentationLayer(std::move(options)) {
    check_value_range(options_.value_range, who());
  }
  bool works_in_inference() const override { return true; }
  // Keras takes the second and third axis for height and width in both formats.
  bool keeps_layout() const override { return true; }
  Tensors draw(const Tensor&) override { return {}; }
  Tensor transform(const Tensor& x, const Tensors&) const override {
    const Tensor y = change_range(x, options_.value_range, kBytes);
    const Tensor low = ops::reduce_min(y, ops::Ints{1, 2}, true), high = ops::reduce_max(y, ops::Ints{1, 2}, true);
    const Tensor scale = 255.0 / (high - low);
    const Tensor wide =
        change_range(ops::clip_by_value(y * scale + -low * scale, 0.0, 255.0), kBytes, options_.value_range);
    return ops::where(ops::is_nan(wide), x, wide);
  }
};

}  // namespace

void register_color_augmentation(ClassTable& registry) {
  registry.add(layer_row<RandomContrastLayer>());
  registry.add(layer_row<RandomBrightnessLayer>());
  registry.add(layer_row<RandomHueLayer>());
  registry.add(layer_row<RandomSaturationLayer>());
  registry.add(layer_row<RandomSharpnessLayer>());
  registry.add(layer_row<RandomColorDegenerationLayer>());
  registry.add(layer_row<RandomPosterizationLayer>());
  registry.add(layer_row<RandomInvertLayer>());
  registry.add(layer_row<RandomGrayscaleLayer>());
  registry.add(layer_row<RandomColorJitterLayer>());
  registry.add(layer_row<RandomErasingLayer>());
  registry.add(layer_row<RandomGaussianBlurLayer>());
  registry.add(layer_row<SolarizationLayer>());
  registry.add(layer_row<AutoContrastLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {
LayerHandle RandomContrast(RandomContrastOptions options) {
  return std::make_shared<keras::RandomContrastLayer>(std::move(options));
}
LayerHandle RandomBrightness(RandomBrightnessOptions options) {
  return std::make_shared<keras::RandomBrightnessLayer>(std::move(options));
}
LayerHandle RandomHue(RandomHueOptions options) { return std::make_shared<keras::RandomHueLayer>(std::move(options)); }
LayerHandle RandomSaturation(RandomSaturationOptions options) {
  return std::make_shared<keras::RandomSaturationLayer>(std::move(options));
}
LayerHandle RandomSharpness(RandomSharpnessOptions options) {
  return std::make_shared<keras::RandomSharpnessLayer>(std::move(options));
}
LayerHandle RandomColorDegeneration(RandomColorDegenerationOptions options) {
  return std::make_shared<keras::RandomColorDegenerationLayer>(std::move(options));
}
LayerHandle RandomPosterization(RandomPosterizationOptions options) {
  return std::make_shared<keras::RandomPosterizationLayer>(std::move(options));
}
LayerHandle RandomGrayscale(RandomGrayscaleOptions options) {
  return std::make_shared<keras::RandomGrayscaleLayer>(std::move(options));
}
LayerHandle RandomColorJitter(RandomColorJitterOptions options) {
  return std::make_shared<keras::RandomColorJitterLayer>(std::move(options));
}
LayerHandle RandomInvert(RandomInvertOptions options) {
  return std::make_shared<keras::RandomInvertLayer>(std::move(options));
}
LayerHandle RandomErasing(RandomErasingOptions options) {
  return std::make_shared<keras::RandomErasingLayer>(std::move(options));
}
LayerHandle RandomGaussianBlur(RandomGaussianBlurOptions options) {
  return std::make_shared<keras::RandomGaussianBlurLayer>(std::move(options));
}
LayerHandle Solarization(SolarizationOptions options) {
  return std::make_shared<keras::SolarizationLayer>(std::move(options));
}
LayerHandle AutoContrast(AutoContrastOptions options) {
  return std::make_shared<keras::AutoContrastLayer>(std::move(options));
}

}  // namespace lockstep::layers
