// Layers of Keras 1 that later versions do not have; files are their only source. Arguments have the names that Keras 2
// gave to those of other layers.
#include "lockstep/keras/layers/old_layers_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/configured_layer_internal.h"
#include "lockstep/keras/layers/core.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

struct HighwayOptions {
  ActivationArg activation = {};
  bool use_bias = true;
  InitializerArg kernel_initializer = "glorot_uniform";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};

std::int64_t last_axis(const Layer& layer, const Shape& shape) {
  const std::int64_t extent = shape.known_rank() && shape.rank() == 2 ? shape[1] : kUnknownDim;
  if (extent == kUnknownDim)
    throw_invalid_argument(fmt::format("{} '{}': expected an input of shape (batch, features), found {}",
                                       layer.class_name(), layer.name(), shape.to_string()));
  return extent;
}

// t · activation(x · W + b) + (1 - t) · x with the gate t = sigmoid(x · W_carry + b_carry).
class HighwayLayer : public ConfiguredLayer<HighwayLayer, HighwayOptions> {
 public:
  static constexpr const char* kClass = "Highway";
  template <typename V>
  static void fields(V& v, HighwayOptions& o) {
    v("kernel_initializer", o.kernel_initializer);
    v("activation", o.activation);
    v("kernel_regularizer", o.kernel_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("bias_constraint", o.bias_constraint);
    v("use_bias", o.use_bias);
    v.dropped("transform_bias");  // a start value of the first version
  }
  explicit HighwayLayer(HighwayOptions options) : ConfiguredLayer(std::move(options)) {}
  void build(const Nested<Shape>& shapes) override {
    const std::int64_t units = last_axis(*this, shapes.leaf());
    const auto kernel = [&](const char* name, bool regular) {
      return add_weight({.shape = {units, units},
                         .initializer = options_.kernel_initializer.object(),
                         .regularizer = regular ? options_.kernel_regularizer.object() : nullptr,
                         .constraint = regular ? options_.kernel_constraint.object() : nullptr,
                         .name = name});
    };
    kernel_ = kernel("W", true);
    carry_ = kernel("W_carry", false);
    if (!options_.use_bias) return;
    bias_ = add_weight({.shape = {units},
                        .initializer = "zeros",
                        .regularizer = options_.bias_regularizer.object(),
                        .constraint = options_.bias_constraint.object(),
                        .name = "b"});
    carry_bias_ = add_weight({.shape = {units}, .initializer = "ones", .name = "b_carry"});
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    Tensor gate = ops::matmul(x, value(carry_)), made = ops::matmul(x, value(kernel_));
    if (bias_) {
      gate = gate + value(carry_bias_);
      made = made + value(bias_);
    }
    gate = ops::sigmoid(gate);
    made = (*options_.activation.object())(made);
    return made * gate + (1.0 - gate) * x;
  }

 private:
  VariablePtr kernel_, carry_, bias_, carry_bias_;
};

struct MaxoutDenseOptions {
  std::int64_t units = 0;
  std::int64_t nb_feature = 4;
  bool use_bias = true;
  InitializerArg kernel_initializer = "glorot_uniform";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};

// The greatest of nb_feature linear maps: W (nb_feature, features, units), b (nb_feature, units).
class MaxoutDenseLayer : public ConfiguredLayer<MaxoutDenseLayer, MaxoutDenseOptions> {
 public:
  static constexpr const char* kClass = "MaxoutDense";
  template <typename V>
  static void fields(V& v, MaxoutDenseOptions& o) {
    v("units", o.units, Field::kRequired);
    v("nb_feature", o.nb_feature);
    v("kernel_initializer", o.kernel_initializer);
    v("kernel_regularizer", o.kernel_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("bias_constraint", o.bias_constraint);
    v("use_bias", o.use_bias);
  }
  explicit MaxoutDenseLayer(MaxoutDenseOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.units < 1 || options_.nb_feature < 1)
      throw_invalid_argument(fmt::format("MaxoutDense '{}': units {} and nb_feature {} must be at least 1", name(),
                                         options_.units, options_.nb_feature));
  }
  void build(const Nested<Shape>& shapes) override {
    kernel_ = add_weight({.shape = {options_.nb_feature, last_axis(*this, shapes.leaf()), options_.units},
                          .initializer = options_.kernel_initializer.object(),
                          .regularizer = options_.kernel_regularizer.object(),
                          .constraint = options_.kernel_constraint.object(),
                          .name = "W"});
    if (!options_.use_bias) return;
    bias_ = add_weight({.shape = {options_.nb_feature, options_.units},
                        .initializer = "zeros",
                        .regularizer = options_.bias_regularizer.object(),
                        .constraint = options_.bias_constraint.object(),
                        .name = "b"});
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    Tensor y = ops::einsum("bi,fiu->bfu", {inputs.leaf(), value(kernel_)});
    if (bias_) y = y + value(bias_);
    return ops::reduce_max(y, ops::Ints{1}, false);
  }

