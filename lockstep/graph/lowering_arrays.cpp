// Elementwise operations, reductions and changes of shape as steps of a program.
#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "lockstep/graph/lowering_internal.h"

namespace lockstep::graph {

bool is_rowwise(const Lowering& lowering, std::span<const Lowered> operands, const Lowered& like) {
  return std::ranges::all_of(operands, [&](const Lowered& operand) { return lowering.keeps_rows(operand, like); });
}

namespace {

using inference::Dims;
using StepFunction = inference::Function;
using LoweredTensors = std::vector<Lowered>;
using Inputs = std::span<const Lowered>;

std::optional<StepFunction> function_of(std::string_view op) {
  static const std::unordered_map<std::string_view, StepFunction> table = {
      {"Abs", StepFunction::kAbs},
      {"Neg", StepFunction::kNeg},
      {"Square", StepFunction::kSquare},
      {"Sqrt", StepFunction::kSqrt},
      {"Rsqrt", StepFunction::kRsqrt},
      {"Reciprocal", StepFunction::kReciprocal},
      {"Inv", StepFunction::kReciprocal},
      {"Exp", StepFunction::kExp},
      {"Erf", StepFunction::kErf},
      {"Erfc", StepFunction::kErfc},
      {"Sigmoid", StepFunction::kSigmoid},
      {"Tanh", StepFunction::kTanh},
      {"Relu", StepFunction::kRelu},
      {"Relu6", StepFunction::kRelu6},
      {"Elu", StepFunction::kElu},
      {"Selu", StepFunction::kSelu},
      {"Softplus", StepFunction::kSoftplus},
      {"Softsign", StepFunction::kSoftsign},
      {"LeakyRelu", StepFunction::kLeakyRelu},
      {"Add", StepFunction::kAdd},
      {"AddV2", StepFunction::kAdd},
      {"BiasAdd", StepFunction::kAdd},
      {"Sub", StepFunction::kSub},
      {"Mul", StepFunction::kMul},
      {"Div", StepFunction::kDiv},
      {"RealDiv", StepFunction::kDiv},
      {"Maximum", StepFunction::kMaximum},
      {"Minimum", StepFunction::kMinimum},
      {"SquaredDifference", StepFunction::kSquaredDifference},
  };
  const auto found = table.find(op);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

LoweredTensors elementwise(Lowering& lowering, const Step& step, Inputs given, Inputs like) {
  LoweredTensors inputs;
  for (const Lowered& input : given) inputs.push_back(lowering.as_one_row(input));
  const std::optional<StepFunction> function = function_of(step.node->op);
  const ops::Attr* const format = step.attrs.find("data_format");
  const bool channels_first = format && std::get<std::string>(*format) != "NHWC" && like[0].dims.size() > 2;
  if (!function || like[0].dtype != DType::kFloat32 || channels_first)
    return {lowering.custom(step, inputs, like[0], !channels_first && is_rowwise(lowering, inputs, like[0]))};
  const ops::Attr* const alpha = step.attrs.find("alpha");
  return {lowering.elementwise(like[0], *function, inputs, alpha ? std::get<float>(*alpha) : 0)};
}

LoweredTensors add_n(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  if (like[0].dtype != DType::kFloat32 || inputs.size() < 2)
    return {lowering.custom(step, inputs, like[0], is_rowwise(lowering, inputs, like[0]))};
  Lowered sum = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const Lowered operands[] = {sum, inputs[i]};
    sum = lowering.elementwise(like[0], StepFunction::kAdd, operands);
  }
  return {sum};
}

// Each row of the result depends on the same row of the data, which is the last input of a transposed convolution and
// otherwise the first input.
LoweredTensors rowwise(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const std::size_t data = step.node->op == "Conv2DBackpropInput" ? 2 : 0;
  bool fits = like[0].dims.size() > 1;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    fits = fits &&
           (i != data ? inputs[i].is_constant()
                      : inputs[i].is_constant() || (!inputs[i].dims.empty() && inputs[i].dims[0] == like[0].dims[0]));
  return {lowering.custom(step, inputs, like[0], fits)};
}

LoweredTensors cast(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  if (like[0].dtype == inputs[0].dtype) return {inputs[0]};
  return {lowering.custom(step, inputs, like[0], true)};
}

LoweredTensors bitcast(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  if (dtype_size(like[0].dtype) == dtype_size(inputs[0].dtype)) return cast(lowering, step, inputs, like);
  return {lowering.custom(step, inputs, like[0], false)};
}

LoweredTensors reduce(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  Dims axes = lowering.integers(inputs[1]);
  for (std::int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  const bool keeps_rows = axes.empty() || axes[0] > 0;
  bool together = !axes.empty();
  for (std::size_t i = 1; i < axes.size(); ++i) together &= axes[i] == axes[i - 1] + 1;
  lowering.require_by_rows(keeps_rows && rank > 0);
  const std::string& op = step.node->op;
  const bool has_kind = op == "Mean" || op == "Sum" || op == "Max" || op == "Min";
  if (!has_kind || !together || like[0].dtype != DType::kFloat32)
    return {lowering.custom(step, inputs, like[0], keeps_rows)};
  if (const auto* hot = lowering.hot_of(x); hot && (op == "Max" || op == "Sum") && axes.back() < rank - 1)
    return {reduce_hot(lowering, *hot, axes, op == "Sum", like[0])};
  std::int64_t outer = 1, count = 1, inner = 1;
  for (std::int64_t i = 0; i < rank; ++i) {
    (i < axes.front() ? outer : i > axes.back() ? inner : count) *= x.dims[static_cast<std::size_t>(i)];
  }
  const auto kind = op == "Max"   ? inference::Reduction::kMaximum
                    : op == "Min" ? inference::Reduction::kMinimum
                                  : inference::Reduction::kSum;
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::reduction(x.value, out.value, out.dims, kind, outer, count, inner));
  if (op != "Mean") return {out};
  Lowered factor;
  factor.dtype = DType::kFloat32;
  factor.constant = Tensor::scalar(1.0f / static_cast<float>(count));
  const Lowered operands[] = {out, factor};
  return {lowering.elementwise(like[0], StepFunction::kMul, operands)};
}

// The same elements in the same order.
Lowered reshaped(Lowering& lowering, const Lowered& x, const Lowered& like) {
  lowering.require(like.dtype == x.dtype);
  lowering.require_by_rows(like.rowwise);
  Lowered out = x;
  out.dims = like.dims, out.other_dims = like.other_dims, out.before = -1;
  return out;
}
LoweredTensors reshape(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  Lowered out = reshaped(lowering, inputs[0], like[0]);
  const Lowering::Padding* const padding = lowering.padding_of(inputs[0]);
  if (!padding || out.is_constant() || step.node->op != "ExpandDims") return {out};
  // Padded steps become an image of one row.
  Lowering::Padding wider = *padding;
  std::int64_t axis = lowering.integers(inputs[1]).at(0);
  axis += axis < 0 ? static_cast<std::int64_t>(out.dims.size()) : 0;
  const auto add = [&](Dims& dims, std::int64_t number) { dims.insert(dims.begin() + axis, number); };
  add(wider.from.dims, 1), add(wider.from.other_dims, 1), add(wider.before, 0), add(wider.after, 0);
  lowering.note_padding(out, std::move(wider));
  return {out};
}

LoweredTensors transpose(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Dims order = lowering.integers(inputs[1]), strides = strides_of(inputs[0].dims);
  std::int64_t last = -1;
  bool stays = true;  // only axes of one element move
  for (const std::int64_t axis : order) {
    if (inputs[0].dims.at(static_cast<std::size_t>(axis)) == 1) continue;
    stays &= axis > last;
    last = axis;
  }
  Lowered moved = like[0];
  if (lowering.by_rows()) {
    const auto rows = std::ranges::find(order, static_cast<std::int64_t>(inputs[0].row_axis));
    lowering.require_by_rows(rows != order.end());
    moved.row_axis = static_cast<int>(rows - order.begin()), moved.rowwise = true;
    for (std::size_t i = 0; i < order.size(); ++i)
      moved.other_dims[i] = inputs[0].other_dims[static_cast<std::size_t>(order[i])];
  }
  if (stays) {
    Lowered out = reshaped(lowering, inputs[0], moved);
    out.row_axis = moved.row_axis;
    return {out};
  }
  if (!is_word(like[0].dtype)) return {lowering.custom(step, inputs, moved, true)};
  inference::Move move{inputs[0].value, like[0].dims, {}, strides_of(like[0].dims)};
  for (const std::int64_t axis : order) move.from.push_back(strides[static_cast<std::size_t>(axis)]);
  Lowered out = lowering.result(moved);
  lowering.program().add(inference::copies(out.value, out.dims, {move}, true));
  return {out};
}

LoweredTensors pad(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Dims amounts = lowering.integers(inputs[1]), strides = strides_of(like[0].dims);
  lowering.require_by_rows(amounts.at(0) == 0 && amounts.at(1) == 0);
  if (like[0].dtype != DType::kFloat32) return {lowering.custom(step, inputs, like[0], true)};
  const float background = inputs.size() > 2 ? lowering.float_number(inputs[2]) : 0.0f;
  Lowering::Padding padding{inputs[0], {}, {}};
  inference::Move move{inputs[0].value, inputs[0].dims, strides_of(inputs[0].dims), strides};
  for (std::size_t i = 0; i < strides.size(); ++i) {
    padding.before.push_back(amounts.at(2 * i)), padding.after.push_back(amounts.at(2 * i + 1));
    move.to_offset += amounts[2 * i] * strides[i];
  }
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::copies(out.value, out.dims, {move}, false, background));
  if (background == 0.0f && (strides.size() == 3 || strides.size() == 4))
    lowering.note_padding(out, std::move(padding));
  return {out};
}

// Moves between a tensor of `whole` dims and parts of it along `axis`.
inference::Move part_move(int value, const Dims& part, const Dims& whole, std::size_t axis, std::int64_t begin,
                          bool into_whole) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= part[i];
  for (std::size_t i = axis; i < part.size(); ++i) inner *= part[i];
  const std::int64_t unit = inner / part[axis], row = whole[axis] * unit;
  if (into_whole) return {value, {outer, inner}, {inner, 1}, {row, 1}, 0, begin * unit};
  return {value, {outer, inner}, {row, 1}, {inner, 1}, begin * unit, 0};
}

