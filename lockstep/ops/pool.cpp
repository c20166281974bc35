// Pooling. Float32 images in NHWC have their own loops (direct_internal.h); the rest goes through LibTorch.
#include <algorithm>
#include <limits>

#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/conv_pool_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

struct Window {
  bool channels_first = false;
  int spatial = 2;
  Ints size, strides, before, after, input, output;
  std::int64_t channel_size = 1, channel_stride = 1;
};

// The loops store the place of a maximum within its window as one byte.
constexpr std::int64_t kMostCells = 255;
constexpr std::int64_t kPieceFloats = 1 << 16;  // some ten microseconds

// `before` and `after` are those of the padding EXPLICIT. Where steps are longer than windows, SAME may have cells to
// spare. TensorFlow starts images at the first cell, and volumes half of the spare cells later: a negative padding.
void add_axis(Window& w, std::int64_t in, std::int64_t size, std::int64_t stride, const std::string& padding,
              std::int64_t before = 0, std::int64_t after = 0) {
  const std::int64_t out = window_output(in, size, stride, 1, padding, before, after);
  if (padding == "SAME" && out != kUnknownDim) {
    const std::int64_t total = (out - 1) * stride + size - in;
    before = (w.spatial == 3 ? total : std::max<std::int64_t>(total, 0)) / 2;
    after = std::max<std::int64_t>(total - before, 0);
  }
  w.size.push_back(size), w.strides.push_back(stride), w.input.push_back(in), w.output.push_back(out);
  w.before.push_back(before), w.after.push_back(after);
}

Window plan_window(const Call& call, const Shape& x) {
  Window w;
  w.channels_first =
      call.signature().find_attr("data_format") && call.attr<std::string>("data_format").starts_with("NC");
  w.spatial = x.rank() - 2;
  const Ints &size = call.attr<Ints>("ksize"), &strides = call.attr<Ints>("strides");
  if (size.size() != static_cast<std::size_t>(x.rank()) || strides.size() != size.size())
    throw_invalid_argument("ksize and strides need one number for each axis");
  const std::size_t channel = w.channels_first ? 1 : size.size() - 1;
  if (size[0] != 1 || strides[0] != 1) throw_unimplemented("pooling over the batch");
  w.channel_size = size[channel], w.channel_stride = strides[channel];
  const std::string& padding = call.attr<std::string>("padding");
  const Ints* given = call.find_attr<Ints>("explicit_paddings");
  if (padding != "EXPLICIT" && given != nullptr && !given->empty())
    throw_invalid_argument("explicit_paddings requires padding EXPLICIT");
  const std::size_t start = w.channels_first ? 2 : 1;
  for (std::size_t i = start; i < start + static_cast<std::size_t>(w.spatial); ++i) {
    std::int64_t before = 0, after = 0;
    const std::int64_t in = x[static_cast<int>(i)];
    if (padding == "EXPLICIT") {
      const Ints& amounts = call.attr<Ints>("explicit_paddings");
      if (amounts.size() != 2 * size.size()) throw_invalid_argument("explicit_paddings must name every axis");
      before = amounts[2 * i], after = amounts[2 * i + 1];
    }
    add_axis(w, in, size[i], strides[i], padding, before, after);
  }
  return w;
}

Shapes pool_shape(const Call& call) {
  const int rank = call.name().find("3D") != std::string::npos ? 5 : 4;
  Shape out = call.input(0).shape();
  if (!out.known_rank()) return {Shape(Ints(static_cast<std::size_t>(rank), kUnknownDim))};
  if (out.rank() != rank) throw_invalid_argument(fmt::format("the input must have rank {}", rank));
  const Window w = plan_window(call, out);
  for (int i = 0; i < w.spatial; ++i) out[i + (w.channels_first ? 2 : 1)] = w.output[static_cast<std::size_t>(i)];
  std::int64_t& channels = out[w.channels_first ? 1 : -1];
  if (channels != kUnknownDim && w.channel_size > 1) channels /= w.channel_size;
  return {out};
}

