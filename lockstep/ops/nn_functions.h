// tf.nn: windows over sequences and volumes, and losses. Names, order of arguments and defaults are TensorFlow's.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/functions.h"

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

struct SeparableConvKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts strides = 1;  // 4 numbers, 2, or one for both
  std::string padding = "VALID";
};
// A depthwise convolution, (height, width, in, multiplier), then one of 1 × 1, (1, 1, in * multiplier, out).
Tensor separable_conv2d(const Tensor& input, const Tensor& depthwise_filter, const Tensor& pointwise_filter,
                        const SeparableConvKeywords& o);
struct AtrousKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t rate = 1;
  std::string padding = "VALID";
};
Tensor atrous_conv2d(const Tensor& value, const Tensor& filters, const AtrousKeywords& o);

struct PoolWithArgmax {
  Tensor output, argmax;  // places in an image, flattened, int64
};
struct ArgmaxPoolKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts ksize = 2;
  ops::IntOrInts strides = 2;
  std::string padding = "VALID";
  bool include_batch_in_index = false;
};
PoolWithArgmax max_pool_with_argmax(const Tensor& input, const ArgmaxPoolKeywords& o);

struct LocalResponseKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t depth_radius = 5;
  double bias = 1;
  double alpha = 1;
  double beta = 0.5;
};
Tensor local_response_normalization(const Tensor& input, const LocalResponseKeywords& o = {});

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
// exp(log_input) - log_input * targets.
Tensor log_poisson_loss(const Tensor& targets, const Tensor& log_input);
// relu of x and of -x, behind each other in the last axis.
Tensor crelu(const Tensor& features);
// The fraction of elements that are zero.
Tensor zero_fraction(const Tensor& value);

}  // namespace lockstep::nn

namespace lockstep::ops {
using nn::zero_fraction;
}
