// Convolutions. LibTorch sees channels-last views of TensorFlow's NHWC memory, so nothing is copied.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/conv_direct_internal.h"
#include "lockstep/ops/conv_window_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/library_threads_internal.h"

namespace lockstep::ops {
namespace {

// ---- layouts ------------------------------------------------------------------------------------------------
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
}  // namespace

at::Tensor image_in(const at::Tensor& x, bool first) {
  return first ? x : x.permute(order_to_channels_first(static_cast<int>(x.dim())));
}
at::Tensor image_out(const at::Tensor& y, bool first) {
  return first ? y.contiguous() : y.permute(order_to_channels_last(static_cast<int>(y.dim()))).contiguous();
}
// [spatial…, I, O] to [O, I, spatial…].
at::Tensor kernel_in(const at::Tensor& kernel) {
  Ints order = {kernel.dim() - 1, kernel.dim() - 2};
  for (std::int64_t i = 0; i < kernel.dim() - 2; ++i) order.push_back(i);
  const at::Tensor view = kernel.permute(order);
  // LibTorch's loop for small and float64 images makes the gradient of a kernel with one output channel in the layout
  // of the kernel's strides, and then requires it to be contiguous.
  return kernel.size(-1) == 1 ? view.clone(at::MemoryFormat::Contiguous) : view;
}
at::Tensor pad_image(const at::Tensor& x, const Ints& before, const Ints& after) {
  Ints amounts;
  for (std::size_t i = before.size(); i-- > 0;) amounts.push_back(before[i]), amounts.push_back(after[i]);
  return at::constant_pad_nd(x, amounts);
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& kernel, const std::optional<at::Tensor>& bias,
                    const ConvWindow& w) {
  const at::Tensor padded = w.same_padding_both_sides() ? x : pad_image(x, w.before, w.after);
  const Ints padding = w.same_padding_both_sides() ? w.before : Ints(w.before.size(), 0);
  return at::convolution(padded, kernel, bias, w.strides, padding, w.dilations, false, Ints(w.before.size(), 0),
                         w.groups);
}

std::int64_t convolution_work(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  constexpr std::int64_t kProductsPerElement = 16;
  std::int64_t positions = x.size(0);
  for (auto dim : w.output) positions = mul_dims(positions, dim);
  return mul_dims(positions, kernel.numel()) / kProductsPerElement;
}

namespace {

bool is_channels_first(const Call& call) { return call.attr<std::string>("data_format").starts_with("NC"); }

Ints spatial_part(const Ints& all, bool channels_first, int spatial) {
  if (all.size() != static_cast<std::size_t>(spatial + 2))
    throw_invalid_argument(fmt::format("{} numbers where {} are needed", all.size(), spatial + 2));
  const std::size_t channel = channels_first ? 1 : all.size() - 1;
  if (all[0] != 1 || all[channel] != 1)
    throw_unimplemented("strides and dilations of the batch and of channels must be 1");
  const auto begin = all.begin() + (channels_first ? 2 : 1);
  return Ints(begin, begin + spatial);
}

Ints explicit_part(const Call& call) {
  const auto* paddings = call.find_attr<Ints>("explicit_paddings");
  return paddings ? *paddings : Ints{};
}

// `image` and `kernel` hold the spatial extents only; an unknown one stays unknown.
ConvWindow plan_window(const Call& call, const Ints& image, const Ints& kernel) {
  ConvWindow w;
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
      if (given.size() != static_cast<std::size_t>(2 * (w.spatial + 2)))
        throw_invalid_argument("explicit_paddings must name every axis");
      before = given[at], after = given[at + 1];
      if (before < 0 || after < 0) throw_invalid_argument("explicit_paddings must not be negative");
    }
    const std::int64_t out = kernel[n] == kUnknownDim ? kUnknownDim
                                                      : window_output(image[n], kernel[n], w.strides[n], w.dilations[n],
                                                                      padding, before, after);
    if (padding == "SAME" && out != kUnknownDim) {
      const std::int64_t total = same_padding(image[n], (kernel[n] - 1) * w.dilations[n] + 1, w.strides[n], out);
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
  if (depth % wanted != 0)
    throw_invalid_argument(fmt::format("input depth {} is not a multiple of the filter's {}", depth, wanted));
  if (out != kUnknownDim && out % (depth / wanted) != 0) {
    throw_invalid_argument(fmt::format("output depth {} is not a multiple of the {} groups", out, depth / wanted));
  }
}

template <int kSpatial>
Shapes conv_shape(const Call& call) {
  const Shape &x = call.input(0).shape(), &kernel = call.input(1).shape();
  if (!x.known_rank() || !kernel.known_rank()) return {Shape::unknown_rank()};
  if (x.rank() != kSpatial + 2 || kernel.rank() != kSpatial + 2)
    throw_invalid_argument(fmt::format("input and filter must have rank {}", kSpatial + 2));
  const bool first = is_channels_first(call);
  const bool depthwise = call.name() == "DepthwiseConv2dNative";
  if (!depthwise) check_channels(x, kernel, first);
  if (depthwise && x[first ? 1 : -1] != kernel[-2] && x[first ? 1 : -1] != kUnknownDim && kernel[-2] != kUnknownDim) {
    throw_invalid_argument(fmt::format("input depth {} differs from the filter's {}", x[first ? 1 : -1], kernel[-2]));
  }
  const ConvWindow w = plan_window(call, spatial_dims(x, first), kernel_dims(kernel));
  return {image_shape(x[0], w.output, depthwise ? mul_dims(kernel[-2], kernel[-1]) : kernel[-1], first)};
}

at::Tensor depthwise_kernel_in(const at::Tensor& kernel) {
  return kernel.permute({2, 3, 0, 1}).reshape({kernel.size(2) * kernel.size(3), 1, kernel.size(0), kernel.size(1)});
}

// Half and integers are computed in float32 and float64.
at::ScalarType compute_type(at::ScalarType type) {
  if (type == at::kFloat || type == at::kDouble) return type;
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : at::kDouble;
}

}  // namespace

at::Tensor plain_convolution(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w, bool depthwise) {
  const Ints out = image_shape(x.size(0), w.output, depthwise ? kernel.size(-2) * kernel.size(-1) : kernel.size(-1),
                               w.channels_first)
                       .dims();
  for (auto dim : out) {
    // No values; the gradients of the operands are zeros.
    if (dim == 0) return at::zeros(out, x.options()) + (x.sum() + kernel.sum()).to(x.scalar_type()) * 0;
  }
  const LibraryThreads threads(convolution_work(x, kernel, w));
  const auto type = x.scalar_type(), as = compute_type(type);
  const at::Tensor weights = depthwise ? depthwise_kernel_in(kernel.to(as)) : kernel_in(kernel.to(as));
  return narrow_to(image_out(convolve(image_in(x.to(as), w.channels_first), weights, {}, w), w.channels_first), type);
}

namespace {

// Zero-size results and other types take the plain path.
bool can_fuse(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  if (x.scalar_type() != at::kFloat || kernel.scalar_type() != at::kFloat || w.channels_first || x.numel() == 0 ||
      kernel.numel() == 0)
    return false;
  return w.output[0] > 0 && w.output[1] > 0;
}

Tensors conv2d(const Call& call) {
  conv_shape<2>(call);
  const at::Tensor &x = in(call, 0), &kernel = in(call, 1);
  ConvWindow w = plan_window(call, spatial_dims(call.input(0).shape(), is_channels_first(call)),
                             kernel_dims(call.input(1).shape()));
  if (can_fuse(x, kernel, w)) return one(fused_conv(x, kernel, {}, false, std::move(w)));
  w.groups = x.size(w.channels_first ? 1 : 3) / std::max<std::int64_t>(1, kernel.size(2));
  return one(plain_convolution(x, kernel, w, false));
}
Tensors depthwise(const Call& call) {
  conv_shape<2>(call);
  ConvWindow w = plan_window(call, spatial_dims(call.input(0).shape(), is_channels_first(call)),
                             kernel_dims(call.input(1).shape()));
  const at::Tensor &x = in(call, 0), &kernel = in(call, 1);
  w.groups = kernel.size(2);
  if (can_fuse(x, kernel, w) && x.is_cpu()) return one(direct_depthwise(x, kernel, w));
  return one(plain_convolution(x, kernel, w, true));
}
at::Tensor volume_convolution(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  if (auto own = try_volume_conv(x, kernel, w)) return *std::move(own);
  return plain_convolution(x, kernel, w, false);
}

// The volume without the cells before the first window, and the window there. As in TensorFlow, windows of SAME volumes
// that steps skip start half of the spare cells late; those of groups and with dilations do not.
at::Tensor without_first_cells(at::Tensor x, ConvWindow& w) {
  for (int i = 0; i < w.spatial; ++i) {
    const auto n = static_cast<std::size_t>(i);
    const std::int64_t late = (w.input[n] - (w.output[n] - 1) * w.strides[n] - w.kernel[n]) / 2;
    if (w.output[n] < 1 || late < 1) continue;
    x = x.slice(i + (w.channels_first ? 2 : 1), late);
    w.input[n] -= late;
  }
  return x;
}

// The values of `late` with the gradients of `early`: TensorFlow's gradients are those of windows that start at the
// first cell.
struct LateStart : torch::autograd::Function<LateStart> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor&, const at::Tensor& late) {
    return late.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list dy) {
    return {dy[0], at::Tensor()};
  }
};

