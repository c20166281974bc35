#include "lockstep/ops/conv_direct_internal.h"

#include <algorithm>

#include "lockstep/ops/conv_adjoint_internal.h"
#include "lockstep/ops/conv_groups_internal.h"
#include "lockstep/ops/conv_sparse_internal.h"
#include "lockstep/ops/conv_winograd_internal.h"
#include "lockstep/ops/packing_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/product_internal.h"

namespace lockstep::ops {

at::Tensor pack_weights(const at::Tensor& kernel) {
  WindowGeometry g;
  g.window_h = kernel.size(0), g.window_w = kernel.size(1), g.channels = kernel.size(2),
  g.out_channels = kernel.size(3);
  const DirectKernels& loops = direct_kernels();
  at::Tensor packed = at::empty({loops.packed_kernel_size(g.taps(), g.out_channels)}, kernel.options());
  pack_kernel(g, kernel.contiguous().const_data_ptr<float>(), packed.mutable_data_ptr<float>());
  return packed;
}

at::Tensor zero_parts(std::int64_t parts, at::IntArrayRef shape, const at::TensorOptions& options) {
  Ints whole = shape.vec();
  whole.insert(whole.begin(), parts);
  at::Tensor zeros = at::empty(whole, options);
  fill_zero(zeros.numel(), zeros.mutable_data_ptr<float>());
  return zeros;
}

at::Tensor total_of(const at::Tensor& parts) {
  if (!parts.defined()) return parts;
  if (parts.size(0) == 1) return parts[0];
  at::Tensor total = at::empty(parts.sizes().slice(1), parts.options());
  add_parts(parts.size(0), total.numel(), parts.const_data_ptr<float>(), total.mutable_data_ptr<float>());
  return total;
}

WindowGeometry window_geometry(const at::Tensor& kernel, const ConvWindow& w) {
  WindowGeometry g;
  g.height = w.input[0], g.width = w.input[1], g.channels = kernel.size(2);
  g.window_h = kernel.size(0), g.window_w = kernel.size(1);
  g.stride_h = w.strides[0], g.stride_w = w.strides[1], g.dilation_h = w.dilations[0], g.dilation_w = w.dilations[1];
  g.pad_top = w.before[0], g.pad_bottom = w.after[0], g.pad_left = w.before[1], g.pad_right = w.after[1];
  g.out_h = w.output[0], g.out_w = w.output[1], g.out_channels = kernel.size(3);
  return g;
}

namespace {

constexpr std::int64_t kFewPixels = 96;
constexpr std::int64_t kMostOfChunk = 8;  // images
// Pixels of the output for which a separate sum costs a few percent of what computes it. A sum of Winograd's algorithm
// is four times as large, and an addition to it is worth four products.
constexpr std::int64_t kPixelsOfChunk = 512, kWinogradPixelsOfChunk = 4096;
constexpr std::int64_t kPartsLimit = 8 << 20;  // floats

// The images of a batch as the loops see them.
struct Images {
  WindowGeometry g;
  std::int64_t count;
  std::int64_t joined = 1;  // images of the batch in one of these

