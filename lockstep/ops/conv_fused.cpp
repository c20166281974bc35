// Convolution, bias, relu and a max-pool after it, of float32 NHWC images: own loops, image by image, forward and
// backward.
#include <optional>
#include <utility>

#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/ops/conv_direct_internal.h"
#include "lockstep/ops/conv_pool_internal.h"
#include "lockstep/ops/conv_window_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/library_threads_internal.h"

namespace lockstep::ops {
namespace {

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
      save("input", w.input), save("output", w.output);
  context.saved_data["groups"] = w.groups;
}
ConvWindow saved_window(const torch::autograd::AutogradContext& context) {
  ConvWindow w;
  const auto get = [&](const char* name) { return context.saved_data.at(name).toIntVector(); };
  w.strides = get("strides"), w.dilations = get("dilations"), w.before = get("before"), w.after = get("after"),
  w.input = get("input"), w.output = get("output");
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
      direct.images = wanted.images && has_direct_adjoint(kernel, w);
      out = direct_backward(x, kernel, y, dy, w, nullptr, direct);
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
    const Gradients out = direct_backward(saved[0], saved[1], saved[2], dy[0], saved_window(*context), &pooled, wanted);
    return {out.images, out.kernel, out.bias, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// The tensors of the last convolution on this thread, as weak references.
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

thread_local std::optional<FollowingPool> t_following_pool;

// The pool that was announced, on the output of the convolution that takes it.
std::optional<PoolAlong> take_following_pool(const at::Tensor& kernel, const ConvWindow& w) {
  const auto pool = std::exchange(t_following_pool, std::nullopt);
  if (!pool) return std::nullopt;
  const auto window = pool_geometry(*pool, w.output[0], w.output[1], kernel.size(3));
  return window ? std::optional(PoolAlong{*window, {}, {}}) : std::nullopt;
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
    if (!is_direct(kernel, w)) return plain_forward(x, kernel, bias, relu, w);
    const ConvFollowers followers = relu ? ConvFollowers() : take_conv_followers();
    return direct_forward(x, kernel, kept_weights(kernel, bias, followers.norm, false), relu, followers.activation, w);
  }
  const auto window = std::make_shared<const ConvWindow>(std::move(w));
  // An undefined tensor among the inputs of a node is an error in LibTorch; an empty optional is not.
  const auto offset = bias.defined() ? std::optional(bias) : std::nullopt;
  const bool joins =
      t_fuse_pools && relu && is_direct(kernel, *window) && (!x.requires_grad() || has_direct_adjoint(kernel, *window));
  std::optional<PoolAlong> pool = joins ? take_following_pool(kernel, *window) : std::nullopt;
  at::Tensor y = ConvNode::apply(x, kernel, offset, relu, window, pool ? &*pool : nullptr);
  if (joins) remember_conv(y, x, kernel, bias, window, std::move(pool));
  return y;
}

ScopedPoolFusion::ScopedPoolFusion() : previous_(t_fuse_pools) { t_fuse_pools = true; }
ScopedPoolFusion::~ScopedPoolFusion() {
  t_fuse_pools = previous_;
  t_last_conv = LastConv();
}

ScopedPoolFollower::ScopedPoolFollower(const FollowingPool& pool) { t_following_pool = pool; }
ScopedPoolFollower::~ScopedPoolFollower() { t_following_pool.reset(); }

std::optional<PoolResult> take_shared_pool(const at::Tensor& conv_output, const WindowGeometry& pool) {
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
