#include "lockstep/keras/layers/convolution.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// What all convolutions check at construction.
template <typename Options>
void check_convolution(Options& o, int rank, const std::string& who, bool may_be_causal) {
  normalize_window(o.kernel_size, rank, 1, who + ": kernel_size");
  normalize_window(o.strides, rank, 1, who + ": strides");
  normalize_window(o.dilation_rate, rank, 1, who + ": dilation_rate");
  if (may_be_causal) {
    normalize_choice(o.padding, {"valid", "same", "causal"}, who + ": padding");
  } else {
    normalize_choice(o.padding, {"valid", "same"}, who + ": padding");
  }
  normalize_data_format(o.data_format, who + ": data_format");
  const auto above_one = [](const Window& w) {
    return std::any_of(w.values.begin(), w.values.end(), [](auto v) { return v > 1; });
  };
  if (above_one(o.strides) && above_one(o.dilation_rate)) {
    throw_invalid_argument(who + ": strides > 1 and dilation_rate > 1 do not go together");
  }
}

std::int64_t channels_of(const Shape& shape, int rank, const std::string& data_format, const std::string& who) {
  if (shape.rank() != rank + 2) {
    throw_invalid_argument(
        fmt::format("{}: expected an input of rank {}, found shape {}", who, rank + 2, shape.to_string()));
  }
  const std::int64_t channels = data_format == "channels_first" ? shape[1] : shape[-1];
  if (channels == kUnknownDim || channels == 0) {
    throw_invalid_argument(
        fmt::format("{}: the channels of its input must be known, found shape {}", who, shape.to_string()));
  }
  return channels;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// One axis as an image of height 1.
Tensor add_height(const Tensor& x) { return ops::expand_dims(x, 1); }
Tensor drop_height(const Tensor& x) { return ops::squeeze(x, {1}); }
ops::Ints with_height(const Ints& values, std::int64_t height) { return {height, values[0]}; }

// Zeros before the sequence, so that no step sees a later one.
Tensor pad_causal(const Tensor& x, std::int64_t kernel, std::int64_t dilation) {
  return ops::pad(x, {{0, 0}, {dilation * (kernel - 1), 0}, {0, 0}});
}

// A convolution of channels-last values in groups. A graph gets one convolution for each group: TensorFlow's own
// kernels take groups on some devices only.
template <typename Convolve>
Tensor in_groups(const Tensor& x, const Tensor& kernel, std::int64_t groups, const Convolve& convolve) {
  if (groups == 1 || !(x.is_symbolic() || kernel.is_symbolic())) return convolve(x, kernel);
  const Tensors parts = ops::split(x, static_cast<int>(groups), -1),
                kernels = ops::split(kernel, static_cast<int>(groups), -1);
  Tensors out;
  for (std::size_t i = 0; i < parts.size(); ++i) out.push_back(convolve(parts[i], kernels[i]));
  return ops::concat(out, -1);
}

// A dilated convolution of a graph, of images whose size is known: as one over interleaved images, as Keras's own
// graphs have it, because TensorFlow on a CPU without oneDNN has no gradient of the plain one. `convolve` is conv2d or
// depthwise_conv2d.
Tensor conv2d_in_graph(const Tensor& x, const Tensor& kernel, const ops::ConvOptions& how,
                       Tensor (*convolve)(const Tensor&, const Tensor&, const ops::ConvOptions&) = ops::conv2d) {
  const Ints& block = how.dilations;
  const bool plain = block[0] == 1 && block[1] == 1;
  if (plain || !(x.is_symbolic() || kernel.is_symbolic()) || x.dim(1) < 0 || x.dim(2) < 0)
    return convolve(x, kernel, how);
  std::vector<std::int32_t> sizes, paddings, crops;
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t dilation = block[static_cast<std::size_t>(axis)];
    const std::int64_t padding = how.padding == "SAME" ? (kernel.dim(axis) - 1) * dilation : 0;
    const std::int64_t extra = (dilation - (x.dim(axis + 1) + padding) % dilation) % dilation;
    sizes.push_back(static_cast<std::int32_t>(dilation));
    for (const std::int64_t n : {padding / 2, padding - padding / 2 + extra})
      paddings.push_back(static_cast<std::int32_t>(n));
    for (const std::int64_t n : {std::int64_t{0}, extra}) crops.push_back(static_cast<std::int32_t>(n));
  }
  const Tensor blocks = Tensor::from_vector(sizes);
  const Tensor interleaved = ops::call1("SpaceToBatchND", {x, blocks, Tensor::from_vector(paddings, Shape({2, 2}))});
  const Tensor y = convolve(interleaved, kernel, {.strides = how.strides, .padding = "VALID"});
  return ops::call1("BatchToSpaceND", {y, blocks, Tensor::from_vector(crops, Shape({2, 2}))});
}

