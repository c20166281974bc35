// The common parts of the convolution layers.
#pragma once

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/bias_add_internal.h"
#include "lockstep/keras/layers/configured_layer_internal.h"
#include "lockstep/keras/layers/convolution.h"
#include "lockstep/keras/layers/following_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

// Checks of all convolutions at construction.
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

// Of an input of a layer of that rank. Throws InvalidArgument for another rank and for unknown channels.
std::int64_t channels_of(const Shape& shape, int rank, const std::string& data_format, const std::string& who);
std::string upper(std::string text);

// One axis as an image of height 1.
Tensor add_height(const Tensor& x);
Tensor drop_height(const Tensor& x);
ops::Ints with_height(const Ints& values, std::int64_t height);

// Zeros before the sequence, so that no step sees a later one.
Tensor pad_causal(const Tensor& x, std::int64_t kernel, std::int64_t dilation);

// A dilated convolution of a graph: as one over interleaved images, as Keras's own graphs have it, because TensorFlow
// on a CPU has no plain one of each channel, and without oneDNN no gradient of the other, which images of unknown size
// have nevertheless. `convolve` is conv2d or depthwise_conv2d.
Tensor conv2d_in_graph(const Tensor& x, const Tensor& kernel, const ops::ConvOptions& how,
                       Tensor (*convolve)(const Tensor&, const Tensor&, const ops::ConvOptions&) = ops::conv2d);

// A depthwise convolution of channels-last values with one or two spatial axes.
Tensor depthwise(const Tensor& x, const Tensor& kernel, int rank, const Ints& strides, const std::string& padding,
                 const Ints& dilations);

template <typename Derived, typename Options, int kRank>
class ConvolutionBase : public ConfiguredLayer<Derived, Options>, public LastConvolution, public BiasAdder {
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
  // Nothing but the bias follows the convolution of channels-last values.
  bool is_linear() const { return !channels_first() && activation().name() == "linear"; }
  bool channels_first() const { return this->options_.data_format == "channels_first"; }
  Tensor enter(const Tensor& x) const { return channels_first() ? to_channels_last(x) : x; }
  // Bias and relu that may be computed with the convolution. Keras applies those of channels-first layers to the
  // channels-first values: the axes of softmax and of add_as_keras() are theirs.
  Tensor fused_bias() const { return channels_first() ? Tensor() : bias_value(); }
  bool fuses_relu() const { return !channels_first() && activation().name() == "relu"; }
  // The layer's output from the convolution's, which is channels-last: `has_bias`: the bias is in it already.
  Tensor finish(const Tensor& convolved, bool has_bias = false) const {
    Tensor y = convolved;
    if (channels_first()) {
      y = to_channels_first(y);
      if (bias_) {
        ops::Ints shape(kRank + 2, 1);
        shape[1] = bias_->shape()[0];
        y = biased(y, ops::reshape(bias_value(), shape));
      }
    } else if (bias_ && !has_bias) {
      y = y + bias_value();
    }
    return activation()(y);
  }
  const activations::Activation& activation() const { return *this->options_.activation.object(); }
  Tensor bias_value() const { return bias_ ? this->value(bias_) : Tensor(); }
  void add_bias(std::int64_t channels) {
    auto& o = this->options_;
    if (!o.use_bias) return;
    bias_ = this->add_weight({.shape = {channels},
                              .initializer = o.bias_initializer.object(),
                              .regularizer = o.bias_regularizer.object(),
                              .constraint = o.bias_constraint.object(),
                              .name = "bias"});
  }
  std::int64_t channels_ = 0;
  VariablePtr bias_;
};

void register_depthwise_convolution_layers(ClassTable& registry);

}  // namespace lockstep::keras