  // Small images of a convolution of single pixels are joined, so that tiles are full and sums long.
  Images(const at::Tensor& kernel, const ConvWindow& w, std::int64_t batch, bool may_join)
      : g(window_geometry(kernel, w)), count(batch) {
    if (!may_join || g.window_h * g.window_w * g.stride_h * g.stride_w != 1 || g.padded()) return;
    while (g.height * g.width * joined < kFewPixels && count % 2 == 0) count /= 2, joined *= 2;
    if (joined == 1) return;
    g.width = g.out_w = g.height * g.width * joined;
    g.height = g.out_h = 1;
  }
};

// How many parts an image is cut into so that each thread has one.
std::int64_t parts_of_image(std::int64_t images, std::int64_t pixels) {
  return std::clamp<std::int64_t>(parallel_threads() / images, 1, pixels);
}

// Images are summed in fixed groups, so the result does not depend on the number of threads. The groups are as small as
// pays, for machines with many cores.
struct Chunks {
  std::int64_t size, count;
  Chunks(const Images& images, std::int64_t kernel_size, std::int64_t pixels = kPixelsOfChunk) {
    const std::int64_t most = std::max<std::int64_t>(1, kPartsLimit / std::max<std::int64_t>(1, kernel_size));
    const std::int64_t of_image = std::max<std::int64_t>(1, images.g.out_h * images.g.out_w);
    size = std::clamp<std::int64_t>((pixels + of_image - 1) / of_image, 1,
                                    std::max<std::int64_t>(1, kMostOfChunk / images.joined));
    size = std::max(size, (images.count + most - 1) / most);
    count = (images.count + size - 1) / size;
  }
  // Calls each(image, chunk).
  template <typename Each>
  void for_each(const Images& images, const Each& each) const {
    parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        for (std::int64_t n = c * size; n < std::min(images.count, (c + 1) * size); ++n) each(n, c);
      }
    });
  }
};

at::Tensor parts_of(bool wanted, const at::Tensor& like, at::IntArrayRef shape, std::int64_t parts) {
  return wanted ? zero_parts(parts, shape, like.options()) : at::Tensor();
}
float* part_of(const at::Tensor& parts, std::int64_t n) {
  return parts.defined() ? parts.mutable_data_ptr<float>() + n * (parts.numel() / parts.size(0)) : nullptr;
}

// The pool after a convolution with the output y.
void pool_images(PoolAlong& pool, const at::Tensor& y) {
  const WindowGeometry& g = pool.window;
  pool.y = at::empty({y.size(0), g.out_h, g.out_w, g.out_channels}, y.options());
  pool.which = at::empty(pool.y.sizes(), at::kByte);
  const float* const from = y.const_data_ptr<float>();
  float* const to = pool.y.mutable_data_ptr<float>();
  std::uint8_t* const marks = pool.which.mutable_data_ptr<std::uint8_t>();
  parallel_for(0, y.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      direct_kernels().max_pool_forward(g, from + n * image_size(g), to + n * output_size(g),
                                        marks + n * output_size(g));
  });
}

// All images of a batch: y = act(conv(x, weights) + bias).
void winograd_images(const WindowGeometry& g, int outputs, std::int64_t images, const float* x,
                     const at::Tensor& weights, const float* bias, bool relu, float* y) {
  const WinogradUnits units(g, outputs, images, 2 * parallel_threads());
  const ConvOutput to{y, g.out_channels, g.out_w * g.out_channels, output_size(g)};
  const float* const packed = weights.const_data_ptr<float>();
  parallel_for(0, units.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit)
      winograd_kernels().forward(g, outputs, x, packed, bias, relu, units[unit], to);
  });
}

// The way back through one image after the other; the gradient of the convolution's own output lives only in a scratch
// image that stays in the cache.
class BackwardPass {
 public:
  BackwardPass(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& y, const at::Tensor& dy,
               const ConvWindow& w, const Pooled* pooled, Wanted wanted)
      : images_(kernel, w, x.size(0), !pooled),
        g_(images_.g),
        x_(x.contiguous()),
        kernel_(kernel.contiguous()),
        y_(y),
        dy_(dy.contiguous()),
        pooled_(pooled),
        wanted_(wanted),
        adjoint_geometry_(adjoint_geometry(g_)),
        to_kernel_(g_),
        to_images_(adjoint_geometry_) {}

  Gradients run() {
    Gradients out = gradients();
    if (!to_kernel_ || !out.kernel.defined() || is_finite(out.kernel)) return out;
    // Transformed infinities are NaN in all cells of the window; the direct algorithm leaves them where they are.
    BackwardPass directly = *this;
    directly.to_kernel_ = WinogradWay(), directly.wanted_ = {.kernel = true};
    out.kernel = directly.gradients().kernel;
    return out;
  }

 private:
  static bool is_finite(const at::Tensor& x) {
    const float* const begin = x.const_data_ptr<float>();
    return std::all_of(begin, begin + x.numel(), [](float value) { return value - value == 0; });
  }

