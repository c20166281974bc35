// Gradients as operations, as graphs of training steps have them, and forward operations that only such old graphs use.
// Most are the gradient of another row of the table.
#include <algorithm>

#include <ATen/core/grad_mode.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/call_attrs_internal.h"
#include "lockstep/ops/gradients_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {

Attrs shared_attrs(const Call& call, std::string_view name, const std::vector<std::string>& without) {
  const Signature& target = *Table::instance().at(name).signature;
  Attrs out;
  for (const auto& [key, value] : call.attrs().items()) {
    if (target.find_attr(key) && std::find(without.begin(), without.end(), key) == without.end()) out.set(key, value);
  }
  return out;
}

namespace {

// The gradient of the first output of operation `name` with respect to input number `which`.
Tensor gradient_through(std::string_view name, Tensors inputs, std::size_t which, const Tensor& dy, Attrs attrs) {
  const bool recorded = grad_enabled();
  const at::AutoGradMode on(true);
  for (Tensor& input : inputs) {
    if (input.is_value()) input = detach(input);
  }
  const DType dtype = inputs[which].dtype();
  if (at::isIntegralType(dense(inputs[which]).scalar_type(), false)) {  // computed with real numbers, whole ones again
    const std::vector<ArgDef>& arguments = Table::instance().at(name).signature->inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (arguments.at(i).type_attr == arguments.at(which).type_attr)
        inputs[i] = wrap(dense(inputs[i]).to(at::kDouble));
    }
    const Tensor wide = wrap(dense(dy).to(at::kDouble));
    const at::Tensor found = dense(gradient_through(name, std::move(inputs), which, wide, std::move(attrs)));
    return wrap(found.to(at::kLong).to(to_scalar_type(dtype)));
  }
  if (!is_floating(dtype) && !is_complex(dtype)) throw_unimplemented(fmt::format("gradients of {}", dtype_name(dtype)));
  inputs[which] = make_leaf(inputs[which]);
  const Tensors y = ops::call(name, inputs, std::move(attrs));
  if (!(y[0].shape() == dy.shape())) {
    throw_invalid_argument(
        fmt::format("the gradient has shape {}, expected {}", dy.shape().to_string(), y[0].shape().to_string()));
  }
  const bool again = recorded && requires_grad(dy);  // the result is linear in dy
  const at::Tensor given = again ? dense(dy) : dense(dy).detach();
  const Tensor weights = wrap(narrow_to(given, dense(y[0]).scalar_type()));
  if (!requires_grad(y[0])) return Tensor::zeros(inputs[which].shape(), inputs[which].dtype());
  const Tensors found = grad({y[0]}, {inputs[which]}, {weights}, again, again);
  if (!found[0].defined()) return Tensor::zeros(inputs[which].shape(), inputs[which].dtype());
  return again ? found[0] : detach(found[0]);
}

// A tensor of zeros whose shape is not trusted.
Tensor zeros_like_shape(const Ints& shape, DType dtype) {
  element_count(shape, static_cast<std::int64_t>(dtype_size(dtype)));
  return Tensor::zeros(Shape(shape), dtype);
}

Tensor int32_vector(const Ints& values) { return wrap(int64_tensor(values).to(at::kInt)); }

// ---- pooling ------------------------------------------------------------------------------------------------------
void set_window(const Call& call, int i, Attrs& attrs) {
  attrs.set("ksize", ints_in(call, i));
  attrs.set("strides", ints_in(call, i + 1));
}

Tensors max_pool_v2(const Call& call) {
  Attrs attrs = shared_attrs(call, "MaxPool");
  set_window(call, 1, attrs);
  return {call1("MaxPool", {call.input(0)}, attrs)};
}