at::Tensor to_channels_first(const at::Tensor& x, bool first) {
  if (first) return x;
  return x.dim() == 4 ? x.permute({0, 3, 1, 2}) : x.permute({0, 4, 1, 2, 3});
}
at::Tensor from_channels_first(const at::Tensor& y, bool first) {
  if (first) return y.contiguous();
  return (y.dim() == 4 ? y.permute({0, 2, 3, 1}) : y.permute({0, 2, 3, 4, 1})).contiguous();
}
Ints pad_list(const Window& w) {
  Ints amounts;
  for (std::size_t i = w.before.size(); i-- > 0;) amounts.push_back(w.before[i]), amounts.push_back(w.after[i]);
  return amounts;
}

// Whether windows of a volume start after its first cells.
bool starts_late(const Window& w) {
  return w.spatial == 3 && std::any_of(w.before.begin(), w.before.end(), [](std::int64_t n) { return n < 0; });
}
// TensorFlow's gradients of such windows are those of windows that start at the first cell.
Window at_first_cells(Window w) {
  for (std::int64_t& before : w.before) before = std::max<std::int64_t>(before, 0);
  return w;
}

// ---- max -------------------------------------------------------------------------------------------------
WindowGeometry geometry(const Window& w, std::int64_t channels) {
  WindowGeometry g;
  g.height = w.input[0], g.width = w.input[1], g.channels = channels;
  g.window_h = w.size[0], g.window_w = w.size[1], g.stride_h = w.strides[0], g.stride_w = w.strides[1];
  g.pad_top = w.before[0], g.pad_left = w.before[1], g.pad_bottom = w.after[0], g.pad_right = w.after[1];
  g.out_h = w.output[0], g.out_w = w.output[1], g.out_channels = channels;
  return g;
}

// Images of so many floats for which a thread is worth waking.
std::int64_t images_of_piece(std::int64_t floats) {
  return std::max<std::int64_t>(1, kPieceFloats / std::max<std::int64_t>(floats, 1));
}

at::Tensor run_forward(const at::Tensor& x, const WindowGeometry& g, at::Tensor* which) {
  const at::Tensor images = x.contiguous();
  at::Tensor y = at::empty({x.size(0), g.out_h, g.out_w, g.channels}, x.options());
  if (which) *which = at::empty(y.sizes(), at::kByte);
  const float* from = images.const_data_ptr<float>();
  float* to = y.mutable_data_ptr<float>();
  std::uint8_t* marks = which ? which->mutable_data_ptr<std::uint8_t>() : nullptr;
  const std::int64_t in_size = g.height * g.width * g.channels, out_size = g.out_h * g.out_w * g.channels;
  parallel_for(0, x.size(0), images_of_piece(in_size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      direct_kernels().max_pool_forward(g, from + n * in_size, to + n * out_size,
                                        marks ? marks + n * out_size : nullptr);
  });
  return y;
}

