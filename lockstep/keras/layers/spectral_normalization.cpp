// The wrapper that keeps the spectral norm of a layer's weights at one.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/normalization.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class SpectralNormalizationLayer : public ConfiguredLayer<SpectralNormalizationLayer, SpectralNormalizationOptions> {
 public:
  static constexpr const char* kClass = "SpectralNormalization";
  template <typename V>
  static void fields(V& v, SpectralNormalizationOptions& o) {
    v("layer", o.layer, Field::kRequired);
    v("power_iterations", o.power_iterations);
  }
  explicit SpectralNormalizationLayer(SpectralNormalizationOptions options)
      : ConfiguredLayer(std::move(options)), layer_(options_.layer.ptr()) {
    if (!layer_) throw_invalid_argument(fmt::format("SpectralNormalization '{}' requires a layer", name()));
    if (options_.power_iterations < 1)
      throw_invalid_argument(fmt::format("SpectralNormalization '{}': power_iterations is {}, expected at least 1",
                                         name(), options_.power_iterations));
    track("layer", layer_);
  }

  TrainingArgument training_argument() const override { return TrainingArgument::kDefaultFalse; }
  std::vector<InputSpec> input_spec() const override {
    if (!vector_u_) return {};
    return {InputSpec{.min_ndim = 1, .axes = {{-1, last_}}}};
  }
  void build(const Nested<Shape>& shapes) override {
    last_ = shapes.leaf()[-1];
    layer_->ensure_built(shapes);
    for (const Weight& weight : layer_->own_weights()) {
      if (weight.variable->name() == "kernel" || weight.variable->name() == "embeddings") kernel_ = weight.variable;
    }
    if (!kernel_)
      throw_invalid_argument(fmt::format(
          "SpectralNormalization '{}': layer '{}' ({}) has neither a kernel nor embeddings, expected a layer with one "
          "of them, such as Dense, Conv2D or Embedding",
          name(), layer_->name(), layer_->class_name()));
    adopt_weight(kernel_, true);  // in Keras's files, the wrapper has it, too
    vector_u_ = add_weight({.shape = {1, kernel_->shape()[-1]},
                            .initializer = initializers::TruncatedNormal({.stddev = 0.02}),
                            .dtype = kernel_->dtype(),
                            .trainable = false,
                            .name = "vector_u"});
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    if (context.training) normalize();
    return ops::cast((*layer_)(inputs).leaf(), inputs.leaf().dtype());
  }

 private:
  void normalize() {
    const Tensor kernel = ops::stop_gradient(kernel_->read());
    const Tensor matrix = ops::reshape(kernel, {-1, kernel.dim(-1)});
    // A kernel of zeros has no direction; it stays.
    const Tensor zeros = ops::reduce_all(ops::equal(kernel, 0.0));
    const auto unit = [](const Tensor& x) {
      return x * ops::minimum(ops::rsqrt(ops::reduce_sum(ops::square(x))), 1e7);
    };
    const Tensor old = vector_u_->read();
    Tensor u = ops::cast(old, kernel.dtype()), v;
    for (std::int64_t i = 0; i < options_.power_iterations; ++i) {
      v = unit(ops::matmul(u, matrix, false, true));
      u = unit(ops::matmul(v, matrix));
    }
    const Tensor sigma = ops::matmul(ops::matmul(v, matrix), u, false, true);
    vector_u_->assign(ops::where(zeros, old, ops::cast(u, vector_u_->dtype())));
    kernel_->assign(ops::where(zeros, kernel, kernel / ops::reshape(sigma, ops::Ints{})));
  }

  LayerPtr layer_;
  VariablePtr kernel_, vector_u_;
  std::int64_t last_ = kUnknownDim;
};

}  // namespace

void register_spectral_normalization(ClassTable& registry) { registry.add(layer_row<SpectralNormalizationLayer>()); }

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle SpectralNormalization(LayerHandle layer, SpectralNormalizationOptions options) {
  options.layer = std::move(layer);
  return std::make_shared<keras::SpectralNormalizationLayer>(std::move(options));
}

}  // namespace lockstep::layers