// kernel [depth, height, width, out, in]; `output_shape` is a whole shape (5 numbers).
Tensor conv3d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& output_shape, const Ints& strides,
                        const std::string& padding, const Ints& dilations) {
  const auto whole = [](const Ints& axes) { return Ints{1, axes[0], axes[1], axes[2], 1}; };
  return ops::call1("Conv3DBackpropInputV2", {output_shape, kernel, x},
                    {{"strides", whole(strides)},
                     {"padding", padding},
                     {"data_format", std::string("NDHWC")},
                     {"dilations", whole(dilations)}});
}

// Applies bias and activation to channels-last values.
Tensor finish(Tensor y, const Tensor& bias, const activations::Activation& activation) {
  if (bias.defined()) y = y + bias;
  return activation(y);
}

template <typename Derived, typename Options, int kRank>
class ConvolutionBase : public ConfiguredLayer<Derived, Options> {
 public:
  using Base = ConfiguredLayer<Derived, Options>;
  std::vector<InputSpec> input_spec() const override {
    InputSpec spec{.ndim = kRank + 2};
    if (channels_ > 0) spec.axes = {{this->options_.data_format == "channels_first" ? 1 : -1, channels_}};
    return {spec};
  }

 protected:
  explicit ConvolutionBase(Options options) : Base(std::move(options)) {
    if (auto layer = this->options_.activation.object()->layer()) {
      this->track("activation", std::static_pointer_cast<Layer>(layer));
    }
  }
  std::string who() const { return fmt::format("{} '{}'", Derived::kClass, this->name()); }
  bool channels_first() const { return this->options_.data_format == "channels_first"; }
  Tensor enter(const Tensor& x) const { return channels_first() ? to_channels_last(x) : x; }
  Tensor leave(const Tensor& y) const { return channels_first() ? to_channels_first(y) : y; }
  const activations::Activation& activation() const { return *this->options_.activation.object(); }
  Tensor bias_value() const { return bias_ ? this->value(bias_) : Tensor(); }
  void add_bias(std::int64_t channels) {
    auto& o = this->options_;
    if (!o.use_bias) return;
    bias_ = this->add_weight({.name = "bias",
                              .shape = {channels},
                              .initializer = o.bias_initializer.object(),
                              .regularizer = o.bias_regularizer.object(),
                              .constraint = o.bias_constraint.object()});
  }
  std::int64_t channels_ = 0;
  VariablePtr bias_;
};

