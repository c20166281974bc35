#include "lockstep/keras/layers/convolution.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/convolution_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/lora_internal.h"
#include "lockstep/keras/layers/weight_fields_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

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
    v("data_format", DataFormat{o.data_format});
    v("dilation_rate", o.dilation_rate);
    v("groups", o.groups);
    v("activation", o.activation);
    v("use_bias", o.use_bias);
    kernel_and_bias_fields(v, o);
    v("lora_rank", o.lora_rank, Field::kUnwritten);
    v("lora_alpha", o.lora_alpha, Field::kUnwritten);
  }
  explicit ConvLayer(layers::ConvOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    check_convolution(o, kRank, this->who(), kRank == 1);
    if (o.filters < 1 || o.groups < 1 || o.filters % o.groups != 0) {
      throw_invalid_argument(fmt::format("{}: filters {} must be at least 1 and a multiple of groups {}", this->who(),
                                         o.filters, o.groups));
    }
  }

  bool is_last() const override { return kRank == 2 && this->options_.groups == 1 && this->is_linear(); }

  void build(const Nested<Shape>& shapes) override {
    auto& o = this->options_;
    const std::int64_t in = channels_of(shapes.leaf(), kRank, o.data_format, this->who());
    if (in % o.groups != 0) {
      throw_invalid_argument(
          fmt::format("{}: {} input channels are not a multiple of groups {}", this->who(), in, o.groups));
    }
    require_place(shapes.leaf(), o.data_format, o.kernel_size.values, o.dilation_rate.values, o.padding, this->who());
    this->channels_ = in;
    Shape shape(o.kernel_size.values);
    shape.push_back(in / o.groups);
    shape.push_back(o.filters);
    kernel_ = this->add_weight({.shape = shape,
                                .initializer = o.kernel_initializer.object(),
                                .regularizer = o.kernel_regularizer.object(),
                                .constraint = o.kernel_constraint.object(),
                                .name = "kernel"});
    this->add_bias(o.filters);
    if (o.lora_rank.value_or(0) != 0) enable_lora({.rank = *o.lora_rank, .lora_alpha = o.lora_alpha});
  }
  void enable_lora(const LoraOptions& options) override {
    auto& o = this->options_;
    lora_.enable({*this, "kernel", kernel_, kernel_ ? kernel_->shape() : Shape(), o.kernel_regularizer.object(),
                  o.kernel_constraint.object()},
                 options, [this](WeightOptions weight) { return this->add_weight(std::move(weight)); });
    remember_lora(o, options);
  }
  OwnState own_state() const override { return state_with_lora(*this, lora_, kernel_); }
  Json get_config() const override {
    Json config = Base::get_config();
    write_lora(config, this->options_.lora_rank, this->options_.lora_alpha);
    return config;
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    const Tensor x = this->enter(inputs);
    const Tensor kernel = kernel_value();
    if constexpr (kRank == 2) {
      const std::string padding = upper(o.padding);
      const ops::ConvOptions how{.strides = o.strides.values, .padding = padding, .dilations = o.dilation_rate.values};
      const bool dilated = o.dilation_rate.values[0] > 1 || o.dilation_rate.values[1] > 1;
      if ((o.groups > 1 || dilated) && (x.is_symbolic() || kernel.is_symbolic())) {
        const auto convolve = [&](const Tensor& part, const Tensor& weights) {
          return conv2d_in_graph(part, weights, how);
        };
        return this->finish(in_groups(x, kernel, o.groups, convolve));
      }
      const bool relu = this->fuses_relu();
      const Tensor y = ops::conv2d_bias_act(x, kernel, this->fused_bias(), relu ? "relu" : "", how);
      return relu ? y : this->finish(y, true);
    } else if constexpr (kRank == 1) {
      const bool causal = o.padding == "causal";
      if (o.groups == 1 && !x.is_symbolic() && !kernel.is_symbolic()) {
        const std::int64_t before = causal ? (o.kernel_size.values[0] - 1) * o.dilation_rate.values[0] : 0;
        const bool relu = this->fuses_relu();
        const Tensor y =
            ops::conv2d_bias_act(add_height(x), ops::expand_dims(kernel, 0), this->fused_bias(), relu ? "relu" : "",
                                 {.strides = with_height(o.strides.values, 1),
                                  .padding = causal ? "EXPLICIT" : upper(o.padding),
                                  .explicit_paddings = {0, 0, before, 0},
                                  .dilations = with_height(o.dilation_rate.values, 1)});
        return relu ? drop_height(y) : this->finish(drop_height(y), true);
      }
      const std::string padding = causal ? "VALID" : upper(o.padding);
      const Tensor padded = causal ? pad_causal(x, o.kernel_size.values[0], o.dilation_rate.values[0]) : x;
      const ops::Ints strides = with_height(o.strides.values, 1), dilations = with_height(o.dilation_rate.values, 1);
      const auto convolve = [&](const Tensor& part, const Tensor& weights) {
        return conv2d_in_graph(part, weights, {.strides = strides, .padding = padding, .dilations = dilations});
      };
      const Tensor y = in_groups(add_height(padded), ops::expand_dims(kernel, 0), o.groups, convolve);
      return this->finish(drop_height(y));
    } else {
      std::string padding = upper(o.padding);
      Tensor volumes = x;
      if (o.groups > 1 && padding == "SAME" && x.is_symbolic() && skips_cells()) {
        volumes = padded_for_groups(x);
        padding = "VALID";
      }
      const auto convolve = [&](const Tensor& part, const Tensor& weights) {
        return ops::conv3d(part, weights,
                           {.strides = o.strides.values,
                            .padding = padding,
                            .dilations = o.dilation_rate.values,
                            .data_format = "NDHWC"});
      };
      const Tensor y = in_groups(volumes, kernel, o.groups, convolve);
      return this->finish(y);
    }
  }

 private:
  bool skips_cells() const {
    const auto& o = this->options_;
    for (std::size_t i = 0; i < o.strides.values.size(); ++i) {
      if (o.strides.values[i] > o.kernel_size.values[i]) return true;
    }
    return false;
  }
  // Volumes with the cells that SAME adds. Where windows skip cells, TensorFlow's operation for one group starts them
  // later than Keras's convolution of several groups does.
  Tensor padded_for_groups(const Tensor& x) const {
    const auto& o = this->options_;
    std::vector<std::pair<std::int64_t, std::int64_t>> amounts(static_cast<std::size_t>(x.rank()), {0, 0});
    for (std::size_t i = 0; i < o.strides.values.size(); ++i) {
      const std::int64_t size = x.shape()[static_cast<int>(i) + 1], stride = o.strides.values[i];
      if (size == kUnknownDim) {
        throw_unimplemented(fmt::format(
            "{}: groups {} with strides beyond the kernel's size require a known input shape", this->who(), o.groups));
      }
      const std::int64_t count = (size + stride - 1) / stride;
      const std::int64_t total = std::max<std::int64_t>((count - 1) * stride + o.kernel_size.values[i] - size, 0);
      amounts[i + 1] = {total / 2, total - total / 2};
    }
    return ops::pad(x, amounts);
  }
  Tensor kernel_value() const {
    const Tensor kernel = this->value(kernel_);
    if (!lora_.enabled()) return kernel;
    return lora_.add_to(kernel, this->value(lora_.a()), this->value(lora_.b()), this->compute_dtype());
  }

  VariablePtr kernel_;
  Lora lora_;
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
    v("data_format", DataFormat{o.data_format});
    v("dilation_rate", o.dilation_rate);
    v("activation", o.activation);
    v("use_bias", o.use_bias);
    kernel_and_bias_fields(v, o);
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
    kernel_ = this->add_weight({.shape = shape,
                                .initializer = o.kernel_initializer.object(),
                                .regularizer = o.kernel_regularizer.object(),
                                .constraint = o.kernel_constraint.object(),
                                .name = "kernel"});
    this->add_bias(o.filters);
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    Tensor x = this->enter(inputs);
    Tensors sizes;
    for (int i = 0; i < kRank; ++i) sizes.push_back(output_length(x, i));
    sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(o.filters)));
    const std::string padding = upper(o.padding);
    const Tensor kernel = this->value(kernel_);
    if constexpr (kRank == 3) {
      const Tensor y =
          conv3d_transpose(x, kernel, shape_with_batch_of(x, sizes), o.strides.values, padding, o.dilation_rate.values);
      return this->finish(y);
    }
    const bool flat = kRank == 1;
    if (flat) sizes.insert(sizes.begin(), Tensor::scalar(std::int32_t{1}));
    const bool relu = this->fuses_relu();
    const Tensor y = ops::conv2d_transpose_bias_act(
        flat ? add_height(x) : x, flat ? ops::expand_dims(kernel, 0) : kernel, shape_with_batch_of(x, sizes),
        this->fused_bias(), relu,
        {.strides = flat ? with_height(o.strides.values, 1) : o.strides.values,
         .padding = padding,
         .dilations = flat ? with_height(o.dilation_rate.values, 1) : o.dilation_rate.values});
    const Tensor made = flat ? drop_height(y) : y;
    return relu ? made : this->finish(made, true);
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

}  // namespace

