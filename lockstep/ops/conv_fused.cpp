// Convolution, bias, relu and a max-pool after it, of float32 NHWC images: own loops, image by image, forward and
// backward.
#include <algorithm>
#include <map>

#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/ops/conv_pool_internal.h"
#include "lockstep/ops/conv_window_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/library_threads_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

WindowGeometry geometry(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  WindowGeometry g;
  g.height = x.size(1), g.width = x.size(2), g.channels = x.size(3);
  g.window_h = kernel.size(0), g.window_w = kernel.size(1);
  g.stride_h = w.strides[0], g.stride_w = w.strides[1], g.dilation_h = w.dilations[0], g.dilation_w = w.dilations[1];
  g.pad_top = w.before[0], g.pad_bottom = w.after[0], g.pad_left = w.before[1], g.pad_right = w.after[1];
  g.out_h = w.output[0], g.out_w = w.output[1], g.out_channels = kernel.size(3);
  return g;
}

// Rows of two or three pixels leave most of a tile empty; groups have a loop of LibTorch's.
bool is_direct(const at::Tensor& kernel, const ConvWindow& w) {
  return w.groups == 1 && (w.output[1] >= 4 || kernel.size(2) <= 4);
}

// The convolution that takes the gradient of g's output to that of its input; g has stride 1.
WindowGeometry flipped(const WindowGeometry& g) {
  WindowGeometry f = g;
  const std::int64_t reach_h = (g.window_h - 1) * g.dilation_h, reach_w = (g.window_w - 1) * g.dilation_w;
  f.height = g.out_h, f.width = g.out_w, f.channels = g.out_channels;
  f.out_h = g.height, f.out_w = g.width, f.out_channels = g.channels;
  f.pad_top = reach_h - g.pad_top, f.pad_bottom = reach_h - g.pad_bottom;
  f.pad_left = reach_w - g.pad_left, f.pad_right = reach_w - g.pad_right;
  return f;
}
bool can_flip(const WindowGeometry& g) {
  const WindowGeometry f = flipped(g);
  return g.stride_h == 1 && g.stride_w == 1 && f.pad_top >= 0 && f.pad_bottom >= 0 && f.pad_left >= 0 &&
         f.pad_right >= 0 && g.width >= 4;
}

std::int64_t image_size(const WindowGeometry& g) { return g.height * g.width * g.channels; }
std::int64_t padded_size(const WindowGeometry& g) { return g.padded_h() * g.padded_w() * g.channels; }
std::int64_t output_size(const WindowGeometry& g) { return g.out_h * g.out_w * g.out_channels; }

// Memory for one loop of a thread, used again by the next; grows only.
class Scratch {
 public:
  float* of(std::int64_t count) {
    if (count > static_cast<std::int64_t>(floats_.size())) floats_.resize(static_cast<std::size_t>(count));
    return floats_.data();
  }

 private:
  std::vector<float> floats_;
};

const float* padded(const WindowGeometry& g, const float* x, Scratch& scratch) {
  if (!g.padded()) return x;
  float* const to = scratch.of(padded_size(g));
  direct_kernels().pad_image(g, x, to);
  return to;
}

// A max-pool after a convolution, to be made while each image is in the cache.
struct PoolAlong {
  WindowGeometry window;
  at::Tensor y, which;
};