Tensors conv3d(const Call& call) {
  conv_shape<3>(call);
  const at::Tensor &x = in(call, 0), &kernel = in(call, 1);
  ConvWindow w = plan_window(call, spatial_dims(call.input(0).shape(), is_channels_first(call)),
                             kernel_dims(call.input(1).shape()));
  w.groups = x.size(w.channels_first ? 1 : 4) / std::max<std::int64_t>(1, kernel.size(3));
  const bool may_be_late = call.attr<std::string>("padding") == "SAME" && w.groups == 1 && w.dilations == Ints{1, 1, 1};
  ConvWindow late = w;
  const at::Tensor rest = may_be_late ? without_first_cells(x, late) : x;
  if (late.input == w.input) return one(volume_convolution(x, kernel, w));
  if (!at::GradMode::is_enabled() || !(x.requires_grad() || kernel.requires_grad()))
    return one(volume_convolution(rest.contiguous(), kernel, late));
  const at::Tensor early = volume_convolution(x, kernel, w);
  const at::NoGradGuard no_gradients;
  const at::Tensor values = volume_convolution(rest.contiguous(), kernel, late);
  const at::AutoGradMode gradients(true);
  return one(LateStart::apply(early, values));
}

// ---- gradients as separate operations ---------------------------------------------------------------
// Images, filters and their gradients have 4 axes in the operations of 2D, 5 in those of 3D.
void require_rank(const Call& call, std::string_view what, const Shape& shape) {
  const int rank = call.name().starts_with("Conv3D") ? 5 : 4;
  if (shape.known_rank() && shape.rank() != rank)
    throw_invalid_argument(fmt::format("{} must have {} axes, found shape {}", what, rank, shape.to_string()));
}

