#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/sampling_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

Tensor place_number(std::int64_t n) { return Tensor::scalar(static_cast<std::int32_t>(n)); }

SampleNode sample_node(const Tensor& index, std::int64_t extent, const Tensor& weight, const std::string& fill_mode) {
  const Tensor size = place_number(extent);
  if (fill_mode == "wrap") return {ops::floor_mod(index, size), {}, weight};
  if (fill_mode == "reflect" || fill_mode == "mirror") {
    const Tensor place = ops::floor_mod(ops::abs(index), place_number(2 * extent));
    const std::int64_t turn = fill_mode == "reflect" ? 2 * extent - 1 : 2 * extent;
    return {ops::where(ops::less(place, size), place, place_number(turn) - place), {}, weight};
  }
  const Tensor clipped = ops::clip_by_value(index, place_number(0), place_number(extent - 1));
  if (fill_mode == "nearest") return {clipped, {}, weight};
  return {clipped, ops::logical_and(ops::greater_equal(index, place_number(0)), ops::less(index, size)), weight};
}

Tensor both(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return ops::logical_and(a, b);
}

}  // namespace

std::vector<SampleNode> sample_nodes(const Tensor& places, std::int64_t extent, const Sampling& how) {
  if (!how.linear) {
    const Tensor index = is_floating(places.dtype()) ? ops::round(places) : places;
    return {sample_node(ops::cast(index, DType::kInt32), extent, ops::ones_like(places), how.fill_mode)};
  }
  const Tensor lower = ops::floor(places), weight = places - lower;
  const Tensor index = ops::cast(lower, DType::kInt32);
  return {sample_node(index, extent, 1.0 - weight, how.fill_mode),
          sample_node(index + place_number(1), extent, weight, how.fill_mode)};
}

Tensor sample_images(const Tensor& images, const Tensor& rows, const Tensor& columns, const Sampling& how) {
  const std::int64_t height = images.dim(1), width = images.dim(2);
  const Tensor pixels_of = ops::reshape(images, {-1, height * width, images.dim(3)});
  const auto each = [](const Tensor& t) { return ops::expand_dims(t, -1); };
  Tensor sum;
  for (const SampleNode& row : sample_nodes(rows, height, how)) {
    for (const SampleNode& column : sample_nodes(columns, width, how)) {
      Tensor value = ops::gather(pixels_of, row.index * place_number(width) + column.index, 1, 1);
      if (const Tensor inside = both(row.inside, column.inside); inside.defined())
        value = ops::where(each(inside), value, ops::zeros_like(value) + how.fill_value);
      value = ops::cast(each(row.weight * column.weight), images.dtype()) * value;
      sum = sum.defined() ? sum + value : value;
    }
  }
  return sum;
}

Tensor sample_array(const Tensor& x, const Tensor& places, const Sampling& how) {
  if (places.rank() < 2 || places.dim(0) != x.rank())
    throw_invalid_argument(fmt::format("invalid places of an array with {} axes: found shape {}, expected ({}, …)",
                                       x.rank(), places.shape().to_string(), x.rank()));
  const Tensors along = ops::unstack(places, 0);
  struct Corner {
    Tensor index, inside, weight;
  };
  std::vector<Corner> corners = {{}};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.dim(axis) == kUnknownDim)
      throw_invalid_argument(
          fmt::format("invalid array to sample: the shape must be known, found {}", x.shape().to_string()));
    std::vector<Corner> next;
    for (const Corner& corner : corners) {
      for (const SampleNode& node : sample_nodes(along[static_cast<std::size_t>(axis)], x.dim(axis), how)) {
        next.push_back({corner.index.defined() ? corner.index * place_number(x.dim(axis)) + node.index : node.index,
                        both(corner.inside, node.inside),
                        corner.weight.defined() ? corner.weight * node.weight : node.weight});
      }
    }
    corners = std::move(next);
  }
  const Tensor values = ops::reshape(x, {-1});
  Tensor sum;
  for (const Corner& corner : corners) {
    Tensor value = ops::cast(ops::gather(values, corner.index), corner.weight.dtype());
    if (corner.inside.defined()) value = ops::where(corner.inside, value, ops::zeros_like(value) + how.fill_value);
    value = corner.weight * value;
    sum = sum.defined() ? sum + value : value;
  }
  return ops::cast(is_integer(x.dtype()) ? ops::round(sum) : sum, x.dtype());
}

Tensor homography(const Tensor& start, const Tensor& end) {
  Tensors rows, targets;
  for (const Tensor& point : ops::unstack(ops::stack({start, end}, 2), 1)) {  // (batch, 2, 2): start and end
    const Tensors both = ops::unstack(point, 1);
    const Tensors from = ops::unstack(both[0], 1), to = ops::unstack(both[1], 1);
    const Tensor zero = ops::zeros_like(to[0]), one = ops::ones_like(to[0]);
    rows.push_back(ops::stack({to[0], to[1], one, zero, zero, zero, -from[0] * to[0], -from[0] * to[1]}, -1));
    rows.push_back(ops::stack({zero, zero, zero, to[0], to[1], one, -from[1] * to[0], -from[1] * to[1]}, -1));
    targets.push_back(from[0]);
    targets.push_back(from[1]);
  }
  const Tensor solved = ops::call1("MatrixSolve", {ops::stack(rows, 1), ops::expand_dims(ops::stack(targets, -1), -1)});
  return ops::reshape(solved, {-1, 8});
}

}  // namespace lockstep::keras
