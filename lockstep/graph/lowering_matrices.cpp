// Convolutions, products and pools as steps of a program.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "lockstep/graph/lowering_internal.h"
#include "lockstep/ops/conv_phases_internal.h"

namespace lockstep::graph {
namespace {

using inference::Dims;
using LoweredTensors = std::vector<Lowered>;
using Inputs = std::span<const Lowered>;

using ops::WindowGeometry;

bool is_nhwc(const Step& step) {
  const ops::Attr* const format = step.attrs.find("data_format");
  return !format || std::get<std::string>(*format) == "NHWC";
}

// The padding, strides and dilations of `step`, over images [batch, h, w, channels] to `out`.
WindowGeometry window_of(const Step& step, const Dims& image, std::int64_t window_h, std::int64_t window_w,
                         const Dims& out) {
  WindowGeometry g;
  g.height = image[1], g.width = image[2], g.channels = image[3];
  g.window_h = window_h, g.window_w = window_w;
  g.out_h = out[1], g.out_w = out[2], g.out_channels = out[3];
  const auto pair = [&](const char* name, std::int64_t& h, std::int64_t& w) {
    if (const ops::Attr* attr = step.attrs.find(name)) {
      const auto& numbers = std::get<std::vector<std::int64_t>>(*attr);
      h = numbers.at(1), w = numbers.at(2);
    }
  };
  pair("strides", g.stride_h, g.stride_w);
  pair("dilations", g.dilation_h, g.dilation_w);
  const auto& padding = step.attr<std::string>("padding");
  if (padding == "SAME") {
    const auto total = [](std::int64_t output, std::int64_t stride, std::int64_t window, std::int64_t dilation,
                          std::int64_t input) {
      return std::max<std::int64_t>(0, (output - 1) * stride + (window - 1) * dilation + 1 - input);
    };
    const std::int64_t h = total(g.out_h, g.stride_h, window_h, g.dilation_h, g.height),
                       w = total(g.out_w, g.stride_w, window_w, g.dilation_w, g.width);
    g.pad_top = h / 2, g.pad_bottom = h - h / 2, g.pad_left = w / 2, g.pad_right = w - w / 2;
  } else if (padding == "EXPLICIT") {
    const auto& amounts = std::get<std::vector<std::int64_t>>(*step.attrs.find("explicit_paddings"));
    g.pad_top = amounts.at(2), g.pad_bottom = amounts.at(3), g.pad_left = amounts.at(4), g.pad_right = amounts.at(5);
  }
  return g;
}

// Reads the image before a padding with zeros.
Lowered without_padding(const Lowering& lowering, const Lowered& image, WindowGeometry& g) {
  const Lowering::Padding* const padding = lowering.padding_of(image);
  if (!padding || padding->before[0] + padding->after[0] + padding->before[3] + padding->after[3] != 0) return image;
  g.pad_top += padding->before[1], g.pad_bottom += padding->after[1];
  g.pad_left += padding->before[2], g.pad_right += padding->after[2];
  g.height = padding->from.dims[1], g.width = padding->from.dims[2];
  return padding->from;
}

// A depthwise convolution with a multiplier is a depthwise convolution of repeated channels. Its weights [h, w, C, M]
// have the same layout as [h, w, C * M]; those of a single channel are weights of a plain convolution.
LoweredTensors multiplied(Lowering& lowering, const Step& step, const Lowered& image, const Lowered& kernel,
                          const Lowered& like) {
  const std::int64_t channels = kernel.dims[2], times = kernel.dims[3];
  WindowGeometry g = window_of(step, image.dims, kernel.dims[0], kernel.dims[1], like.dims);
  Lowered from = without_padding(lowering, image, g);
  if (channels > 1) {
    Lowered repeated = from;
    repeated.dims.back() = repeated.other_dims.back() = channels * times;
    const std::int64_t pixels = inference::product_of(from.dims) / channels;
    repeated = lowering.result(repeated);
    lowering.program().add(inference::copies(
        repeated.value, repeated.dims,
        {{from.value, {pixels, channels, times}, {channels, 1, 0}, {channels * times, times, 1}}}, true));
    from = repeated;
    g.channels = channels * times;
  }
  Lowered out = lowering.result(like);
  lowering.program().add(
      inference::convolution(from.value, out.value, out.dims, g, image.dims[0], lowering.floats(kernel), channels > 1));
  return {out};
}

LoweredTensors convolution(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered &image = inputs[0], &kernel = inputs[1];
  const bool fits = is_nhwc(step) && like[0].dtype == DType::kFloat32 && kernel.is_constant() &&
                    !kernel.other.defined() && !image.is_constant();
  const bool depthwise_op = step.node->op == "DepthwiseConv2dNative";
  if (fits && depthwise_op && kernel.dims[3] > 1) return multiplied(lowering, step, image, kernel, like[0]);
  const bool single = fits && kernel.dims[2] == image.dims[3] && !depthwise_op;
  const bool depthwise =
      fits && (depthwise_op ? kernel.dims[3] == 1 : kernel.dims[2] == 1 && kernel.dims[3] == image.dims[3]);
  const bool grouped = fits && !depthwise_op && !single && !depthwise && inference::product_of(kernel.dims) > 0;
  if (!single && !depthwise && !grouped) return {lowering.custom(step, inputs, like[0], kernel.is_constant())};
  WindowGeometry g = window_of(step, image.dims, kernel.dims[0], kernel.dims[1], like[0].dims);
  const Lowered from = without_padding(lowering, image, g);
  Lowered out = lowering.result(like[0]);
  if (grouped) {
    lowering.program().add(
        inference::grouped_convolution(from.value, out.value, out.dims, g, image.dims[0], lowering.floats(kernel)));
    return {out};
  }
  lowering.program().add(inference::convolution(from.value, out.value, out.dims, g, image.dims[0],
                                                lowering.floats(kernel), depthwise, lowering.has_large_batch()));
  return {out};
}

// Conv3D. Where the window is one slice, slices are images; where it is one pixel of several slices, pixels are a row
// of an image with a row for each slice.
LoweredTensors volume_convolution(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered &x = inputs[0], &kernel = inputs[1];
  const ops::Attr* const format = step.attrs.find("data_format");
  const bool fits = (!format || std::get<std::string>(*format) == "NDHWC") && like[0].dtype == DType::kFloat32 &&
                    kernel.is_constant() && !kernel.other.defined() && !x.is_constant() &&
                    kernel.dims[3] == x.dims[4] && inference::product_of(kernel.dims) > 0;
  if (!fits) return {lowering.custom(step, inputs, like[0], kernel.is_constant())};
  struct Axis {
    std::int64_t stride = 1, dilation = 1, before = 0, after = 0;
  } axes[3];
  for (std::size_t i = 0; i < 3; ++i) {
    Axis& axis = axes[i];
    const auto number = [&](const char* name) {
      const ops::Attr* const attr = step.attrs.find(name);
      return attr ? std::get<std::vector<std::int64_t>>(*attr).at(i + 1) : 1;
    };
    axis.stride = number("strides"), axis.dilation = number("dilations");
    if (step.attr<std::string>("padding") != "SAME") continue;
    const std::int64_t total = std::max<std::int64_t>(
        0, (like[0].dims[i + 1] - 1) * axis.stride + (kernel.dims[i] - 1) * axis.dilation + 1 - x.dims[i + 1]);
    axis.before = total / 2, axis.after = total - total / 2;
  }
  const auto& [depth, height, width] = axes;
  WindowGeometry g;
  g.height = x.dims[2], g.width = x.dims[3], g.channels = x.dims[4];
  g.window_h = kernel.dims[1], g.window_w = kernel.dims[2];
  g.stride_h = height.stride, g.stride_w = width.stride, g.dilation_h = height.dilation, g.dilation_w = width.dilation;
  g.pad_top = height.before, g.pad_bottom = height.after, g.pad_left = width.before, g.pad_right = width.after;
  g.out_h = like[0].dims[2], g.out_w = like[0].dims[3], g.out_channels = kernel.dims[4];
  Lowered out = lowering.result(like[0]);
  const inference::Constant weights = lowering.floats(kernel);
  if (kernel.dims[0] == 1 && depth.stride == 1) {
    lowering.program().add(
        inference::convolution(x.value, out.value, out.dims, g, x.dims[0] * x.dims[1], weights, false));
  } else if (g.window_h * g.window_w * g.stride_h * g.stride_w == 1) {
    g.width = g.out_w = g.height * g.width;
    g.height = x.dims[1], g.out_h = like[0].dims[1], g.window_h = kernel.dims[0];
    g.stride_h = depth.stride, g.dilation_h = depth.dilation, g.pad_top = depth.before, g.pad_bottom = depth.after;
    lowering.program().add(inference::convolution(x.value, out.value, out.dims, g, x.dims[0], weights, false));
  } else {
    const inference::VolumeWindow window{
        g, x.dims[1], like[0].dims[1], kernel.dims[0], depth.stride, depth.dilation, depth.before};
    lowering.program().add(inference::volume_convolution(x.value, out.value, out.dims, window, x.dims[0], weights));
  }
  return {out};
}

// Weights [h, w, I, O] as [h, w, O, I], the reversed window.
inference::Constant flipped(const inference::Constant& weights, const WindowGeometry& g) {
  std::vector<float> out(static_cast<std::size_t>(weights.size));
  const std::int64_t cells = g.window_h * g.window_w, in = g.channels, of = g.out_channels;
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    for (std::int64_t c = 0; c < in; ++c) {
      for (std::int64_t o = 0; o < of; ++o)
        out[static_cast<std::size_t>(((cells - 1 - cell) * of + o) * in + c)] = weights.data[(cell * in + c) * of + o];
    }
  }
  return inference::Constant::of(std::move(out));
}

// Conv2DBackpropInput: the transposed convolution. With stride 1 it is one with the reversed window.
LoweredTensors transposed_convolution(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered &kernel = inputs[1], &image = inputs[2];
  const bool fits = is_nhwc(step) && like[0].dtype == DType::kFloat32 && kernel.is_constant() &&
                    !kernel.other.defined() && !image.is_constant() && kernel.dims[2] == like[0].dims[3] &&
                    kernel.dims[3] == image.dims[3] && inference::product_of(kernel.dims) > 0;
  if (!fits) return {lowering.custom(step, inputs, like[0], false)};
  const WindowGeometry g = window_of(step, like[0].dims, kernel.dims[0], kernel.dims[1], image.dims);
  WindowGeometry back = g;
  std::swap(back.height, back.out_h), std::swap(back.width, back.out_w), std::swap(back.channels, back.out_channels);
  const std::int64_t reach_h = (g.window_h - 1) * g.dilation_h, reach_w = (g.window_w - 1) * g.dilation_w;
  back.pad_top = reach_h - g.pad_top, back.pad_bottom = reach_h - g.pad_bottom;
  back.pad_left = reach_w - g.pad_left, back.pad_right = reach_w - g.pad_right;
  const bool turns =
      g.stride_h * g.stride_w == 1 && std::min({back.pad_top, back.pad_bottom, back.pad_left, back.pad_right}) >= 0;
  if (!turns && !ops::has_phases(g)) return {lowering.custom(step, inputs, like[0], false)};
  Lowered out = lowering.result(like[0]);
  if (turns) {
    lowering.program().add(inference::convolution(image.value, out.value, out.dims, back, image.dims[0],
                                                  flipped(lowering.floats(kernel), g), false));
  } else {
    lowering.program().add(inference::transposed_convolution(image.value, out.value, out.dims, g, image.dims[0],
                                                             lowering.floats(kernel), lowering.has_large_batch()));
  }
  return {out};
}

// x [rows, depth] times the constant [depth, columns].
Lowered dense(Lowering& lowering, const Lowered& x, inference::Constant weights, const Lowered& like) {
  WindowGeometry g;
  g.channels = x.dims.back(), g.out_channels = like.dims.back();
  g.height = g.out_h = g.window_h = g.window_w = 1;
  g.width = g.out_w = inference::product_of(x.dims) / g.channels;
  Lowered out = lowering.result(like);
  lowering.program().add(inference::convolution(x.value, out.value, out.dims, g, 1, std::move(weights), false));
  return out;
}

bool flag(const Step& step, const char* name) {
  const ops::Attr* const attr = step.attrs.find(name);
  return attr && std::get<bool>(*attr);
}

inference::Constant transposed(const inference::Constant& x, std::int64_t rows, std::int64_t columns) {
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) out[static_cast<std::size_t>(j * rows + i)] = x.data[i * columns + j];
  }
  return inference::Constant::of(std::move(out));
}