Tensors max_pool_gradient(const Call& call) {
  const char* const name = call.name() == "MaxPool3DGrad" ? "MaxPool3D" : "MaxPool";
  if (call.input(0).dtype() != call.input(2).dtype())  // TensorFlow has no kernel for them either
    throw_unimplemented("orig_input and grad have different types");
  Attrs attrs = shared_attrs(call, name);
  if (call.num_inputs() > 3) set_window(call, 3, attrs);
  return {gradient_through(name, {call.input(0)}, 0, call.input(2), attrs)};
}

// Checks ksize or strides of a pool over NHWC images.
void check_window(const Ints& window) {
  if (window.size() != 4 || window[0] != 1 || window[3] != 1)
    throw_invalid_argument("ksize and strides must have four numbers, and 1 for the batch and the channels");
}

// The gradient of MaxPoolGrad with respect to grad: what stands at the places of the maxima.
Tensors max_pool_second_gradient(const Call& call) {
  const at::Tensor &x = in(call, 0), &dy = in(call, 2);
  if (dy.sizes() != x.sizes()) throw_invalid_argument("grad and orig_input differ in their shapes");
  Attrs attrs = shared_attrs(call, "MaxPoolWithArgmax");
  if (call.num_inputs() > 3) set_window(call, 3, attrs);
  for (const char* name : {"ksize", "strides"}) check_window(std::get<Ints>(*attrs.find(name)));
  attrs.set("include_batch_in_index", true);
  const Tensor places = ops::call("MaxPoolWithArgmax", {wrap(x.detach())}, attrs)[1];
  if (call.input(1).shape() != places.shape())
    throw_invalid_argument(fmt::format("orig_output has shape {}, expected {}", call.input(1).shape().to_string(),
                                       places.shape().to_string()));
  const at::Tensor found = dy.reshape({-1}).index_select(0, dense(places).reshape({-1}));
  return one(found.reshape(places.shape().dims()));
}

// The same of volumes. A window whose maximum is not orig_output gives 0.
Tensors volume_pool_second_gradient(const Call& call) {
  const at::Tensor x = ordered(in(call, 0)), y = ordered(in(call, 1));
  at::Tensor dy = in(call, 2);
  if (dy.sizes() != x.sizes()) throw_invalid_argument("grad and orig_input differ in their shapes");
  const auto size = call.attr<Ints>("ksize"), strides = call.attr<Ints>("strides");
  const auto& padding = call.attr<std::string>("padding");
  const bool first = call.attr<std::string>("data_format") == "NCDHW";
  if (size.size() != 5 || strides.size() != 5) throw_invalid_argument("ksize and strides must have 5 numbers");
  at::Tensor is_cell = at::ones(x.sizes(), at::kBool), cells = x;
  Ints shape = x.sizes().vec(), window(3), step(3), pads;
  for (std::size_t i = 3; i-- > 0;) {
    const std::size_t axis = i + (first ? 2 : 1);
    window[i] = size[axis], step[i] = strides[axis];
    if (window[i] < 1 || step[i] < 1) throw_invalid_argument("ksize and strides must be positive");
    const std::int64_t count = window_output(shape[axis], window[i], step[i], 1, padding);
    const std::int64_t total = padding == "SAME" ? same_padding(shape[axis], window[i], step[i], count) : 0;
    pads.insert(pads.end(), {total / 2, total - total / 2});
    shape[axis] = count;
  }
  if (!first) pads.insert(pads.begin(), {0, 0});
  if (y.sizes() != at::IntArrayRef(shape))
    throw_invalid_argument(fmt::format("orig_output has shape {}, expected {}", Shape(y.sizes().vec()).to_string(),
                                       Shape(shape).to_string()));
  Ints padded_shape = x.sizes().vec();
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t axis = i + (first ? 2 : 1);
    padded_shape[axis] += pads[2 * (2 - i) + (first ? 0 : 2)] + pads[2 * (2 - i) + (first ? 1 : 3)];
  }
  element_count(padded_shape, sizeof(double));
  const auto padded = [&](const at::Tensor& values) { return at::constant_pad_nd(values, pads); };
  is_cell = padded(is_cell), cells = padded(cells), dy = padded(widen(dy));
  at::Tensor found = at::zeros(shape, dy.options()), done = at::zeros(shape, at::kBool);
  // Of the cells of a window only those that are inside the volume for one of the windows.
  Ints begin(3), end(3);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t axis = i + (first ? 2 : 1);
    const std::int64_t before = pads[2 * (2 - i) + (first ? 0 : 2)];
    begin[i] = std::max<std::int64_t>(0, before - (shape[axis] - 1) * step[i]);
    end[i] = std::min(window[i], before + x.size(static_cast<std::int64_t>(axis)));
  }
  Ints place = begin;
  const auto next = [&] {
    for (std::size_t i = 3; i-- > 0; place[i] = begin[i]) {
      if (++place[i] < end[i]) return true;
    }
    return false;
  };
  bool more = found.numel() > 0 && begin[0] < end[0] && begin[1] < end[1] && begin[2] < end[2];
  for (; more; more = next()) {
    const auto cell = [&](at::Tensor values) {
      for (std::size_t i = 0; i < 3; ++i) {
        const std::int64_t axis = static_cast<std::int64_t>(i) + (first ? 2 : 1);
        values =
            values.slice(axis, place[i], place[i] + (shape[static_cast<std::size_t>(axis)] - 1) * step[i] + 1, step[i]);
      }
      return values;
    };
    const at::Tensor here = (cell(cells) == y).logical_and(cell(is_cell)).logical_and(done.logical_not());
    found = at::where(here, cell(dy), found);
    done = done.logical_or(here);
  }
  return one(narrow_to(found, in(call, 2).scalar_type()));
}