template <typename Derived, int kRank>
class ConvLayer : public ConvolutionBase<Derived, layers::ConvOptions, kRank> {
 public:
  using Base = ConvolutionBase<Derived, layers::ConvOptions, kRank>;
  template <typename V>
  static void fields(V& v, layers::ConvOptions& o) {
    v("filters", o.filters, Field::kRequired);
    v("kernel_size", o.kernel_size, Field::kRequired);
    v("strides", o.strides);
    v("padding", o.padding);
    v("data_format", o.data_format);
    v("dilation_rate", o.dilation_rate);
    v("groups", o.groups);
    v("activation", o.activation);
    v("use_bias", o.use_bias);
    v("kernel_initializer", o.kernel_initializer);
    v("bias_initializer", o.bias_initializer);
    v("kernel_regularizer", o.kernel_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("bias_constraint", o.bias_constraint);
  }
  explicit ConvLayer(layers::ConvOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    check_convolution(o, kRank, this->who(), kRank == 1);
    if (o.filters < 1 || o.groups < 1 || o.filters % o.groups != 0) {
      throw_invalid_argument(fmt::format("{}: filters {} must be at least 1 and a multiple of groups {}", this->who(),
                                         o.filters, o.groups));
    }
  }

  void build(const Nested<Shape>& shapes) override {
    auto& o = this->options_;
    const std::int64_t in = channels_of(shapes.leaf(), kRank, o.data_format, this->who());
    if (in % o.groups != 0) {
      throw_invalid_argument(
          fmt::format("{}: {} input channels are no multiple of groups {}", this->who(), in, o.groups));
    }
    this->channels_ = in;
    Shape shape(o.kernel_size.values);
    shape.push_back(in / o.groups);
    shape.push_back(o.filters);
    kernel_ = this->add_weight({.name = "kernel",
                                .shape = shape,
                                .initializer = o.kernel_initializer.object(),
                                .regularizer = o.kernel_regularizer.object(),
                                .constraint = o.kernel_constraint.object()});
    this->add_bias(o.filters);
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    const Tensor x = this->enter(inputs);
    const Tensor kernel = this->value(kernel_);
    if constexpr (kRank == 2) {
      const bool fused = this->activation().name() == "relu";
      const std::string padding = upper(o.padding);
      const ops::ConvOptions how{.strides = o.strides.values, .padding = padding, .dilations = o.dilation_rate.values};
      const bool dilated = o.dilation_rate.values[0] > 1 || o.dilation_rate.values[1] > 1;
      if ((o.groups > 1 || dilated) && (x.is_symbolic() || kernel.is_symbolic())) {
        const auto convolve = [&](const Tensor& part, const Tensor& weights) {
          return conv2d_in_graph(part, weights, how);
        };
        return this->leave(finish(in_groups(x, kernel, o.groups, convolve), this->bias_value(), this->activation()));
      }
      const Tensor y = ops::conv2d_bias_act(x, kernel, this->bias_value(), fused ? "relu" : "", how);
      return this->leave(fused ? y : this->activation()(y));
    } else if constexpr (kRank == 1) {
      const bool causal = o.padding == "causal";
      const std::string padding = causal ? "VALID" : upper(o.padding);
      const Tensor padded = causal ? pad_causal(x, o.kernel_size.values[0], o.dilation_rate.values[0]) : x;
      const ops::Ints strides = with_height(o.strides.values, 1), dilations = with_height(o.dilation_rate.values, 1);
      const auto convolve = [&](const Tensor& part, const Tensor& weights) {
        return conv2d_in_graph(part, weights, {.strides = strides, .padding = padding, .dilations = dilations});
      };
      const Tensor y = in_groups(add_height(padded), ops::expand_dims(kernel, 0), o.groups, convolve);
      return this->leave(finish(drop_height(y), this->bias_value(), this->activation()));
    } else {
      const std::string padding = upper(o.padding);
      const auto convolve = [&](const Tensor& part, const Tensor& weights) {
        return ops::conv3d(part, weights,
                           {.strides = o.strides.values,
                            .padding = padding,
                            .dilations = o.dilation_rate.values,
                            .data_format = "NDHWC"});
      };
      const Tensor y = in_groups(x, kernel, o.groups, convolve);
      return this->leave(finish(y, this->bias_value(), this->activation()));
    }
  }

 private:
  VariablePtr kernel_;
};

class Conv1DLayer : public ConvLayer<Conv1DLayer, 1> {
 public:
  static constexpr const char* kClass = "Conv1D";
  using ConvLayer::ConvLayer;
};
class Conv2DLayer : public ConvLayer<Conv2DLayer, 2> {
 public:
  static constexpr const char* kClass = "Conv2D";
  using ConvLayer::ConvLayer;
};
class Conv3DLayer : public ConvLayer<Conv3DLayer, 3> {
 public:
  static constexpr const char* kClass = "Conv3D";
  using ConvLayer::ConvLayer;
};

template <typename Derived, int kRank>
class ConvTransposeLayer : public ConvolutionBase<Derived, ConvTransposeOptions, kRank> {
 public:
  using Base = ConvolutionBase<Derived, ConvTransposeOptions, kRank>;
  template <typename V>
  static void fields(V& v, ConvTransposeOptions& o) {
    v.dropped("groups", 1);
    v("filters", o.filters, Field::kRequired);
    v("kernel_size", o.kernel_size, Field::kRequired);
    v("strides", o.strides);
    v("padding", o.padding);
    v("output_padding", o.output_padding);
    v("data_format", o.data_format);
    v("dilation_rate", o.dilation_rate);
    v("activation", o.activation);
    v("use_bias", o.use_bias);
    v("kernel_initializer", o.kernel_initializer);
    v("bias_initializer", o.bias_initializer);
    v("kernel_regularizer", o.kernel_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("bias_constraint", o.bias_constraint);
  }
  explicit ConvTransposeLayer(ConvTransposeOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    check_convolution(o, kRank, this->who(), false);
    if (o.filters < 1)
      throw_invalid_argument(fmt::format("{}: filters is {}, expected at least 1", this->who(), o.filters));
    if (o.output_padding) {
      normalize_window(*o.output_padding, kRank, 0, this->who() + ": output_padding");
      for (int i = 0; i < kRank; ++i) {
        if (o.output_padding->values[static_cast<std::size_t>(i)] >= o.strides.values[static_cast<std::size_t>(i)]) {
          throw_invalid_argument(this->who() + ": output_padding must be less than strides");
        }
      }
    }
  }

  void build(const Nested<Shape>& shapes) override {
    auto& o = this->options_;
    this->channels_ = channels_of(shapes.leaf(), kRank, o.data_format, this->who());
    Shape shape(o.kernel_size.values);
    shape.push_back(o.filters);
    shape.push_back(this->channels_);
    kernel_ = this->add_weight({.name = "kernel",
                                .shape = shape,
                                .initializer = o.kernel_initializer.object(),
                                .regularizer = o.kernel_regularizer.object(),
                                .constraint = o.kernel_constraint.object()});
    this->add_bias(o.filters);
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    Tensor x = this->enter(inputs);
    Tensors sizes;
    for (int i = 0; i < kRank; ++i) sizes.push_back(output_length(x, i));
    sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(o.filters)));
    const std::string padding = upper(o.padding);
    Tensor y;
    if constexpr (kRank == 1) {
      sizes.insert(sizes.begin(), Tensor::scalar(std::int32_t{1}));
      const ops::Ints strides = with_height(o.strides.values, 1), dilations = with_height(o.dilation_rate.values, 1);
      const Tensor shape = shape_with_batch_of(x, sizes);
      y = drop_height(ops::conv2d_transpose(add_height(x), ops::expand_dims(this->value(kernel_), 0), shape,
                                            {.strides = strides, .padding = padding, .dilations = dilations}));
    } else if constexpr (kRank == 3) {
      y = conv3d_transpose(x, this->value(kernel_), shape_with_batch_of(x, sizes), o.strides.values, padding,
                           o.dilation_rate.values);
    } else {
      y = ops::conv2d_transpose(x, this->value(kernel_), shape_with_batch_of(x, sizes),
                                {.strides = o.strides.values, .padding = padding, .dilations = o.dilation_rate.values});
    }
    return this->leave(finish(y, this->bias_value(), this->activation()));
  }

