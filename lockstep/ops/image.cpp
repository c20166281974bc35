// Resizing of images, NHWC.
#include <cmath>

#include "lockstep/ops/image_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/resize_internal.h"

namespace lockstep::ops {
namespace {

struct Mapping {
  bool align_corners, half_pixel;
  float scale(std::int64_t in, std::int64_t out) const {
    return align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                    : static_cast<float>(in) / static_cast<float>(out);
  }
};

Mapping mapping_of(const Call& call) {
  const Mapping m{call.attr<bool>("align_corners"), call.attr<bool>("half_pixel_centers")};
  if (m.align_corners && m.half_pixel)
    throw_invalid_argument("If half_pixel_centers is True, align_corners must be False.");
  return m;
}

Shapes resize_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  const auto size = known_ints(call, 1);
  if (x.known_rank() && x.rank() != 4) throw_invalid_argument("images must have rank 4");
  if (size && size->size() != 2) throw_invalid_argument("size must be height and width");
  if (size && ((*size)[0] <= 0 || (*size)[1] <= 0)) throw_invalid_argument("output dimensions must be positive");
  return {Shape{x.known_rank() ? x[0] : kUnknownDim, size ? (*size)[0] : kUnknownDim, size ? (*size)[1] : kUnknownDim,
                x.known_rank() ? x[3] : kUnknownDim}};
}

void check(const Call& call) {
  resize_shape(call);
  const Shape& x = call.input(0).shape();
  if (x[1] == 0 || x[2] == 0 || x[3] == 0)
    throw_invalid_argument(fmt::format("input image must be of non-zero size, it is {}", x.to_string()));
}

// A product and a sum are rounded one after the other, as TensorFlow does it: images of integers are cut to integers
// afterwards, where the last bit of a whole number counts.
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")

// One axis: between the neighbours below and above each source position.
AxisPixels bilinear_axis(std::int64_t in, std::int64_t out, const Mapping& m) {
  const float scale = m.scale(in, out);
  AxisPixels axis;
  for (std::int64_t i = 0; i < out; ++i) {
    const float at = m.half_pixel ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
    const float floor = std::floor(at);
    axis.below.push_back(std::max<std::int64_t>(0, static_cast<std::int64_t>(floor)));
    axis.above.push_back(std::min<std::int64_t>(in - 1, static_cast<std::int64_t>(std::ceil(at))));
    axis.share.push_back(at - floor);
  }
  return axis;
}

AxisPixels nearest_axis(std::int64_t in, std::int64_t out, const Mapping& m) {
  const float scale = m.scale(in, out);
  AxisPixels axis;
  for (std::int64_t i = 0; i < out; ++i) {
    const float at = static_cast<float>(i) * scale;
    const float source = m.align_corners ? std::round(at)
                         : m.half_pixel  ? std::floor((static_cast<float>(i) + 0.5f) * scale)
                                         : std::floor(at);
    axis.below.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(source), 0, in - 1));
  }
  axis.above = axis.below;
  return axis;
}

#pragma GCC pop_options

Tensors bilinear(const Call& call) {
  check(call);
  const Mapping m = mapping_of(call);
  const Ints size = ints_in(call, 1);
  const at::Tensor x = in(call, 0).to(at::kFloat);
  return one(resized(x, bilinear_axis(x.size(1), size[0], m), bilinear_axis(x.size(2), size[1], m)));
}

Tensors nearest(const Call& call) {
  check(call);
  const Mapping m = mapping_of(call);
  const Ints size = ints_in(call, 1);
  const at::Tensor& x = in(call, 0);
  return one(resized(x, nearest_axis(x.size(1), size[0], m), nearest_axis(x.size(2), size[1], m)));
}

Tensors adjust_contrast(const Call& call) {
  const at::Tensor x = in(call, 0).to(at::kFloat);
  if (x.dim() < 3) throw_invalid_argument("images must have at least three axes");
  const at::Tensor mean = x.mean({-3, -2}, true);
  return one(narrow_to((x - mean) * in(call, 1) + mean, in(call, 0).scalar_type()));
}

}  // namespace

void register_image(Table& table) {
  table.add("ResizeBilinear", resize_shape, bilinear);
  table.add("ResizeNearestNeighbor", resize_shape, nearest);
  table.add("AdjustContrastv2", same_shape, adjust_contrast);
  register_detection(table);
  register_resampling(table);
}

}  // namespace lockstep::ops