// input_sizes may name height and width only.
Shape whole_input_sizes(const Call& call, const Shape& sizes, int spatial) {
  const Shape &kernel = call.input(1).shape(), &dy = call.input(2).shape();
  if (sizes.rank() != spatial || !kernel.known_rank() || !dy.known_rank()) return sizes;
  const bool depthwise = call.name().starts_with("Depthwise");
  return image_shape(dy[0], sizes.dims(), kernel[-2], is_channels_first(call) && !depthwise);
}

Shapes backprop_input_shape(const Call& call) {
  require_rank(call, "filter", call.input(1).shape());
  require_rank(call, "out_backprop", call.input(2).shape());
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

// The window of the convolution whose input has the shape that input 0 of `call` names.
ConvWindow transposed_window(const Call& call) {
  require_rank(call, "filter", call.input(1).shape());
  require_rank(call, "out_backprop", call.input(2).shape());
  const at::Tensor &kernel = in(call, 1), &dy = in(call, 2);
  const int spatial = static_cast<int>(kernel.dim()) - 2;
  const Shape sizes = whole_input_sizes(call, Shape(ints_in(call, 0)), spatial);
  const bool first = is_channels_first(call), depthwise = call.name().starts_with("Depthwise");
  if (sizes.rank() != spatial + 2 || dy.dim() != spatial + 2)
    throw_invalid_argument(fmt::format("input_sizes and out_backprop must have {} axes", spatial + 2));
  ConvWindow w = plan_window(call, spatial_dims(sizes, first), kernel_dims(call.input(1).shape()));
  const Ints given = spatial_dims(call.input(2).shape(), first);
  if (w.output != given || dy.size(0) != sizes[0]) {
    throw_invalid_argument(fmt::format("out_backprop has size {}, the sizes given make {}", Shape(given).to_string(),
                                       Shape(w.output).to_string()));
  }
  if (!depthwise && dy.size(first ? 1 : -1) != kernel.size(-1)) {
    throw_invalid_argument(
        fmt::format("out_backprop has {} channels, the filter {}", dy.size(first ? 1 : -1), kernel.size(-1)));
  }
  w.groups = depthwise ? kernel.size(-2) : sizes[first ? 1 : -1] / std::max<std::int64_t>(1, kernel.size(-2));
  return w;
}

}  // namespace