at::Tensor direct_forward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu,
                          const ConvWindow& w, PoolAlong* pool = nullptr) {
  const WindowGeometry g = geometry(x, kernel, w);
  const DirectKernels& loops = direct_kernels();
  const at::Tensor images = x.contiguous(), weights = kernel.contiguous();
  const at::Tensor offset = bias.defined() ? bias.contiguous() : bias;
  at::Tensor y = at::empty({x.size(0), g.out_h, g.out_w, g.out_channels}, x.options());
  const at::Tensor packed = at::empty({loops.packed_kernel_size(g.taps(), g.out_channels)}, x.options());
  loops.pack_kernel(g, weights.const_data_ptr<float>(), packed.mutable_data_ptr<float>());
  const float *from = images.const_data_ptr<float>(), *k = packed.const_data_ptr<float>();
  const float* b = offset.defined() ? offset.const_data_ptr<float>() : nullptr;
  float* to = y.mutable_data_ptr<float>();
  // Few images are cut into bands of rows.
  const std::int64_t count = x.size(0),
                     bands = pool ? 1 : std::clamp<std::int64_t>(parallel_threads() / count, 1, g.out_h);
  float* pooled = nullptr;
  std::uint8_t* marks = nullptr;
  if (pool) {
    pool->y = at::empty({count, pool->window.out_h, pool->window.out_w, pool->window.out_channels}, x.options());
    pool->which = at::empty(pool->y.sizes(), at::kByte);
    pooled = pool->y.mutable_data_ptr<float>(), marks = pool->which.mutable_data_ptr<std::uint8_t>();
  }
  parallel_for(0, count * bands, 1, [&](std::int64_t begin, std::int64_t end) {
    static thread_local Scratch scratch;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t n = unit / bands, band = unit % bands;
      loops.conv_forward(g, padded(g, from + n * image_size(g), scratch), k, b, relu, band * g.out_h / bands,
                         (band + 1) * g.out_h / bands, to + n * output_size(g));
      if (!pool) continue;
      const std::int64_t at = n * output_size(pool->window);
      loops.max_pool_forward(pool->window, to + n * output_size(g), pooled + at, marks + at);
    }
  });
  return y;
}

// Images are summed in fixed groups, so the result does not depend on the number of threads.
constexpr std::int64_t kChunk = 8;
constexpr std::int64_t kPartsLimit = 8 << 20;  // floats

// A max-pool that was computed together with the convolution before it.
struct Pooled {
  WindowGeometry window;
  at::Tensor which;
};

struct Gradients {
  at::Tensor images, kernel, bias;
};
struct Wanted {
  bool images = false, kernel = false, bias = false;
};

// The way back through one image after the other; the gradient of the convolution's own output lives only in a scratch
// image that stays in the cache.
class BackwardPass {
 public:
  // `y` is undefined without relu; with a pool y and dy are the pool's. images may be wanted where can_flip().
  BackwardPass(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& y, const at::Tensor& dy,
               const ConvWindow& w, const Pooled* pooled, Wanted wanted)
      : g_(geometry(x, kernel, w)),
        f_(flipped(g_)),
        x_(x.contiguous()),
        kernel_(kernel.contiguous()),
        y_(y),
        dy_(dy.contiguous()),
        pooled_(pooled),
        wanted_(wanted) {}

  Gradients run() {
    const std::int64_t count = x_.size(0), kernel_size = kernel_.numel();
    const std::int64_t most = std::max<std::int64_t>(1, kPartsLimit / std::max<std::int64_t>(1, kernel_size));
    const std::int64_t chunk = std::max(kChunk, (count + most - 1) / most), chunks = (count + chunk - 1) / chunk;
    Ints shape = kernel_.sizes().vec();
    shape.insert(shape.begin(), chunks);
    if (wanted_.kernel) kernel_parts_ = at::zeros(shape, x_.options());
    if (wanted_.bias) bias_parts_ = at::zeros({chunks, g_.out_channels}, x_.options());
    if (wanted_.images) {
      packed_ = at::empty({loops_.packed_kernel_size(f_.taps(), f_.out_channels)}, x_.options());
      loops_.pack_flipped_kernel(g_, kernel_.const_data_ptr<float>(), packed_.mutable_data_ptr<float>());
      images_ = at::empty(x_.sizes(), x_.options());
    }
    parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        for (std::int64_t n = c * chunk; n < std::min(count, (c + 1) * chunk); ++n) image(n, c);
      }
    });
    const auto total = [](const at::Tensor& parts) {
      return !parts.defined() ? parts : parts.size(0) == 1 ? parts[0] : parts.sum(0);
    };
    return {images_, total(kernel_parts_), total(bias_parts_)};
  }

 private:
  void image(std::int64_t n, std::int64_t chunk) {
    static thread_local Scratch masked, unpooled, border, result_border;
    const std::int64_t dy_size = dy_.numel() / dy_.size(0);
    const float* dz = dy_.const_data_ptr<float>() + n * dy_size;
    const bool tail = g_.out_channels % loops_.width != 0;  // the loops read beyond the end
    if (y_.defined() || wanted_.bias) {
      const float* const output = y_.defined() ? y_.const_data_ptr<float>() + n * dy_size : nullptr;
      float* const to = masked.of(dy_size + loops_.width);
      float* const bias = wanted_.bias ? bias_parts_.mutable_data_ptr<float>() + chunk * g_.out_channels : nullptr;
      loops_.relu_bias_gradient(dy_size / g_.out_channels, g_.out_channels, output, dz, to, bias);
      if (output) dz = to;
    }
    if (pooled_) {
      float* const to = unpooled.of(output_size(g_) + loops_.width);
      loops_.max_pool_backward(pooled_->window, dz, pooled_->which.const_data_ptr<std::uint8_t>() + n * dy_size, to);
      dz = to;
    } else if (tail && !y_.defined()) {
      float* const to = unpooled.of(dy_size + loops_.width);
      std::copy_n(dz, dy_size, to);
      dz = to;
    }
    if (wanted_.kernel) {
      const float* const x = padded(g_, x_.const_data_ptr<float>() + n * image_size(g_), border);
      loops_.conv_filter_gradient(g_, x, dz, kernel_parts_.mutable_data_ptr<float>() + chunk * kernel_.numel());
    }
    if (wanted_.images) {
      loops_.conv_forward(f_, padded(f_, dz, result_border), packed_.const_data_ptr<float>(), nullptr, false, 0,
                          f_.out_h, images_.mutable_data_ptr<float>() + n * image_size(g_));
    }
  }

  const DirectKernels& loops_ = direct_kernels();
  const WindowGeometry g_, f_;
  const at::Tensor x_, kernel_, y_, dy_;
  const Pooled* const pooled_;
  const Wanted wanted_;
  at::Tensor kernel_parts_, bias_parts_, packed_, images_;
};