 private:
  // Of spatial axis i of a channels-last value.
  Tensor output_length(const Tensor& x, int i) const {
    const auto& o = this->options_;
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t k = (o.kernel_size.values[at] - 1) * o.dilation_rate.values[at] + 1, s = o.strides.values[at];
    std::int64_t extra = 0;  // length = n · s + extra
    if (o.output_padding) {
      const std::int64_t pad = o.padding == "same" ? k / 2 : 0;
      extra = k - s - 2 * pad + o.output_padding->values[at];
    } else if (o.padding == "valid") {
      extra = std::max<std::int64_t>(k - s, 0);
    }
    const std::int64_t known = x.dim(i + 1);
    if (known != kUnknownDim) return Tensor::scalar(static_cast<std::int32_t>(known * s + extra));
    return ops::dim_of(x, i + 1) * static_cast<double>(s) + static_cast<double>(extra);
  }
  VariablePtr kernel_;
};

class Conv1DTransposeLayer : public ConvTransposeLayer<Conv1DTransposeLayer, 1> {
 public:
  static constexpr const char* kClass = "Conv1DTranspose";
  using ConvTransposeLayer::ConvTransposeLayer;
};
class Conv2DTransposeLayer : public ConvTransposeLayer<Conv2DTransposeLayer, 2> {
 public:
  static constexpr const char* kClass = "Conv2DTranspose";
  using ConvTransposeLayer::ConvTransposeLayer;
};