LoweredTensors concat(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const bool old = step.node->op == "Concat";
  const Dims axes = lowering.integers(old ? inputs.front() : inputs.back());
  const Inputs parts = old ? inputs.subspan(1) : inputs.first(inputs.size() - 1);
  const auto rank = static_cast<std::int64_t>(like[0].dims.size());
  const std::int64_t axis = axes.at(0) < 0 ? axes[0] + rank : axes[0];
  lowering.require_by_rows(axis > 0);
  if (like[0].dtype != DType::kFloat32) return {lowering.custom(step, inputs, like[0], true)};
  std::vector<inference::Move> moves;
  std::int64_t begin = 0;
  for (const Lowered& part : parts) {
    const auto at = static_cast<std::size_t>(axis);
    moves.push_back(part_move(lowering.number(part), part.dims, like[0].dims, at, begin, true));
    begin += part.dims[at];
  }
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::copies(out.value, out.dims, std::move(moves), true));
  return {out};
}

// Parts of equal size, or rows of one axis.
LoweredTensors split(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const bool unpacks = step.node->op == "Unpack";
  const Lowered& x = inputs[unpacks ? 0 : 1];
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  std::int64_t axis = unpacks ? step.attr<std::int64_t>("axis") : lowering.integers(inputs[0]).at(0);
  axis += axis < 0 ? rank : 0;
  lowering.require_by_rows(axis > 0);
  lowering.require(is_word(x.dtype) && !x.is_constant());
  const auto at = static_cast<std::size_t>(axis);
  Dims part = x.dims;
  part[at] /= static_cast<std::int64_t>(like.size());
  LoweredTensors outputs;
  for (std::size_t i = 0; i < like.size(); ++i) {
    Lowered out = lowering.result(like[i]);
    const auto begin = static_cast<std::int64_t>(i) * part[at];
    lowering.program().add(
        inference::copies(out.value, out.dims, {part_move(x.value, part, x.dims, at, begin, false)}, true));
    outputs.push_back(out);
  }
  return outputs;
}