 private:
  VariablePtr kernel_, bias_;
};

// Without the batch, and 1 along the axes whose elements share a weight.
Shape shape_of_a_sample(const Layer& layer, const Shape& inputs, const std::optional<Ints>& shared_axes) {
  Ints dims = inputs.dims();
  if (dims.size() < 2)
    throw_invalid_argument(
        fmt::format("{} '{}': expected an input of rank 2 or more", layer.class_name(), layer.name()));
  dims.erase(dims.begin());
  for (const std::int64_t axis : shared_axes.value_or(Ints())) {
    if (axis < 1 || axis > static_cast<std::int64_t>(dims.size()))
      throw_invalid_argument(
          fmt::format("{} '{}': shared axis {} is outside of the input", layer.class_name(), layer.name(), axis));
    dims[static_cast<std::size_t>(axis - 1)] = 1;
  }
  return Shape(dims);
}

struct SReLUOptions {
  InitializerArg t_left_initializer = "zeros";
  InitializerArg a_left_initializer = "glorot_uniform";
  InitializerArg t_right_initializer = "glorot_uniform";
  InitializerArg a_right_initializer = "ones";
  std::optional<Ints> shared_axes = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};

// x between two thresholds and lines with their own slopes outside: t_left + a_left · (x - t_left) to the left, and
// t_right + a_right · (x - t_right) to the right, with t_right = t_left + |the variable t_right|.
class SReLULayer : public ConfiguredLayer<SReLULayer, SReLUOptions> {
 public:
  static constexpr const char* kClass = "SReLU";
  template <typename V>
  static void fields(V& v, SReLUOptions& o) {
    v("t_left_initializer", o.t_left_initializer);
    v("a_left_initializer", o.a_left_initializer);
    v("t_right_initializer", o.t_right_initializer);
    v("a_right_initializer", o.a_right_initializer);
    v("shared_axes", o.shared_axes);
  }
  explicit SReLULayer(SReLUOptions options) : ConfiguredLayer(std::move(options)) {}
  bool supports_masking() const override { return true; }
  void build(const Nested<Shape>& shapes) override {
    const Shape shape = shape_of_a_sample(*this, shapes.leaf(), options_.shared_axes);
    const auto add = [&](const char* name, const InitializerArg& initializer) {
      return add_weight({.shape = shape, .initializer = initializer.object(), .name = name});
    };
    t_left_ = add("t_left", options_.t_left_initializer);
    a_left_ = add("a_left", options_.a_left_initializer);
    t_right_ = add("t_right", options_.t_right_initializer);
    a_right_ = add("a_right", options_.a_right_initializer);
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    const Tensor left = value(t_left_), width = ops::abs(value(t_right_)), right = left + width;
    const Tensor middle = ops::minimum(ops::relu(x - left), width) - value(a_left_) * ops::relu(left - x);
    return left + middle + ops::relu(x - right) * value(a_right_);
  }

 private:
  VariablePtr t_left_, a_left_, t_right_, a_right_;
};

struct ParametricSoftplusOptions {
  double alpha_init = 0.2;
  double beta_init = 5.0;
  std::optional<Ints> shared_axes = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};

// alpha · softplus(beta · x), with an alpha and a beta for each element of a sample.
class ParametricSoftplusLayer : public ConfiguredLayer<ParametricSoftplusLayer, ParametricSoftplusOptions> {
 public:
  static constexpr const char* kClass = "ParametricSoftplus";
  template <typename V>
  static void fields(V& v, ParametricSoftplusOptions& o) {
    v("alpha_init", o.alpha_init);
    v("beta_init", o.beta_init);
    v("shared_axes", o.shared_axes);
  }
  explicit ParametricSoftplusLayer(ParametricSoftplusOptions options) : ConfiguredLayer(std::move(options)) {}
  bool supports_masking() const override { return true; }
  void build(const Nested<Shape>& shapes) override {
    const Shape shape = shape_of_a_sample(*this, shapes.leaf(), options_.shared_axes);
    const auto add = [&](const char* name, double start) {
      return add_weight({.shape = shape, .initializer = initializers::Constant(start), .name = name});
    };
    alphas_ = add("alphas", options_.alpha_init);
    betas_ = add("betas", options_.beta_init);
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    return ops::softplus(value(betas_) * inputs.leaf()) * value(alphas_);
  }

