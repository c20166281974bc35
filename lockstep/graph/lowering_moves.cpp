// Operations whose results are elements of their first input in other places, as copies.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "lockstep/graph/lowering_internal.h"

namespace lockstep::graph {
namespace {

using inference::Dims;
using inference::Move;
using Inputs = std::span<const Lowered>;
using LoweredTensors = std::vector<Lowered>;

LoweredTensors copied(Lowering& lowering, const Lowered& like, const std::vector<Move>& moves) {
  Lowered out = lowering.result(like);
  lowering.program().add(inference::copies(out.value, out.dims, moves, true));
  return {out};
}

// A part of each axis goes to the end, and the rest to the beginning.
LoweredTensors roll(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  const Dims shifts = lowering.integers(inputs[1]), axes = lowering.integers(inputs[2]);
  lowering.require(shifts.size() == axes.size() && rank > 0);
  Dims shift(x.dims.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] + (axes[i] < 0 ? rank : 0);
    lowering.require(axis >= 0 && axis < rank);
    const auto at = static_cast<std::size_t>(axis);
    shift[at] = ((shift[at] + shifts[i] % x.dims[at]) % x.dims[at] + x.dims[at]) % x.dims[at];
  }
  lowering.require_by_rows(shift[0] == 0);
  if (x.is_constant() || !is_word(x.dtype)) return {lowering.custom(step, inputs, like[0], !x.is_constant())};
  const Dims strides = strides_of(x.dims);
  std::vector<Move> moves = {{x.value, x.dims, strides, strides}};
  for (std::size_t axis = 0; axis < shift.size(); ++axis) {
    if (shift[axis] == 0) continue;
    std::vector<Move> parts;
    for (const Move& whole : moves) {
      Move head = whole, tail = whole;
      tail.extents[axis] = shift[axis], head.extents[axis] -= shift[axis];
      tail.from_offset += head.extents[axis] * strides[axis], head.to_offset += shift[axis] * strides[axis];
      parts.push_back(std::move(tail));
      parts.push_back(std::move(head));
    }
    moves = std::move(parts);
  }
  return copied(lowering, like[0], moves);
}

// SpaceToDepth and DepthToSpace: blocks of pixels of an image are channels of one.
LoweredTensors blocks(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  const bool to_depth = step.node->op == "SpaceToDepth";
  const bool fits = !x.is_constant() && is_word(x.dtype) && x.dims.size() == 4 && like[0].dims.size() == 4 &&
                    step.attr<std::string>("data_format") == "NHWC";
  if (!fits) return {lowering.custom(step, inputs, like[0], !x.is_constant())};
  const std::int64_t block = step.attr<std::int64_t>("block_size");
  const Dims &image = to_depth ? x.dims : like[0].dims, &deep = to_depth ? like[0].dims : x.dims;
  lowering.require(block > 0 && image[1] == deep[1] * block && image[2] == deep[2] * block &&
                   deep[3] == image[3] * block * block);
  const std::int64_t channels = image[3], row = image[2] * channels;
  const Dims extents = {image[0], deep[1], deep[2], block, block, channels};
  const Dims of_image = {image[1] * row, block * row, block * channels, row, channels, 1};
  return copied(
      lowering, like[0],
      {{x.value, extents, to_depth ? of_image : strides_of(extents), to_depth ? strides_of(extents) : of_image}});
}

// SpaceToBatchND and BatchToSpaceND, by which dilated convolutions are plain ones: every block-th pixel of an image is
// an image of its own. An image has pixels that the other side lacks, and the other way round.
LoweredTensors spaced(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  constexpr std::int64_t kMostMoves = 1024;
  const Lowered& x = inputs[0];
  const bool to_batch = step.node->op == "SpaceToBatchND";
  if (lowering.by_rows() && to_batch) {  // lower_dilated() reads x instead
    Lowered lost = like[0];
    lost.later = Lowered::kLost;
    return {lost};
  }
  lowering.require_by_rows(false);
  const Dims &image = to_batch ? x.dims : like[0].dims, &spread = to_batch ? like[0].dims : x.dims;
  const Dims block = lowering.integers(inputs[1]), border = lowering.integers(inputs[2]);
  const std::size_t axes = block.size();
  lowering.require(border.size() == 2 * axes && image.size() == spread.size() && image.size() > axes);
  std::int64_t count = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    lowering.require(block[i] > 0 && border[2 * i] >= 0 &&
                     spread[i + 1] * block[i] == image[i + 1] + border[2 * i] + border[2 * i + 1]);
    if (__builtin_mul_overflow(count, block[i], &count) || count > kMostMoves) count = kMostMoves + 1;
  }
  if (x.is_constant() || !is_word(x.dtype) || count > kMostMoves)
    return {lowering.custom(step, inputs, like[0], false)};
  lowering.require(spread[0] == image[0] * count);
  const Dims of_image = strides_of(image), of_spread = strides_of(spread);
  std::vector<Move> moves;
  for (std::int64_t number = 0; number < count; ++number) {
    Move move{x.value, image, of_image, of_spread};  // from the image
    move.to_offset = number * image[0] * of_spread[0];
    std::int64_t rest = number;
    for (std::size_t i = axes; i-- > 0; rest /= block[i]) {
      // Pixel `at` of the spread image is pixel at · block + shift of the image.
      const std::int64_t shift = rest % block[i] - border[2 * i];
      const std::int64_t first = shift < 0 ? (-shift + block[i] - 1) / block[i] : 0;
      const std::int64_t end = std::min(spread[i + 1], (image[i + 1] - shift + block[i] - 1) / block[i]);
      move.extents[i + 1] = std::max<std::int64_t>(0, end - first);
      move.from[i + 1] *= block[i];
      move.from_offset += (first * block[i] + shift) * of_image[i + 1], move.to_offset += first * of_spread[i + 1];
    }
    if (inference::product_of(move.extents) == 0) continue;
    if (!to_batch) std::swap(move.from, move.to), std::swap(move.from_offset, move.to_offset);
    moves.push_back(std::move(move));
  }
  lowering.require(!moves.empty());
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::copies(out.value, out.dims, moves, !to_batch));
  return {out};
}