class Conv3DTransposeLayer : public ConvTransposeLayer<Conv3DTransposeLayer, 3> {
 public:
  static constexpr const char* kClass = "Conv3DTranspose";
  using ConvTransposeLayer::ConvTransposeLayer;
};

// A depthwise convolution of channels-last values with one or two spatial axes.
Tensor depthwise(const Tensor& x, const Tensor& kernel, int rank, const Ints& strides, const std::string& padding,
                 const Ints& dilations) {
  if (rank == 2)
    return conv2d_in_graph(x, kernel, {.strides = strides, .padding = padding, .dilations = dilations},
                           ops::depthwise_conv2d);
  const ops::Ints both = {strides[0], strides[0]}, wide = with_height(dilations, 1);
  return drop_height(conv2d_in_graph(add_height(x), ops::expand_dims(kernel, 0),
                                     {.strides = both, .padding = padding, .dilations = wide}, ops::depthwise_conv2d));
}

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
    v("data_format", o.data_format);
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

  void build(const Nested<Shape>& shapes) override {
    auto& o = this->options_;
    this->channels_ = channels_of(shapes.leaf(), kRank, o.data_format, this->who());
    Shape shape(o.kernel_size.values);
    shape.push_back(this->channels_);
    shape.push_back(o.depth_multiplier);
    kernel_ = this->add_weight({.name = "kernel",
                                .shape = shape,
                                .initializer = o.depthwise_initializer.object(),
                                .regularizer = o.depthwise_regularizer.object(),
                                .constraint = o.depthwise_constraint.object()});
    this->add_bias(this->channels_ * o.depth_multiplier);
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    const Tensor y = depthwise(this->enter(inputs), this->value(kernel_), kRank, o.strides.values, upper(o.padding),
                               o.dilation_rate.values);
    return this->leave(finish(y, this->bias_value(), this->activation()));
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
    v("data_format", o.data_format);
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
    Shape depthwise_shape(o.kernel_size.values), pointwise_shape(Ints(kRank, 1));
    depthwise_shape.push_back(this->channels_);
    depthwise_shape.push_back(o.depth_multiplier);
    pointwise_shape.push_back(this->channels_ * o.depth_multiplier);
    pointwise_shape.push_back(o.filters);
    depthwise_ = this->add_weight({.name = "depthwise_kernel",
                                   .shape = depthwise_shape,
                                   .initializer = o.depthwise_initializer.object(),
                                   .regularizer = o.depthwise_regularizer.object(),
                                   .constraint = o.depthwise_constraint.object()});
    pointwise_ = this->add_weight({.name = "pointwise_kernel",
                                   .shape = pointwise_shape,
                                   .initializer = o.pointwise_initializer.object(),
                                   .regularizer = o.pointwise_regularizer.object(),
                                   .constraint = o.pointwise_constraint.object()});
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
    return this->leave(finish(y, this->bias_value(), this->activation()));
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

template <typename L, typename Options>
LayerHandle made(std::int64_t filters, Window kernel_size, Options options) {
  options.filters = filters;
  options.kernel_size = std::move(kernel_size);
  return std::make_shared<L>(std::move(options));
}

}  // namespace

