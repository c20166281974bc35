// Depthwise convolutions of float32 NHWC images, by separate loops for both passes. With several filters for each
// channel, the channels of the image are repeated: each copy has one filter then.
#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/conv_direct_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kDepthwiseChunk = 4;  // images whose filter gradients are summed by one thread

constexpr std::int64_t kRepeatGrain = 32768;  // elements for which a thread is worth waking

// `times` copies of each channel, side by side.
at::Tensor repeated(const at::Tensor& x, std::int64_t times) {
  if (times == 1) return x;
  Ints shape = x.sizes().vec();
  shape.back() *= times;
  at::Tensor y = at::empty(shape, x.options());
  const float* const from = x.const_data_ptr<float>();
  float* const to = y.mutable_data_ptr<float>();
  parallel_for(0, x.numel(), kRepeatGrain / times + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::fill_n(to + i * times, times, from[i]);
  });
  return y;
}
// The sums of `times` neighbouring channels.
at::Tensor added(const at::Tensor& x, std::int64_t times) {
  if (times == 1) return x;
  Ints shape = x.sizes().vec();
  shape.back() /= times;
  at::Tensor y = at::empty(shape, x.options());
  const float* const from = x.const_data_ptr<float>();
  float* const to = y.mutable_data_ptr<float>();
  parallel_for(0, y.numel(), kRepeatGrain / times + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float sum = from[i * times];
      for (std::int64_t j = 1; j < times; ++j) sum += from[i * times + j];
      to[i] = sum;
    }
  });
  return y;
}

// Kernel [h, w, channels, filters of each].
class DepthwiseConv : public Composite {
 public:
  explicit DepthwiseConv(ConvWindow window) : window_(std::move(window)) {}

  Made forward(const Values& inputs, bool) const override {
    return {{convolve(inputs[0].contiguous(), inputs[1], {inputs[1].contiguous(), at::Tensor()}, {})}, {}};
  }
  // `weights` may be others than the kernel's own.
  at::Tensor convolve(const at::Tensor& x, const at::Tensor& kernel, const ConvWeights& weights,
                      const FollowingActivation& activation) const {
    return convolve_rows(geometry(kernel, window_), repeated(x, kernel.size(3)), weights, activation);
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), kernel = recorded.inputs[1].contiguous(),
                     dy = dys[0].contiguous();
    const WindowGeometry g = geometry(kernel, window_);
    Values gradients(2);
    if (recorded.wanted[0])
      gradients[0] = added(g.stride_h == 1 && g.stride_w == 1
                               ? convolve_rows(flipped(g), dy, {kernel.flip({0, 1}).contiguous(), at::Tensor()}, {})
                               : scatter(g, dy, kernel),
                           kernel.size(3));
    if (recorded.wanted[1]) gradients[1] = filter_gradient(g, repeated(x, kernel.size(3)), dy, kernel.sizes());
    return gradients;
  }

  Values plain(const Values& inputs) const override { return {plain_convolution(inputs[0], inputs[1], window_, true)}; }

 private:
  static WindowGeometry geometry(const at::Tensor& kernel, const ConvWindow& w) {
    WindowGeometry g = window_geometry(kernel, w);
    g.channels *= kernel.size(3);
    g.out_channels = g.channels;
    return g;
  }
  // Of stride 1: from the gradient of the output to that of the input.
  static WindowGeometry flipped(const WindowGeometry& g) {
    WindowGeometry f = g;
    f.height = g.out_h, f.width = g.out_w, f.out_h = g.height, f.out_w = g.width;
    f.pad_top = (g.window_h - 1) * g.dilation_h - g.pad_top, f.pad_left = (g.window_w - 1) * g.dilation_w - g.pad_left;
    return f;
  }

  static at::Tensor convolve_rows(const WindowGeometry& g, const at::Tensor& x, const ConvWeights& weights,
                                  const FollowingActivation& activation) {
    at::Tensor y = at::empty({x.size(0), g.out_h, g.out_w, g.channels}, x.options());
    const float *const from = x.const_data_ptr<float>(), *const k = weights.kernel.const_data_ptr<float>();
    const float* const bias = weights.bias.defined() ? weights.bias.const_data_ptr<float>() : nullptr;
    float* const to = y.mutable_data_ptr<float>();
    const std::int64_t in = g.height * g.width * g.channels, out = g.out_h * g.out_w * g.channels;
    const std::int64_t bands = std::clamp<std::int64_t>(2 * parallel_threads() / x.size(0), 1, g.out_h);
    parallel_for(0, x.size(0) * bands, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t n = unit / bands, band = unit % bands;
        const std::int64_t first = band * g.out_h / bands, last = (band + 1) * g.out_h / bands,
                           row = g.out_w * g.channels;
        direct_kernels().depthwise_forward(g, from + n * in, k, bias, first, last, to + n * out);
        activate(activation, (last - first) * row, to + n * out + first * row);
      }
    });
    return y;
  }

  static at::Tensor scatter(const WindowGeometry& g, const at::Tensor& dy, const at::Tensor& kernel) {
    at::Tensor dx = at::empty({dy.size(0), g.height, g.width, g.channels}, dy.options());
    const float *const from = dy.const_data_ptr<float>(), *const k = kernel.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    const std::int64_t in = g.height * g.width * g.channels, out = g.out_h * g.out_w * g.channels;
    parallel_for(0, dy.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n)
        direct_kernels().depthwise_image_gradient(g, from + n * out, k, to + n * in);
    });
    return dx;
  }

  static at::Tensor filter_gradient(const WindowGeometry& g, const at::Tensor& x, const at::Tensor& dy,
                                    at::IntArrayRef shape) {
    const std::int64_t count = x.size(0), chunks = (count + kDepthwiseChunk - 1) / kDepthwiseChunk;
    const std::int64_t size = g.window_h * g.window_w * g.channels;
    const at::Tensor parts = at::zeros({chunks, size}, x.options());
    const float *const from = x.const_data_ptr<float>(), *const d = dy.const_data_ptr<float>();
    float* const to = parts.mutable_data_ptr<float>();
    const std::int64_t in = g.height * g.width * g.channels, out = g.out_h * g.out_w * g.channels;
    parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin * kDepthwiseChunk; n < std::min(count, end * kDepthwiseChunk); ++n)
        direct_kernels().depthwise_filter_gradient(g, from + n * in, d + n * out, to + n / kDepthwiseChunk * size);
    });
    return parts.sum(0).reshape(shape);
  }

  ConvWindow window_;
};

}  // namespace

at::Tensor direct_depthwise(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  const auto made = std::make_shared<DepthwiseConv>(w);
  if (at::GradMode::is_enabled() && (x.requires_grad() || kernel.requires_grad())) return run(made, {x, kernel})[0];
  const ConvFollowers followers = take_conv_followers();
  return made->convolve(x.contiguous(), kernel, kept_weights(kernel, {}, followers.norm, true), followers.activation);
}

}  // namespace lockstep::ops
