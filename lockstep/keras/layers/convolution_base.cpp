#include "lockstep/graph/recurrence_internal.h"
#include "lockstep/keras/layers/convolution_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"

namespace lockstep::keras {

std::int64_t channels_of(const Shape& shape, int rank, const std::string& data_format, const std::string& who) {
  if (shape.rank() != rank + 2) {
    throw_invalid_argument(
        fmt::format("{}: expected an input of rank {}, found shape {}", who, rank + 2, shape.to_string()));
  }
  const std::int64_t channels = data_format == "channels_first" ? shape[1] : shape[-1];
  if (channels == kUnknownDim || channels == 0) {
    throw_invalid_argument(
        fmt::format("{}: the channels of its input must be known, found shape {}", who, shape.to_string()));
  }
  return channels;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

Tensor add_height(const Tensor& x) { return ops::expand_dims(x, 1); }
Tensor drop_height(const Tensor& x) { return ops::squeeze(x, {1}); }
ops::Ints with_height(const Ints& values, std::int64_t height) { return {height, values[0]}; }

Tensor pad_causal(const Tensor& x, std::int64_t kernel, std::int64_t dilation) {
  return ops::pad(x, {{0, 0}, {dilation * (kernel - 1), 0}, {0, 0}});
}

namespace {

// What is missing at the end of an axis of the image so that blocks of `dilation` elements fill it with its padding.
Tensor extra_padding(const Tensor& x, int axis, std::int64_t padding, std::int64_t dilation) {
  if (x.dim(axis) >= 0)
    return Tensor::scalar(static_cast<std::int32_t>((dilation - (x.dim(axis) + padding) % dilation) % dilation));
  const Tensor size = ops::gather(ops::shape_of(x, DType::kInt32), Tensor::scalar(std::int32_t{axis}));
  const Tensor number = Tensor::scalar(static_cast<std::int32_t>(dilation));
  const Tensor padded = ops::add(size, Tensor::scalar(static_cast<std::int32_t>(padding)));
  return ops::floor_mod(ops::neg(padded), number);
}

}  // namespace

Tensor conv2d_in_graph(const Tensor& x, const Tensor& kernel, const ops::ConvOptions& how,
                       Tensor (*convolve)(const Tensor&, const Tensor&, const ops::ConvOptions&)) {
  const Ints& block = how.dilations;
  const bool plain = block[0] == 1 && block[1] == 1;
  const bool any_size = x.dim(1) < 0 || x.dim(2) < 0;
  const bool named = graph::ScopedProgramTrace::active();  // programs take dilations as they are
  if (plain || named || !(x.is_symbolic() || kernel.is_symbolic()) || (any_size && convolve == ops::conv2d))
    return convolve(x, kernel, how);
  const auto number = [](std::int64_t n) { return Tensor::scalar(static_cast<std::int32_t>(n)); };
  std::vector<std::int32_t> sizes;
  Tensors paddings, crops;
  Ints known(2, kUnknownDim);  // the size of the output
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t dilation = block[static_cast<std::size_t>(axis)];
    const std::int64_t padding = how.padding == "SAME" ? (kernel.dim(axis) - 1) * dilation : 0;
    const Tensor extra = extra_padding(x, axis + 1, padding, dilation);
    sizes.push_back(static_cast<std::int32_t>(dilation));
    paddings.push_back(ops::stack({number(padding / 2), ops::add(number(padding - padding / 2), extra)}));
    crops.push_back(ops::stack({number(0), extra}));
    const std::int64_t reach = (kernel.dim(axis) - 1) * dilation;
    if (x.dim(axis + 1) >= 0)
      known[static_cast<std::size_t>(axis)] = std::max<std::int64_t>(0, x.dim(axis + 1) + padding - reach);
  }
  const Tensor blocks = Tensor::from_vector(sizes);
  const Tensor interleaved = ops::call1("SpaceToBatchND", {x, blocks, ops::stack(paddings)});
  const Tensor y = convolve(interleaved, kernel, {.strides = how.strides, .padding = "VALID"});
  const Tensor out = ops::call1("BatchToSpaceND", {y, blocks, ops::stack(crops)});
  if ((known[0] < 0) == (known[1] < 0)) return out;
  return ops::ensure_shape(out, Shape{kUnknownDim, known[0], known[1], y.dim(-1)});
}

Tensor depthwise(const Tensor& x, const Tensor& kernel, int rank, const Ints& strides, const std::string& padding,
                 const Ints& dilations) {
  if (rank == 2)
    return conv2d_in_graph(x, kernel, {.strides = strides, .padding = padding, .dilations = dilations},
                           ops::depthwise_conv2d);
  const ops::Ints both = {strides[0], strides[0]}, wide = with_height(dilations, 1);
  return drop_height(conv2d_in_graph(add_height(x), ops::expand_dims(kernel, 0),
                                     {.strides = both, .padding = padding, .dilations = wide}, ops::depthwise_conv2d));
}

}  // namespace lockstep::keras