  Gradients gradients() {
    if (wanted_.images && to_images_) {
      flipped_ = winograd_weights(adjoint_geometry_, to_images_.outputs, kernel_, true);
    } else if (wanted_.images) {
      adjoint_.emplace(g_, kernel_);
    }
    const bool cells = !pooled_ && wanted_.kernel && (to_kernel_ ? to_kernel_.needs_batch() : fits_cells(g_));
    const bool groups =
        !pooled_ && wanted_.images && (to_images_ ? to_images_.needs_batch() : adjoint_->fits_groups(images_.count));
    if (!cells && !groups) return image_by_image();
    const ReluGradient masked = ops::relu_bias_gradient(y_, dy_, wanted_.bias);
    const at::Tensor dz = masked.dz.contiguous();
    Wanted rest;
    rest.kernel = wanted_.kernel && !cells, rest.images = wanted_.images && !groups;
    Gradients out;
    if (rest.kernel || rest.images) {
      BackwardPass others = *this;
      others.y_ = at::Tensor(), others.dy_ = dz, others.wanted_ = rest;
      out = others.image_by_image();
    }
    out.bias = masked.db;
    const float* const from = dz.const_data_ptr<float>();
    if (cells && to_kernel_) {
      out.kernel = winograd_kernel_gradient(from);
    } else if (cells) {
      out.kernel = at::empty(kernel_.sizes(), x_.options());
      filter_gradient_in_cells(g_, images_.count, x_.const_data_ptr<float>(), from,
                               out.kernel.mutable_data_ptr<float>());
    }
    if (!groups) return out;
    out.images = at::empty(x_.sizes(), x_.options());
    float* const dx = out.images.mutable_data_ptr<float>();
    if (to_images_) {
      winograd_images(adjoint_geometry_, to_images_.outputs, images_.count, from, flipped_, nullptr, false, dx);
    } else {
      adjoint_->images(images_.count, from, nullptr, false, dx);
    }
    return out;
  }

  // Floats of a sum for the kernel's gradient.
  std::int64_t kernel_sum() const {
    return to_kernel_ ? winograd_kernels().packed_size(g_, to_kernel_.outputs) : kernel_.numel();
  }
  at::Tensor kernel_gradient() const {
    const at::Tensor total = total_of(kernel_parts_);
    if (!total.defined()) return total;
    if (!to_kernel_) return total.reshape(kernel_.sizes());
    at::Tensor dk = at::empty(kernel_.sizes(), x_.options());
    finish_filter_gradient(g_, to_kernel_.outputs, total.const_data_ptr<float>(), dk.mutable_data_ptr<float>());
    return dk;
  }