// Tile and BroadcastTo.
LoweredTensors repeat(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  const Dims& to = like[0].dims;
  if (step.node->op == "Tile") {
    if (lowering.by_rows()) lowering.require_by_rows(!x.is_constant() && lowering.integers(inputs[1]).at(0) == 1);
  } else {
    lowering.require_by_rows(lowering.keeps_rows(x, like[0]));
  }
  if (x.is_constant()) return {lowering.custom(step, inputs, like[0], true)};
  lowering.require(x.dims.size() <= to.size());
  const std::size_t more = to.size() - x.dims.size();
  const Dims from_strides = strides_of(x.dims), to_strides = strides_of(to);
  Move move{x.value, {}, {}, {}};
  bool single = true;  // only axes of one element are repeated
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t own = i < more ? 1 : x.dims[i - more];
    lowering.require(own > 0 && to[i] % own == 0);
    single &= own == 1 || own == to[i];
    move.extents.insert(move.extents.end(), {to[i] / own, own});
    move.from.insert(move.from.end(), {0, i < more ? 0 : from_strides[i - more]});
    move.to.insert(move.to.end(), {own * to_strides[i], to_strides[i]});
  }
  LoweredTensors out = is_word(x.dtype) ? copied(lowering, like[0], {std::move(move)})
                                        : LoweredTensors{lowering.custom(step, inputs, like[0], true)};
  if (single) lowering.note_repeated(out[0], x);
  return out;
}

bool is_zero(const Lowered& known) {
  const auto has_zeros = [](const Tensor& tensor) {
    return std::ranges::all_of(tensor.to_data().bytes, [](std::byte b) { return b == std::byte{0}; });
  };
  return known.is_constant() && has_zeros(known.constant) && (!known.other.defined() || has_zeros(known.other));
}