struct MaxPoolNode : torch::autograd::Function<MaxPoolNode> {
  // `y` and `which` are already computed from x.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor&, const at::Tensor& y,
                            const at::Tensor& which, const WindowGeometry& g) {
    context->save_for_backward({which});
    context->saved_data["geometry"] = c10::IValue(pack_geometry(g));
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list dys) {
    const at::Tensor which = context->get_saved_variables()[0];
    const WindowGeometry g = unpack_geometry(context->saved_data["geometry"].toIntVector());
    if (at::GradMode::is_enabled()) return {differentiable(dys[0], which, g), at::Tensor(), at::Tensor(), at::Tensor()};
    const at::Tensor dy = dys[0].contiguous();
    at::Tensor dx = at::empty({dy.size(0), g.height, g.width, g.channels}, dy.options());
    const float* from = dy.const_data_ptr<float>();
    const std::uint8_t* marks = which.const_data_ptr<std::uint8_t>();
    float* to = dx.mutable_data_ptr<float>();
    const std::int64_t in_size = g.height * g.width * g.channels, out_size = g.out_h * g.out_w * g.channels;
    parallel_for(0, dy.size(0), images_of_piece(in_size), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n)
        direct_kernels().max_pool_backward(g, from + n * out_size, marks + n * out_size, to + n * in_size);
    });
    return {dx, at::Tensor(), at::Tensor(), at::Tensor()};
  }
  // The same as a scatter that autograd knows, for gradients of gradients.
  static at::Tensor differentiable(const at::Tensor& dy, const at::Tensor& which, const WindowGeometry& g) {
    const at::Tensor cell = which.to(at::kLong);
    const at::Tensor y =
        at::arange(g.out_h).view({1, -1, 1, 1}) * g.stride_h - g.pad_top + at::div(cell, g.window_w, "floor");
    const at::Tensor x =
        at::arange(g.out_w).view({1, 1, -1, 1}) * g.stride_w - g.pad_left + at::remainder(cell, g.window_w);
    const at::Tensor index = (y * g.width + x) * g.channels + at::arange(g.channels).view({1, 1, 1, -1});
    const std::int64_t n = dy.size(0);
    return at::zeros({n, g.height * g.width * g.channels}, dy.options())
        .scatter_add(1, index.reshape({n, -1}), dy.reshape({n, -1}))
        .view({n, g.height, g.width, g.channels});
  }
};

bool is_recorded(const at::Tensor& x) { return x.requires_grad() && at::GradMode::is_enabled(); }

at::Tensor depthwise_max(const at::Tensor& x, const Window& w) {
  const std::int64_t axis = w.channels_first ? 1 : x.dim() - 1, groups = x.size(axis) / w.channel_size;
  if (w.channel_size != w.channel_stride || x.size(axis) % w.channel_size != 0) {
    throw_unimplemented("depthwise max pooling needs the stride of the window, and channels divisible by it");
  }
  Ints shape = x.sizes().vec();
  shape[static_cast<std::size_t>(axis)] = groups;
  shape.insert(shape.begin() + axis + 1, w.channel_size);
  return x.reshape(shape).amax(axis + 1);
}

// The values of `y`, whose gradient goes to all cells of the same value in each window of `images` [n, channels, …], as
// in TensorFlow for volumes.
at::Tensor with_gradient_of(const at::Tensor& images, const at::Tensor& y, const Window& w) {
  const auto adjoint = [cells = images.detach(), best = y.detach(), w](const Tensor& given) {
    const at::Tensor& dy = dense(given);
    at::Tensor dx = at::zeros(cells.sizes(), dy.options());
    Ints first(w.size.size(), 0);
    const auto of_windows = [&](at::Tensor x) {
      for (std::size_t i = 0; i < first.size(); ++i)
        x = x.slice(static_cast<std::int64_t>(i) + 2, first[i], first[i] + (w.output[i] - 1) * w.strides[i] + 1,
                    w.strides[i]);
      return x;
    };
    for (bool more = true; more;) {
      of_windows(dx).add_(at::where(of_windows(cells) == best, dy, at::zeros({}, dy.options())));
      more = false;
      for (std::size_t i = first.size(); !more && i-- > 0;) {
        first[i] = (first[i] + 1) % w.size[i];
        more = first[i] != 0;
      }
    }
    return wrap(dx);
  };
  return dense(with_adjoint(wrap(images), wrap(y), adjoint));
}