  at::Tensor winograd_kernel_gradient(const float* dz) {
    const Chunks chunks(images_, kernel_sum(), kWinogradPixelsOfChunk);
    kernel_parts_ = parts_of(true, x_, {kernel_sum()}, chunks.count);
    parallel_for(0, chunks.count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c)
        winograd_kernels().filter_gradient(
            g_, to_kernel_.outputs, x_.const_data_ptr<float>(), dz, c * chunks.size * to_kernel_.tiles,
            std::min(images_.count, (c + 1) * chunks.size) * to_kernel_.tiles, part_of(kernel_parts_, c));
    });
    return kernel_gradient();
  }

  Gradients image_by_image() {
    const Chunks chunks(images_, kernel_sum(), to_kernel_ ? kWinogradPixelsOfChunk : kPixelsOfChunk);
    kernel_parts_ = parts_of(wanted_.kernel, x_, {kernel_sum()}, chunks.count);
    bias_parts_ = parts_of(wanted_.bias, x_, {g_.out_channels}, chunks.count);
    if (wanted_.images) dx_ = at::empty(x_.sizes(), x_.options());
    chunks.for_each(images_, [&](std::int64_t n, std::int64_t chunk) { image(n, chunk); });
    return {dx_, kernel_gradient(), total_of(bias_parts_)};
  }

  void image(std::int64_t n, std::int64_t chunk) {
    static thread_local Scratch masked, unpooled, border;
    const std::int64_t dy_size = dy_.numel() / images_.count;
    const float* dz = dy_.const_data_ptr<float>() + n * dy_size;
    if (y_.defined() || wanted_.bias) {
      const float* const output = y_.defined() ? y_.const_data_ptr<float>() + n * dy_size : nullptr;
      float* const to = masked.of(dy_size + loops_.width);
      loops_.relu_bias_gradient(dy_size / g_.out_channels, g_.out_channels, output, dz, to,
                                part_of(bias_parts_, chunk));
      if (output) dz = to;
    }
    if (pooled_) {
      float* const to = unpooled.of(output_size(g_) + loops_.width);
      loops_.max_pool_backward(pooled_->window, dz, pooled_->which.const_data_ptr<std::uint8_t>() + n * dy_size, to);
      dz = to;
    } else if (!y_.defined()) {
      dz = readable(dz, dy_size, g_.out_channels, unpooled);
    }
    const float* const x = x_.const_data_ptr<float>() + n * image_size(g_);
    if (wanted_.kernel && to_kernel_) {
      winograd_kernels().filter_gradient(g_, to_kernel_.outputs, x, dz, 0, to_kernel_.tiles,
                                         part_of(kernel_parts_, chunk));
    } else if (wanted_.kernel) {
      loops_.conv_filter_gradient(g_, padded(g_, x, border), dz, part_of(kernel_parts_, chunk));
    }
    if (!wanted_.images) return;
    float* const dx = dx_.mutable_data_ptr<float>() + n * image_size(g_);
    if (to_images_) {
      winograd_kernels().forward(adjoint_geometry_, to_images_.outputs, dz, flipped_.const_data_ptr<float>(), nullptr,
                                 false, {0, to_images_.tiles, 0, g_.channels},
                                 {dx, g_.channels, g_.width * g_.channels});
    } else {
      adjoint_->image(dz, nullptr, false, 0, 1, dx);
    }
  }

  const DirectKernels& loops_ = direct_kernels();
  const Images images_;
  const WindowGeometry g_;
  const at::Tensor x_, kernel_;
  at::Tensor y_, dy_;
  const Pooled* const pooled_;
  Wanted wanted_;
  const WindowGeometry adjoint_geometry_;
  WinogradWay to_kernel_;
  const WinogradWay to_images_;
  std::optional<Adjoint> adjoint_;  // unless to_images_
  at::Tensor flipped_;              // weights for to_images_
  at::Tensor kernel_parts_, bias_parts_, dx_;
};

}  // namespace

// Single pixels of large kernels leave most of a tile empty; groups have a loop of LibTorch's.
bool is_direct(const at::Tensor& kernel, const ConvWindow& w) {
  return w.groups == 1 && (w.output[0] * w.output[1] >= 4 || kernel.size(2) <= 4);
}