// Of TensorFlow's first versions: the values themselves stand where later ones take their shape.
template <int shape_of>
Tensors old_volume_gradient(const Call& call) {
  Tensors inputs(call.inputs().begin(), call.inputs().end());
  inputs[shape_of] = int32_vector(inputs[shape_of].shape().dims());
  const std::string name = std::string(call.name()) + "V2";
  return {call1(name, inputs, shared_attrs(call, name))};
}

Tensors avg_pool_gradient(const Call& call) {
  const char* const name = call.name() == "AvgPool3DGrad" ? "AvgPool3D" : "AvgPool";
  const Tensor x = zeros_like_shape(ints_in(call, 0), call.input(1).dtype());
  return {gradient_through(name, {x}, 0, call.input(1), shared_attrs(call, name))};
}

Tensors argmax_gradient(const Call& call) {
  const at::Tensor &x = in(call, 0), &dy = in(call, 1);
  Ints places = ints_in(call, 2);
  for (const char* name : {"ksize", "strides"}) check_window(call.attr<Ints>(name));
  if (in(call, 2).sizes() != dy.sizes() || dy.dim() != 4 || dy.size(0) != x.size(0))
    throw_invalid_argument("input, grad and argmax have incompatible shapes");
  const std::int64_t image = x.size(0) == 0 ? 0 : x.numel() / x.size(0),
                     rows = x.size(0) == 0 ? 1 : std::max<std::int64_t>(dy.numel() / x.size(0), 1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t shift =
        call.attr<bool>("include_batch_in_index") ? 0 : static_cast<std::int64_t>(i) / rows * image;
    if (places[i] < 0 || places[i] >= x.numel() - shift)
      throw_invalid_argument(fmt::format("argmax {} is out of bounds", places[i]));
    places[i] += shift;
  }
  const at::Tensor sum =
      at::zeros({x.numel()}, widen(dy).options()).index_add(0, int64_tensor(places), widen(dy).reshape({-1}));
  return one(narrow_to(sum.reshape(x.sizes()), dy.scalar_type()));
}

// ---- resizing, padding --------------------------------------------------------------------------------------------
Tensors resize_gradient(const Call& call, const char* name) {
  const Tensor &dy = call.input(0), &image = call.input(1);
  if (dy.rank() != 4 || image.rank() != 4) throw_invalid_argument("grads and original_image must have four axes");
  const Tensor size = int32_vector({dy.dim(1), dy.dim(2)});
  return {gradient_through(name, {image, size}, 0, dy, shared_attrs(call, name))};
}