// MatMul and BatchMatMul: the last two axes are matrices, those before are broadcast.
LoweredTensors product(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered &a = inputs[0], &b = inputs[1];
  const bool plain = step.node->op == "MatMul";
  const bool turn_a = flag(step, plain ? "transpose_a" : "adj_x"), turn_b = flag(step, plain ? "transpose_b" : "adj_y");
  const std::size_t rank = like[0].dims.size();
  if (like[0].dtype != DType::kFloat32 || a.dtype != DType::kFloat32 || b.dtype != DType::kFloat32)
    return {lowering.custom(step, inputs, like[0], false)};
  // Rows of the batch are rows of a matrix, or whole matrices.
  const bool rows_stay = !a.is_constant() && a.dims.size() == rank && (rank > 2 || !turn_a);
  lowering.require_by_rows(rows_stay);
  if (b.is_constant() && !b.other.defined() && b.dims.size() == 2 && !turn_a && !a.is_constant()) {
    const inference::Constant weights = lowering.floats(b);
    return {dense(lowering, a, turn_b ? transposed(weights, b.dims[0], b.dims[1]) : weights, like[0])};
  }
  lowering.require_by_rows(rank > 2 && b.dims.size() == rank && (b.is_constant() ? b.dims[0] == 1 : true));
  ops::Product shape;
  const auto last = [](const Lowered& x, std::size_t from_end) { return x.dims[x.dims.size() - from_end]; };
  shape.rows = last(like[0], 2), shape.columns = last(like[0], 1), shape.depth = last(a, turn_a ? 2 : 1);
  shape.a_stride = last(a, 1), shape.b_stride = last(b, 1), shape.c_stride = shape.columns;
  shape.transpose_a = turn_a, shape.transpose_b = turn_b;
  std::vector<inference::ProductOffsets> offsets;
  const Dims batch(like[0].dims.begin(), like[0].dims.end() - 2);
  // The number of a matrix of x at an index of the batch axes.
  const auto matrix = [&](const Lowered& x, std::int64_t index) {
    std::int64_t at = 0, step_of = 1;
    const std::size_t own = x.dims.size() - 2;
    for (std::size_t i = batch.size(); i-- > 0; index /= batch[i]) {
      if (i < batch.size() - own) break;
      const std::int64_t dim = x.dims[i - (batch.size() - own)];
      at += (dim == 1 ? 0 : index % batch[i]) * step_of;
      step_of *= dim;
    }
    return at * last(x, 1) * last(x, 2);
  };
  for (std::int64_t i = 0; i < inference::product_of(batch); ++i)
    offsets.push_back({matrix(a, i), matrix(b, i), i * shape.rows * shape.columns});
  Lowered out = lowering.result(like[0]);
  lowering.program().add(
      inference::products(lowering.number(a), lowering.number(b), out.value, out.dims, shape, std::move(offsets)));
  return {out};
}

