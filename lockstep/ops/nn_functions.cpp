#include "lockstep/ops/nn_functions.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/operators.h"

namespace lockstep::nn {
namespace {

using ops::Ints;

// The numbers of the `spatial` axes, given as one number for all, one for each, or one for each axis of the input.
Ints of_axes(const ops::IntOrInts& given, std::size_t spatial, std::string_view data_format) {
  const Ints& all = given;
  if (all.size() == 1) return Ints(spatial, all[0]);
  if (all.size() == spatial) return all;
  if (all.size() != spatial + 2) {
    throw_invalid_argument(fmt::format("invalid window or strides: found {} numbers, expected 1, {} or {}", all.size(),
                                       spatial, spatial + 2));
  }
  const std::ptrdiff_t first = data_format.starts_with("NC") ? 2 : 1;
  return Ints(all.begin() + first, all.begin() + first + static_cast<std::ptrdiff_t>(spatial));
}
Ints of_all_axes(const ops::IntOrInts& given) {
  const Ints image = of_axes(given, 2, "NHWC");
  return {1, image[0], image[1], 1};
}

// A sequence as an image of height 1.
void check_sequence(const Tensor& input, std::string_view data_format) {
  if (data_format != "NWC" || input.rank() != 3) {
    throw_invalid_argument(
        fmt::format("found shape {} and data_format \"{}\", expected (batch, steps, channels), \"NWC\"",
                    input.shape().to_string(), data_format));
  }
}
Tensor pool_sequence(const Tensor& input, const Pool1DKeywords& o,
                     Tensor (*pool)(const Tensor&, const ops::PoolOptions&)) {
  check_sequence(input, o.data_format);
  const Tensor image = ops::expand_dims(input, 1);
  return ops::squeeze(pool(image, {.size = {1, o.ksize}, .strides = {1, o.strides}, .padding = o.padding}), {1});
}

}  // namespace

Tensor conv1d(const Tensor& input, const Tensor& filters, const Conv1DKeywords& o) {
  check_sequence(input, o.data_format);
  const ops::ConvOptions options{.strides = {1, o.stride}, .padding = o.padding, .dilations = {1, o.dilations}};
  return ops::squeeze(ops::conv2d(ops::expand_dims(input, 1), ops::expand_dims(filters, 0), options), {1});
}
Tensor conv3d(const Tensor& input, const Tensor& filters, const Conv3DKeywords& o) {
  return ops::conv3d(input, filters,
                     {.strides = of_axes(o.strides, 3, o.data_format),
                      .padding = o.padding,
                      .dilations = of_axes(o.dilations, 3, o.data_format),
                      .data_format = o.data_format});
}
Tensor max_pool1d(const Tensor& input, const Pool1DKeywords& o) { return pool_sequence(input, o, ops::max_pool); }
Tensor avg_pool1d(const Tensor& input, const Pool1DKeywords& o) { return pool_sequence(input, o, ops::avg_pool); }
Tensor max_pool3d(const Tensor& input, const Pool3DKeywords& o) {
  return ops::max_pool3d(input, {.size = of_axes(o.ksize, 3, o.data_format),
                                 .strides = of_axes(o.strides, 3, o.data_format),
                                 .padding = o.padding,
                                 .data_format = o.data_format});
}
Tensor avg_pool3d(const Tensor& input, const Pool3DKeywords& o) {
  return ops::avg_pool3d(input, {.size = of_axes(o.ksize, 3, o.data_format),
                                 .strides = of_axes(o.strides, 3, o.data_format),
                                 .padding = o.padding,
                                 .data_format = o.data_format});
}
Tensor separable_conv2d(const Tensor& input, const Tensor& depthwise_filter, const Tensor& pointwise_filter,
                        const SeparableConvKeywords& o) {
  const Tensor channels =
      ops::depthwise_conv2d(input, depthwise_filter, {.strides = of_axes(o.strides, 2, "NHWC"), .padding = o.padding});
  return ops::conv2d(channels, pointwise_filter);
}
Tensor atrous_conv2d(const Tensor& value, const Tensor& filters, const AtrousKeywords& o) {
  return ops::conv2d(value, filters, {.padding = o.padding, .dilations = {o.rate, o.rate}});
}
PoolWithArgmax max_pool_with_argmax(const Tensor& input, const ArgmaxPoolKeywords& o) {
  const Tensors out = ops::call("MaxPoolWithArgmax", {input},
                                {{"ksize", of_all_axes(o.ksize)},
                                 {"strides", of_all_axes(o.strides)},
                                 {"padding", o.padding},
                                 {"include_batch_in_index", o.include_batch_in_index}});
  return {out[0], out[1]};
}
Tensor local_response_normalization(const Tensor& input, const LocalResponseKeywords& o) {
  return ops::call1("LRN", {input},
                    {{"depth_radius", o.depth_radius},
                     {"bias", static_cast<float>(o.bias)},
                     {"alpha", static_cast<float>(o.alpha)},
                     {"beta", static_cast<float>(o.beta)}});
}
Tensor weighted_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits, double pos_weight) {
  if (!labels.defined() || !logits.defined())
    throw_invalid_argument("weighted_cross_entropy_with_logits requires labels and logits");
  const Tensor weight = 1.0 + (pos_weight - 1.0) * labels;
  return (1.0 - labels) * logits + weight * (ops::log1p(ops::exp(-ops::abs(logits))) + ops::relu(-logits));
}
Tensor log_poisson_loss(const Tensor& targets, const Tensor& log_input) {
  return ops::exp(log_input) - log_input * targets;
}
Tensor crelu(const Tensor& features) { return ops::relu(ops::concat({features, -features}, -1)); }
Tensor zero_fraction(const Tensor& value) {
  return ops::reduce_mean(ops::cast(ops::equal(value, ops::zeros_like(value)), DType::kFloat32));
}

}  // namespace lockstep::nn
