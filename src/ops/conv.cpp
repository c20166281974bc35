// Convolutions. LibTorch sees channels-last views of TensorFlow's NHWC memory, so nothing is copied.
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/ops/conv_pool.h"
#include "lockstep/ops/fused.h"
#include "lockstep/ops/kernels.h"

namespace lockstep::ops {
namespace {

// Everything about one call's window, one entry for each spatial axis.
struct Window {
  bool channels_first = false;
  int spatial = 2;
  Ints strides, dilations, before, after, input, kernel, output;
  std::int64_t groups = 1;

  bool same_padding_both_sides() const { return before == after; }
};

bool is_channels_first(const Call& call) { return call.attr<std::string>("data_format").starts_with("NC"); }

Ints spatial_part(const Ints& all, bool channels_first, int spatial) {
  if (all.size() != static_cast<std::size_t>(spatial + 2)) throw_invalid_argument(fmt::format("{} numbers where {} are needed", all.size(), spatial + 2));
  const std::size_t channel = channels_first ? 1 : all.size() - 1;
  if (all[0] != 1 || all[channel] != 1) throw_unimplemented("strides and dilations of the batch and of channels must be 1");
  const auto begin = all.begin() + (channels_first ? 2 : 1);
  return Ints(begin, begin + spatial);
}

Ints explicit_part(const Call& call) {
  const Attr* paddings = call.attrs().find("explicit_paddings");
  return paddings ? std::get<Ints>(*paddings) : Ints{};
}

// `image` and `kernel` hold the spatial extents only; an unknown one stays unknown.
Window plan_window(const Call& call, const Ints& image, const Ints& kernel) {
  Window w;
  w.channels_first = is_channels_first(call);
  w.spatial = static_cast<int>(kernel.size());
  w.strides = spatial_part(call.attr<Ints>("strides"), w.channels_first, w.spatial);
  w.dilations = spatial_part(call.attr<Ints>("dilations"), w.channels_first, w.spatial);
  const std::string& padding = call.attr<std::string>("padding");
  const Ints given = explicit_part(call);
  w.input = image, w.kernel = kernel;
  for (int i = 0; i < w.spatial; ++i) {
    const auto n = static_cast<std::size_t>(i);
    std::int64_t before = 0, after = 0;
    if (padding == "EXPLICIT") {
      const std::size_t at = 2 * (n + (w.channels_first ? 2 : 1));
      if (given.size() != static_cast<std::size_t>(2 * (w.spatial + 2))) throw_invalid_argument("explicit_paddings must name every axis");
      before = given[at], after = given[at + 1];
      if (before < 0 || after < 0) throw_invalid_argument("explicit_paddings must not be negative");
    }
    const std::int64_t out = kernel[n] == kUnknownDim ? kUnknownDim
                                                      : window_output(image[n], kernel[n], w.strides[n], w.dilations[n], padding, before, after);
    if (padding == "SAME" && out != kUnknownDim) {
      const std::int64_t total = std::max<std::int64_t>((out - 1) * w.strides[n] + (kernel[n] - 1) * w.dilations[n] + 1 - image[n], 0);
      before = total / 2, after = total - before;
    }
    w.before.push_back(before), w.after.push_back(after), w.output.push_back(out);
  }
  return w;
}

Ints spatial_dims(const Shape& x, bool channels_first) {
  const auto begin = x.dims().begin() + (channels_first ? 2 : 1);
  return Ints(begin, begin + x.rank() - 2);
}
Ints kernel_dims(const Shape& kernel) { return Ints(kernel.dims().begin(), kernel.dims().end() - 2); }

Shape image_shape(std::int64_t batch, const Ints& spatial, std::int64_t channels, bool channels_first) {
  Shape out{batch};
  if (channels_first) out.push_back(channels);
  for (auto dim : spatial) out.push_back(dim);
  if (!channels_first) out.push_back(channels);
  return out;
}

void check_channels(const Shape& x, const Shape& kernel, bool first) {
  const std::int64_t depth = x[first ? 1 : -1], wanted = kernel[-2], out = kernel[-1];
  if (depth == kUnknownDim || wanted == kUnknownDim) return;
  if (depth == 0 || wanted == 0) throw_invalid_argument("the input must have channels");
  if (depth % wanted != 0) throw_invalid_argument(fmt::format("input depth {} is not a multiple of the filter's {}", depth, wanted));
  if (out != kUnknownDim && out % (depth / wanted) != 0) {
    throw_invalid_argument(fmt::format("output depth {} is not a multiple of the {} groups", out, depth / wanted));
  }
}

template <int kSpatial>
Shapes conv_shape(const Call& call) {
  const Shape &x = call.input(0).shape(), &kernel = call.input(1).shape();
  if (!x.known_rank() || !kernel.known_rank()) return {Shape::unknown_rank()};
  if (x.rank() != kSpatial + 2 || kernel.rank() != kSpatial + 2) throw_invalid_argument(fmt::format("input and filter must have rank {}", kSpatial + 2));
  const bool first = is_channels_first(call);
  const bool depthwise = call.name() == "DepthwiseConv2dNative";
  if (!depthwise) check_channels(x, kernel, first);
  if (depthwise && x[first ? 1 : -1] != kernel[-2] && x[first ? 1 : -1] != kUnknownDim && kernel[-2] != kUnknownDim) {
    throw_invalid_argument(fmt::format("input depth {} differs from the filter's {}", x[first ? 1 : -1], kernel[-2]));
  }
  const Window w = plan_window(call, spatial_dims(x, first), kernel_dims(kernel));
  return {image_shape(x[0], w.output, depthwise ? mul_dims(kernel[-2], kernel[-1]) : kernel[-1], first)};
}

// ---- layouts: LibTorch's names are N C spatial and O I spatial ------------------------------------------
Ints order_to_channels_first(int rank) {
  Ints order = {0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) order.push_back(i);
  return order;
}
Ints order_to_channels_last(int rank) {
  Ints order = {0};
  for (int i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return order;
}
at::Tensor image_in(const at::Tensor& x, bool first) { return first ? x : x.permute(order_to_channels_first(static_cast<int>(x.dim()))); }
at::Tensor image_out(const at::Tensor& y, bool first) {
  return first ? y.contiguous() : y.permute(order_to_channels_last(static_cast<int>(y.dim()))).contiguous();
}
// [spatial…, I, O] to [O, I, spatial…].
at::Tensor kernel_in(const at::Tensor& kernel) {
  Ints order = {kernel.dim() - 1, kernel.dim() - 2};
  for (std::int64_t i = 0; i < kernel.dim() - 2; ++i) order.push_back(i);
  return kernel.permute(order);
}
at::Tensor depthwise_kernel_in(const at::Tensor& kernel) {
  return kernel.permute({2, 3, 0, 1}).reshape({kernel.size(2) * kernel.size(3), 1, kernel.size(0), kernel.size(1)});
}

at::Tensor pad_image(const at::Tensor& x, const Ints& before, const Ints& after) {
  Ints amounts;
  for (std::size_t i = before.size(); i-- > 0;) amounts.push_back(before[i]), amounts.push_back(after[i]);
  return at::constant_pad_nd(x, amounts);
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& kernel, const std::optional<at::Tensor>& bias, const Window& w) {
  const at::Tensor padded = w.same_padding_both_sides() ? x : pad_image(x, w.before, w.after);
  const Ints padding = w.same_padding_both_sides() ? w.before : Ints(w.before.size(), 0);
  return at::convolution(padded, kernel, bias, w.strides, padding, w.dilations, false, Ints(w.before.size(), 0), w.groups);
}

// Half and integers are computed in float32 and float64.
at::ScalarType compute_type(at::ScalarType type) {
  if (type == at::kFloat || type == at::kDouble) return type;
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : at::kDouble;
}

at::Tensor conv_value(const at::Tensor& x, const at::Tensor& kernel, const Window& w, bool depthwise) {
  const Ints out = image_shape(x.size(0), w.output, depthwise ? kernel.size(-2) * kernel.size(-1) : kernel.size(-1), w.channels_first).dims();
  for (auto dim : out) {
    if (dim == 0) return at::zeros(out, x.options());
  }
  const auto type = x.scalar_type(), as = compute_type(type);
  const at::Tensor weights = depthwise ? depthwise_kernel_in(kernel.to(as)) : kernel_in(kernel.to(as));
  return narrow_to(image_out(convolve(image_in(x.to(as), w.channels_first), weights, {}, w), w.channels_first), type);
}

// ---- the fused node: conv, bias, relu over float32 NHWC -------------------------------------------------
WindowGeometry geometry(const at::Tensor& x, const at::Tensor& kernel, const Window& w) {
  WindowGeometry g;
  g.height = x.size(1), g.width = x.size(2), g.channels = x.size(3);
  g.window_h = kernel.size(0), g.window_w = kernel.size(1);
  g.stride_h = w.strides[0], g.stride_w = w.strides[1], g.dilation_h = w.dilations[0], g.dilation_w = w.dilations[1];
  g.pad_top = w.before[0], g.pad_bottom = w.after[0], g.pad_left = w.before[1], g.pad_right = w.after[1];
  g.out_h = w.output[0], g.out_w = w.output[1], g.out_channels = kernel.size(3);
  return g;
}

// Few input channels: LibTorch takes one channel for NCHW, and packs badly up to four.
bool is_direct(const at::Tensor& kernel) { return kernel.size(2) <= 4 && kernel.size(3) % 16 == 0 && kernel.size(0) * kernel.size(1) <= 121; }

at::Tensor padded_images(const at::Tensor& x, const WindowGeometry& g) {
  if (!g.padded()) return x.contiguous();
  return at::constant_pad_nd(x, {0, 0, g.pad_left, g.pad_right, g.pad_top, g.pad_bottom});
}

at::Tensor direct_forward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu, const Window& w) {
  const WindowGeometry g = geometry(x, kernel, w);
  const at::Tensor images = padded_images(x, g), weights = kernel.contiguous();
  const at::Tensor offset = bias.defined() ? bias.contiguous() : bias;
  at::Tensor y = at::empty({x.size(0), g.out_h, g.out_w, g.out_channels}, x.options());
  const float *from = images.const_data_ptr<float>(), *k = weights.const_data_ptr<float>();
  const float* b = offset.defined() ? offset.const_data_ptr<float>() : nullptr;
  float* to = y.mutable_data_ptr<float>();
  const std::int64_t in_size = g.padded_h() * g.padded_w() * g.channels, out_size = g.out_h * g.out_w * g.out_channels;
  at::parallel_for(0, x.size(0), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) direct_kernels().conv_forward(g, from + n * in_size, k, b, relu, to + n * out_size);
  });
  return y;
}

