// The layer of augmentation.h that moves each pixel by smooth noise.
#include <algorithm>
#include <cmath>

#include "lockstep/keras/layers/sampling_internal.h"
#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class RandomElasticTransformLayer
    : public AugmentationLayer<RandomElasticTransformLayer, RandomElasticTransformOptions> {
 public:
  static constexpr const char* kClass = "RandomElasticTransform";
  template <typename V>
  static void fields(V& v, RandomElasticTransformOptions& o) {
    image_fields(v, o);
    v("factor", o.factor);
    v("scale", o.scale);
    v("interpolation", o.interpolation);
    v("fill_mode", o.fill_mode);
    v("fill_value", o.fill_value);
    v("value_range", o.value_range);
    v("seed", o.seed);
  }
  explicit RandomElasticTransformLayer(RandomElasticTransformOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    range_ = resolve_factor(options_.factor, 0, 1, who() + ": factor");
    scale_ = resolve_factor(options_.scale, 0, 1, who() + ": scale");
    check_value_range(options_.value_range, who());
    normalize_choice(options_.fill_mode, {"reflect", "wrap", "constant", "nearest"}, who() + ": fill_mode");
    normalize_choice(options_.interpolation, {"bilinear", "nearest"}, who() + ": interpolation");
  }

 private:
  Targets targets() const override { return Targets::kUnknown; }
  Tensors draw(const Tensor& x) override {
    if (scale_.upper == 0 || range_.upper == 0) return {};
    if (x.dim(1) == kUnknownDim || x.dim(2) == kUnknownDim)
      throw_unimplemented(
          fmt::format("{} requires images of a known size, found shape {}", who(), x.shape().to_string()));
    const Tensor probability = uniform(x, {}, range_);
    const Tensor chosen = ops::less(uniform(x, {}, {0, 1}), probability);
    const Tensor factor = draw_one(scale_, generator_, compute_dtype());
    const Tensor noise = random::normal({ops::dim_of(x, 0), x.dim(1), x.dim(2)}, 0.0, 1.0, compute_dtype(), generator_);
    return {chosen, ops::cast(factor, DType::kFloat32), ops::cast(noise, DType::kFloat32)};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    if (drawn.empty()) return x;
    const std::int64_t height = x.dim(1), width = x.dim(2);
    const Tensor sigma = drawn[1] * 0.05 * static_cast<double>(std::min(height, width));
    const Tensor alpha = drawn[1] * 0.1 * static_cast<double>(std::max(height, width));
    // Keras draws both directions from one seed, so they are equal.
    const Tensor moved = alpha * smooth(drawn[2] * sigma, sigma, std::min(height, width));
    const auto places = [](std::int64_t n, const ops::Ints& shape) {
      return ops::reshape(ops::range(n, DType::kFloat32), shape);
    };
    const Tensor rows = places(height, {1, -1, 1}) + moved, columns = places(width, {1, 1, -1}) + moved;
    const Sampling how = {options_.interpolation == "bilinear", options_.fill_mode, options_.fill_value};
    const Tensor seen = clip_to(sample_images(x, rows, columns, how), options_.value_range);
    return choose_images(drawn[0], seen, clip_to(x, options_.value_range));
  }

  // A Gaussian blur whose window has 6 · floor(sigma) | 1 pixels. The window of a graph has that of the largest sigma,
  // with zeros around.
  Tensor smooth(const Tensor& noise, const Tensor& sigma, std::int64_t extent) const {
    const auto largest = static_cast<std::int64_t>(scale_.upper * 0.05 * static_cast<double>(extent)) + 1;
    const std::int64_t half = 3 * largest;
    std::vector<float> places;
    for (std::int64_t i = -half; i <= half; ++i) places.push_back(static_cast<float>(i));
    const Tensor at = Tensor::from_vector(places);
    const Tensor reach = ops::floor(sigma) * 3.0;
    const Tensor raw =
        ops::where(ops::less_equal(ops::abs(at), reach), ops::exp(ops::square(at / sigma) * -0.5), ops::zeros_like(at));
    const Tensor bell = raw / ops::reduce_sum(raw);
    const Tensor window = ops::reshape(ops::matmul(ops::expand_dims(bell, 1), ops::expand_dims(bell, 0)),
                                       {2 * half + 1, 2 * half + 1, 1, 1});
    return ops::squeeze(ops::depthwise_conv2d(ops::expand_dims(noise, -1), window, {.padding = "SAME"}), {-1});
  }

  FactorRange range_, scale_;
};

}  // namespace

void register_elastic_layers(ClassTable& registry) { registry.add(layer_row<RandomElasticTransformLayer>()); }

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle RandomElasticTransform(RandomElasticTransformOptions options) {
  return std::make_shared<keras::RandomElasticTransformLayer>(std::move(options));
}

}  // namespace lockstep::layers