at::Tensor plain_forward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu,
                         const ConvWindow& w) {
  const LibraryThreads threads(convolution_work(x, kernel, w));
  const std::optional<at::Tensor> offset = bias.defined() ? std::optional(bias) : std::nullopt;
  at::Tensor y = image_out(convolve(image_in(x, false), kernel_in(kernel), offset, w), false);
  if (!relu) return y;
  return y.requires_grad() ? at::relu(y) : at::relu_(y);
}

// LibTorch's gradients of a convolution whose output has the gradient dz.
Gradients plain_gradients(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& dz, const ConvWindow& w,
                          Wanted wanted) {
  const LibraryThreads threads(convolution_work(x, kernel, w));
  const bool even = w.same_padding_both_sides();
  const at::Tensor images = even ? image_in(x, false) : pad_image(image_in(x, false), w.before, w.after);
  const auto [to_images, to_kernel, to_bias] = at::convolution_backward(
      image_in(dz, false), images, kernel_in(kernel), at::OptionalIntArrayRef(), w.strides,
      even ? w.before : Ints{0, 0}, w.dilations, false, Ints{0, 0}, w.groups, {wanted.images, wanted.kernel, false});
  Gradients out;
  if (wanted.images) {
    out.images = to_images;
    if (!even)
      out.images =
          out.images.slice(2, w.before[0], w.before[0] + x.size(1)).slice(3, w.before[1], w.before[1] + x.size(2));
    out.images = out.images.permute({0, 2, 3, 1});
  }
  if (wanted.kernel) out.kernel = to_kernel.permute({2, 3, 1, 0});
  return out;
}

void save_window(torch::autograd::AutogradContext& context, const ConvWindow& w) {
  const auto save = [&](const char* name, const Ints& values) { context.saved_data[name] = c10::IValue(values); };
  save("strides", w.strides), save("dilations", w.dilations), save("before", w.before), save("after", w.after),
      save("output", w.output);
  context.saved_data["groups"] = w.groups;
}
ConvWindow saved_window(const torch::autograd::AutogradContext& context) {
  ConvWindow w;
  const auto get = [&](const char* name) { return context.saved_data.at(name).toIntVector(); };
  w.strides = get("strides"), w.dilations = get("dilations"), w.before = get("before"), w.after = get("after"),
  w.output = get("output");
  w.groups = context.saved_data.at("groups").toInt();
  return w;
}