// The largest value of each window and its index, of NHWC images of any type. As TensorFlow: cells are visited in
// order, the first one inside the image starts, a larger one replaces it; so NaN stays where it starts and else never
// wins.
struct Largest {
  at::Tensor value, index;  // the index counts rows, columns and channels of one image
};
Largest largest_cells(const at::Tensor& x, const Window& w) {
  const at::Tensor key = ordered(x), images = key.detach();
  const std::int64_t height = x.size(1), width = x.size(2), channels = x.size(3);
  const at::Tensor padded = at::constant_pad_nd(images, {0, 0, w.before[1], w.after[1], w.before[0], w.after[0]});
  const at::Tensor top = at::arange(w.output[0], at::kLong).view({-1, 1}) * w.strides[0] - w.before[0];
  const at::Tensor left = at::arange(w.output[1], at::kLong).view({1, -1}) * w.strides[1] - w.before[1];
  at::Tensor best, cell;
  for (std::int64_t i = 0; i < w.size[0]; ++i) {
    for (std::int64_t j = 0; j < w.size[1]; ++j) {
      const auto along = [&](const at::Tensor& from, std::int64_t axis, std::int64_t begin) {
        const auto n = static_cast<std::size_t>(axis - 1);
        return from.slice(axis, begin, begin + (w.output[n] - 1) * w.strides[n] + 1, w.strides[n]);
      };
      const at::Tensor here = along(along(padded, 1, i), 2, j), row = top + i, column = left + j;
      const at::Tensor inside =
          at::logical_and(at::logical_and(row >= 0, row < height), at::logical_and(column >= 0, column < width))
              .unsqueeze(-1);
      const at::Tensor place = (row * width + column).unsqueeze(-1).expand(here.sizes());
      if (!best.defined()) best = here.clone(), cell = at::full(here.sizes(), -1, at::kLong);
      const at::Tensor take = at::logical_and(inside, at::logical_or(cell<0, here> best));
      best = at::where(take, here, best);
      cell = at::where(take, place, cell);
    }
  }
  const std::int64_t n = x.size(0);
  const at::Tensor index = cell * channels + at::arange(channels, at::kLong);
  const at::Tensor chosen = key.reshape({n, -1}).gather(1, index.reshape({n, -1})).view(index.sizes());
  return {from_ordered(chosen, x.scalar_type()), index};
}

// Any type and rank, padded with the lowest value; neither NaN nor the lowest value is selected over others.
at::Tensor general_max(const at::Tensor& x, const Window& w) {
  const auto type = x.scalar_type();
  const auto as = type == at::kFloat || type == at::kDouble ? type : (is_float(x) ? at::kFloat : at::kDouble);
  at::Tensor images = to_channels_first(x.to(as), w.channels_first);
  const double lowest = lowest_number(type);
  images = at::where(images > lowest, images, at::full({}, lowest, images.options()));
  const at::Tensor padded = at::constant_pad_nd(images, pad_list(w), lowest);
  at::Tensor y = w.spatial == 2 ? at::max_pool2d(padded, w.size, w.strides) : at::max_pool3d(padded, w.size, w.strides);
  if (w.spatial == 3 && is_recorded(images))
    y = with_gradient_of(at::constant_pad_nd(images, pad_list(at_first_cells(w)), lowest), y, w);
  y = narrow_to(from_channels_first(y, w.channels_first), type);
  if (w.spatial == 3 || w.channels_first || !is_recorded(x) || (x.detach() > lowest).all().item<bool>()) return y;
  // A window whose first element is NaN, or that has none above the lowest number, gives its gradient to the first one.
  const auto adjoint = [index = largest_cells(x.detach(), w).index, sizes = x.sizes().vec()](const Tensor& dy) {
    const std::int64_t n = sizes[0];
    const at::Tensor none = at::zeros({n, sizes[1] * sizes[2] * sizes[3]}, dense(dy).options());
    return wrap(none.scatter_add(1, index.reshape({n, -1}), dense(dy).reshape({n, -1})).view(sizes));
  };
  return dense(with_adjoint(wrap(x), wrap(y.detach()), adjoint));
}

// Some axes of a window over volumes.
Window axes_of(const Window& window, std::size_t first, std::size_t count) {
  const auto of = [&](const Ints& all) {
    return Ints(all.begin() + static_cast<std::ptrdiff_t>(first),
                all.begin() + static_cast<std::ptrdiff_t>(first + count));
  };
  Window axes;
  axes.size = of(window.size), axes.strides = of(window.strides), axes.before = of(window.before);
  axes.after = of(window.after), axes.input = of(window.input), axes.output = of(window.output);
  return axes;
}

