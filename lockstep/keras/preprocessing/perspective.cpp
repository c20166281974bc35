// The layer of augmentation.h that sees images from other places.
#include <algorithm>

#include "lockstep/keras/layers/sampling_internal.h"
#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class RandomPerspectiveLayer : public AugmentationLayer<RandomPerspectiveLayer, RandomPerspectiveOptions> {
 public:
  static constexpr const char* kClass = "RandomPerspective";
  template <typename V>
  static void fields(V& v, RandomPerspectiveOptions& o) {
    image_fields(v, o);
    v("factor", o.factor);
    v("scale", o.scale);
    v("interpolation", o.interpolation);
    v("fill_value", o.fill_value);
    v("seed", o.seed);
  }
  explicit RandomPerspectiveLayer(RandomPerspectiveOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    range_ = resolve_factor(options_.factor, 0, 1, who() + ": factor");
    normalize_choice(options_.interpolation, {"bilinear", "nearest"}, who() + ": interpolation");
    const double scale = options_.scale;
    if (!(scale >= 0 && scale <= 1))
      throw_invalid_argument(fmt::format("invalid {}: scale is {}, expected a number from 0 to 1", who(), scale));
  }

 private:
  Tensors draw(const Tensor& x) override {
    const Tensor probability = uniform(x, {}, range_);
    const Tensor chosen = ops::less(uniform(x, {}, {0, 1}), probability);
    const double scale = options_.scale;
    const Tensor moves = uniform_to_compute(x, {4, 2}, {-0.5 * scale, 0.5 * scale});
    return {chosen, ops::cast(moves, DType::kFloat32)};
  }
  Targets targets() const override { return Targets::kMoved; }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    return changed(x, drawn, options_.interpolation == "nearest" ? "NEAREST" : "BILINEAR");
  }
  Tensor transform_mask(const Tensor& x, const Tensors& drawn) const override { return changed(x, drawn, "NEAREST"); }
  Tensor changed(const Tensor& x, const Tensors& drawn, const char* interpolation) const {
    const auto last = [&](int axis) { return ops::cast(ops::dim_of(x, axis), DType::kFloat32) - 1.0; };
    const Tensor zero = Tensor::scalar(0.0f), right = last(2), bottom = last(1);
    const Tensor corners = ops::reshape(ops::stack({zero, zero, right, zero, zero, bottom, right, bottom}), {1, 4, 2});
    const Tensor end = corners + corners * drawn[1], start = corners + ops::zeros_like(end);
    const Tensor seen = ops::call1("ImageProjectiveTransformV3",
                                   {x, homography(start, end), ops::slice_axis(ops::shape_of(x), 0, 1, 3),
                                    Tensor::scalar(options_.fill_value, DType::kFloat32)},
                                   {{"interpolation", std::string(interpolation)}, {"fill_mode", "CONSTANT"}});
    return choose_images(drawn[0], seen, x);
  }
  FactorRange range_;
};

}  // namespace

void register_perspective_layers(ClassTable& registry) { registry.add(layer_row<RandomPerspectiveLayer>()); }

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle RandomPerspective(RandomPerspectiveOptions options) {
  return std::make_shared<keras::RandomPerspectiveLayer>(std::move(options));
}

}  // namespace lockstep::layers