at::Tensor plain_transposed(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w, bool depthwise) {
  const auto as = compute_type(x.scalar_type());
  // LibTorch's gradient of a transposed convolution is laid out as its kernel, and must be contiguous.
  const at::Tensor weights = (depthwise ? depthwise_kernel_in(kernel.to(as)) : kernel_in(kernel.to(as))).contiguous();
  const Ints none(w.strides.size(), 0);
  const LibraryThreads threads(convolution_work(x, kernel, w));
  at::Tensor full = at::convolution(image_in(x.to(as), w.channels_first), weights, {}, w.strides, none, w.dilations,
                                    true, none, w.groups);
  Ints amounts;
  for (int i = w.spatial - 1; i >= 0; --i) {
    const auto n = static_cast<std::size_t>(i);
    amounts.push_back(-w.before[n]);
    amounts.push_back(w.input[n] + w.before[n] - full.size(i + 2));
  }
  full = at::constant_pad_nd(full, amounts);
  return narrow_to(image_out(full, w.channels_first), x.scalar_type());
}

namespace {

// A transposed convolution of images, plus a bias, then relu if asked. Inputs: images, kernel, bias or none.
class TransposedConv : public Composite {
 public:
  TransposedConv(ConvWindow window, bool relu) : window_(std::move(window)), relu_(relu) {}

  Made forward(const Values& inputs, bool) const override {
    return {{direct_transposed(inputs[0], inputs[1], inputs[2], relu_, window_)}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const Gradients made = direct_transposed_backward(
        recorded.inputs[0], recorded.inputs[1], relu_ ? recorded.outputs[0] : at::Tensor(), dys[0], window_,
        {.images = recorded.wanted[0], .kernel = recorded.wanted[1], .bias = recorded.wanted[2]});
    return {made.images, made.kernel, made.bias};
  }
  Values plain(const Values& inputs) const override {
    at::Tensor y = plain_transposed(inputs[0], inputs[1], window_, false);
    if (inputs[2].defined()) y = y + inputs[2];
    return {relu_ ? at::relu(y) : y};
  }

 private:
  ConvWindow window_;
  bool relu_;
};

bool has_direct_transposed(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  return w.spatial == 2 && can_fuse(x, kernel, w) && has_direct_adjoint(kernel, w) && x.is_cpu();
}

Tensors backprop_input(const Call& call) {
  const ConvWindow w = transposed_window(call);
  const bool depthwise = call.name().starts_with("Depthwise");
  const at::Tensor &kernel = in(call, 1), &dy = in(call, 2);
  const std::int64_t channels = depthwise ? kernel.size(-2) : kernel.size(-2) * w.groups;
  const Ints sizes = image_shape(dy.size(0), w.input, channels, w.channels_first).dims();
  if (dy.numel() == 0 || *Shape(sizes).num_elements() == 0) return one(at::zeros(sizes, dy.options()));
  if (!depthwise && w.spatial == 3) {
    if (auto own = try_volume_transposed(dy, kernel, w)) return one(*std::move(own));
  }
  if (!depthwise && has_direct_transposed(dy, kernel, w))
    return one(run(std::make_shared<TransposedConv>(w, false), {dy, kernel, at::Tensor()})[0]);
  return one(plain_transposed(dy, kernel, w, depthwise));
}

Tensors backprop_filter(const Call& call) {
  const at::Tensor &x = in(call, 0), &dy = in(call, 2);
  const Shape sizes(ints_in(call, 1));
  require_rank(call, "input", call.input(0).shape());
  require_rank(call, "filter_sizes", sizes);
  require_rank(call, "out_backprop", call.input(2).shape());
  const bool first = is_channels_first(call), depthwise = call.name().starts_with("Depthwise");
  ConvWindow w = plan_window(call, spatial_dims(call.input(0).shape(), first), kernel_dims(sizes));
  const std::int64_t channels = x.size(first ? 1 : -1);
  w.groups = depthwise ? sizes[-2] : channels / std::max<std::int64_t>(1, sizes[-2]);
  if (depthwise ? sizes[-2] != channels : sizes[-2] < 1 || channels % sizes[-2] != 0)
    throw_invalid_argument(
        fmt::format("the input has {} channels, the filter {} takes {}", channels, sizes.to_string(), sizes[-2]));
  Shape expected = call.input(0).shape();
  for (int i = 0; i < w.spatial; ++i) expected[i + (first ? 2 : 1)] = w.output[static_cast<std::size_t>(i)];
  expected[first ? 1 : -1] = depthwise ? channels * sizes[-1] : sizes[-1];
  if (call.input(2).shape() != expected)
    throw_invalid_argument(
        fmt::format("out_backprop has shape {}, expected {}", call.input(2).shape().to_string(), expected.to_string()));
  if (dy.numel() == 0) return one(at::zeros(sizes.dims(), dy.options()));
  const bool recorded = at::GradMode::is_enabled() && (x.requires_grad() || dy.requires_grad());
  if (!depthwise && !recorded && w.spatial == 2 && w.groups == 1 && can_fuse(x, dy, w)) {
    const at::Tensor kernel = at::empty(sizes.dims(), dy.options());
    return one(direct_backward(x, kernel, {}, dy, w, nullptr, {.kernel = true}).kernel);
  }
  if (!recorded && w.spatial == 3 && !first && w.groups == 1) {
    if (auto own = try_volume_kernel_gradient(x, dy, w, sizes.dims())) return one(*std::move(own));
  }
  const auto as = compute_type(dy.scalar_type());
  const at::Tensor zeros = at::zeros(sizes.dims(), dy.options().dtype(as));
  const at::Tensor weights = depthwise ? depthwise_kernel_in(zeros) : kernel_in(zeros);
  const at::Tensor dk = std::get<1>(
      at::convolution_backward(image_in(dy.to(as), first), pad_image(image_in(x.to(as), first), w.before, w.after),
                               weights, at::OptionalIntArrayRef(), w.strides, Ints(w.before.size(), 0), w.dilations,
                               false, Ints(w.before.size(), 0), w.groups, {false, true, false}));
  if (depthwise)
    return one(narrow_to(dk.reshape({sizes[2], sizes[3], sizes[0], sizes[1]}).permute({2, 3, 0, 1}).contiguous(),
                         dy.scalar_type()));
  Ints order;
  for (std::int64_t i = 2; i < dk.dim(); ++i) order.push_back(i);
  order.push_back(1), order.push_back(0);
  return one(narrow_to(dk.permute(order).contiguous(), dy.scalar_type()));
}

}  // namespace

std::optional<Tensor> try_conv2d_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool relu,
                                          const Attrs& attrs) {
  if (!x.is_value() || !kernel.is_value() || (bias.defined() && !bias.is_value())) return std::nullopt;
  if (x.rank() != 4 || kernel.rank() != 4 || x.dtype() != DType::kFloat32 || kernel.dtype() != DType::kFloat32)
    return std::nullopt;
  if (bias.defined() && (bias.dtype() != DType::kFloat32 || bias.rank() != 1 || bias.dim(0) != kernel.dim(3)))
    return std::nullopt;
  static const Op& op = Table::instance().at("Conv2D");
  const std::vector<Tensor> inputs = {x, kernel};
  const Call call(*op.signature, inputs, attrs);
  if (is_channels_first(call)) return std::nullopt;
  conv_shape<2>(call);
  ConvWindow w = plan_window(call, spatial_dims(x.shape(), false), kernel_dims(kernel.shape()));
  if (!can_fuse(aten(x), aten(kernel), w)) return std::nullopt;
  return wrap(fused_conv(aten(x), aten(kernel), bias.defined() ? aten(bias) : at::Tensor(), relu, std::move(w)));
}