// Images are summed in fixed groups, so the result does not depend on the number of threads.
constexpr std::int64_t kChunk = 8;

// A max-pool that was computed together with the convolution before it.
struct Pooled {
  WindowGeometry window;
  at::Tensor which;
};

struct KernelAndBias {
  at::Tensor kernel, bias;
};

// Image by image: the gradient through the pool and relu lives only in a scratch image that stays in the
// cache. `y` is undefined without relu; with a pool y and dy are the pool's.
KernelAndBias direct_gradient(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& y, const at::Tensor& gradient,
                              const Window& w, const Pooled* pooled) {
  const WindowGeometry g = geometry(x, kernel, w);
  const at::Tensor images = padded_images(x, g), dy = gradient.contiguous();
  const std::int64_t count = x.size(0), chunks = (count + kChunk - 1) / kChunk;
  at::Tensor parts = at::zeros({chunks, g.window_h, g.window_w, g.channels, g.out_channels}, x.options());
  at::Tensor bias_parts = at::zeros({chunks, g.out_channels}, x.options());
  const float *from = images.const_data_ptr<float>(), *d = dy.const_data_ptr<float>();
  const float* output = y.defined() ? y.const_data_ptr<float>() : nullptr;
  const std::uint8_t* marks = pooled ? pooled->which.const_data_ptr<std::uint8_t>() : nullptr;
  float *to = parts.mutable_data_ptr<float>(), *to_bias = bias_parts.mutable_data_ptr<float>();
  const std::int64_t in_size = g.padded_h() * g.padded_w() * g.channels, out_size = g.out_h * g.out_w * g.out_channels;
  const std::int64_t dy_size = dy.size(1) * dy.size(2) * dy.size(3), kernel_size = g.taps() * g.out_channels;
  const DirectKernels& loops = direct_kernels();
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(out_size)), masked(static_cast<std::size_t>(pooled ? dy_size : 0));
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      for (std::int64_t n = chunk * kChunk; n < std::min(count, (chunk + 1) * kChunk); ++n) {
        const float* dz = d + n * dy_size;
        float* target = pooled ? masked.data() : scratch.data();
        loops.relu_bias_gradient(dy_size / g.out_channels, g.out_channels, output ? output + n * dy_size : nullptr, dz, target,
                                 to_bias + chunk * g.out_channels);
        if (output) dz = target;
        if (pooled) {
          loops.max_pool_backward(pooled->window, dz, marks + n * dy_size, scratch.data());
          dz = scratch.data();
        }
        loops.conv_filter_gradient(g, from + n * in_size, dz, to + chunk * kernel_size);
      }
    }
  });
  return {parts.sum(0), bias_parts.sum(0)};
}