// The parts' sizes may differ.
LoweredTensors split_v(Lowering& lowering, const Step&, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  std::int64_t axis = lowering.integers(inputs[2]).at(0);
  axis += axis < 0 ? static_cast<std::int64_t>(x.dims.size()) : 0;
  lowering.require_by_rows(axis > 0);
  lowering.require(is_word(x.dtype) && !x.is_constant());
  const auto at = static_cast<std::size_t>(axis);
  LoweredTensors outputs;
  std::int64_t begin = 0;
  const Dims sizes = lowering.integers(inputs[1]);
  std::int64_t named = 0;
  for (const std::int64_t size : sizes) named += std::max<std::int64_t>(0, size);
  lowering.require(sizes.size() == like.size());
  for (const std::int64_t size : sizes) {
    Lowered part = x;
    part.dims[at] = size < 0 ? x.dims[at] - named : size;  // -1: the rest
    lowering.require(part.dims[at] >= 0 && begin + part.dims[at] <= x.dims[at]);
    if (part.dims[at] == 0) {
      part.value = -1;  // cannot be read
      outputs.push_back(part);
      continue;
    }
    if (lowering.by_rows()) part.other_dims[at] = part.dims[at];
    Lowered out = lowering.result(part);
    lowering.program().add(
        inference::copies(out.value, out.dims, {part_move(x.value, part.dims, x.dims, at, begin, false)}, true));
    begin += part.dims[at];
    outputs.push_back(out);
  }
  return outputs;
}