Tensors resize_nearest_gradient(const Call& call) {
  const Tensor& dy = call.input(0);
  const Ints size = ints_in(call, 1);
  if (size.size() != 2) throw_invalid_argument("size must have two numbers");
  const Tensor image = zeros_like_shape({dy.dim(0), size[0], size[1], dy.dim(3)}, dy.dtype());
  if (dy.dim(3) == 0 && size[0] > 0 && size[1] > 0) return {image};
  return {gradient_through("ResizeNearestNeighbor", {image, int32_vector({dy.dim(1), dy.dim(2)})}, 0, dy,
                           shared_attrs(call, "ResizeNearestNeighbor"))};
}

Tensors mirror_pad_gradient(const Call& call) {
  const Tensor& dy = call.input(0);
  const Ints amounts = ints_in(call, 1);
  Ints shape = dy.shape().dims();
  if (amounts.size() != 2 * shape.size()) throw_invalid_argument("paddings must have a row for each axis");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (amounts[2 * i] < 0 || amounts[2 * i + 1] < 0 || amounts[2 * i] > shape[i] ||
        amounts[2 * i + 1] > shape[i] - amounts[2 * i])
      throw_invalid_argument("paddings do not fit the input");
    shape[i] -= amounts[2 * i] + amounts[2 * i + 1];
  }
  return {gradient_through("MirrorPad", {zeros_like_shape(shape, dy.dtype()), call.input(1)}, 0, dy,
                           shared_attrs(call, "MirrorPad"))};
}

Tensors scale_and_translate_gradient(const Call& call) {
  const Tensor &dy = call.input(0), &image = call.input(1);
  if (dy.rank() != 4 || image.rank() != 4) throw_invalid_argument("grads and original_image must have four axes");
  const Tensors inputs{image, int32_vector({dy.dim(1), dy.dim(2)}), call.input(2), call.input(3)};
  return {gradient_through("ScaleAndTranslate", inputs, 0, dy, shared_attrs(call, "ScaleAndTranslate"))};
}

// ---- normalization -----------------------------------------------------------------------------------
Tensors batch_norm_gradient(const Call& call) {
  Tensors inputs(call.inputs().begin(), call.inputs().end());
  inputs.push_back(Tensor::zeros(Shape{0}));
  return ops::call("FusedBatchNormGradV3", inputs, shared_attrs(call, "FusedBatchNormGradV3", {"T", "U"}));
}

Tensors global_batch_norm(const Call& call) {
  const at::Tensor &x = in(call, 0), &mean = in(call, 1), &variance = in(call, 2), &beta = in(call, 3);
  if (!is_float(x)) throw_unimplemented(fmt::format("normalization of {}", dtype_name(call.input(0).dtype())));
  for (int i = 1; i < 5; ++i) {
    if (x.dim() < 1 || in(call, i).dim() != 1 || in(call, i).size(0) != x.size(-1))
      throw_invalid_argument("m, v, beta and gamma need a number for each channel");
  }
  at::Tensor factor = at::rsqrt(variance + static_cast<double>(call.attr<float>("variance_epsilon")));
  if (call.attr<bool>("scale_after_normalization")) factor = factor * in(call, 4);
  return one((x - mean) * factor + beta);
}

// dy times a slope that follows from another tensor.
template <typename F>
void add_slope(Table& table, const char* name, const F& slope) {
  table.add(name, same_shape, [slope](const Call& call) {
    if (in(call, 0).sizes() != in(call, 1).sizes()) throw_invalid_argument("the inputs differ in their shapes");
    return one(slope(call, in(call, 0), in(call, 1)));
  });
}

ShapeRule like_input(int i) {
  return [i](const Call& call) { return Shapes(call.signature().outputs.size(), call.input(i).shape()); };
}

