// What the layers of augmentation.h share, and those that move pixels.
#include "lockstep/keras/preprocessing/augmentation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/images_internal.h"
#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"
#include "lockstep/random/gamma.h"

namespace lockstep::keras {

FactorRange read_factor(const Json& factor, double least, double most, const std::string& who) {
  const auto fail = [&]() -> FactorRange {
    throw_invalid_argument(fmt::format("invalid {}: found {}, expected a number from {} to {}, or two of them", who,
                                       dump_json(factor).substr(0, 60), least, most));
  };
  if (factor.is_number()) {
    const double value = factor.get<double>();
    if (!(value >= least && value <= most)) return fail();
    return {std::max(-std::abs(value), least), std::abs(value)};
  }
  if (!factor.is_array() || factor.size() != 2 || !factor[0].is_number() || !factor[1].is_number()) return fail();
  const double a = factor[0].get<double>(), b = factor[1].get<double>();
  if (!(a <= most && b >= least)) return fail();
  return {std::min(a, b), std::max(a, b)};
}

FactorRange resolve_factor(Json& factor, double least, double most, const std::string& who) {
  const FactorRange range = read_factor(factor, least, most, who);
  const auto number = [](double value) {
    const bool whole = value == std::floor(value);
    return whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  Json both = Json::array();
  both.push_back(number(range.lower));
  both.push_back(number(range.upper));
  factor = both;
  return range;
}

void check_value_range(std::vector<double>& value_range, const std::string& who) {
  if (value_range.size() != 2 || value_range[0] == value_range[1])
    throw_invalid_argument(fmt::format("invalid {}: value_range requires two different numbers", who));
  std::sort(value_range.begin(), value_range.end());
}

Tensor draw_uniform(const Tensor& x, const Ints& tail, FactorRange range, const random::SeedGeneratorPtr& generator,
                    DType dtype) {
  std::vector<Extent> shape = {ops::dim_of(x, 0)};
  shape.insert(shape.end(), tail.begin(), tail.end());
  return random::uniform(shape, range.lower, range.upper, dtype, generator);
}

Tensor draw_one(FactorRange range, const random::SeedGeneratorPtr& generator, DType dtype) {
  return random::uniform(Shape{}, range.lower, range.upper, dtype, generator);
}

Tensor draw_beta(const Tensor& x, bool for_each_image, const Tensor& alpha, const random::SeedGeneratorPtr& generator) {
  const ShapeArg shape = for_each_image ? ShapeArg({ops::dim_of(x, 0)}) : ShapeArg();
  return random::beta(shape, alpha, alpha, {.dtype = alpha.dtype(), .seed = generator});
}

Tensor draw_order(const Tensor& x, const random::SeedGeneratorPtr& generator) {
  if (!x.is_symbolic()) return random::shuffle(ops::range(x.dim(0)), 0, generator);
  const Tensor all = ops::range(Tensor::scalar(std::int32_t{0}), ops::dim_of(x, 0), Tensor::scalar(std::int32_t{1}));
  return random::shuffle(all, 0, generator);
}

Tensor choose_images(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return ops::where(ops::reshape(condition, {-1, 1, 1, 1}), yes, no);
}

Tensor in_rectangle(const Tensor& x, const Tensor& left, const Tensor& right, const Tensor& top, const Tensor& bottom) {
  const auto between = [&](int axis, const Tensor& from, const Tensor& to) {
    const Tensor all =
        ops::range(Tensor::scalar(std::int32_t{0}), ops::dim_of(x, axis), Tensor::scalar(std::int32_t{1}));
    const Tensor at =
        ops::reshape(ops::cast(all, from.dtype()), axis == 1 ? ops::Ints{1, -1, 1, 1} : ops::Ints{1, 1, -1, 1});
    return ops::logical_and(ops::greater_equal(at, ops::reshape(from, {-1, 1, 1, 1})),
                            ops::less(at, ops::reshape(to, {-1, 1, 1, 1})));
  };
  return ops::logical_and(between(2, left, right), between(1, top, bottom));
}

Tensor change_range(const Tensor& x, const std::vector<double>& from, const std::vector<double>& to) {
  if (from == to) return x;
  return (x - from[0]) / (from[1] - from[0]) * (to[1] - to[0]) + to[0];
}

Tensor clip_to(const Tensor& x, const std::vector<double>& range) { return ops::clip_by_value(x, range[0], range[1]); }

namespace {

using namespace layers;

class RandomFlipLayer : public AugmentationLayer<RandomFlipLayer, RandomFlipOptions> {
 public:
  static constexpr const char* kClass = "RandomFlip";
  template <typename V>
  static void fields(V& v, RandomFlipOptions& o) {
    image_fields(v, o);
    v("seed", o.seed);
    v("mode", NullAs{o.mode, "none"});
  }
  explicit RandomFlipLayer(RandomFlipOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    normalize_choice(options_.mode, {"horizontal", "vertical", "horizontal_and_vertical", "none"}, who() + ": mode");
  }

 private:
  Targets targets() const override { return Targets::kMoved; }
  Tensors draw(const Tensor& x) override { return {ops::less_equal(uniform(x, {1, 1, 1}, {0, 1}), 0.5)}; }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    Tensor y = x;
    if (options_.mode.starts_with("horizontal")) y = ops::where(drawn[0], ops::reverse(y, {2}), y);
    if (options_.mode.ends_with("vertical")) y = ops::where(drawn[0], ops::reverse(y, {1}), y);
    return y;
  }
};

// Images seen through a transform each: the pixel (x, y) of the output is that at (a0 x + a1 y + a2, b0 x + b1 y + b2).
template <typename Derived, typename Options>
class AffineLayer : public AugmentationLayer<Derived, Options> {
 protected:
  using Base = AugmentationLayer<Derived, Options>;
  explicit AffineLayer(Options options) : Base(std::move(options)) {
    auto& o = this->options_;
    this->generator_ = this->add_seed_generator(o.seed);
    normalize_choice(o.fill_mode, {"reflect", "wrap", "constant", "nearest"}, this->who() + ": fill_mode");
    normalize_choice(o.interpolation, {"bilinear", "nearest"}, this->who() + ": interpolation");
  }
  struct Rows {
    Tensor a0, a1, a2, b0, b1, b2;  // (batch)
  };
  virtual Rows rows(const Tensor& x, const Tensors& drawn) const = 0;
  typename Base::Targets targets() const override { return Base::Targets::kMoved; }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    return seen(x, rows(x, drawn), this->options_.interpolation);
  }
  Tensor transform_mask(const Tensor& x, const Tensors& drawn) const override {
    return seen(x, rows(x, drawn), "nearest");
  }
  // Extents as float32 scalars.
  static Tensor height_of(const Tensor& x) { return ops::cast(ops::dim_of(x, 1), DType::kFloat32); }
  static Tensor width_of(const Tensor& x) { return ops::cast(ops::dim_of(x, 2), DType::kFloat32); }

 private:
  Tensor seen(const Tensor& x, const Rows& m, const std::string& interpolation) const {
    const auto upper = [](std::string text) {
      std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
      return text;
    };
    const Tensor zero = ops::zeros_like(m.a0);
    const auto& o = this->options_;
    return ops::call1("ImageProjectiveTransformV3",
                      {x, ops::stack({m.a0, m.a1, m.a2, m.b0, m.b1, m.b2, zero, zero}, 1),
                       ops::slice_axis(ops::shape_of(x), 0, 1, 3), Tensor::scalar(o.fill_value, DType::kFloat32)},
                      {{"interpolation", upper(interpolation)}, {"fill_mode", upper(o.fill_mode)}});
  }
};

class RandomRotationLayer : public AffineLayer<RandomRotationLayer, RandomRotationOptions> {
 public:
  static constexpr const char* kClass = "RandomRotation";
  template <typename V>
  static void fields(V& v, RandomRotationOptions& o) {
    v.dropped("value_range");  // of Keras 3.0
    image_fields(v, o);
    v("factor", null_read_as(o.factor, 0), Field::kRequired);
    v("fill_mode", o.fill_mode);
    v("fill_value", o.fill_value);
    v("interpolation", o.interpolation);
    v("seed", o.seed);
  }
  explicit RandomRotationLayer(RandomRotationOptions options) : AffineLayer(std::move(options)) {
    range_ = resolve_factor(options_.factor, -1, 1, who() + ": factor");
  }