// dz = dy where y > 0 (y undefined: dy itself), db = its sum over rows.
std::pair<at::Tensor, at::Tensor> relu_bias_gradient(const at::Tensor& y, const at::Tensor& dy, bool wants_bias) {
  const at::Tensor d = dy.contiguous();
  if (!y.defined() && !wants_bias) return {d, {}};
  const std::int64_t channels = d.size(-1), rows = channels == 0 ? 0 : d.numel() / channels;
  const std::int64_t per_chunk = std::max<std::int64_t>(64, 65536 / std::max<std::int64_t>(channels, 1)), chunks = (rows + per_chunk - 1) / per_chunk;
  at::Tensor dz = y.defined() ? at::empty_like(d) : d;
  at::Tensor parts = wants_bias ? at::zeros({chunks, channels}, d.options()) : at::Tensor();
  const float *from = d.const_data_ptr<float>(), *output = y.defined() ? y.const_data_ptr<float>() : nullptr;
  float* to = y.defined() ? dz.mutable_data_ptr<float>() : nullptr;
  float* sums = wants_bias ? parts.mutable_data_ptr<float>() : nullptr;
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const std::int64_t first = chunk * per_chunk, n = std::min(per_chunk, rows - first), at = first * channels;
      direct_kernels().relu_bias_gradient(n, channels, output ? output + at : nullptr, from + at, to ? to + at : nullptr,
                                          sums ? sums + chunk * channels : nullptr);
    }
  });
  return {dz, wants_bias ? parts.sum(0) : at::Tensor()};
}

