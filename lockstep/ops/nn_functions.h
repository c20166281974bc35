// tf.nn: windows over sequences and volumes, and losses. Names, order of arguments and defaults are TensorFlow's.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/math_functions.h"
#include "lockstep/ops/sequence_labels.h"
#include "lockstep/ops/tensor_functions.h"

namespace lockstep::nn {

struct Conv1DKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t stride = 1;
  std::string padding = "VALID";  // or "SAME"
  std::string data_format = "NWC";
  std::int64_t dilations = 1;
};
// input (batch, steps, in), filters (width, in, out).
Tensor conv1d(const Tensor& input, const Tensor& filters, const Conv1DKeywords& o);
inline Tensor conv1d(const Tensor& input, const Tensor& filters, std::int64_t stride, const std::string& padding) {
  return conv1d(input, filters, Conv1DKeywords{{}, stride, padding});
}
// Strides, sizes of windows and dilations of volumes: 5 numbers, 3, or one for all.
struct Conv3DKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts strides = 1;
  std::string padding = "VALID";
  std::string data_format = "NDHWC";
  ops::IntOrInts dilations = 1;
};
// input (batch, depth, height, width, in), filters (depth, height, width, in, out).
Tensor conv3d(const Tensor& input, const Tensor& filters, const Conv3DKeywords& o);
// The gradients of convolutions as functions of their own; filters have (…, out, in).
struct TransposeKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg output_shape = {};
  ops::IntOrInts strides = 1;
  std::string padding = "SAME";
  std::string data_format = {};  // default: channels last
  ops::IntOrInts dilations = 1;
};
Tensor conv1d_transpose(const Tensor& input, const Tensor& filters, const TransposeKeywords& o);
Tensor conv3d_transpose(const Tensor& input, const Tensor& filters, const TransposeKeywords& o);
template <int = 0>
Tensor conv1d_transpose(const Tensor& input, const Tensor& filters, const ShapeArg& output_shape,
                        const ops::IntOrInts& strides, const std::string& padding = "SAME") {
  return conv1d_transpose(input, filters, TransposeKeywords{{}, output_shape, strides, padding});
}
template <int = 0>
Tensor conv3d_transpose(const Tensor& input, const Tensor& filters, const ShapeArg& output_shape,
                        const ops::IntOrInts& strides, const std::string& padding = "SAME") {
  return conv3d_transpose(input, filters, TransposeKeywords{{}, output_shape, strides, padding});
}
struct Pool1DKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t ksize = 2;
  std::int64_t strides = 2;
  std::string padding = "VALID";
  std::string data_format = "NWC";
};
Tensor max_pool1d(const Tensor& input, const Pool1DKeywords& o);
Tensor avg_pool1d(const Tensor& input, const Pool1DKeywords& o);
struct Pool3DKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts ksize = 2;
  ops::IntOrInts strides = 2;
  std::string padding = "VALID";
  std::string data_format = "NDHWC";
};
Tensor max_pool3d(const Tensor& input, const Pool3DKeywords& o);
Tensor avg_pool3d(const Tensor& input, const Pool3DKeywords& o);
// By position. Templates, because GCC would take {.strides = 1, .padding = "SAME"} for a list.
#define LOCKSTEP_POOL(function, Size, Keywords)                                                              \
  template <int = 0>                                                                                         \
  Tensor function(const Tensor& input, const Size& ksize, const Size& strides, const std::string& padding) { \
    return function(input, Keywords{{}, ksize, strides, padding});                                           \
  }
