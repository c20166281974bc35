#include "lockstep/ops/nn_functions.h"

#include <numbers>

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
namespace {

void require_channels_last(const char* function, const TransposeKeywords& o, std::string_view expected) {
  if (o.data_format.empty() || o.data_format == expected) return;
  throw_invalid_argument(
      fmt::format("{}: invalid data_format: found \"{}\", expected \"{}\"", function, o.data_format, expected));
}

}  // namespace
Tensor conv1d_transpose(const Tensor& input, const Tensor& filters, const TransposeKeywords& o) {
  require_channels_last("conv1d_transpose", o, "NWC");
  const Tensor given = ops::shape_tensor(o.output_shape);
  const Tensor shape = ops::concat(
      {ops::slice(given, {0}, {1}), ops::ones_like(ops::slice(given, {0}, {1})), ops::slice(given, {1}, {2})}, 0);
  const ops::ConvOptions options{.strides = {1, of_axes(o.strides, 1, "NWC")[0]},
                                 .padding = o.padding,
                                 .dilations = {1, of_axes(o.dilations, 1, "NWC")[0]}};
  return ops::squeeze(ops::conv2d_transpose(ops::expand_dims(input, 1), ops::expand_dims(filters, 0), shape, options),
                      {1});
}
Tensor conv3d_transpose(const Tensor& input, const Tensor& filters, const TransposeKeywords& o) {
  require_channels_last("conv3d_transpose", o, "NDHWC");
  const auto whole = [](const Ints& inner) { return Ints{1, inner[0], inner[1], inner[2], 1}; };
  return ops::call1("Conv3DBackpropInputV2", {ops::shape_tensor(o.output_shape), filters, input},
                    {{"strides", whole(of_axes(o.strides, 3, "NDHWC"))},
                     {"padding", o.padding},
                     {"dilations", whole(of_axes(o.dilations, 3, "NDHWC"))}});
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
  const Tensor channels = ops::depthwise_conv2d(input, depthwise_filter,
                                                {.strides = of_axes(o.strides, 2, o.data_format),
                                                 .padding = o.padding,
                                                 .dilations = of_axes(o.dilations, 2, o.data_format),
                                                 .data_format = o.data_format});
  return ops::conv2d(channels, pointwise_filter, {.data_format = o.data_format});
}
Tensor atrous_conv2d(const Tensor& value, const Tensor& filters, const AtrousKeywords& o) {
  return ops::conv2d(value, filters, {.padding = o.padding, .dilations = {o.rate, o.rate}});
}
namespace {

// Strides and dilations of four numbers of images with channels last.
Tensor dilated(const char* function, const Tensor& input, const Tensor& filters, const MorphologyKeywords& o) {
  if (o.data_format != "NHWC") {
    throw_invalid_argument(
        fmt::format("{}: invalid data_format: found \"{}\", expected \"NHWC\"", function, o.data_format));
  }
  return ops::call1("Dilation2D", {input, filters},
                    {{"strides", o.strides}, {"rates", o.dilations}, {"padding", o.padding}});
}

}  // namespace
Tensor dilation2d(const Tensor& input, const Tensor& filters, const MorphologyKeywords& o) {
  return dilated("dilation2d", input, filters, o);
}
Tensor erosion2d(const Tensor& value, const Tensor& filters, const MorphologyKeywords& o) {
  return -dilated("erosion2d", -value, ops::reverse(filters, {0, 1}), o);
}
Tensor convolution(const Tensor& input, const Tensor& filters, const ConvolutionKeywords& o) {
  const std::string format = !o.data_format.empty() ? o.data_format
                             : filters.rank() == 3  ? "NWC"
                             : filters.rank() == 4  ? "NHWC"
                                                    : "NDHWC";
  switch (filters.rank()) {
    case 3:
      return conv1d(input, filters,
                    {.stride = of_axes(o.strides, 1, format)[0],
                     .padding = o.padding,
                     .data_format = format,
                     .dilations = of_axes(o.dilations, 1, format)[0]});
    case 4:
      return ops::conv2d(input, filters,
                         {.strides = of_axes(o.strides, 2, format),
                          .padding = o.padding,
                          .dilations = of_axes(o.dilations, 2, format),
                          .data_format = format});
    case 5:
      return conv3d(input, filters,
                    {.strides = o.strides, .padding = o.padding, .data_format = format, .dilations = o.dilations});
    default:
      throw_invalid_argument(
          fmt::format("convolution: found filters of shape {}, expected 3, 4 or 5 axes", filters.shape().to_string()));
  }
}
Tensor pool(const Tensor& input, const WindowKeywords& o) {
  const bool max = o.pooling_type == "MAX";
  if (!max && o.pooling_type != "AVG") {
    throw_invalid_argument(
        fmt::format("pool: invalid pooling_type: found \"{}\", expected \"MAX\" or \"AVG\"", o.pooling_type));
  }
  const int axes = input.rank() - 2;
  if (axes < 1 || axes > 3) {
    throw_invalid_argument(
        fmt::format("pool: found an input of shape {}, expected 3, 4 or 5 axes", input.shape().to_string()));
  }
  const auto spatial = static_cast<std::size_t>(axes);
  Ints size = of_axes(o.window_shape, spatial, "N"), strides = of_axes(o.strides, spatial, "N");
  if (axes == 3) {
    const ops::PoolOptions options{.size = size, .strides = strides, .padding = o.padding, .data_format = "NDHWC"};
    return max ? ops::max_pool3d(input, options) : ops::avg_pool3d(input, options);
  }
  if (axes == 1) size.insert(size.begin(), 1), strides.insert(strides.begin(), 1);
  const ops::PoolOptions options{.size = size, .strides = strides, .padding = o.padding};
  const Tensor images = axes == 1 ? ops::expand_dims(input, 1) : input;
  const Tensor out = max ? ops::max_pool(images, options) : ops::avg_pool(images, options);
  return axes == 1 ? ops::squeeze(out, {1}) : out;
}