 private:
  Tensors draw(const Tensor& x) override { return {uniform(x, {}, {range_.lower * 360, range_.upper * 360})}; }
  Rows rows(const Tensor& x, const Tensors& drawn) const override {
    const Tensor angle = drawn[0] * (std::numbers::pi / 180);
    const Tensor cos = ops::cos(angle), sin = ops::sin(angle);
    const Tensor cx = (width_of(x) - 1.0) * 0.5, cy = (height_of(x) - 1.0) * 0.5;
    return {cos, -sin, cx - cx * cos - cy * -sin, sin, cos, cy - cx * sin - cy * cos};
  }
  FactorRange range_;
};

class RandomZoomLayer : public AffineLayer<RandomZoomLayer, RandomZoomOptions> {
 public:
  static constexpr const char* kClass = "RandomZoom";
  template <typename V>
  static void fields(V& v, RandomZoomOptions& o) {
    image_fields(v, o);
    v("height_factor", o.height_factor, Field::kRequired);
    v("width_factor", o.width_factor);
    v("fill_mode", o.fill_mode);
    v("interpolation", o.interpolation);
    v("seed", o.seed);
    v("fill_value", o.fill_value);
  }
  explicit RandomZoomLayer(RandomZoomOptions options) : AffineLayer(std::move(options)) {
    height_ = read_factor(options_.height_factor, -1, 1, who() + ": height_factor");
    if (!options_.width_factor.is_null()) width_ = read_factor(options_.width_factor, -1, 1, who() + ": width_factor");
  }