// One operand of an einsum: its labels and the floats from one index to the next of each.
struct Labels {
  std::string names;
  Dims dims, strides;
  std::int64_t stride(char name) const {
    const auto at = names.find(name);
    return at == std::string::npos ? 0 : strides[at];
  }
  std::int64_t dim(char name) const {
    const auto at = names.find(name);
    return at == std::string::npos ? 0 : dims[at];
  }
};
Labels labels_of(std::string names, const Dims& dims) {
  Labels out{std::move(names), dims, Dims(dims.size())};
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0; stride *= dims[i]) out.strides[i] = stride;
  return out;
}

// Neighbouring axes of an operand as one: how many elements, and the floats between them. Nothing where they have gaps.
struct Merged {
  std::int64_t count = 1, stride = 1;
};
std::optional<Merged> merged(const Labels& x, const std::string& names) {
  Merged out;
  for (std::size_t i = names.size(); i-- > 0;) {
    if (i + 1 == names.size()) {
      out = {x.dim(names[i]), x.stride(names[i])};
    } else if (x.stride(names[i]) == out.count * out.stride) {
      out.count *= x.dim(names[i]);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

// Two operands without repeated labels or an ellipsis, as products of matrices that lie anywhere in them.
std::optional<Lowered> einsum_as_products(Lowering& lowering, const std::string& equation, Inputs inputs,
                                          const Lowered& like) {
  const auto comma = equation.find(','), arrow = equation.find("->");
  if (inputs.size() != 2 || comma == std::string::npos || arrow == std::string::npos ||
      equation.find_first_of(". ") != std::string::npos || equation.find(',', comma + 1) != std::string::npos)
    return std::nullopt;
  const std::string names[] = {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1),
                               equation.substr(arrow + 2)};
  const Dims* const dims[] = {&inputs[0].dims, &inputs[1].dims, &like.dims};
  for (int i = 0; i < 3; ++i) {
    std::string sorted = names[i];
    std::sort(sorted.begin(), sorted.end());
    if (sorted.size() != dims[i]->size() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return std::nullopt;
  }
  const auto has = [&](int i, char name) { return names[i].find(name) != std::string::npos; };
  Labels a = labels_of(names[0], *dims[0]), b = labels_of(names[1], *dims[1]);
  const Labels c = labels_of(names[2], *dims[2]);
  std::string batch, rows, columns, depth;
  for (const char name : names[0]) {
    if (has(1, name)) {
      (has(2, name) ? batch : depth) += name;
    } else if (has(2, name)) {
      rows += name;
    } else {
      return std::nullopt;
    }
  }
  for (const char name : names[1]) {
    if (has(0, name)) continue;
    if (!has(2, name)) return std::nullopt;
    columns += name;
  }
  // The columns of the result lie next to each other: otherwise the operands change places.
  bool swapped = false;
  if (!columns.empty() && c.stride(columns.back()) != 1) {
    if (rows.empty() || c.stride(rows.back()) != 1) return std::nullopt;
    std::swap(a, b), std::swap(rows, columns);
    swapped = true;
  }
  const auto a_rows = merged(a, rows), a_depth = merged(a, depth), b_depth = merged(b, depth),
             b_columns = merged(b, columns), c_rows = merged(c, rows), c_columns = merged(c, columns);
  if (!a_rows || !a_depth || !b_depth || !b_columns || !c_rows || !c_columns || depth.empty()) return std::nullopt;
  if (c_columns->stride != 1 && c_columns->count > 1) return std::nullopt;
  ops::Product shape;
  shape.rows = a_rows->count, shape.columns = b_columns->count, shape.depth = a_depth->count;
  shape.c_stride = rows.empty() ? shape.columns : c_rows->stride;
  if (a_depth->stride == 1) {
    shape.a_stride = rows.empty() ? shape.depth : a_rows->stride;
  } else if (a_rows->stride == 1) {
    shape.transpose_a = true, shape.a_stride = a_depth->stride;
  } else {
    return std::nullopt;
  }
  if (b_columns->stride == 1) {
    shape.b_stride = b_depth->stride;
  } else if (b_depth->stride == 1) {
    shape.transpose_b = true, shape.b_stride = b_columns->stride;
  } else {
    return std::nullopt;
  }
  const Lowered &left = inputs[swapped ? 1 : 0], &right = inputs[swapped ? 0 : 1];
  // Each row of the batch is a separate matrix, or a part of the rows of A.
  const char first = names[2].empty() ? ' ' : names[2][0];
  const bool of_both = batch.find(first) != std::string::npos && a.names[0] == first && b.names[0] == first;
  const bool of_rows = rows.find(first) != std::string::npos && a.names[0] == first && right.is_constant();
  lowering.require_by_rows(!left.is_constant() && (right.is_constant() ? of_rows : of_both));
  std::vector<inference::ProductOffsets> offsets;
  std::int64_t count = 1;
  for (const char name : batch) count *= a.dim(name);
  for (std::int64_t i = 0; i < count; ++i) {
    inference::ProductOffsets at{0, 0, 0};
    std::int64_t rest = i;
    for (std::size_t axis = batch.size(); axis-- > 0;) {
      const std::int64_t index = rest % a.dim(batch[axis]);
      rest /= a.dim(batch[axis]);
      at.a += index * a.stride(batch[axis]), at.b += index * b.stride(batch[axis]),
          at.c += index * c.stride(batch[axis]);
    }
    offsets.push_back(at);
  }
  const bool is_dense = right.is_constant() && !right.other.defined() && batch.empty() && !shape.transpose_a &&
                        shape.a_stride == shape.depth && shape.c_stride == shape.columns && !swapped &&
                        b_depth->stride == (shape.transpose_b ? 1 : shape.columns);
  if (is_dense) {
    Lowered x = left, y = like;
    x.dims = {shape.rows, shape.depth}, y.dims = {shape.rows, shape.columns};
    const inference::Constant weights = lowering.floats(right);
    Lowered out = dense(lowering, x, shape.transpose_b ? transposed(weights, shape.columns, shape.depth) : weights, y);
    out.dims = like.dims;
    return out;
  }
  Lowered out = lowering.result(like);
  lowering.program().add(inference::products(lowering.number(left), lowering.number(right), out.value, out.dims, shape,
                                             std::move(offsets)));
  return out;
}

LoweredTensors einsum(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  if (like[0].dtype == DType::kFloat32) {
    if (auto out = einsum_as_products(lowering, step.attr<std::string>("equation"), inputs, like[0])) return {*out};
  }
  return {lowering.custom(step, inputs, like[0], false)};
}

LoweredTensors pool(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const auto& window = step.attr<std::vector<std::int64_t>>("ksize");
  const auto& strides = step.attr<std::vector<std::int64_t>>("strides");
  if (!is_nhwc(step) || like[0].dtype != DType::kFloat32 || window.at(0) != 1 || window.at(3) != 1 ||
      strides.at(0) != 1 || strides.at(3) != 1)
    return {lowering.custom(step, inputs, like[0], true)};
  const WindowGeometry g = window_of(step, inputs[0].dims, window[1], window[2], like[0].dims);
  const auto make = step.node->op == "MaxPool" ? inference::max_pool : inference::average_pool;
  Lowered out = lowering.result(like[0]);
  lowering.program().add(make(inputs[0].value, out.value, out.dims, g, inputs[0].dims[0]));
  return {out};
}

LoweredTensors softmax(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  lowering.require_by_rows(like[0].dims.size() > 1);
  if (like[0].dtype != DType::kFloat32 || like[0].dims.empty()) return {lowering.custom(step, inputs, like[0], true)};
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::softmax(inputs[0].value, out.value, out.dims));
  return {out};
}

// By fixed moments: a factor and a shift for each channel.
LoweredTensors batch_norm(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const ops::Attr* const training = step.attrs.find("is_training");
  lowering.require(is_nhwc(step) && training && !std::get<bool>(*training) && like[0].dtype == DType::kFloat32);
  const std::int64_t channels = inputs[0].dims.back();
  inference::Constant of[4];
  for (std::size_t i = 0; i < 4; ++i) {
    lowering.require(!inputs[i + 1].other.defined());
    of[i] = lowering.floats(inputs[i + 1]);
    lowering.require(of[i].size == channels);
  }
  const auto &gamma = of[0], &beta = of[1], &mean = of[2], &variance = of[3];
  const double epsilon = std::get<float>(*step.attrs.find("epsilon"));
  std::vector<float> factor, shift;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double f = gamma.data[c] / std::sqrt(variance.data[c] + epsilon);
    factor.push_back(static_cast<float>(f)), shift.push_back(static_cast<float>(beta.data[c] - mean.data[c] * f));
  }
  Lowered known = inputs[0];
  const std::pair<inference::Function, const std::vector<float>*> passes[] = {{inference::Function::kMul, &factor},
                                                                              {inference::Function::kAdd, &shift}};
  for (const auto& [function, numbers] : passes) {
    Lowered constant;
    constant.dtype = DType::kFloat32, constant.dims = {channels};
    constant.constant = Tensor::from_vector(*numbers);
    const Lowered operands[] = {known, constant};
    known = lowering.elementwise(like[0], function, operands);
  }
  LoweredTensors outputs(like.begin(), like.end());  // the moments cannot be read
  outputs[0] = known;
  return outputs;
}

bool same_window(const Step& a, const Step& b) {
  for (const char* name : {"strides", "dilations", "explicit_paddings"}) {
    if (a.attr<std::vector<std::int64_t>>(name) != b.attr<std::vector<std::int64_t>>(name)) return false;
  }
  return a.attr<std::string>("padding") == b.attr<std::string>("padding") && is_nhwc(a) && is_nhwc(b);
}

}  // namespace