struct ConvNode : torch::autograd::Function<ConvNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& kernel,
                            const std::optional<at::Tensor>& offset, bool relu,
                            const std::shared_ptr<const ConvWindow>& window, PoolAlong* pool) {
    const at::Tensor bias = offset.value_or(at::Tensor());
    at::Tensor y = is_direct(kernel, *window) ? direct_forward(x, kernel, bias, relu, *window, pool)
                                              : plain_forward(x, kernel, bias, relu, *window);
    context->save_for_backward({x, kernel, relu ? y : at::Tensor()});
    context->saved_data["bias"] = bias.defined();
    save_window(*context, *window);
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list dys) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &kernel = saved[1], &y = saved[2], &dy = dys[0];
    const ConvWindow w = saved_window(*context);
    const Wanted wanted{context->needs_input_grad(0), context->needs_input_grad(1),
                        context->saved_data["bias"].toBool() && context->needs_input_grad(2)};
    Gradients out;
    if (at::GradMode::is_enabled() || !is_direct(kernel, w)) {
      const at::Tensor dz = y.defined() ? dy * (y > 0).to(dy.scalar_type()) : dy;
      if (wanted.images || wanted.kernel) out = plain_gradients(x, kernel, dz, w, wanted);
      if (wanted.bias) out.bias = dz.sum({0, 1, 2});
    } else {
      Wanted direct = wanted;
      direct.images = wanted.images && can_flip(geometry(x, kernel, w));
      out = BackwardPass(x, kernel, y, dy, w, nullptr, direct).run();
      if (wanted.images && !direct.images) {
        const at::Tensor dz = y.defined() ? dy * (y > 0).to(dy.scalar_type()) : dy;
        out.images = plain_gradients(x, kernel, dz, w, {.images = true}).images;
      }
    }
    return {out.images, out.kernel, out.bias, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// relu(conv) and the max-pool after it as one node of autograd.
struct ConvPoolNode : torch::autograd::Function<ConvPoolNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& kernel,
                            const std::optional<at::Tensor>& bias, const at::Tensor& pooled, const at::Tensor& which,
                            const std::shared_ptr<const ConvWindow>& window, const WindowGeometry& pool) {
    context->save_for_backward({x, kernel, pooled, which});
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["pool"] = c10::IValue(pack_geometry(pool));
    save_window(*context, *window);
    return pooled;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list dy) {
    if (at::GradMode::is_enabled())
      throw_unimplemented(
          "a second gradient through a fused convolution and pool; make the steps without ScopedPoolFusion");
    const auto saved = context->get_saved_variables();
    const Pooled pooled{unpack_geometry(context->saved_data["pool"].toIntVector()), saved[3]};
    const Wanted wanted{context->needs_input_grad(0), context->needs_input_grad(1),
                        context->saved_data["bias"].toBool() && context->needs_input_grad(2)};
    const Gradients out =
        BackwardPass(saved[0], saved[1], saved[2], dy[0], saved_window(*context), &pooled, wanted).run();
    return {out.images, out.kernel, out.bias, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// What the last convolution on this thread was made of, held weakly.
struct LastConv {
  c10::weak_intrusive_ptr<c10::TensorImpl> output{c10::intrusive_ptr<c10::TensorImpl>()},
      x{c10::intrusive_ptr<c10::TensorImpl>()}, kernel{c10::intrusive_ptr<c10::TensorImpl>()},
      bias{c10::intrusive_ptr<c10::TensorImpl>()};
  bool has_bias = false;
  std::shared_ptr<const ConvWindow> window;
  std::optional<PoolAlong> pool;
};
thread_local bool t_fuse_pools = false;
thread_local LastConv t_last_conv;

// The pool that followed a convolution, by the convolution's weights. A wrong guess costs time only.
thread_local std::map<const void*, WindowGeometry> t_pools;
constexpr std::size_t kMostPools = 256;

std::optional<PoolAlong> expected_pool(const at::Tensor& kernel, const ConvWindow& w) {
  const auto known = t_pools.find(kernel.const_data_ptr());
  if (known == t_pools.end()) return std::nullopt;
  const WindowGeometry& pool = known->second;
  if (pool.height != w.output[0] || pool.width != w.output[1] || pool.channels != kernel.size(3)) return std::nullopt;
  return PoolAlong{pool, {}, {}};
}

void remember_conv(const at::Tensor& y, const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                   const std::shared_ptr<const ConvWindow>& w, std::optional<PoolAlong> pool) {
  const auto weak = [](const at::Tensor& t) { return c10::weak_intrusive_ptr<c10::TensorImpl>(t.getIntrusivePtr()); };
  t_last_conv.output = weak(y), t_last_conv.x = weak(x), t_last_conv.kernel = weak(kernel);
  t_last_conv.has_bias = bias.defined();
  if (bias.defined()) t_last_conv.bias = weak(bias);
  t_last_conv.window = w;
  t_last_conv.pool = std::move(pool);
}

}  // namespace

at::Tensor fused_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu, ConvWindow w) {
  w.groups = x.size(3) / kernel.size(2);
  const bool tracked = at::GradMode::is_enabled() &&
                       (x.requires_grad() || kernel.requires_grad() || (bias.defined() && bias.requires_grad()));
  if (!tracked) {
    if (is_direct(kernel, w)) return direct_forward(x, kernel, bias, relu, w);
    return plain_forward(x, kernel, bias, relu, w);
  }
  const auto window = std::make_shared<const ConvWindow>(std::move(w));
  // An undefined tensor among the inputs of a node is an error in LibTorch; an empty optional is not.
  const auto offset = bias.defined() ? std::optional(bias) : std::nullopt;
  const bool joins = t_fuse_pools && relu && is_direct(kernel, *window) &&
                     (!x.requires_grad() || can_flip(geometry(x, kernel, *window)));
  std::optional<PoolAlong> pool = joins ? expected_pool(kernel, *window) : std::nullopt;
  at::Tensor y = ConvNode::apply(x, kernel, offset, relu, window, pool ? &*pool : nullptr);
  if (joins) remember_conv(y, x, kernel, bias, window, std::move(pool));
  return y;
}