void register_convolution_layers(ClassTable& registry) {
  registry.add(layer_row<Conv1DLayer>({"Convolution1D"}));
  registry.add(layer_row<Conv2DLayer>({"Convolution2D"}));
  registry.add(layer_row<Conv3DLayer>({"Convolution3D"}));
  registry.add(layer_row<Conv1DTransposeLayer>({"Convolution1DTranspose"}));
  registry.add(layer_row<Conv2DTransposeLayer>({"Convolution2DTranspose", "Deconvolution2D"}));
  registry.add(layer_row<Conv3DTransposeLayer>({"Convolution3DTranspose", "Deconvolution3D"}));
  registry.add(layer_row<DepthwiseConv1DLayer>());
  registry.add(layer_row<DepthwiseConv2DLayer>());
  registry.add(layer_row<SeparableConv1DLayer>({"SeparableConvolution1D"}));
  registry.add(layer_row<SeparableConv2DLayer>({"SeparableConvolution2D"}));
}

}  // namespace lockstep::keras

namespace lockstep::layers {

using namespace keras;

LayerHandle Conv1D(std::int64_t filters, Window kernel_size, ConvOptions options) {
  return made<Conv1DLayer>(filters, std::move(kernel_size), std::move(options));
}
LayerHandle Conv2D(std::int64_t filters, Window kernel_size, ConvOptions options) {
  return made<Conv2DLayer>(filters, std::move(kernel_size), std::move(options));
}
LayerHandle Conv3D(std::int64_t filters, Window kernel_size, ConvOptions options) {
  return made<Conv3DLayer>(filters, std::move(kernel_size), std::move(options));
}
LayerHandle Conv1DTranspose(std::int64_t filters, Window kernel_size, ConvTransposeOptions options) {
  return made<Conv1DTransposeLayer>(filters, std::move(kernel_size), std::move(options));
}
LayerHandle Conv2DTranspose(std::int64_t filters, Window kernel_size, ConvTransposeOptions options) {
  return made<Conv2DTransposeLayer>(filters, std::move(kernel_size), std::move(options));
}
LayerHandle Conv3DTranspose(std::int64_t filters, Window kernel_size, ConvTransposeOptions options) {
  return made<Conv3DTransposeLayer>(filters, std::move(kernel_size), std::move(options));
}
LayerHandle DepthwiseConv1D(Window kernel_size, DepthwiseConvOptions options) {
  options.kernel_size = std::move(kernel_size);
  return std::make_shared<DepthwiseConv1DLayer>(std::move(options));
}
LayerHandle DepthwiseConv2D(Window kernel_size, DepthwiseConvOptions options) {
  options.kernel_size = std::move(kernel_size);
  return std::make_shared<DepthwiseConv2DLayer>(std::move(options));
}
LayerHandle SeparableConv1D(std::int64_t filters, Window kernel_size, SeparableConvOptions options) {
  return made<SeparableConv1DLayer>(filters, std::move(kernel_size), std::move(options));
}
LayerHandle SeparableConv2D(std::int64_t filters, Window kernel_size, SeparableConvOptions options) {
  return made<SeparableConv2DLayer>(filters, std::move(kernel_size), std::move(options));
}

}  // namespace lockstep::layers