at::Tensor plain_forward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu, const Window& w) {
  const std::optional<at::Tensor> offset = bias.defined() ? std::optional(bias) : std::nullopt;
  at::Tensor y = image_out(convolve(image_in(x, false), kernel_in(kernel), offset, w), false);
  if (!relu) return y;
  return y.requires_grad() ? at::relu(y) : at::relu_(y);
}

void save_window(torch::autograd::AutogradContext& context, const Window& w) {
  const auto save = [&](const char* name, const Ints& values) { context.saved_data[name] = c10::IValue(values); };
  save("strides", w.strides), save("dilations", w.dilations), save("before", w.before), save("after", w.after), save("output", w.output);
  context.saved_data["groups"] = w.groups;
}
Window saved_window(const torch::autograd::AutogradContext& context) {
  Window w;
  const auto get = [&](const char* name) { return context.saved_data.at(name).toIntVector(); };
  w.strides = get("strides"), w.dilations = get("dilations"), w.before = get("before"), w.after = get("after"), w.output = get("output");
  w.groups = context.saved_data.at("groups").toInt();
  return w;
}

struct ConvNode : torch::autograd::Function<ConvNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& kernel,
                            const std::optional<at::Tensor>& offset, bool relu, const std::shared_ptr<const Window>& window) {
    const at::Tensor bias = offset.value_or(at::Tensor());
    const bool direct = window->groups == 1 && is_direct(kernel);
    at::Tensor y = direct ? direct_forward(x, kernel, bias, relu, *window) : plain_forward(x, kernel, bias, relu, *window);
    context->save_for_backward({x, kernel, bias, relu ? y : at::Tensor()});
    context->saved_data["direct"] = direct;
    context->saved_data["relu"] = relu;
    save_window(*context, *window);
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list dy) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &kernel = saved[1], &bias = saved[2], &y = saved[3];
    const Window w = saved_window(*context);
    const bool wants_x = context->needs_input_grad(0), wants_kernel = context->needs_input_grad(1);
    const bool wants_bias = bias.defined() && context->needs_input_grad(2);
    at::Tensor dz, db, dx, dk;
    if (at::GradMode::is_enabled()) {
      dz = y.defined() ? dy[0] * (y > 0).to(dy[0].scalar_type()) : dy[0];
      if (wants_bias) db = dz.sum({0, 1, 2});
    } else if (wants_kernel && context->saved_data["direct"].toBool()) {
      KernelAndBias direct = direct_gradient(x, kernel, y, dy[0], w, nullptr);
      dk = std::move(direct.kernel), db = std::move(direct.bias);
      if (wants_x) dz = relu_bias_gradient(y, dy[0], false).first;
    } else {
      std::tie(dz, db) = relu_bias_gradient(y, dy[0], wants_bias);
    }
    if (!wants_bias) db = at::Tensor();
    const bool rest_kernel = wants_kernel && !dk.defined();
    if (wants_x || rest_kernel) std::tie(dx, dk) = general(x, kernel, dz, w, wants_x, rest_kernel, dk);
    return {dx, dk, db, at::Tensor(), at::Tensor()};
  }

  static std::pair<at::Tensor, at::Tensor> general(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& dz, const Window& w,
                                                   bool wants_x, bool wants_kernel, at::Tensor dk) {
    const bool even = w.same_padding_both_sides();
    const at::Tensor images = even ? image_in(x, false) : pad_image(image_in(x, false), w.before, w.after);
    const auto [to_images, to_kernel, to_bias] =
        at::convolution_backward(image_in(dz, false), images, kernel_in(kernel), at::OptionalIntArrayRef(), w.strides,
                                 even ? w.before : Ints{0, 0}, w.dilations, false, Ints{0, 0}, w.groups, {wants_x, wants_kernel, false});
    at::Tensor dx;
    if (wants_x) {
      dx = to_images;
      if (!even) dx = dx.slice(2, w.before[0], w.before[0] + x.size(1)).slice(3, w.before[1], w.before[1] + x.size(2));
      dx = dx.permute({0, 2, 3, 1});
    }
    if (wants_kernel) dk = to_kernel.permute({2, 3, 1, 0});
    return {dx, dk};
  }
};