ops::Moments weighted_moments(const Tensor& given, const FrequencyKeywords& o) {
  const bool half = given.dtype() == DType::kFloat16;
  const Tensor x = half ? ops::cast(given, DType::kFloat32) : given;
  const Tensor weights = ops::cast(o.frequency_weights, x.dtype());
  const Tensor total = ops::reduce_sum(weights + ops::zeros_like(x), o.axes, true);
  Tensor mean = ops::div_no_nan(ops::reduce_sum(weights * x, o.axes, true), total);
  Tensor variance = ops::div_no_nan(ops::reduce_sum(weights * ops::squared_difference(x, mean), o.axes, true), total);
  if (!o.keepdims) mean = ops::squeeze(mean, o.axes), variance = ops::squeeze(variance, o.axes);
  return half ? ops::Moments{ops::cast(mean, DType::kFloat16), ops::cast(variance, DType::kFloat16)}
              : ops::Moments{mean, variance};
}
SufficientStatistics sufficient_statistics(const Tensor& x, const StatisticsKeywords& o) {
  std::int64_t count = 1;
  if (o.axes) {
    for (const std::int64_t axis : *o.axes) count *= x.dim(static_cast<int>(axis));
  } else {
    count = x.num_elements();
  }
  const bool shifted = o.shift.defined();
  return {ops::constant(static_cast<double>(count), x.dtype()),
          ops::reduce_sum(shifted ? x - o.shift : x, o.axes, o.keepdims),
          ops::reduce_sum(shifted ? ops::squared_difference(x, o.shift) : ops::square(x), o.axes, o.keepdims), o.shift};
}
const Tensor& SufficientStatistics::operator[](int part) const {
  switch (part) {
    case 0: return count;
    case 1: return mean_ss;
    case 2: return variance_ss;
    case 3: return shift;
    default: throw_out_of_range(fmt::format("sufficient_statistics returns 4 tensors, found the index {}", part));
  }
}
ops::Moments normalize_moments(const Tensor& counts, const Tensor& mean_ss, const Tensor& variance_ss,
                               const Tensor& shift) {
  const Tensor divisor = ops::reciprocal(counts);
  const Tensor shifted = mean_ss * divisor;
  return {shift.defined() ? shifted + shift : shifted, variance_ss * divisor - ops::square(shifted)};
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
Tensor log_poisson_loss(const Tensor& targets, const Tensor& log_input, const PoissonLossKeywords& o) {
  const Tensor loss = ops::exp(log_input) - log_input * targets;
  if (!o.compute_full_loss) return loss;
  const Tensor factorial = targets * ops::log(targets) - targets + 0.5 * ops::log(2 * std::numbers::pi * targets);
  return loss + ops::where(ops::logical_and(targets >= 0, targets <= 1), ops::zeros_like(targets), factorial);
}
Tensor crelu(const Tensor& features) { return ops::relu(ops::concat({features, -features}, -1)); }
Tensor zero_fraction(const Tensor& value) {
  return ops::reduce_mean(ops::cast(ops::equal(value, ops::zeros_like(value)), DType::kFloat32));
}

}  // namespace lockstep::nn