ScopedPoolFusion::ScopedPoolFusion() : previous_(t_fuse_pools) { t_fuse_pools = true; }
ScopedPoolFusion::~ScopedPoolFusion() {
  t_fuse_pools = previous_;
  t_last_conv = LastConv();
}

std::optional<PoolResult> take_expected_pool(const at::Tensor& conv_output, const WindowGeometry& pool) {
  const auto output = t_last_conv.output.lock();
  if (!output || output.get() != conv_output.unsafeGetTensorImpl() || !t_last_conv.pool ||
      t_last_conv.pool->window != pool)
    return std::nullopt;
  const PoolAlong made = std::move(*t_last_conv.pool);
  t_last_conv.pool.reset();
  return PoolResult{made.y, made.which};
}

std::optional<at::Tensor> try_join_pool(const at::Tensor& conv_output, const WindowGeometry& pool,
                                        const at::Tensor& pooled, const at::Tensor& which) {
  if (!t_fuse_pools || !t_last_conv.window) return std::nullopt;
  const auto output = t_last_conv.output.lock();
  if (!output || output.get() != conv_output.unsafeGetTensorImpl()) return std::nullopt;
  const auto x = t_last_conv.x.lock(), kernel = t_last_conv.kernel.lock(), bias = t_last_conv.bias.lock();
  if (!x || !kernel || (t_last_conv.has_bias && !bias)) return std::nullopt;
  const auto offset = t_last_conv.has_bias ? std::optional(at::Tensor(bias)) : std::nullopt;
  if (t_pools.size() >= kMostPools) t_pools.clear();
  t_pools.insert_or_assign(at::Tensor(kernel).const_data_ptr(), pool);
  return ConvPoolNode::apply(at::Tensor(x), at::Tensor(kernel), offset, pooled, which, t_last_conv.window, pool);
}

std::vector<std::int64_t> pack_geometry(const WindowGeometry& g) {
  return {g.height,  g.width,    g.channels,   g.window_h,  g.window_w, g.stride_h, g.stride_w,
          g.pad_top, g.pad_left, g.pad_bottom, g.pad_right, g.out_h,    g.out_w};
}
WindowGeometry unpack_geometry(const std::vector<std::int64_t>& v) {
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], 1, 1, v[7], v[8], v[9], v[10], v[11], v[12], v[2]};
}

}  // namespace lockstep::ops