// relu(conv) and the max-pool after it as one node of autograd; the images themselves need no gradient.
struct ConvPoolNode : torch::autograd::Function<ConvPoolNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& kernel,
                            const std::optional<at::Tensor>& bias, const at::Tensor& pooled, const at::Tensor& which, const std::shared_ptr<const Window>& window, const WindowGeometry& pool) {
    context->save_for_backward({x, kernel, pooled, which});
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["pool"] = c10::IValue(pack_geometry(pool));
    save_window(*context, *window);
    return pooled;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list dy) {
    if (at::GradMode::is_enabled()) throw_unimplemented("a second gradient through a fused convolution and pool; make the steps without ScopedPoolFusion");
    const auto saved = context->get_saved_variables();
    const Pooled pooled{unpack_geometry(context->saved_data["pool"].toIntVector()), saved[3]};
    KernelAndBias out = direct_gradient(saved[0], saved[1], saved[2], dy[0], saved_window(*context), &pooled);
    if (!context->saved_data["bias"].toBool()) out.bias = at::Tensor();
    return {at::Tensor(), out.kernel, out.bias, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// What the last convolution on this thread was made of, held weakly.
struct LastConv {
  c10::weak_intrusive_ptr<c10::TensorImpl> output{c10::intrusive_ptr<c10::TensorImpl>()}, x{c10::intrusive_ptr<c10::TensorImpl>()},
      kernel{c10::intrusive_ptr<c10::TensorImpl>()}, bias{c10::intrusive_ptr<c10::TensorImpl>()};
  bool has_bias = false;
  std::shared_ptr<const Window> window;
};
thread_local bool t_fuse_pools = false;
thread_local LastConv t_last_conv;

void remember_conv(const at::Tensor& y, const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, const std::shared_ptr<const Window>& w) {
  const auto weak = [](const at::Tensor& t) { return c10::weak_intrusive_ptr<c10::TensorImpl>(t.getIntrusivePtr()); };
  t_last_conv.output = weak(y), t_last_conv.x = weak(x), t_last_conv.kernel = weak(kernel);
  t_last_conv.has_bias = bias.defined();
  if (bias.defined()) t_last_conv.bias = weak(bias);
  t_last_conv.window = w;
}

// Zero-size results and other types take the plain path.
bool can_fuse(const at::Tensor& x, const at::Tensor& kernel, const Window& w) {
  if (x.scalar_type() != at::kFloat || kernel.scalar_type() != at::kFloat || w.channels_first || x.numel() == 0 || kernel.numel() == 0) return false;
  return w.output[0] > 0 && w.output[1] > 0;
}

at::Tensor fused_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, bool relu, Window w) {
  w.groups = x.size(3) / kernel.size(2);
  const bool tracked = at::GradMode::is_enabled() && (x.requires_grad() || kernel.requires_grad() || (bias.defined() && bias.requires_grad()));
  if (!tracked) {
    if (w.groups == 1 && is_direct(kernel)) return direct_forward(x, kernel, bias, relu, w);
    return plain_forward(x, kernel, bias, relu, w);
  }
  const auto window = std::make_shared<const Window>(std::move(w));
  // An undefined tensor among the inputs of a node is an error in LibTorch; an empty optional is not.
  const auto offset = bias.defined() ? std::optional(bias) : std::nullopt;
  at::Tensor y = ConvNode::apply(x, kernel, offset, relu, window);
  if (t_fuse_pools && relu && window->groups == 1 && is_direct(kernel) && !x.requires_grad()) remember_conv(y, x, kernel, bias, window);
  return y;
}

Tensors conv2d(const Call& call) {
  conv_shape<2>(call);
  const at::Tensor &x = in(call, 0), &kernel = in(call, 1);
  Window w = plan_window(call, spatial_dims(call.input(0).shape(), is_channels_first(call)), kernel_dims(call.input(1).shape()));
  if (can_fuse(x, kernel, w)) return one(fused_conv(x, kernel, {}, false, std::move(w)));
  w.groups = x.size(w.channels_first ? 1 : 3) / std::max<std::int64_t>(1, kernel.size(2));
  return one(conv_value(x, kernel, w, false));
}
Tensors depthwise(const Call& call) {
  conv_shape<2>(call);
  Window w = plan_window(call, spatial_dims(call.input(0).shape(), is_channels_first(call)), kernel_dims(call.input(1).shape()));
  w.groups = in(call, 1).size(2);
  return one(conv_value(in(call, 0), in(call, 1), w, true));
}
Tensors conv3d(const Call& call) {
  conv_shape<3>(call);
  Window w = plan_window(call, spatial_dims(call.input(0).shape(), is_channels_first(call)), kernel_dims(call.input(1).shape()));
  w.groups = in(call, 0).size(w.channels_first ? 1 : 4) / std::max<std::int64_t>(1, in(call, 1).size(3));
  return one(conv_value(in(call, 0), in(call, 1), w, false));
}

// ---- gradients as operations of their own ---------------------------------------------------------------
// input_sizes may name height and width only.
Shape whole_input_sizes(const Call& call, const Shape& sizes, int spatial) {
  const Shape &kernel = call.input(1).shape(), &dy = call.input(2).shape();
  if (sizes.rank() != spatial || !kernel.known_rank() || !dy.known_rank()) return sizes;
  const bool depthwise = call.name().starts_with("Depthwise");
  return image_shape(dy[0], sizes.dims(), kernel[-2], is_channels_first(call) && !depthwise);
}

Shapes backprop_input_shape(const Call& call) {
  const Shape sizes = shape_from_input(call, 0);
  if (!sizes.known_rank()) return {Shape::unknown_rank()};
  const int rank = call.input(2).shape().known_rank() ? call.input(2).rank() : 4;
  Shape out = sizes.rank() == rank - 2 ? whole_input_sizes(call, sizes, rank - 2) : sizes;
  const Shape& dy = call.input(2).shape();
  if (out.rank() == rank && dy.known_rank() && out[0] == kUnknownDim) out[0] = dy[0];
  if (out.rank() == rank && call.input(1).shape().known_rank()) {
    std::int64_t& channels = out[is_channels_first(call) ? 1 : -1];
    if (channels == kUnknownDim) channels = call.input(1).shape()[-2];
  }
  return {out};
}

Tensors backprop_input(const Call& call) {
  const at::Tensor &kernel = in(call, 1), &dy = in(call, 2);
  const int spatial = static_cast<int>(kernel.dim()) - 2;
  const Shape sizes = whole_input_sizes(call, Shape(ints_in(call, 0)), spatial);
  const bool first = is_channels_first(call), depthwise = call.name().starts_with("Depthwise");
  if (sizes.rank() != spatial + 2 || dy.dim() != spatial + 2) throw_invalid_argument(fmt::format("input_sizes and out_backprop must have {} axes", spatial + 2));
  const Window w = plan_window(call, spatial_dims(sizes, first), kernel_dims(call.input(1).shape()));
  const Ints given = spatial_dims(call.input(2).shape(), first);
  if (w.output != given || dy.size(0) != sizes[0]) {
    throw_invalid_argument(fmt::format("out_backprop has size {}, the sizes given make {}", Shape(given).to_string(), Shape(w.output).to_string()));
  }
  if (!depthwise && dy.size(first ? 1 : -1) != kernel.size(-1)) {
    throw_invalid_argument(fmt::format("out_backprop has {} channels, the filter {}", dy.size(first ? 1 : -1), kernel.size(-1)));
  }
  const std::int64_t groups = depthwise ? kernel.size(-2) : sizes[first ? 1 : -1] / std::max<std::int64_t>(1, kernel.size(-2));
  if (dy.numel() == 0 || *sizes.num_elements() == 0) return one(at::zeros(sizes.dims(), dy.options()));
  const auto as = compute_type(dy.scalar_type());
  const at::Tensor weights = depthwise ? depthwise_kernel_in(kernel.to(as)) : kernel_in(kernel.to(as));
  at::Tensor full = at::convolution(image_in(dy.to(as), first), weights, {}, w.strides, Ints(given.size(), 0), w.dilations, true, Ints(given.size(), 0), groups);
  Ints amounts;
  for (int i = spatial - 1; i >= 0; --i) {
    const auto n = static_cast<std::size_t>(i);
    amounts.push_back(-w.before[n]);
    amounts.push_back(w.input[n] + w.before[n] - full.size(i + 2));
  }
  full = at::constant_pad_nd(full, amounts);
  return one(narrow_to(image_out(full, first), dy.scalar_type()));
}

Tensors backprop_filter(const Call& call) {
  const at::Tensor &x = in(call, 0), &dy = in(call, 2);
  const Shape sizes(ints_in(call, 1));
  const bool first = is_channels_first(call), depthwise = call.name().starts_with("Depthwise");
  Window w = plan_window(call, spatial_dims(call.input(0).shape(), first), kernel_dims(sizes));
  w.groups = depthwise ? sizes[-2] : x.size(first ? 1 : -1) / std::max<std::int64_t>(1, sizes[-2]);
  if (dy.numel() == 0) return one(at::zeros(sizes.dims(), dy.options()));
  const auto as = compute_type(dy.scalar_type());
  const at::Tensor zeros = at::zeros(sizes.dims(), dy.options().dtype(as));
  const at::Tensor weights = depthwise ? depthwise_kernel_in(zeros) : kernel_in(zeros);
  const at::Tensor dk = std::get<1>(at::convolution_backward(image_in(dy.to(as), first), pad_image(image_in(x.to(as), first), w.before, w.after), weights,
                                     at::OptionalIntArrayRef(), w.strides, Ints(w.before.size(), 0), w.dilations, false, Ints(w.before.size(), 0), w.groups, {false, true, false}));
  if (depthwise) return one(narrow_to(dk.reshape({sizes[2], sizes[3], sizes[0], sizes[1]}).permute({2, 3, 0, 1}).contiguous(), dy.scalar_type()));
  Ints order;
  for (std::int64_t i = 2; i < dk.dim(); ++i) order.push_back(i);
  order.push_back(1), order.push_back(0);
  return one(narrow_to(dk.permute(order).contiguous(), dy.scalar_type()));
}

}  // namespace