LOCKSTEP_POOL(max_pool1d, std::int64_t, Pool1DKeywords)
LOCKSTEP_POOL(avg_pool1d, std::int64_t, Pool1DKeywords)
LOCKSTEP_POOL(max_pool3d, ops::IntOrInts, Pool3DKeywords)
LOCKSTEP_POOL(avg_pool3d, ops::IntOrInts, Pool3DKeywords)
#undef LOCKSTEP_POOL
// Windows of one, two or three axes, by the rank of the input, whose channels are last.
struct WindowKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts window_shape = {};
  std::string pooling_type = {};  // "MAX" or "AVG"
  ops::IntOrInts strides = 1;
  std::string padding = "VALID";
};
Tensor pool(const Tensor& input, const WindowKeywords& o);
struct WindowOptions {
  FieldNamesOnly names_only = {};
  ops::IntOrInts strides = 1;
  std::string padding = "VALID";
};
template <int = 0>
Tensor pool(const Tensor& input, const ops::IntOrInts& window_shape, const std::string& pooling_type,
            const WindowOptions& o = {}) {
  return pool(input, WindowKeywords{{}, window_shape, pooling_type, o.strides, o.padding});
}
struct ConvolutionKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts strides = 1;
  std::string padding = "VALID";
  std::string data_format = {};  // default: channels last
  ops::IntOrInts dilations = 1;
};
Tensor convolution(const Tensor& input, const Tensor& filters, const ConvolutionKeywords& o = {});
template <std::convertible_to<ops::IntOrInts> S = ops::IntOrInts>
Tensor convolution(const Tensor& input, const Tensor& filters, const S& strides, const std::string& padding = "VALID") {
  return convolution(input, filters, ConvolutionKeywords{{}, strides, padding});
}
struct Conv3DOptions {
  FieldNamesOnly names_only = {};
  std::string data_format = "NDHWC";
  ops::IntOrInts dilations = 1;
};
template <int = 0>
Tensor conv3d(const Tensor& input, const Tensor& filters, const ops::IntOrInts& strides, const std::string& padding,
              const Conv3DOptions& o = {}) {
  return conv3d(input, filters, Conv3DKeywords{{}, strides, padding, o.data_format, o.dilations});
}
struct Conv1DOptions {
  FieldNamesOnly names_only = {};
  std::string data_format = "NWC";
  std::int64_t dilations = 1;
};
inline Tensor conv1d(const Tensor& input, const Tensor& filters, std::int64_t stride, const std::string& padding,
                     const Conv1DOptions& o) {
  return conv1d(input, filters, Conv1DKeywords{{}, stride, padding, o.data_format, o.dilations});
}

struct SeparableConvKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts strides = 1;  // 4 numbers, 2, or one for both
  std::string padding = "VALID";
  std::string data_format = "NHWC";
  ops::IntOrInts dilations = 1;
};
// A depthwise convolution, (height, width, in, multiplier), then one of 1 × 1, (1, 1, in * multiplier, out).
Tensor separable_conv2d(const Tensor& input, const Tensor& depthwise_filter, const Tensor& pointwise_filter,
                        const SeparableConvKeywords& o);
template <int = 0>
Tensor separable_conv2d(const Tensor& input, const Tensor& depthwise_filter, const Tensor& pointwise_filter,
                        const ops::IntOrInts& strides, const std::string& padding) {
  return separable_conv2d(input, depthwise_filter, pointwise_filter, SeparableConvKeywords{{}, strides, padding});
}
struct AtrousKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t rate = 1;
  std::string padding = "VALID";
};
Tensor atrous_conv2d(const Tensor& value, const Tensor& filters, const AtrousKeywords& o);
inline Tensor atrous_conv2d(const Tensor& value, const Tensor& filters, std::int64_t rate, const std::string& padding) {
  return atrous_conv2d(value, filters, AtrousKeywords{{}, rate, padding});
}
// Grayscale morphology: sums of images and filters (height, width, channels), of which windows keep the largest, and
// differences, of which they keep the smallest. Strides and dilations have four numbers.
struct MorphologyKeywords {
  FieldNamesOnly names_only = {};
  ops::Ints strides = {1, 1, 1, 1};
  std::string padding = "VALID";
  std::string data_format = "NHWC";
  ops::Ints dilations = {1, 1, 1, 1};
};
Tensor dilation2d(const Tensor& input, const Tensor& filters, const MorphologyKeywords& o);
Tensor erosion2d(const Tensor& value, const Tensor& filters, const MorphologyKeywords& o);
#define LOCKSTEP_MORPHOLOGY(function)                                                                               \
  template <int = 0>                                                                                                \
  Tensor function(const Tensor& input, const Tensor& filters, const ops::Ints& strides, const std::string& padding, \
                  const std::string& data_format, const ops::Ints& dilations) {                                     \
    return function(input, filters, MorphologyKeywords{{}, strides, padding, data_format, dilations});              \
  }
LOCKSTEP_MORPHOLOGY(dilation2d)
LOCKSTEP_MORPHOLOGY(erosion2d)
#undef LOCKSTEP_MORPHOLOGY