// Along the depth, of images [depth, positions of the images' results].
Window along_depth(const Window& window) {
  Window depth = axes_of(window, 0, 1);
  const std::int64_t positions = window.output[1] * window.output[2];
  depth.size.push_back(1), depth.strides.push_back(1), depth.before.push_back(0), depth.after.push_back(0);
  depth.input.push_back(positions), depth.output.push_back(positions);
  return depth;
}

// The maxima of float32 volumes [n, depth, height, width, channels]: within each image of the depth, then along the
// depth.
class VolumeMax : public Composite {
 public:
  explicit VolumeMax(Window window) : window_(std::move(window)) {}

  Made forward(const Values& inputs, bool) const override { return {{maxima(inputs[0].contiguous())}, {}}; }
  // Each image of x separately, so that threads do not share images.
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), dy = dys[0].contiguous();
    const at::Tensor& y = recorded.outputs[0];
    const WindowGeometry g = geometry(axes_of(window_, 1, 2), x.size(4));
    const std::int64_t size = g.height * g.width * g.channels, out_size = g.out_h * g.out_w * g.channels;
    const std::int64_t depth = window_.input[0], out_depth = window_.output[0];
    at::Tensor dx = at::empty(x.sizes(), x.options());
    const float *const cells = x.const_data_ptr<float>(), *const best = y.const_data_ptr<float>(),
                       *const given = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, x.size(0) * depth, images_of_piece(size), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t image = begin; image < end; ++image) {
        std::fill_n(to + image * size, size, 0.0f);
        for (std::int64_t out = 0; out < out_depth; ++out) {
          const std::int64_t first = out * window_.strides[0] - window_.before[0], at = image % depth - first;
          if (at < 0 || at >= window_.size[0]) continue;
          const std::int64_t from = (image / depth * out_depth + out) * out_size;
          direct_kernels().equal_cells_gradient(g, cells + image * size, best + from, given + from, to + image * size);
        }
      }
    });
    return {dx};
  }
  Values plain(const Values& inputs) const override {
    const at::Tensor &x = inputs[0], y = maxima(x.detach().contiguous());
    if (!is_recorded(x)) return {y};
    const at::Tensor images =
        at::constant_pad_nd(to_channels_first(x, false), pad_list(window_), std::numeric_limits<float>::lowest());
    return {from_channels_first(with_gradient_of(images, to_channels_first(y, false), window_), false)};
  }

 private:
  at::Tensor maxima(const at::Tensor& x) const {
    const Window& w = window_;
    const std::int64_t n = x.size(0), channels = x.size(4), positions = w.output[1] * w.output[2];
    const at::Tensor images =
        run_forward(x.view({-1, x.size(2), x.size(3), channels}), geometry(axes_of(window_, 1, 2), channels), nullptr);
    const at::Tensor y =
        run_forward(images.view({n, x.size(1), positions, channels}), geometry(along_depth(w), channels), nullptr);
    return y.view({n, w.output[0], w.output[1], w.output[2], channels});
  }

  Window window_;
};

Tensors max_pool(const Call& call) {
  const Shape out = pool_shape(call)[0];
  const at::Tensor& x = in(call, 0);
  const Window w = plan_window(call, call.input(0).shape());
  if (*out.num_elements() == 0) return one(at::zeros(out.dims(), x.options()));
  if (w.channel_size > 1) return one(depthwise_max(x, w));
  if (at::isIntegralType(x.scalar_type(), false) && w.spatial == 2 && !w.channels_first)
    return one(largest_cells(x, w).value);
  if (x.scalar_type() != at::kFloat || w.channels_first || w.size.end()[-2] * w.size.back() > kMostCells)
    return one(general_max(x, w));
  if (w.spatial == 3 && w.size[0] <= kMostCells && x.is_cpu() && !starts_late(w))
    return one(run(std::make_shared<VolumeMax>(w), {x})[0]);
  if (w.spatial == 3) return one(general_max(x, w));
  const WindowGeometry g = geometry(w, x.size(3));
  if (!is_recorded(x)) return one(run_forward(x, g, nullptr));
  at::Tensor y, which;
  if (auto shared = take_shared_pool(x, g)) {
    y = std::move(shared->y), which = std::move(shared->which);
  } else {
    y = run_forward(x, g, &which);
  }
  if (auto joined = try_join_pool(x, g, y, which)) return one(*joined);
  return one(MaxPoolNode::apply(x, y, which, g));
}