ScopedPoolFusion::ScopedPoolFusion() : previous_(t_fuse_pools) { t_fuse_pools = true; }
ScopedPoolFusion::~ScopedPoolFusion() {
  t_fuse_pools = previous_;
  t_last_conv = LastConv();
}

std::optional<at::Tensor> try_join_pool(const at::Tensor& conv_output, const WindowGeometry& pool, const at::Tensor& pooled, const at::Tensor& which) {
  if (!t_fuse_pools || !t_last_conv.window) return std::nullopt;
  const auto output = t_last_conv.output.lock();
  if (!output || output.get() != conv_output.unsafeGetTensorImpl()) return std::nullopt;
  const auto x = t_last_conv.x.lock(), kernel = t_last_conv.kernel.lock(), bias = t_last_conv.bias.lock();
  if (!x || !kernel || (t_last_conv.has_bias && !bias)) return std::nullopt;
  const auto offset = t_last_conv.has_bias ? std::optional(at::Tensor(bias)) : std::nullopt;
  return ConvPoolNode::apply(at::Tensor(x), at::Tensor(kernel), offset, pooled, which, t_last_conv.window, pool);
}

std::vector<std::int64_t> pack_geometry(const WindowGeometry& g) {
  return {g.height, g.width, g.channels, g.window_h, g.window_w, g.stride_h, g.stride_w, g.pad_top, g.pad_left, g.pad_bottom, g.pad_right, g.out_h, g.out_w};
}
WindowGeometry unpack_geometry(const std::vector<std::int64_t>& v) {
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], 1, 1, v[7], v[8], v[9], v[10], v[11], v[12], v[2]};
}

