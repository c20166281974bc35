// Convolutions that treat each channel by itself.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/convolution_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

template <typename Derived, int kRank>
class DepthwiseConvLayer : public ConvolutionBase<Derived, DepthwiseConvOptions, kRank> {
 public:
  using Base = ConvolutionBase<Derived, DepthwiseConvOptions, kRank>;
  template <typename V>
  static void fields(V& v, DepthwiseConvOptions& o) {
    v.dropped("groups");
    v.dropped("filters");
    v.dropped("kernel_initializer");
    v.dropped("kernel_regularizer");
    v.dropped("kernel_constraint");
    v("depth_multiplier", o.depth_multiplier);
    v("kernel_size", o.kernel_size, Field::kRequired);
    v("strides", o.strides);
    v("padding", o.padding);
    v("data_format", DataFormat{o.data_format});
    v("dilation_rate", o.dilation_rate);
    v("activation", o.activation);
    v("use_bias", o.use_bias);
    v("depthwise_initializer", o.depthwise_initializer);
    v("bias_initializer", o.bias_initializer);
    v("depthwise_regularizer", o.depthwise_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("depthwise_constraint", o.depthwise_constraint);
    v("bias_constraint", o.bias_constraint);
  }
  // Keras 2 wrote Conv2D's keywords too; its depthwise ones are those that count.
  explicit DepthwiseConvLayer(DepthwiseConvOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    check_convolution(o, kRank, this->who(), false);
    if (o.depth_multiplier < 1)
      throw_invalid_argument(
          fmt::format("{}: depth_multiplier is {}, expected at least 1", this->who(), o.depth_multiplier));
  }

  bool is_last() const override { return kRank == 2 && !this->options_.use_bias && this->is_linear(); }

  void build(const Nested<Shape>& shapes) override {
    auto& o = this->options_;
    this->channels_ = channels_of(shapes.leaf(), kRank, o.data_format, this->who());
    require_place(shapes.leaf(), o.data_format, o.kernel_size.values, o.dilation_rate.values, o.padding, this->who());
    Shape shape(o.kernel_size.values);
    shape.push_back(this->channels_);
    shape.push_back(o.depth_multiplier);
    kernel_ = this->add_weight({.shape = shape,
                                .initializer = o.depthwise_initializer.object(),
                                .regularizer = o.depthwise_regularizer.object(),
                                .constraint = o.depthwise_constraint.object(),
                                .name = "kernel"});
    this->add_bias(this->channels_ * o.depth_multiplier);
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    const Tensor y = depthwise(this->enter(inputs), this->value(kernel_), kRank, o.strides.values, upper(o.padding),
                               o.dilation_rate.values);
    return this->finish(y);
  }

 private:
  VariablePtr kernel_;
};

class DepthwiseConv1DLayer : public DepthwiseConvLayer<DepthwiseConv1DLayer, 1> {
 public:
  static constexpr const char* kClass = "DepthwiseConv1D";
  using DepthwiseConvLayer::DepthwiseConvLayer;
};
class DepthwiseConv2DLayer : public DepthwiseConvLayer<DepthwiseConv2DLayer, 2> {
 public:
  static constexpr const char* kClass = "DepthwiseConv2D";
  using DepthwiseConvLayer::DepthwiseConvLayer;
};

template <typename Derived, int kRank>
class SeparableConvLayer : public ConvolutionBase<Derived, SeparableConvOptions, kRank> {
 public:
  using Base = ConvolutionBase<Derived, SeparableConvOptions, kRank>;
  template <typename V>
  static void fields(V& v, SeparableConvOptions& o) {
    v.dropped("groups", 1);
    v.dropped("kernel_initializer");
    v.dropped("kernel_regularizer");
    v.dropped("kernel_constraint");
    v("depth_multiplier", o.depth_multiplier);
    v("filters", o.filters, Field::kRequired);
    v("kernel_size", o.kernel_size, Field::kRequired);
    v("strides", o.strides);
    v("padding", o.padding);
    v("data_format", DataFormat{o.data_format});
    v("dilation_rate", o.dilation_rate);
    v("activation", o.activation);
    v("use_bias", o.use_bias);
    v("depthwise_initializer", o.depthwise_initializer);
    v("pointwise_initializer", o.pointwise_initializer);
    v("bias_initializer", o.bias_initializer);
    v("depthwise_regularizer", o.depthwise_regularizer);
    v("pointwise_regularizer", o.pointwise_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("depthwise_constraint", o.depthwise_constraint);
    v("pointwise_constraint", o.pointwise_constraint);
    v("bias_constraint", o.bias_constraint);
  }
  explicit SeparableConvLayer(SeparableConvOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    check_convolution(o, kRank, this->who(), kRank == 1);
    if (o.depth_multiplier < 1 || o.filters < 1) {
      throw_invalid_argument(fmt::format("{}: depth_multiplier {} and filters {} must be at least 1", this->who(),
                                         o.depth_multiplier, o.filters));
    }
  }

  void build(const Nested<Shape>& shapes) override {
    auto& o = this->options_;
    this->channels_ = channels_of(shapes.leaf(), kRank, o.data_format, this->who());
    require_place(shapes.leaf(), o.data_format, o.kernel_size.values, o.dilation_rate.values, o.padding, this->who());
    Shape depthwise_shape(o.kernel_size.values), pointwise_shape(Ints(kRank, 1));
    depthwise_shape.push_back(this->channels_);
    depthwise_shape.push_back(o.depth_multiplier);
    pointwise_shape.push_back(this->channels_ * o.depth_multiplier);
    pointwise_shape.push_back(o.filters);
    depthwise_ = this->add_weight({.shape = depthwise_shape,
                                   .initializer = o.depthwise_initializer.object(),
                                   .regularizer = o.depthwise_regularizer.object(),
                                   .constraint = o.depthwise_constraint.object(),
                                   .name = "depthwise_kernel"});
    pointwise_ = this->add_weight({.shape = pointwise_shape,
                                   .initializer = o.pointwise_initializer.object(),
                                   .regularizer = o.pointwise_regularizer.object(),
                                   .constraint = o.pointwise_constraint.object(),
                                   .name = "pointwise_kernel"});
    this->add_bias(o.filters);
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    Tensor x = this->enter(inputs);
    const bool causal = o.padding == "causal";
    if (causal) x = pad_causal(x, o.kernel_size.values[0], o.dilation_rate.values[0]);
    Tensor y = depthwise(x, this->value(depthwise_), kRank, o.strides.values, causal ? "VALID" : upper(o.padding),
                         o.dilation_rate.values);
    if constexpr (kRank == 1) {
      y = drop_height(ops::conv2d(add_height(y), ops::expand_dims(this->value(pointwise_), 0)));
    } else {
      y = ops::conv2d(y, this->value(pointwise_));
    }
    return this->finish(y);
  }

 private:
  VariablePtr depthwise_, pointwise_;
};

class SeparableConv1DLayer : public SeparableConvLayer<SeparableConv1DLayer, 1> {
 public:
  static constexpr const char* kClass = "SeparableConv1D";
  using SeparableConvLayer::SeparableConvLayer;
};
class SeparableConv2DLayer : public SeparableConvLayer<SeparableConv2DLayer, 2> {
 public:
  static constexpr const char* kClass = "SeparableConv2D";
  using SeparableConvLayer::SeparableConvLayer;
};

}  // namespace

void register_depthwise_convolution_layers(ClassTable& registry) {
  registry.add(layer_row<DepthwiseConv1DLayer>());
  registry.add(layer_row<DepthwiseConv2DLayer>());
  registry.add(layer_row<SeparableConv1DLayer>({"SeparableConvolution1D"}));
  registry.add(layer_row<SeparableConv2DLayer>({"SeparableConvolution2D"}));
}

}  // namespace lockstep::keras

namespace lockstep::layers {

using namespace keras;

LayerHandle DepthwiseConv1D(DepthwiseConvOptions options) {
  return std::make_shared<DepthwiseConv1DLayer>(std::move(options));
}
LayerHandle DepthwiseConv2D(DepthwiseConvOptions options) {
  return std::make_shared<DepthwiseConv2DLayer>(std::move(options));
}
LayerHandle SeparableConv1D(SeparableConvOptions options) {
  return std::make_shared<SeparableConv1DLayer>(std::move(options));
}
LayerHandle SeparableConv2D(SeparableConvOptions options) {
  return std::make_shared<SeparableConv2DLayer>(std::move(options));
}

}  // namespace lockstep::layers