// From dy, x and y, which need not be the output of LRN.
Tensors lrn_gradient(const Call& call) {
  const at::Tensor &dy = in(call, 0), &x = in(call, 1), &y = in(call, 2);
  if (x.dim() != 4 || dy.sizes() != x.sizes() || y.sizes() != x.sizes())
    throw_invalid_argument("all inputs must have 4 axes and the same shape");
  const std::int64_t depth = x.size(-1), radius = std::min(call.attr<std::int64_t>("depth_radius"), depth);
  const double alpha = static_cast<double>(call.attr<float>("alpha")),
               beta = static_cast<double>(call.attr<float>("beta"));
  const auto sum_of_window = [&](const at::Tensor& values) {
    const at::Tensor padded = at::constant_pad_nd(values, {radius, radius});
    at::Tensor sum = at::zeros_like(values);
    for (std::int64_t i = 0; i <= 2 * radius; ++i) sum = sum + padded.slice(-1, i, i + depth);
    return sum;
  };
  const at::Tensor norm = sum_of_window(at::square(x)) * alpha + static_cast<double>(call.attr<float>("bias"));
  return one(dy * at::pow(norm, -beta) - x * sum_of_window(dy * y / norm) * (2 * alpha * beta));
}

}  // namespace

void register_backprop(Table& table) {
  table.add("MaxPoolV2", nullptr, max_pool_v2);
  for (auto name : {"MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad"}) table.add(name, like_input(0), max_pool_gradient);
  table.add("MaxPool3DGradGrad", like_input(1), volume_pool_second_gradient);
  table.add("Conv3DBackpropInput", like_input(0), old_volume_gradient<0>);
  table.add("Conv3DBackpropFilter", like_input(1), old_volume_gradient<1>);
  for (auto name : {"MaxPoolGradGrad", "MaxPoolGradGradV2"}) table.add(name, like_input(1), max_pool_second_gradient);
  for (auto name : {"AvgPoolGrad", "AvgPool3DGrad"}) table.add(name, shape_of_input(0), avg_pool_gradient);
  table.add("MaxPoolGradWithArgmax", like_input(0), argmax_gradient);
  for (auto name : {"ResizeBilinear", "ResizeBicubic"}) {
    table.add(fmt::format("{}Grad", name), like_input(1),
              [name](const Call& call) { return resize_gradient(call, name); });
  }
  table.add("ResizeNearestNeighborGrad", nullptr, resize_nearest_gradient);
  table.add("ScaleAndTranslateGrad", like_input(1), scale_and_translate_gradient);
  table.add("MirrorPadGrad", nullptr, mirror_pad_gradient);
  table.add("LRNGrad", same_shape, lrn_gradient);
  for (const std::size_t which : {0, 1}) {
    table.add(which == 0 ? "Dilation2DBackpropInput" : "Dilation2DBackpropFilter", like_input(static_cast<int>(which)),
              [which](const Call& call) {
                return Tensors{gradient_through("Dilation2D", {call.input(0), call.input(1)}, which, call.input(2),
                                                shared_attrs(call, "Dilation2D"))};
              });
  }
  for (auto name : {"FusedBatchNormGrad", "FusedBatchNormGradV2"}) table.add(name, nullptr, batch_norm_gradient);
  table.add("BatchNormWithGlobalNormalization", same_shape, global_batch_norm);
  add_slope(table, "LeakyReluGrad", [](const Call& call, const at::Tensor& dy, const at::Tensor& x) {
    return at::where(x > 0, dy, dy * static_cast<double>(call.attr<float>("alpha")));
  });
  add_slope(table, "SeluGrad", [](const Call&, const at::Tensor& dy, const at::Tensor& y) {
    constexpr double kScale = 1.0507009873554804934193349852946, kScaleAlpha = 1.7580993408473768599402175208123;
    return below_zero_slope(dy, y, kScaleAlpha, kScale);
  });
}

}  // namespace lockstep::ops