// Split, Conv2D for each part and ConcatV2 are how graphs have a convolution of groups that TensorFlow has to run on
// CPUs. The convolutions of the parts stay unread.
std::optional<LoweredTensors> Lowering::lower_groups(const Plan& plan, const Step& concat,
                                                     std::span<const Lowered> values) {
  const Node& node = *concat.node;
  if (node.op != "ConcatV2" || node.inputs.size() < 3) return std::nullopt;
  const auto step_of = [&](const Output& output, std::string_view op) -> const Step* {
    const auto id = static_cast<std::size_t>(output.node);
    return plan.fed_[id] || plan.graph_.node(output.node).op != op ? nullptr : &plan.steps_[id];
  };
  const auto is_last_axis = [&](int value) {
    const Lowered& axis = values[static_cast<std::size_t>(value)];
    if (!axis.is_constant() || axis.other.defined() || axis.dtype != DType::kInt32) return false;
    const Dims numbers = integers(axis);
    return numbers.size() == 1 && (numbers[0] == 3 || numbers[0] == -1);
  };
  const std::size_t groups = node.inputs.size() - 1;
  const Step *first = nullptr, *splits[2] = {nullptr, nullptr};
  for (std::size_t i = 0; i < groups; ++i) {
    const Step* const part = step_of(node.inputs[i], "Conv2D");
    if (!part || (first && !same_window(*first, *part))) return std::nullopt;
    first = first ? first : part;
    for (std::size_t k = 0; k < 2; ++k) {
      const Output& from = part->node->inputs[k];
      const Step* const split = step_of(from, "Split");
      if (!split || from.output != static_cast<int>(i) || split->num_outputs != static_cast<int>(groups) ||
          (splits[k] && splits[k] != split))
        return std::nullopt;
      splits[k] = split;
    }
  }
  if (!is_last_axis(concat.inputs.back()) || !is_last_axis(splits[0]->inputs[0]) || !is_last_axis(splits[1]->inputs[0]))
    return std::nullopt;
  const Lowered &image = values[static_cast<std::size_t>(splits[0]->inputs[1])],
                &kernel = values[static_cast<std::size_t>(splits[1]->inputs[1])];
  if (!kernel.is_constant() || image.is_constant()) return std::nullopt;
  return lower_step(*first, {image, kernel});
}

LoweringRule find_matrix_rule(std::string_view op) {
  static const std::unordered_map<std::string_view, LoweringRule> table = {
      {"Conv2D", convolution},
      {"Conv3D", volume_convolution},
      {"DepthwiseConv2dNative", convolution},
      {"Conv2DBackpropInput", transposed_convolution},
      {"MatMul", product},
      {"BatchMatMul", product},
      {"BatchMatMulV2", product},
      {"BatchMatMulV3", product},
      {"Einsum", einsum},
      {"MaxPool", pool},
      {"AvgPool", pool},
      {"Softmax", softmax},
      {"FusedBatchNorm", batch_norm},
      {"FusedBatchNormV2", batch_norm},
      {"FusedBatchNormV3", batch_norm},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::graph