Tensors max_pool_with_argmax(const Call& call) {
  const Shape out = pool_shape(call)[0];
  const at::Tensor& x = in(call, 0);
  const Window w = plan_window(call, call.input(0).shape());
  if (w.channel_size > 1) throw_unimplemented("MaxPoolWithArgmax over channels");
  const at::ScalarType type = to_scalar_type(call.attr<DType>("Targmax"));
  if (*out.num_elements() == 0) return {wrap(at::zeros(out.dims(), x.options())), wrap(at::zeros(out.dims(), type))};
  auto [value, index] = largest_cells(x, w);
  if (call.attr<bool>("include_batch_in_index"))
    index = index + at::arange(x.size(0), at::kLong).view({-1, 1, 1, 1}) * (x.size(1) * x.size(2) * x.size(3));
  return {wrap(value), wrap(index.to(type))};
}

// ---- average ---------------------------------------------------------------------------------------------
// How many cells of each window lie inside the input, [out…] in the spatial axes.
at::Tensor cell_counts(const Window& w, const at::TensorOptions& options) {
  at::Tensor counts = at::ones({}, options);
  for (std::size_t i = 0; i < w.size.size(); ++i) {
    const at::Tensor begin = at::arange(w.output[i], options) * w.strides[i] - w.before[i];
    const at::Tensor inside = at::clamp_max(begin + w.size[i], w.input[i]) - at::clamp_min(begin, 0);
    counts = counts.unsqueeze(-1) * inside;
  }
  return counts;
}

at::Tensor general_average(const at::Tensor& x, const Window& w) {
  const auto type = x.scalar_type(), as = type == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor images = to_channels_first(x.to(as), w.channels_first);
  const auto some = [](std::int64_t amount) { return amount != 0; };
  const bool padded =
      std::any_of(w.before.begin(), w.before.end(), some) || std::any_of(w.after.begin(), w.after.end(), some);
  if (padded) images = at::constant_pad_nd(images, pad_list(w));
  const std::optional<std::int64_t> divisor = padded ? std::optional<std::int64_t>(1) : std::nullopt;
  at::Tensor y = w.spatial == 2 ? at::avg_pool2d(images, w.size, w.strides, Ints{0, 0}, false, true, divisor)
                                : at::avg_pool3d(images, w.size, w.strides, Ints{0, 0, 0}, false, true, divisor);
  if (padded) y = y / cell_counts(w, y.options());
  return narrow_to(from_channels_first(y, w.channels_first), type);
}