// Tensors of one shape along a new axis.
LoweredTensors pack(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const auto rank = static_cast<std::int64_t>(like[0].dims.size());
  std::int64_t axis = step.attr<std::int64_t>("axis");
  axis += axis < 0 ? rank : 0;
  Lowered whole = like[0];
  if (lowering.by_rows()) {
    for (const Lowered& part : inputs) {
      lowering.require_by_rows(!part.is_constant() && part.other_dims == inputs[0].other_dims);
    }
    whole.rowwise = true, whole.row_axis = axis == 0 ? 1 : 0;
    whole.other_dims = inputs[0].other_dims;
    whole.other_dims.insert(whole.other_dims.begin() + axis, static_cast<std::int64_t>(inputs.size()));
  }
  if (like[0].dtype != DType::kFloat32) return {lowering.custom(step, inputs, whole, true)};
  std::vector<inference::Move> moves;
  for (const Lowered& part : inputs) {
    Dims dims = part.dims;
    dims.insert(dims.begin() + axis, 1);
    moves.push_back(part_move(lowering.number(part), dims, like[0].dims, static_cast<std::size_t>(axis),
                              static_cast<std::int64_t>(moves.size()), true));
  }
  Lowered out = lowering.result(whole);
  lowering.program().add(inference::copies(out.value, out.dims, std::move(moves), true));
  return {out};
}

// A constant all of whose elements are the same number, as that number.
std::optional<Lowered> as_number(const Lowering& lowering, const Lowered& x) {
  if (!x.is_constant() || x.dtype != DType::kFloat32) return std::nullopt;
  const Lowered row = lowering.as_one_row(x);
  if (row.other.defined()) return std::nullopt;
  const inference::Constant numbers = lowering.floats(row);
  if (numbers.size == 0 || !std::all_of(numbers.data, numbers.data + numbers.size, [&](float number) {
        return std::memcmp(&number, numbers.data, sizeof(float)) == 0;
      }))
    return std::nullopt;
  return known_constant(Tensor::scalar(numbers.data[0]));
}

// Where the results are whole or single numbers.
LoweredTensors select(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered test = lowering.as_one_row(lowering.before_repeating(inputs[0])), &out_like = like[0];
  std::optional<inference::Choice> choices[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const Lowered& x = inputs[i + 1];
    if (!x.is_constant() && x.dims == out_like.dims) choices[i] = {x.value};
    if (const auto number = as_number(lowering, x)) choices[i] = {lowering.number(*number), false};
  }
  if (like[0].dtype != DType::kFloat32 || test.dims.size() > out_like.dims.size() || !choices[0] || !choices[1])
    return elementwise(lowering, step, inputs, like);
  lowering.require_by_rows(lowering.keeps_rows(test, out_like));
  Lowered out = lowering.result(out_like);
  lowering.program().add(
      inference::select(lowering.bytes(test), test.dims, *choices[0], *choices[1], out.value, out.dims));
  return {out};
}