 private:
  Tensors draw(const Tensor& x) override {
    const Tensor height = uniform(x, {1}, {1 + height_.lower, 1 + height_.upper});
    return {height, width_ ? uniform(x, {1}, {1 + width_->lower, 1 + width_->upper}) : height};
  }
  Rows rows(const Tensor& x, const Tensors& drawn) const override {
    const Tensor height = ops::squeeze(drawn[0], {1}), width = ops::squeeze(drawn[1], {1});
    const Tensor zero = ops::zeros_like(height);
    return {width, zero,   (width_of(x) - 1.0) / 2.0 * (1.0 - width),
            zero,  height, (height_of(x) - 1.0) / 2.0 * (1.0 - height)};
  }
  FactorRange height_;
  std::optional<FactorRange> width_;
};

class RandomTranslationLayer : public AffineLayer<RandomTranslationLayer, RandomTranslationOptions> {
 public:
  static constexpr const char* kClass = "RandomTranslation";
  template <typename V>
  static void fields(V& v, RandomTranslationOptions& o) {
    image_fields(v, o);
    v("height_factor", o.height_factor, Field::kRequired);
    v("width_factor", o.width_factor, Field::kRequired);
    v("fill_mode", o.fill_mode);
    v("interpolation", o.interpolation);
    v("seed", o.seed);
    v("fill_value", o.fill_value);
  }
  explicit RandomTranslationLayer(RandomTranslationOptions options) : AffineLayer(std::move(options)) {
    height_ = read_factor(options_.height_factor, -1, 1, who() + ": height_factor");
    width_ = read_factor(options_.width_factor, -1, 1, who() + ": width_factor");
  }

 private:
  Tensors draw(const Tensor& x) override {
    const Tensor height = uniform(x, {1}, height_);
    return {height, uniform(x, {1}, width_)};
  }
  Rows rows(const Tensor& x, const Tensors& drawn) const override {
    const Tensor down = ops::squeeze(drawn[0], {1}) * height_of(x), right = ops::squeeze(drawn[1], {1}) * width_of(x);
    const Tensor zero = ops::zeros_like(down), one = ops::ones_like(down);
    return {one, zero, -right, zero, one, -down};
  }
  FactorRange height_, width_;
};

class RandomShearLayer : public AffineLayer<RandomShearLayer, RandomShearOptions> {
 public:
  static constexpr const char* kClass = "RandomShear";
  template <typename V>
  static void fields(V& v, RandomShearOptions& o) {
    image_fields(v, o);
    v("x_factor", o.x_factor);
    v("y_factor", o.y_factor);
    v("fill_mode", o.fill_mode);
    v("interpolation", o.interpolation);
    v("seed", o.seed);
    v("fill_value", o.fill_value);
  }
  explicit RandomShearLayer(RandomShearOptions options) : AffineLayer(std::move(options)) {
    x_ = resolve(options_.x_factor, who() + ": x_factor");
    y_ = resolve(options_.y_factor, who() + ": y_factor");
  }

 private:
  // A number f stands for -f to f here, though neither may be negative; configs have what it stands for.
  static FactorRange resolve(Json& factor, const std::string& who) {
    if (factor.is_number()) {
      const double value = factor.get<double>();
      Json both = Json::array();
      both.push_back(-value);
      both.push_back(value);
      read_factor(factor, 0, 1, who);
      factor = both;
    }
    return read_factor(factor, -1, 1, who);
  }
  Tensors draw(const Tensor& x) override {
    const Tensor side = uniform_to_compute(x, {1}, {0, 1});
    const Tensor y = uniform_to_compute(x, {1}, y_), along = uniform_to_compute(x, {1}, x_);
    const Tensor sign = 1.0 - 2.0 * ops::cast(ops::greater(side, 0.5), DType::kFloat32);
    return {ops::cast(along, DType::kFloat32) * sign, ops::cast(y, DType::kFloat32) * sign};
  }
  Rows rows(const Tensor&, const Tensors& drawn) const override {
    const Tensor along = ops::squeeze(drawn[0], {1}), down = ops::squeeze(drawn[1], {1});
    const Tensor zero = ops::zeros_like(down), one = ops::ones_like(down);
    return {one, along, zero, down, one, zero};
  }
  FactorRange x_, y_;
};

class RandomCropLayer : public AugmentationLayer<RandomCropLayer, RandomCropOptions>, public OldRules {
 public:
  // Keras 2 resizes images where it does not crop them: in inference, and smaller ones.
  void resize_others() { resizes_ = true; }
  static constexpr const char* kClass = "RandomCrop";
  bool casts_inputs() const override { return resizes_; }
  bool keeps_dtype_in_inference() const override { return !resizes_; }
  template <typename V>
  static void fields(V& v, RandomCropOptions& o) {
    image_fields(v, o);
    v("height", o.height, Field::kRequired);
    v("width", o.width, Field::kRequired);
    v("seed", o.seed);
  }
  explicit RandomCropLayer(RandomCropOptions options) : AugmentationLayer(std::move(options)) {
    const std::optional<std::int64_t> given = options_.seed;
    if (!given) options_.seed = random::make_default_seed();
    generator_ = add_seed_generator(given);
    if (options_.height < 1 || options_.width < 1)
      throw_invalid_argument(fmt::format("invalid {}: found height {} and width {}, expected at least 1", who(),
                                         options_.height, options_.width));
  }