struct PoolWithArgmax {
  Tensor output, argmax;  // indices in an image, flattened, int64
};
struct ArgmaxPoolKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts ksize = 2;
  ops::IntOrInts strides = 2;
  std::string padding = "VALID";
  bool include_batch_in_index = false;
};
PoolWithArgmax max_pool_with_argmax(const Tensor& input, const ArgmaxPoolKeywords& o);
struct ArgmaxPoolOptions {
  FieldNamesOnly names_only = {};
  bool include_batch_in_index = false;
};
template <int = 0>
PoolWithArgmax max_pool_with_argmax(const Tensor& input, const ops::IntOrInts& ksize, const ops::IntOrInts& strides,
                                    const std::string& padding, const ArgmaxPoolOptions& o = {}) {
  return max_pool_with_argmax(input, ArgmaxPoolKeywords{{}, ksize, strides, padding, o.include_batch_in_index});
}

struct LocalResponseKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t depth_radius = 5;
  double bias = 1;
  double alpha = 1;
  double beta = 0.5;
};
Tensor local_response_normalization(const Tensor& input, const LocalResponseKeywords& o = {});
inline Tensor lrn(const Tensor& input, const LocalResponseKeywords& o = {}) {
  return local_response_normalization(input, o);
}
inline Tensor local_response_normalization(const Tensor& input, std::int64_t depth_radius, double bias = 1,
                                           double alpha = 1, double beta = 0.5) {
  return local_response_normalization(input, LocalResponseKeywords{{}, depth_radius, bias, alpha, beta});
}
inline Tensor lrn(const Tensor& input, std::int64_t depth_radius, double bias = 1, double alpha = 1,
                  double beta = 0.5) {
  return local_response_normalization(input, depth_radius, bias, alpha, beta);
}

// ---- statistics ----------------------------------------------------------------------------------------------
struct FrequencyKeywords {
  FieldNamesOnly names_only = {};
  ops::Axes axes = std::nullopt;
  Tensor frequency_weights = {};
  bool keepdims = false;
};
// Mean and variance of values that count as often as their weights say, which broadcast.
ops::Moments weighted_moments(const Tensor& x, const FrequencyKeywords& o);
template <int = 0>
ops::Moments weighted_moments(const Tensor& x, const ops::Axes& axes, const Tensor& frequency_weights,
                              const ops::KeepdimsKeywords& o = {}) {
  return weighted_moments(x, FrequencyKeywords{{}, axes, frequency_weights, o.keepdims});
}
// What mean and variance are made of: how many elements, their sum and the sum of their squares, both of x - shift.
struct SufficientStatistics {
  Tensor count, mean_ss, variance_ss, shift;  // shift is undefined where there is none
  const Tensor& operator[](int part) const;   // by position; throws OutOfRange
};
struct StatisticsKeywords {
  FieldNamesOnly names_only = {};
  ops::Axes axes = std::nullopt;
  Tensor shift = {};
  bool keepdims = false;
};
SufficientStatistics sufficient_statistics(const Tensor& x, const StatisticsKeywords& o);
template <int = 0>
SufficientStatistics sufficient_statistics(const Tensor& x, const ops::Axes& axes, StatisticsKeywords o = {}) {
  o.axes = axes;
  return sufficient_statistics(x, o);
}
ops::Moments normalize_moments(const Tensor& counts, const Tensor& mean_ss, const Tensor& variance_ss,
                               const Tensor& shift);

// Elementwise, from logits; errors of positive labels count pos_weight times.
Tensor weighted_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits, double pos_weight);
struct WeightedCrossEntropyKeywords {
  FieldNamesOnly names_only = {};
  Tensor labels = {};
  Tensor logits = {};
  double pos_weight = 1;
};
inline Tensor weighted_cross_entropy_with_logits(const WeightedCrossEntropyKeywords& o) {
  return weighted_cross_entropy_with_logits(o.labels, o.logits, o.pos_weight);
}
inline Tensor weighted_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits,
                                                 const WeightedCrossEntropyKeywords& o) {
  return weighted_cross_entropy_with_logits(labels, logits, o.pos_weight);
}
// exp(log_input) - log_input * targets; the full loss has Stirling's approximation of log(targets!) too.
struct PoissonLossKeywords {
  FieldNamesOnly names_only = {};
  bool compute_full_loss = false;
};
Tensor log_poisson_loss(const Tensor& targets, const Tensor& log_input, const PoissonLossKeywords& o = {});
// relu of x and of -x, behind each other in the last axis.
Tensor crelu(const Tensor& features);
// The fraction of elements that are zero.
Tensor zero_fraction(const Tensor& value);

using ops::approx_max_k;
using ops::approx_min_k;
using ops::space_to_batch;

}  // namespace lockstep::nn

namespace lockstep::ops {
using nn::zero_fraction;
}