LoweredTensors reverse(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  Dims axes = lowering.integers(inputs[1]);
  const Dims strides = strides_of(x.dims);
  inference::Move move{x.value, x.dims, strides, strides};
  for (std::int64_t axis : axes) {
    axis += axis < 0 ? static_cast<std::int64_t>(x.dims.size()) : 0;
    const auto at = static_cast<std::size_t>(axis);
    lowering.require(at < x.dims.size() && move.from[at] >= 0);  // an axis of the tensor, named once
    lowering.require_by_rows(axis != x.row_axis);
    move.from_offset += (x.dims[at] - 1) * strides[at];
    move.from[at] = -strides[at];
  }
  Lowered moved = like[0];
  moved.rowwise = x.rowwise, moved.row_axis = x.row_axis, moved.other_dims = x.other_dims;
  if (!is_word(x.dtype)) return {lowering.custom(step, inputs, moved, true)};
  Lowered out = lowering.result(moved);
  lowering.program().add(inference::copies(out.value, out.dims, {std::move(move)}, true));
  return {out};
}

// Elements of `x` at regular offsets, which `move` describes.
Lowered part_of(Lowering& lowering, const Step& step, Inputs inputs, const Lowered& like, inference::Move move) {
  if (inputs[0].is_constant() || !is_word(like.dtype)) return lowering.custom(step, inputs, like, true);
  move.value = inputs[0].value;
  move.extents = like.dims, move.to = strides_of(like.dims);
  Lowered out = lowering.result(like);
  lowering.program().add(inference::copies(out.value, out.dims, {std::move(move)}, true));
  return out;
}

// Where the elements of a strided slice are.
inference::Move places_of(Lowering& lowering, const Step& step, Inputs inputs) {
  const Dims &dims = inputs[0].dims, strides = strides_of(dims), begin = lowering.integers(inputs[1]),
             steps = lowering.integers(inputs[3]);
  const auto bit = [&](const char* name, std::size_t i) { return (step.attr<std::int64_t>(name) >> i & 1) != 0; };
  std::size_t named = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) named += !bit("ellipsis_mask", i) && !bit("new_axis_mask", i);
  lowering.require(named <= dims.size() && steps.size() == begin.size());
  inference::Move move{};
  std::size_t axis = 0;
  const auto take_whole_axes = [&](std::size_t count) {
    for (; count > 0; --count) move.from.push_back(strides[axis++]);
  };
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (bit("ellipsis_mask", i)) {
      take_whole_axes(dims.size() - named);
    } else if (bit("new_axis_mask", i)) {
      move.from.push_back(0);
    } else {
      const std::int64_t dim = dims[axis], low = steps[i] > 0 ? 0 : -1, high = steps[i] > 0 ? dim : dim - 1;
      std::int64_t first = begin[i] < 0 ? begin[i] + dim : begin[i];
      const bool shrinks = bit("shrink_axis_mask", i);
      if (bit("begin_mask", i) && !shrinks) first = steps[i] > 0 ? 0 : dim - 1;
      move.from_offset += std::clamp(first, low, high) * strides[axis];
      if (!shrinks) move.from.push_back(steps[i] * strides[axis]);
      ++axis;
    }
  }
  take_whole_axes(dims.size() - axis);
  return move;
}