 private:
  Targets targets() const override { return Targets::kMoved; }
  bool fits(const Tensor& x) const {
    const std::int64_t more = resizes_ ? 0 : 1;
    return x.dim(1) >= options_.height + more && x.dim(2) >= options_.width + more;
  }
  Tensor at_inference(const Tensor& x) const override { return resizes_ ? resized(x) : x; }
  Tensor resized(const Tensor& x) const {
    const Size target = {options_.height, options_.width};
    const Tensor part = cut(x, aspect_crop({x.dim(1), x.dim(2)}, target));
    return ops::cast(resize_images(part, target, "bilinear"), compute_dtype());
  }
  Tensors draw(const Tensor& x) override {
    if (x.dim(1) == kUnknownDim || x.dim(2) == kUnknownDim)
      throw_unimplemented(
          fmt::format("{} requires images of a known size, found shape {}", who(), x.shape().to_string()));
    if (!fits(x)) return {};
    const auto place = [&](std::int64_t free) {
      return ops::cast(draw_one({0, static_cast<double>(free + 1)}, generator_), DType::kInt32);
    };
    const Tensor top = place(x.dim(1) - options_.height);
    return {top, place(x.dim(2) - options_.width)};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    const std::int64_t height = x.dim(1), width = x.dim(2);
    if (!drawn.empty()) {
      const Tensor zero = Tensor::scalar(std::int32_t{0});
      return ops::slice(x, ops::stack({zero, drawn[0], drawn[1], zero}),
                        ops::constant_ints({-1, options_.height, options_.width, -1}));
    }
    if (resizes_) return resized(x);
    const auto most = [](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t limit) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(a * b) / static_cast<double>(c)), 1,
                                      limit);
    };
    const std::int64_t top = (height - most(width, options_.height, options_.width, height)) / 2;
    const std::int64_t left = (width - most(height, options_.width, options_.height, width)) / 2;
    const Tensor part =
        ops::slice(x, {0, top, left, 0},
                   {-1, std::min(options_.height, height - top), std::min(options_.width, width - left), -1});
    if (part.dim(1) == options_.height && part.dim(2) == options_.width) return part;
    return ops::cast(ops::resize_bilinear(part, options_.height, options_.width), compute_dtype());
  }
  Tensor training_shape(const Tensor& x) const override {
    return ops::resize_bilinear(x, options_.height, options_.width);
  }
  bool resizes_ = false;
};

}  // namespace

void register_image_augmentation(ClassTable& registry) {
  registry.add(layer_row<RandomFlipLayer>());
  registry.add(layer_row<RandomRotationLayer>());
  registry.add(layer_row<RandomZoomLayer>());
  registry.add(layer_row<RandomTranslationLayer>());
  registry.add(layer_row<RandomShearLayer>());
  registry.add(
      flagged_row<RandomCropLayer>("resizes", [](RandomCropLayer& layer, const Json&) { layer.resize_others(); }));
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle RandomFlip(RandomFlipOptions options) {
  return std::make_shared<keras::RandomFlipLayer>(std::move(options));
}
LayerHandle RandomRotation(RandomRotationOptions options) {
  return std::make_shared<keras::RandomRotationLayer>(std::move(options));
}
LayerHandle RandomZoom(RandomZoomOptions options) {
  return std::make_shared<keras::RandomZoomLayer>(std::move(options));
}
LayerHandle RandomTranslation(RandomTranslationOptions options) {
  return std::make_shared<keras::RandomTranslationLayer>(std::move(options));
}
LayerHandle RandomShear(RandomShearOptions options) {
  return std::make_shared<keras::RandomShearLayer>(std::move(options));
}
LayerHandle RandomCrop(std::int64_t height, std::int64_t width, RandomCropOptions options) {
  options.height = height;
  options.width = width;
  return std::make_shared<keras::RandomCropLayer>(std::move(options));
}

}  // namespace lockstep::layers