bool ends_with_convolution(const Layer& layer) {
  if (layer.activity_regularizer() || layer.compute_dtype() != DType::kFloat32) return false;
  const auto* const convolution = dynamic_cast<const LastConvolution*>(&layer);
  return convolution && convolution->is_last();
}

void register_convolution_layers(ClassTable& registry) {
  registry.add(layer_row<Conv1DLayer>({"Convolution1D"}));
  registry.add(layer_row<Conv2DLayer>({"Convolution2D"}));
  registry.add(layer_row<Conv3DLayer>({"Convolution3D"}));
  registry.add(layer_row<Conv1DTransposeLayer>({"Convolution1DTranspose"}));
  registry.add(layer_row<Conv2DTransposeLayer>({"Convolution2DTranspose", "Deconvolution2D"}));
  registry.add(layer_row<Conv3DTransposeLayer>({"Convolution3DTranspose", "Deconvolution3D"}));
  register_depthwise_convolution_layers(registry);
}

}  // namespace lockstep::keras

namespace lockstep::layers {

using namespace keras;

LayerHandle Conv1D(ConvOptions options) { return std::make_shared<Conv1DLayer>(std::move(options)); }
LayerHandle Conv2D(ConvOptions options) { return std::make_shared<Conv2DLayer>(std::move(options)); }
LayerHandle Conv3D(ConvOptions options) { return std::make_shared<Conv3DLayer>(std::move(options)); }
LayerHandle Conv1DTranspose(ConvTransposeOptions options) {
  return std::make_shared<Conv1DTransposeLayer>(std::move(options));
}
LayerHandle Conv2DTranspose(ConvTransposeOptions options) {
  return std::make_shared<Conv2DTransposeLayer>(std::move(options));
}
LayerHandle Conv3DTranspose(ConvTransposeOptions options) {
  return std::make_shared<Conv3DTransposeLayer>(std::move(options));
}

}  // namespace lockstep::layers