// Steps of 1 through all rows leave them as they are. A part of the first axis alone leaves rows of the second.
LoweredTensors strided_slice(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  Lowered part = like[0];
  if (lowering.by_rows() && inputs[0].row_axis == 1) {
    lowering.require_by_rows(lowering.integers(inputs[1]).size() == 1 &&
                             step.attr<std::int64_t>("ellipsis_mask") == 0 &&
                             step.attr<std::int64_t>("new_axis_mask") == 0);
    part.row_axis = (step.attr<std::int64_t>("shrink_axis_mask") & 1) != 0 ? 0 : 1;
    if (part.row_axis == 1) {
      part.rowwise = true, part.other_dims = inputs[0].other_dims;
      part.other_dims[0] = part.dims[0];
    }
  } else if (lowering.by_rows()) {
    const Dims begin = lowering.integers(inputs[1]), strides = lowering.integers(inputs[3]);
    const auto bit = [&](const char* name) { return (step.attr<std::int64_t>(name) & 1) != 0; };
    // An end that is equal for all batches skips rows, as does an end before the last row.
    const bool whole = !part.dims.empty() && part.dims[0] == inputs[0].dims[0];
    const bool to_end = bit("end_mask") || (inputs[2].other.defined() && whole);
    const bool all = bit("ellipsis_mask") || ((bit("begin_mask") || begin.at(0) == 0) && strides.at(0) == 1 && to_end);
    lowering.require_by_rows(inputs[0].row_axis == 0 && !inputs[0].is_constant() && all && !bit("shrink_axis_mask") &&
                             !bit("new_axis_mask"));
  }
  if (inputs[0].is_constant()) return {lowering.custom(step, inputs, part, true)};
  inference::Move move = places_of(lowering, step, inputs);
  lowering.require(move.from.size() == part.dims.size());
  return {part_of(lowering, step, inputs, part, std::move(move))};
}

LoweredTensors slice(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Dims begin = lowering.integers(inputs[1]);
  if (lowering.by_rows()) {
    const bool to_end = inputs[2].other.defined() || lowering.integers(inputs[2]).at(0) == -1;
    lowering.require_by_rows(!inputs[0].is_constant() && begin.at(0) == 0 && to_end &&
                             like[0].dims.at(0) == inputs[0].dims.at(0));
  }
  inference::Move move{};
  move.from = strides_of(inputs[0].dims);
  const Dims &dims = inputs[0].dims, &sizes = like[0].dims;
  lowering.require(begin.size() == dims.size() && sizes.size() == dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    lowering.require(begin[i] >= 0 && begin[i] <= dims[i] && sizes[i] <= dims[i] - begin[i]);
    move.from_offset += begin[i] * move.from[i];
  }
  return {part_of(lowering, step, inputs, like[0], std::move(move))};
}

// Constant indices of any axis: runs of them are copied together. Nothing where there are too many runs, or where an
// index is out of range.
std::optional<LoweredTensors> gather_constant(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  constexpr std::size_t kMostRuns = 1024;
  const Lowered &x = inputs[0], &indices = inputs[1];
  const ops::Attr* const batch = step.attrs.find("batch_dims");
  if (x.is_constant() || !indices.is_constant() || indices.other.defined() || !is_word(x.dtype) ||
      (batch && std::get<std::int64_t>(*batch) != 0))
    return std::nullopt;
  std::int64_t axis = inputs.size() < 3 ? 0 : lowering.integers(inputs[2]).at(0);
  axis += axis < 0 ? static_cast<std::int64_t>(x.dims.size()) : 0;
  lowering.require_by_rows(axis > 0);
  const auto at = static_cast<std::size_t>(axis);
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < at; ++i) outer *= x.dims[i];
  for (std::size_t i = at + 1; i < x.dims.size(); ++i) inner *= x.dims[i];
  const Dims places = lowering.integers(indices);
  const auto count = static_cast<std::int64_t>(places.size());
  std::vector<inference::Move> moves;
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t first = places[static_cast<std::size_t>(i)];
    std::int64_t run = 1;
    while (i + run < count && places[static_cast<std::size_t>(i + run)] == first + run) ++run;
    if (first < 0 || first + run > x.dims[at] || moves.size() == kMostRuns) return std::nullopt;
    moves.push_back(
        {x.value, {outer, run * inner}, {x.dims[at] * inner, 1}, {count * inner, 1}, first * inner, i * inner});
    i += run;
  }
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::copies(out.value, out.dims, moves, true));
  return LoweredTensors{out};
}

// Rows of a batch are rows of the indices into one table, or rows of x if the gather is along the batch axes or later
// ones.
bool gathers_within_rows(const Lowering& lowering, const Step& step, Inputs inputs) {
  const Lowered &x = inputs[0], &indices = inputs[1];
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  const ops::Attr* const batch = step.attrs.find("batch_dims");
  const std::int64_t batch_dims = batch ? std::get<std::int64_t>(*batch) : 0;
  std::int64_t axis = inputs.size() < 3 ? 0 : lowering.integers(inputs[2]).at(0);
  axis += axis < 0 ? rank : 0;
  if (x.is_constant()) return !x.other.defined() && axis == 0 && batch_dims == 0 && !indices.dims.empty();
  if (axis == 0) return false;
  return indices.is_constant() ? !indices.other.defined() && batch_dims == 0 : batch_dims > 0;
}