 private:
  VariablePtr alphas_, betas_;
};

struct BatchNormalizationWithModeOptions {
  std::int64_t mode = 2;
  std::int64_t axis = -1;
  double momentum = 0.99;
  double epsilon = 1e-3;
  InitializerArg gamma_initializer = "ones";
  InitializerArg beta_initializer = "zeros";
  RegularizerArg gamma_regularizer = {};
  RegularizerArg beta_regularizer = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};

// BatchNormalization with mode 1, which normalizes each sample over its last axis, or 2, which normalizes each batch,
// also in prediction. The moving statistics are in the file, and nothing reads them.
class BatchNormalizationWithModeLayer
    : public ConfiguredLayer<BatchNormalizationWithModeLayer, BatchNormalizationWithModeOptions> {
 public:
  static constexpr const char* kClass = kBatchNormalizationWithMode;
  template <typename V>
  static void fields(V& v, BatchNormalizationWithModeOptions& o) {
    v("mode", o.mode);
    v("axis", o.axis);
    v("momentum", o.momentum);
    v("epsilon", o.epsilon);
    v("gamma_initializer", o.gamma_initializer);
    v("beta_initializer", o.beta_initializer);
    v("gamma_regularizer", o.gamma_regularizer);
    v("beta_regularizer", o.beta_regularizer);
  }
  explicit BatchNormalizationWithModeLayer(BatchNormalizationWithModeOptions options)
      : ConfiguredLayer(std::move(options)) {
    if (options_.mode != 1 && options_.mode != 2)
      throw_invalid_argument(
          fmt::format("BatchNormalization '{}': mode {}, expected 0, 1 or 2", name(), options_.mode));
  }
  bool supports_masking() const override { return true; }
  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    const std::int64_t rank = shape.known_rank() ? shape.rank() : 0;
    axis_ = options_.axis < 0 ? options_.axis + rank : options_.axis;
    if (axis_ < 0 || axis_ >= rank || shape[static_cast<int>(axis_)] == kUnknownDim)
      throw_invalid_argument(
          fmt::format("BatchNormalization '{}': axis {} of {} is not known", name(), options_.axis, shape.to_string()));
    const Shape own = {shape[static_cast<int>(axis_)]};
    gamma_ = add_weight({.shape = own,
                         .initializer = options_.gamma_initializer.object(),
                         .regularizer = options_.gamma_regularizer.object(),
                         .name = "gamma"});
    beta_ = add_weight({.shape = own,
                        .initializer = options_.beta_initializer.object(),
                        .regularizer = options_.beta_regularizer.object(),
                        .name = "beta"});
    add_weight({.shape = own, .initializer = "zeros", .trainable = false, .name = "running_mean"});
    add_weight({.shape = own, .initializer = "ones", .trainable = false, .name = "running_std"});
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    if (options_.mode == 1) {
      const ops::Moments own = ops::moments(x, {-1}, true);
      const Tensor deviation = ops::sqrt(own.variance + options_.epsilon) + options_.epsilon;
      return value(gamma_) * ((x - own.mean) / deviation) + value(beta_);
    }
    ops::Ints others, shape;
    for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
      if (axis != axis_) others.push_back(axis);
      shape.push_back(axis == axis_ ? x.dim(static_cast<int>(axis)) : 1);
    }
    const ops::Moments batch = ops::moments(x, others, true);
    const auto along = [&](const VariablePtr& weight) { return ops::reshape(value(weight), shape); };
    return (x - batch.mean) * ops::rsqrt(batch.variance + options_.epsilon) * along(gamma_) + along(beta_);
  }

 private:
  std::int64_t axis_ = -1;
  VariablePtr gamma_, beta_;
};

}  // namespace

void register_keras_1_layers(ClassTable& registry) {
  registry.add(layer_row<HighwayLayer>());
  registry.add(layer_row<MaxoutDenseLayer>());
  registry.add(layer_row<SReLULayer>());
  registry.add(layer_row<ParametricSoftplusLayer>());
  registry.add(layer_row<BatchNormalizationWithModeLayer>());
}

}  // namespace lockstep::keras
