// Dilated convolutions as graphs of TensorFlow have them.
#include <algorithm>

#include "lockstep/graph/lowering_internal.h"
#include "lockstep/ops/call.h"

namespace lockstep::graph {
namespace {

using inference::Dims;

// A convolution of neighbouring pixels, without padding.
bool is_plain(const Step& step) {
  const auto ones = [&](const char* name) {
    const ops::Attr* const attr = step.attrs.find(name);
    return !attr || std::ranges::all_of(std::get<std::vector<std::int64_t>>(*attr), [](auto n) { return n == 1; });
  };
  const ops::Attr* const format = step.attrs.find("data_format");
  return ones("strides") && ones("dilations") && step.attr<std::string>("padding") == "VALID" &&
         (!format || std::get<std::string>(*format) == "NHWC");
}

}  // namespace

// SpaceToBatchND makes an image of every d-th pixel, a convolution has windows of neighbours in these, and
// BatchToSpaceND puts the pixels together again. Steps [batch, time, channels] are images of one row for the
// convolution.
std::optional<std::vector<Lowered>> Lowering::lower_dilated(const Plan& plan, const Step& last,
                                                            std::span<const Lowered> values) {
  if (last.node->op != "BatchToSpaceND") return std::nullopt;
  const auto source = [&](const Step& step) -> const Step* {
    const auto id = static_cast<std::size_t>(step.node->inputs[0].node);
    return plan.fed_[id] || plan.steps_[id].node == nullptr ? nullptr : &plan.steps_[id];
  };
  const auto is = [](const Step* step, std::string_view op) { return step && step->node->op == op; };
  const Step* conv = source(last);
  const bool in_row = is(conv, "Squeeze");
  if (in_row) conv = source(*conv);
  const bool depthwise = is(conv, "DepthwiseConv2dNative");
  if ((!depthwise && !is(conv, "Conv2D")) || !is_plain(*conv)) return std::nullopt;
  const Step* spread = source(*conv);
  if (in_row != is(spread, "ExpandDims")) return std::nullopt;
  if (in_row) spread = source(*spread);
  if (!is(spread, "SpaceToBatchND")) return std::nullopt;
  const auto value = [&](const Step& step, std::size_t i) -> const Lowered& {
    return values[static_cast<std::size_t>(step.inputs[i])];
  };
  const Lowered &x = value(*spread, 0), &kernel = value(*conv, 1), &spread_x = value(*conv, 0);
  const auto known = [](const Lowered& numbers) { return numbers.is_constant() && !numbers.other.defined(); };
  if (x.is_constant() || x.value < 0 || x.dtype != DType::kFloat32 || x.row_axis != 0 || !known(kernel) ||
      kernel.series || kernel.dtype != DType::kFloat32)
    return std::nullopt;
  for (const Step* step : {spread, &last}) {
    if (!known(value(*step, 1)) || !known(value(*step, 2))) return std::nullopt;
  }
  const Dims block = integers(value(*spread, 1)), pads = integers(value(*spread, 2)), crops = integers(value(last, 2));
  const std::size_t axes = block.size(), rank = in_row ? 3 : 4;
  if (integers(value(last, 1)) != block || axes < 1 || axes + 2 > rank || x.dims.size() != rank ||
      pads.size() != 2 * axes || crops.size() != 2 * axes)
    return std::nullopt;
  const bool fits = depthwise ? kernel.dims[3] == 1 : kernel.dims[2] == x.dims.back();
  // Of the one axis that is added, which has to be the height.
  if (!fits || (in_row && (spread_x.dims.size() != 4 || spread_x.dims[1] != 1 || kernel.dims[0] != 1)))
    return std::nullopt;
  Lowered image = x;
  if (in_row) image.dims.insert(image.dims.begin() + 1, 1), image.other_dims.insert(image.other_dims.begin() + 1, 1);
  ops::WindowGeometry g;
  g.window_h = kernel.dims[0], g.window_w = kernel.dims[1], g.channels = image.dims[3];
  g.out_channels = depthwise ? g.channels : kernel.dims[3];
  for (std::size_t i = 0; i < axes; ++i) {
    const bool of_width = in_row || i == 1;
    const std::int64_t before = pads[2 * i] - crops[2 * i], after = pads[2 * i + 1] - crops[2 * i + 1];
    if (before < 0 || after < 0 || block[i] < 1) return std::nullopt;
    (of_width ? g.dilation_w : g.dilation_h) = block[i];
    (of_width ? g.pad_left : g.pad_top) = before, (of_width ? g.pad_right : g.pad_bottom) = after;
  }
  g.height = image.dims[1], g.width = image.dims[2];
  g.out_h = g.height + g.pad_top + g.pad_bottom - g.dilation_h * (g.window_h - 1);
  g.out_w = g.width + g.pad_left + g.pad_right - g.dilation_w * (g.window_w - 1);
  if (g.out_h < 1 || g.out_w < 1) return std::nullopt;
  if (const Padding* const padding = padding_of(in_row ? x : image)) {
    Dims before = padding->before, after = padding->after;
    Lowered from = padding->from;
    if (in_row) {
      for (Dims* amounts : {&before, &after}) amounts->insert(amounts->begin() + 1, 0);
      from.dims.insert(from.dims.begin() + 1, 1), from.other_dims.insert(from.other_dims.begin() + 1, 1);
    }
    if (before[0] + after[0] + before[3] + after[3] == 0) {
      g.pad_top += before[1], g.pad_bottom += after[1], g.pad_left += before[2], g.pad_right += after[2];
      g.height = from.dims[1], g.width = from.dims[2];
      image = std::move(from);
    }
  }
  Lowered like = x;
  like.dims = like.other_dims =
      in_row ? Dims{x.dims[0], g.out_w, g.out_channels} : Dims{x.dims[0], g.out_h, g.out_w, g.out_channels};
  like.other_dims[0] = x.other_dims[0], like.rowwise = true;
  std::vector<Lowered> given;
  for (std::size_t i = 0; i < last.node->inputs.size(); ++i) given.push_back(value(last, i));
  const auto types = ops::infer_outputs(*last.op, symbols_of(given, false), last.attrs);
  if (types.size() != 1 || !types[0].shape.fully_known() || types[0].shape.dims() != like.dims) return std::nullopt;
  Lowered out = result(like);
  program_.add(inference::convolution(image.value, out.value, out.dims, g, image.dims[0], floats(kernel), depthwise));
  return std::vector{out};
}

}  // namespace lockstep::graph