LoweredTensors gather(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  if (auto out = gather_constant(lowering, step, inputs, like)) return *std::move(out);
  const Lowered &table = inputs[0], &indices = inputs[1];
  const ops::Attr* const batch = step.attrs.find("batch_dims");
  const bool first_axis = inputs.size() < 3 || lowering.integers(inputs[2]).at(0) == 0;
  const bool fits = table.is_constant() && !table.other.defined() && !indices.is_constant() &&
                    table.dtype == DType::kFloat32 && !table.dims.empty() && first_axis &&
                    (!batch || std::get<std::int64_t>(*batch) == 0) && inference::product_of(table.dims) > 0;
  if (!fits) {
    lowering.require(step.node->op != "ResourceGather");
    return {lowering.custom(step, inputs, like[0], gathers_within_rows(lowering, step, inputs))};
  }
  const std::int64_t columns = inference::product_of(table.dims) / table.dims[0];
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::gather(indices.value, indices.dtype == DType::kInt64, out.value, out.dims,
                                           table.dims[0], columns, lowering.floats(table)));
  return {out};
}

}  // namespace

bool is_word(DType dtype) { return dtype_size(dtype) == sizeof(float); }

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return strides;
}

LoweringRule find_array_rule(std::string_view op) {
  static const std::unordered_map<std::string_view, LoweringRule> table = [] {
    std::unordered_map<std::string_view, LoweringRule> rules = {
        {"AddN", add_n},
        {"Cast", cast},
        {"Bitcast", bitcast},
        {"Mean", reduce},
        {"Sum", reduce},
        {"Max", reduce},
        {"Min", reduce},
        {"Prod", reduce},
        {"All", reduce},
        {"Any", reduce},
        {"EuclideanNorm", reduce},
        {"Reshape", reshape},
        {"ExpandDims", reshape},
        {"Squeeze", reshape},
        {"Transpose", transpose},
        {"Pad", pad},
        {"PadV2", pad},
        {"ConcatV2", concat},
        {"Concat", concat},
        {"Split", split},
        {"Pack", pack},
        {"SelectV2", select},
        {"SplitV", split_v},
        {"ReverseV2", reverse},
        {"Unpack", split},
        {"StridedSlice", strided_slice},
        {"Slice", slice},
        {"GatherV2", gather},
        {"Gather", gather},
        {"ResourceGather", gather},
    };
    for (const char* name :
         {"Less",        "LessEqual",  "Greater",    "GreaterEqual", "Equal", "NotEqual",    "LogicalAnd",
          "LogicalOr",   "LogicalNot", "FloorMod",   "FloorDiv",     "Pow",   "Log",         "Log1p",
          "Expm1",       "Sin",        "Cos",        "Floor",        "Ceil",  "Round",       "Sign",
          "ClipByValue", "DivNoNan",   "BitwiseAnd", "IsNan",        "IsInf", "IsFinite",    "BitwiseOr",
          "BitwiseXor",  "Invert",     "LeftShift",  "RightShift",   "Mod",   "TruncateMod", "TruncateDiv",
          "MulNoNan",    "Xlogy",      "Xlog1py",    "Xdivy",        "Rint",  "Tan",         "Asin",
          "Acos",        "Atan",       "Atan2",      "Sinh",         "Cosh",  "Asinh",       "Acosh",
          "Atanh",       "Lgamma",     "Digamma",    "Erfinv",       "Ndtri", "Bucketize",   "Select",
          "Conj",        "ComplexAbs", "Angle"})
      rules.emplace(name, elementwise);
    for (const char* name : {"Conv2DBackpropInput", "ResizeNearestNeighbor", "ResizeBilinear", "MirrorPad", "LRN",
                             "MaxPool3D", "AvgPool3D", "LogSoftmax"})
      rules.emplace(name, rowwise);
    return rules;
  }();
  const auto found = table.find(op);
  if (found != table.end()) return found->second;
  return function_of(op) ? elementwise : nullptr;
}

}  // namespace lockstep::graph