std::optional<Tensor> try_conv2d_transpose_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& output_shape,
                                                    const Tensor& bias, bool relu, const Attrs& attrs) {
  if (!x.is_value() || !kernel.is_value() || !output_shape.is_value() || x.rank() != 4 || kernel.rank() != 4)
    return std::nullopt;
  if (bias.defined() &&
      (!bias.is_value() || bias.dtype() != DType::kFloat32 || bias.rank() != 1 || bias.dim(0) != kernel.dim(2)))
    return std::nullopt;
  static const Op& op = Table::instance().at("Conv2DBackpropInput");
  const std::vector<Tensor> inputs = {output_shape, kernel, x};
  const Call call(*op.signature, inputs, attrs);
  ConvWindow w = transposed_window(call);
  if (!has_direct_transposed(aten(x), aten(kernel), w)) return std::nullopt;
  return wrap(run(std::make_shared<TransposedConv>(std::move(w), relu),
                  {aten(x), aten(kernel), bias.defined() ? aten(bias) : at::Tensor()})[0]);
}

void register_conv(Table& table) {
  table.add("Conv2D", conv_shape<2>, conv2d);
  table.add("DepthwiseConv2dNative", conv_shape<2>, depthwise);
  table.add("Conv3D", conv_shape<3>, conv3d);
  for (auto name : {"Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput"})
    table.add(name, backprop_input_shape, backprop_input);
  for (auto name : {"Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter"})
    table.add(name, shape_of_input(1), backprop_filter);
}

}  // namespace lockstep::ops