at::Tensor direct_forward(const at::Tensor& x, const at::Tensor& kernel, const ConvWeights& weights, bool relu,
                          const FollowingActivation& activation, const ConvWindow& w, PoolAlong* pool) {
  const Images images(kernel, w, x.size(0), !pool);
  const WindowGeometry& g = images.g;
  const DirectKernels& loops = direct_kernels();
  const at::Tensor from = x.contiguous();
  at::Tensor y = at::empty({x.size(0), w.output[0], w.output[1], g.out_channels}, x.options());
  const float *const xs = from.const_data_ptr<float>(), *const k = weights.kernel.const_data_ptr<float>();
  const float* const b = weights.bias.defined() ? weights.bias.const_data_ptr<float>() : nullptr;
  float* const ys = y.mutable_data_ptr<float>();
  float* pooled = nullptr;
  std::uint8_t* marks = nullptr;
  if (pool) {
    pool->y = at::empty({images.count, pool->window.out_h, pool->window.out_w, pool->window.out_channels}, x.options());
    pool->which = at::empty(pool->y.sizes(), at::kByte);
    pooled = pool->y.mutable_data_ptr<float>(), marks = pool->which.mutable_data_ptr<std::uint8_t>();
  }
  if (!pool && activation.kind == Unary::kLinear && fits_groups(g, images.count)) {
    forward_in_groups(g, images.count, xs, k, b, relu, {ys, g.out_channels, g.out_w * g.out_channels, output_size(g)});
    return y;
  }
  const std::int64_t pixels = g.out_h * g.out_w, parts = pool ? 1 : parts_of_image(images.count, pixels);
  parallel_for(0, images.count * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    static thread_local Scratch scratch;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t n = unit / parts, part = unit % parts;
      loops.conv_forward(g, padded(g, xs + n * image_size(g), scratch), k, b, relu, part * pixels / parts,
                         (part + 1) * pixels / parts,
                         {ys + n * output_size(g), g.out_channels, g.out_w * g.out_channels});
      activate(activation, ((part + 1) * pixels / parts - part * pixels / parts) * g.out_channels,
               ys + n * output_size(g) + part * pixels / parts * g.out_channels);
      if (!pool) continue;
      const std::int64_t at = n * output_size(pool->window);
      loops.max_pool_forward(pool->window, ys + n * output_size(g), pooled + at, marks + at);
    }
  });
  return y;
}

at::Tensor direct_forward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu,
                          const ConvWindow& w, PoolAlong* pool) {
  const WindowGeometry g = window_geometry(kernel, w);
  if (const WinogradWay way(g); way) {
    const at::Tensor from = x.contiguous(), offset = bias.defined() ? bias.contiguous() : bias;
    at::Tensor y = at::empty({x.size(0), g.out_h, g.out_w, g.out_channels}, x.options());
    winograd_images(g, way.outputs, x.size(0), from.const_data_ptr<float>(),
                    winograd_weights(g, way.outputs, kernel.contiguous(), false),
                    offset.defined() ? offset.const_data_ptr<float>() : nullptr, relu, y.mutable_data_ptr<float>());
    if (pool) pool_images(*pool, y);
    return y;
  }
  return direct_forward(x, kernel, ConvWeights{pack_weights(kernel), bias.defined() ? bias.contiguous() : bias}, relu,
                        {}, w, pool);
}

Gradients direct_backward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& y, const at::Tensor& dy,
                          const ConvWindow& w, const Pooled* pooled, Wanted wanted) {
  const at::Tensor xs = x.contiguous(), weights = kernel.contiguous(), dys = dy.contiguous();
  if (!pooled) {
    if (auto sparse = sparse_backward(window_geometry(kernel, w), xs, weights, y, dys, wanted))
      return *std::move(sparse);
  }
  return BackwardPass(xs, weights, y, dys, w, pooled, wanted).run();
}

at::Tensor direct_transposed(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu,
                             const ConvWindow& w) {
  const WindowGeometry g = window_geometry(kernel, w);
  const at::Tensor from = x.contiguous(), weights = kernel.contiguous();
  const at::Tensor offset = bias.defined() ? bias.contiguous() : bias;
  at::Tensor y = at::empty({x.size(0), g.height, g.width, g.channels}, x.options());
  const float* const xs = from.const_data_ptr<float>();
  const float* const b = offset.defined() ? offset.const_data_ptr<float>() : nullptr;
  float* const ys = y.mutable_data_ptr<float>();
  const WindowGeometry back = adjoint_geometry(g);
  if (const WinogradWay way(back); way) {
    winograd_images(back, way.outputs, x.size(0), xs, winograd_weights(back, way.outputs, weights, true), b, relu, ys);
    return y;
  }
  const Adjoint adjoint(g, weights);
  if (adjoint.fits_groups(x.size(0))) {
    adjoint.images(x.size(0), xs, b, relu, ys);
    return y;
  }
  const std::int64_t parts = parts_of_image(x.size(0), g.height * g.width);
  parallel_for(0, x.size(0) * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t n = unit / parts;
      adjoint.image(xs + n * output_size(g), b, relu, unit % parts, parts, ys + n * image_size(g));
    }
  });
  return y;
}

