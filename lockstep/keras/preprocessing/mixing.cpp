// The layers of augmentation.h that mix images of a batch.
#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class MixUpLayer : public AugmentationLayer<MixUpLayer, MixUpOptions> {
 public:
  static constexpr const char* kClass = "MixUp";
  template <typename V>
  static void fields(V& v, MixUpOptions& o) {
    image_fields(v, o);
    v("alpha", o.alpha);
    v("seed", o.seed);
  }
  explicit MixUpLayer(MixUpOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    if (!(options_.alpha > 0))
      throw_invalid_argument(
          fmt::format("invalid {}: alpha is {}, expected a number above 0", who(), options_.alpha.value));
  }

 private:
  Targets targets() const override { return Targets::kUnknown; }
  bool draws_in_inference() const override { return true; }
  bool keeps_dtype_in_inference() const override { return true; }
  Tensors draw(const Tensor& x) override {
    const Tensor order = draw_order(x, generator_);
    const double alpha = options_.alpha;
    return {order, draw_beta(x, true, Tensor::scalar(static_cast<float>(alpha)), generator_)};
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    const Tensor weight = ops::cast(ops::reshape(drawn[1], {-1, 1, 1, 1}), x.dtype());
    return weight * x + (1.0 - weight) * ops::gather(x, drawn[0]);
  }
  Tensor mixed_labels(const Tensor& labels, const Tensor&, const Tensors& drawn) const override {
    const Tensor weight = ops::cast(ops::reshape(drawn[1], {-1, 1}), labels.dtype());
    return weight * labels + (1.0 - weight) * ops::gather(labels, drawn[0]);
  }
};

class CutMixLayer : public AugmentationLayer<CutMixLayer, CutMixOptions> {
 public:
  static constexpr const char* kClass = "CutMix";
  template <typename V>
  static void fields(V& v, CutMixOptions& o) {
    image_fields(v, o);
    v("factor", o.factor);
    v("seed", o.seed);
  }
  explicit CutMixLayer(CutMixOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    range_ = resolve_factor(options_.factor, 0, 1, who() + ": factor");
  }

 private:
  Targets targets() const override { return Targets::kUnknown; }
  Tensors draw(const Tensor& x) override {
    // Keras draws in the compute dtype, which fails for bfloat16.
    const DType dtype = compute_dtype() == DType::kBFloat16 ? DType::kFloat32 : compute_dtype();
    const Tensor alpha = draw_one(range_, generator_, dtype) + 1e-6;
    const Tensor side = ops::sqrt(1.0 - draw_beta(x, true, alpha, generator_));
    Tensors drawn;
    for (const int axis : {2, 1}) {
      const Tensor extent = ops::cast(ops::dim_of(x, axis), dtype), length = side * extent;
      const Tensor start = draw_uniform(x, {}, {0, 1}, generator_, dtype) * (extent - length);
      drawn.push_back(start);
      drawn.push_back(start + length);
    }
    drawn.push_back(draw_order(x, generator_));
    return drawn;
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    return ops::where(in_rectangle(x, drawn[0], drawn[1], drawn[2], drawn[3]), ops::gather(x, drawn[4]), x);
  }
  // By the part of the image that is left.
  Tensor mixed_labels(const Tensor& labels, const Tensor& x, const Tensors& drawn) const override {
    const Tensor all = ops::cast(ops::dim_of(x, 1) * ops::dim_of(x, 2), drawn[0].dtype());
    const Tensor left = 1.0 - (drawn[1] - drawn[0]) * (drawn[3] - drawn[2]) / all;
    const Tensor weight = ops::cast(ops::reshape(left, {-1, 1}), labels.dtype());
    return weight * labels + (1.0 - weight) * ops::gather(labels, drawn[4]);
  }
  FactorRange range_;
};

}  // namespace

void register_mixing_layers(ClassTable& registry) {
  registry.add(layer_row<MixUpLayer>());
  registry.add(layer_row<CutMixLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle MixUp(MixUpOptions options) { return std::make_shared<keras::MixUpLayer>(std::move(options)); }
LayerHandle CutMix(CutMixOptions options) { return std::make_shared<keras::CutMixLayer>(std::move(options)); }

}  // namespace lockstep::layers