// Of float32 NHWC images: sums of windows as a depthwise convolution with a kernel of ones, divided in the cache.
class AveragePool : public Composite {
 public:
  AveragePool(Window window, std::int64_t channels)
      : window_(std::move(window)),
        g_(geometry(window_, channels)),
        ones_(static_cast<std::size_t>(g_.taps()), 1.0f),
        counts_(cell_counts(window_, at::kFloat)) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    at::Tensor y = at::empty({x.size(0), g_.out_h, g_.out_w, g_.channels}, x.options());
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel_for(0, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        direct_kernels().depthwise_forward(g_, from + n * in_size(), ones_.data(), nullptr, 0, g_.out_h,
                                           to + n * out_size());
        divide(to + n * out_size(), to + n * out_size());
      }
    });
    return {{y}, {}};
  }
  Values backward(const Recorded&, const Values& dys) const override {
    const at::Tensor dy = dys[0].contiguous();
    at::Tensor dx = at::empty({dy.size(0), g_.height, g_.width, g_.channels}, dy.options());
    const float* const from = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, dy.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> shares(static_cast<std::size_t>(out_size()));
      for (std::int64_t n = begin; n < end; ++n) {
        divide(from + n * out_size(), shares.data());
        direct_kernels().depthwise_image_gradient(g_, shares.data(), ones_.data(), to + n * in_size());
      }
    });
    return {dx};
  }
  Values plain(const Values& inputs) const override { return {general_average(inputs[0], window_)}; }

 private:
  std::int64_t in_size() const { return g_.height * g_.width * g_.channels; }
  std::int64_t out_size() const { return g_.out_h * g_.out_w * g_.channels; }
  // One image of the output by the number of cells in each window.
  void divide(const float* from, float* to) const {
    const float* const counts = counts_.const_data_ptr<float>();
    for (std::int64_t i = 0; i < g_.out_h * g_.out_w; ++i, from += g_.channels, to += g_.channels) {
      for (std::int64_t c = 0; c < g_.channels; ++c) to[c] = from[c] / counts[i];
    }
  }

  Window window_;
  WindowGeometry g_;
  std::vector<float> ones_;
  at::Tensor counts_;  // [out_h, out_w]
};

// Volumes: within each image of the depth, then along the depth. The cells of a window are those of its axes,
// multiplied.
at::Tensor volume_average(const at::Tensor& x, const Window& w) {
  const std::int64_t n = x.size(0), depth = x.size(1), channels = x.size(4);
  const auto average = [&](const Window& window, const at::Tensor& images) {
    return run(std::make_shared<AveragePool>(window, channels), {images})[0];
  };
  const at::Tensor images = average(axes_of(w, 1, 2), x.reshape({n * depth, x.size(2), x.size(3), channels}));
  const at::Tensor y = average(along_depth(w), images.reshape({n, depth, -1, channels}));
  return y.reshape({n, w.output[0], w.output[1], w.output[2], channels});
}

Tensors avg_pool(const Call& call) {
  const Shape out = pool_shape(call)[0];
  const at::Tensor& x = in(call, 0);
  const Window w = plan_window(call, call.input(0).shape());
  if (w.channel_size > 1) throw_unimplemented("average pooling over channels");
  if (*out.num_elements() == 0) return one(at::zeros(out.dims(), x.options()));
  if (w.spatial == 2 && is_large_float(x) && !w.channels_first)
    return one(run(std::make_shared<AveragePool>(w, x.size(3)), {x})[0]);
  if (w.spatial == 3 && is_large_float(x) && !w.channels_first && !starts_late(w)) return one(volume_average(x, w));
  if (!starts_late(w)) return one(general_average(x, w));
  const at::Tensor first = general_average(x, at_first_cells(w));
  return one(general_average(x.detach(), w) + (first - first.detach()));
}

}  // namespace

std::optional<WindowGeometry> pool_geometry(const FollowingPool& pool, std::int64_t height, std::int64_t width,
                                            std::int64_t channels) {
  if (pool.window[0] * pool.window[1] > kMostCells) return std::nullopt;
  if (!pool.same && (pool.window[0] > height || pool.window[1] > width)) return std::nullopt;
  Window w;
  for (const int i : {0, 1}) {
    add_axis(w, i == 0 ? height : width, pool.window[i], pool.strides[i], pool.same ? "SAME" : "VALID");
  }
  return geometry(w, channels);
}

void register_pool(Table& table) {
  for (auto name : {"MaxPool", "MaxPool3D"}) table.add(name, pool_shape, max_pool);
  for (auto name : {"AvgPool", "AvgPool3D"}) table.add(name, pool_shape, avg_pool);
  table.add(
      "MaxPoolWithArgmax",
      [](const Call& call) {
        const Shape out = pool_shape(call)[0];
        return Shapes{out, out};
      },
      max_pool_with_argmax);
}

}  // namespace lockstep::ops