Gradients direct_transposed_backward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& y,
                                     const at::Tensor& dy, const ConvWindow& w, Wanted wanted) {
  const Images images(kernel, w, x.size(0), false);
  const WindowGeometry& g = images.g;
  const DirectKernels& loops = direct_kernels();
  const at::Tensor small = x.contiguous(), large = dy.contiguous();
  if (WinogradWay(g)) {
    const ReluGradient masked = relu_bias_gradient(y, large, wanted.bias);
    const at::Tensor dz = masked.dz.contiguous();
    Gradients out;
    out.bias = masked.db;
    if (wanted.images) out.images = direct_forward(dz, kernel, at::Tensor(), false, w);
    if (wanted.kernel) out.kernel = direct_backward(dz, kernel, {}, small, w, nullptr, {.kernel = true}).kernel;
    return out;
  }
  const bool cells = wanted.kernel && fits_cells(g);
  const bool groups = wanted.images && fits_groups(g, images.count);
  if (cells || groups) {
    const ReluGradient masked = relu_bias_gradient(y, large, wanted.bias);
    const at::Tensor dz = masked.dz.contiguous();
    Gradients out;
    const Wanted rest{wanted.images && !groups, wanted.kernel && !cells, false};
    if (rest.images || rest.kernel) out = direct_transposed_backward(x, kernel, {}, dz, w, rest);
    out.bias = masked.db;
    const float* const from = dz.const_data_ptr<float>();
    if (cells) {
      out.kernel = at::empty(kernel.sizes(), x.options());
      filter_gradient_in_cells(g, images.count, from, small.const_data_ptr<float>(),
                               out.kernel.mutable_data_ptr<float>());
    }
    if (groups) {
      out.images = at::empty(x.sizes(), x.options());
      forward_in_groups(
          g, images.count, from, pack_weights(kernel).const_data_ptr<float>(), nullptr, false,
          {out.images.mutable_data_ptr<float>(), g.out_channels, g.out_w * g.out_channels, output_size(g)});
    }
    return out;
  }
  const Chunks chunks(images, kernel.numel());
  const at::Tensor kernels = parts_of(wanted.kernel, x, kernel.sizes(), chunks.count),
                   biases = parts_of(wanted.bias, x, {g.channels}, chunks.count);
  const at::Tensor packed = wanted.images ? pack_weights(kernel) : at::Tensor(),
                   dx = wanted.images ? at::empty(x.sizes(), x.options()) : at::Tensor();
  const float* const output = y.defined() ? y.const_data_ptr<float>() : nullptr;
  chunks.for_each(images, [&](std::int64_t n, std::int64_t chunk) {
    static thread_local Scratch masked, border, copy;
    const float* dz = large.const_data_ptr<float>() + n * image_size(g);
    if (output || wanted.bias) {
      float* const to = output ? masked.of(image_size(g)) : nullptr;
      loops.relu_bias_gradient(g.height * g.width, g.channels, output ? output + n * image_size(g) : nullptr, dz, to,
                               part_of(biases, chunk));
      if (output) dz = to;
    }
    if (!wanted.kernel && !wanted.images) return;
    dz = padded(g, dz, border);
    if (wanted.kernel) {
      const float* const from =
          readable(small.const_data_ptr<float>() + n * output_size(g), output_size(g), g.out_channels, copy);
      loops.conv_filter_gradient(g, dz, from, part_of(kernels, chunk));
    }
    if (wanted.images)
      loops.conv_forward(g, dz, packed.const_data_ptr<float>(), nullptr, false, 0, g.out_h * g.out_w,
                         {dx.mutable_data_ptr<float>() + n * output_size(g), g.out_channels, g.out_w * g.out_channels});
  });
  return {dx, total_of(kernels), total_of(biases)};
}

}  // namespace lockstep::ops