std::optional<Tensor> try_conv2d_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool relu, const Attrs& attrs) {
  if (!x.is_value() || !kernel.is_value() || (bias.defined() && !bias.is_value())) return std::nullopt;
  if (x.rank() != 4 || kernel.rank() != 4 || x.dtype() != DType::kFloat32 || kernel.dtype() != DType::kFloat32) return std::nullopt;
  if (bias.defined() && (bias.dtype() != DType::kFloat32 || bias.rank() != 1 || bias.dim(0) != kernel.dim(3))) return std::nullopt;
  static const Op& op = Table::instance().at("Conv2D");
  const std::vector<Tensor> inputs = {x, kernel};
  const Call call(*op.signature, inputs, attrs);
  if (is_channels_first(call)) return std::nullopt;
  conv_shape<2>(call);
  Window w = plan_window(call, spatial_dims(x.shape(), false), kernel_dims(kernel.shape()));
  if (!can_fuse(aten(x), aten(kernel), w)) return std::nullopt;
  return wrap(fused_conv(aten(x), aten(kernel), bias.defined() ? aten(bias) : at::Tensor(), relu, std::move(w)));
}

void register_conv(Table& table) {
  table.add("Conv2D", conv_shape<2>, conv2d);
  table.add("DepthwiseConv2dNative", conv_shape<2>, depthwise);
  table.add("Conv3D", conv_shape<3>, conv3d);
  for (auto name : {"Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput"}) table.add(name, backprop_input_shape, backprop_input);
  for (auto name : {"Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter"}) table.add(name, shape_of_input(1), backprop_filter);
}

}  // namespace lockstep::ops