// The real or the imaginary parts: every second float.
LoweredTensors part(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  if (x.is_constant() || x.dtype != DType::kComplex64 || like[0].dtype != DType::kFloat32)
    return {lowering.custom(step, inputs, like[0], is_rowwise(lowering, inputs, like[0]))};
  Lowered out = lowering.result(like[0]);
  const Move move = {x.value, {inference::product_of(x.dims)}, {2}, {1}, step.node->op == "Imag"};
  lowering.program().add(inference::copies(out.value, out.dims, {move}, true));
  return {out};
}

// Complex numbers whose imaginary parts are zero.
LoweredTensors complex(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  if (x.is_constant() || like[0].dtype != DType::kComplex64 || !is_zero(inputs[1]) || x.dims != like[0].dims)
    return {lowering.custom(step, inputs, like[0], is_rowwise(lowering, inputs, like[0]))};
  Lowered out = lowering.result(like[0]);
  const Dims floats = {2 * inference::product_of(out.dims)};
  const Move move = {x.value, {inference::product_of(x.dims)}, {1}, {2}};
  lowering.program().add(inference::copies(out.value, floats, {move}, false));
  return {out};
}

// The windows of an image, one after the other as channels: one copy for each of their cells.
LoweredTensors patches(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  if (x.is_constant() || !is_word(x.dtype)) return {lowering.custom(step, inputs, like[0], !x.is_constant())};
  const auto& sizes = step.attr<Dims>("ksizes");
  const auto& strides = step.attr<Dims>("strides");
  const auto& rates = step.attr<Dims>("rates");
  lowering.require(sizes.size() == 4 && strides.size() == 4 && rates.size() == 4 && x.dims.size() == 4);
  struct Axis {
    std::int64_t before, extent, out;
  } axes[2];
  for (std::size_t i = 0; i < 2; ++i) {
    axes[i] = {0, x.dims[i + 1], like[0].dims.at(i + 1)};
    const std::int64_t reach = (axes[i].out - 1) * strides[i + 1] + (sizes[i + 1] - 1) * rates[i + 1] + 1;
    if (step.attr<std::string>("padding") == "SAME")
      axes[i].before = std::max<std::int64_t>(0, reach - axes[i].extent) / 2;
  }
  const Dims from = strides_of(x.dims), to = strides_of(like[0].dims);
  std::vector<Move> moves;
  for (std::int64_t cell = 0; cell < sizes[1] * sizes[2]; ++cell) {
    const std::int64_t places[] = {cell / sizes[2], cell % sizes[2]};
    Move move{x.value, x.dims, from, to, 0, cell * x.dims[3]};
    for (std::size_t i = 0; i < 2; ++i) {
      // Window `at` has pixel at · stride + shift in this cell.
      const std::int64_t stride = strides[i + 1], shift = places[i] * rates[i + 1] - axes[i].before;
      const std::int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
      const std::int64_t end = std::min(axes[i].out, (axes[i].extent - shift + stride - 1) / stride);
      move.extents[i + 1] = std::max<std::int64_t>(0, end - first);
      move.from[i + 1] *= stride;
      move.from_offset += (first * stride + shift) * from[i + 1], move.to_offset += first * to[i + 1];
    }
    if (inference::product_of(move.extents) > 0) moves.push_back(std::move(move));
  }
  lowering.require(!moves.empty());
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::copies(out.value, out.dims, moves, step.attr<std::string>("padding") == "VALID"));
  return {out};
}

}  // namespace

LoweringRule find_move_rule(std::string_view op) {
  static const std::unordered_map<std::string_view, LoweringRule> table = {{"SpaceToBatchND", spaced},
                                                                           {"BatchToSpaceND", spaced},
                                                                           {"Roll", roll},
                                                                           {"SpaceToDepth", blocks},
                                                                           {"DepthToSpace", blocks},
                                                                           {"Tile", repeat},
                                                                           {"BroadcastTo", repeat},
                                                                           {"Real", part},
                                                                           {"Imag", part},
                                                                           {"Complex", complex},
                                                                           {"ExtractImagePatches", patches}};
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::graph
