// tf.nn: the functions of neural networks by TensorFlow's names.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/distribute/average_loss.h"
#include "lockstep/keras/activations.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/math_functions.h"

namespace lockstep::nn {

using activations::elu;
using activations::gelu;
using activations::leaky_relu;
using activations::log_softmax;
using activations::relu;
using activations::relu6;
using activations::selu;
using activations::sigmoid;
using activations::silu;
using activations::softmax;
using activations::softplus;
using activations::softsign;
using activations::tanh;
// moments(x, {.axes = {0, 1}, .keepdims = true}).
struct MomentsKeywords {
  FieldNamesOnly names_only = {};
  ops::Axes axes = {};  // default: all
  bool keepdims = false;
};
inline ops::Moments moments(const Tensor& x, const MomentsKeywords& o) { return ops::moments(x, o.axes, o.keepdims); }
template <std::convertible_to<ops::Axes> A = ops::Axes>
ops::Moments moments(const Tensor& x, const A& axes, const ops::KeepdimsKeywords& o) {
  return ops::moments(x, axes, o.keepdims);
}
struct BetaKeywords {
  FieldNamesOnly names_only = {};
  double beta = 1.0;
};
// x · sigmoid(beta · x).
inline Tensor silu(const Tensor& features, const BetaKeywords& o) {
  return ops::mul(features, ops::sigmoid(ops::mul(features, o.beta)));
}
inline Tensor silu(const Tensor& features, double beta) { return silu(features, BetaKeywords{{}, beta}); }
inline Tensor swish(const Tensor& features, const BetaKeywords& o) { return silu(features, o); }
using ops::bias_add;
using ops::in_top_k;
using ops::l2_loss;
using ops::moments;
using ops::top_k;

// Strides and sizes of windows: one number, height and width, or one for each of the four axes.
class WindowArg {
 public:
  template <std::integral I>
  WindowArg(I both) : values_{static_cast<std::int64_t>(both)} {}
  WindowArg(std::initializer_list<std::int64_t> values) : values_(values) {}
  WindowArg(ops::Ints values) : values_(std::move(values)) {}
  // Height and width. Throws InvalidArgument for another number of values.
  ops::Ints of_image(std::string_view data_format) const;

 private:
  ops::Ints values_;
};
// "VALID", "SAME", or zeros before and after each of the four axes: {{0, 0}, {1, 1}, {1, 1}, {0, 0}}.
class PaddingArg {
 public:
  PaddingArg(const char* name) : name_(name) {}
  PaddingArg(std::string name) : name_(std::move(name)) {}
  PaddingArg(std::initializer_list<std::pair<std::int64_t, std::int64_t>> zeros) : name_("EXPLICIT"), zeros_(zeros) {}
  PaddingArg(ops::Paddings zeros) : name_("EXPLICIT"), zeros_(std::move(zeros)) {}
  const std::string& name() const { return name_; }
  // Of height and width; none for a name. Throws InvalidArgument for another number of pairs.
  ops::Ints of_image(std::string_view data_format) const;

 private:
  std::string name_;
  ops::Paddings zeros_;
};
// Arguments by name, in TensorFlow's order; where one is also given by position, that one counts.
struct ConvKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg output_shape = {};  // conv2d_transpose only
  WindowArg strides = 1;
  PaddingArg padding = "VALID";
  std::string data_format = "NHWC";
  WindowArg dilations = 1;
};
// Those behind the padding.
struct ConvOptions {
  FieldNamesOnly names_only = {};
  std::string data_format = "NHWC";
  WindowArg dilations = 1;
};
// x (batch, height, width, in); filters (height, width, in, out), of conv2d_transpose (height, width, out, in), of
// depthwise_conv2d (height, width, in, multiplier).
Tensor conv2d(const Tensor& input, const Tensor& filters, const ConvKeywords& o);
Tensor depthwise_conv2d(const Tensor& input, const Tensor& filter, const ConvKeywords& o);
Tensor conv2d_transpose(const Tensor& input, const Tensor& filters, const ConvKeywords& o);
template <int = 0>
Tensor conv2d(const Tensor& input, const Tensor& filters, const WindowArg& strides, const PaddingArg& padding,
              const ConvOptions& o = {}) {
  return conv2d(input, filters, ConvKeywords{{}, {}, strides, padding, o.data_format, o.dilations});
}
template <int = 0>
Tensor depthwise_conv2d(const Tensor& input, const Tensor& filter, const WindowArg& strides, const PaddingArg& padding,
                        const ConvOptions& o = {}) {
  return depthwise_conv2d(input, filter, ConvKeywords{{}, {}, strides, padding, o.data_format, o.dilations});
}
template <int = 0>
Tensor conv2d_transpose(const Tensor& input, const Tensor& filters, const ShapeArg& output_shape,
                        const WindowArg& strides, const PaddingArg& padding = "SAME", const ConvOptions& o = {}) {
  return conv2d_transpose(input, filters, ConvKeywords{{}, output_shape, strides, padding, o.data_format, o.dilations});
}
struct PoolKeywords {
  FieldNamesOnly names_only = {};
  WindowArg ksize = 2;
  WindowArg strides = 2;
  std::string padding = "VALID";  // or "SAME"
  std::string data_format = "NHWC";
};
Tensor max_pool2d(const Tensor& input, const PoolKeywords& o);
Tensor avg_pool2d(const Tensor& input, const PoolKeywords& o);
inline Tensor max_pool(const Tensor& input, const PoolKeywords& o) { return max_pool2d(input, o); }
inline Tensor avg_pool(const Tensor& input, const PoolKeywords& o) { return avg_pool2d(input, o); }
#define LOCKSTEP_POOL(function)                                                                                        \
  template <int = 0>                                                                                                   \
  Tensor function(const Tensor& input, const WindowArg& ksize, const WindowArg& strides, const std::string& padding) { \
    return function(input, PoolKeywords{{}, ksize, strides, padding});                                                 \
  }
LOCKSTEP_POOL(max_pool2d)
LOCKSTEP_POOL(avg_pool2d)
LOCKSTEP_POOL(max_pool)
LOCKSTEP_POOL(avg_pool)
#undef LOCKSTEP_POOL

struct AlphaKeywords {
  FieldNamesOnly names_only = {};
  double alpha = 0.2;
};
inline Tensor leaky_relu(const Tensor& features, const AlphaKeywords& o) { return ops::leaky_relu(features, o.alpha); }
// The rows of a table.
template <std::convertible_to<Tensor> T = Tensor>
Tensor embedding_lookup(const Tensor& params, const T& ids) {
  return ops::gather(params, static_cast<Tensor>(ids));
}
// (x - mean) / sqrt(variance + variance_epsilon) * scale + offset; offset and scale may be undefined tensors.
Tensor batch_normalization(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& offset,
                           const Tensor& scale, double variance_epsilon);
// Blocks of block_size × block_size pixels to channels, and back.
Tensor depth_to_space(const Tensor& input, std::int64_t block_size);
Tensor space_to_depth(const Tensor& input, std::int64_t block_size);
struct BlockKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t block_size = 0;
};
inline Tensor depth_to_space(const Tensor& input, const BlockKeywords& o) {
  return depth_to_space(input, o.block_size);
}
inline Tensor space_to_depth(const Tensor& input, const BlockKeywords& o) {
  return space_to_depth(input, o.block_size);
}
// Zero with probability `rate`, else scaled by 1 / (1 - rate); numbers of tf.random.
struct DropoutKeywords {
  FieldNamesOnly names_only = {};
  double rate = 0;
  ShapeArg noise_shape = Shape::unknown_rank();  // of the draws, which broadcast; default: one for each number
  std::optional<std::int64_t> seed = std::nullopt;
};
Tensor dropout(const Tensor& x, const DropoutKeywords& o);
inline Tensor dropout(const Tensor& x, double rate, DropoutKeywords o = {}) {
  o.rate = rate;
  return dropout(x, o);
}

namespace experimental {
struct StatelessDropoutKeywords {
  FieldNamesOnly names_only = {};
  double rate = 0;
  Tensor seed = {};  // two integers
};
// With numbers of tf.random.stateless_uniform of this seed.
Tensor stateless_dropout(const Tensor& x, const StatelessDropoutKeywords& o);
inline Tensor stateless_dropout(const Tensor& x, double rate, const Tensor& seed) {
  return stateless_dropout(x, StatelessDropoutKeywords{{}, rate, seed});
}
}  // namespace experimental

using ops::l2_normalize;

// Arguments of the cross entropies by name.
struct CrossEntropyKeywords {
  FieldNamesOnly names_only = {};
  Tensor labels = {};
  Tensor logits = {};
  int axis = -1;  // that of the classes; softmax_cross_entropy_with_logits only
};
// One loss for each row, (batch,): labels integers (batch,) and logits (batch, classes), or labels like logits. As in
// TensorFlow labels come first.
inline Tensor sparse_softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits) {
  return ops::sparse_softmax_cross_entropy_with_logits(logits, labels);
}
inline Tensor softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits) {
  return ops::softmax_cross_entropy_with_logits(logits, labels);
}
// Elementwise.
inline Tensor sigmoid_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits) {
  return ops::sigmoid_cross_entropy_with_logits(logits, labels);
}

inline Tensor sparse_softmax_cross_entropy_with_logits(const CrossEntropyKeywords& o) {
  return sparse_softmax_cross_entropy_with_logits(o.labels, o.logits);
}
Tensor softmax_cross_entropy_with_logits(const CrossEntropyKeywords& o);
struct ClassAxisKeywords {
  FieldNamesOnly names_only = {};
  int axis = -1;
};
inline Tensor softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits,
                                                const ClassAxisKeywords& o) {
  return softmax_cross_entropy_with_logits(CrossEntropyKeywords{{}, labels, logits, o.axis});
}
inline Tensor sigmoid_cross_entropy_with_logits(const CrossEntropyKeywords& o) {
  return sigmoid_cross_entropy_with_logits(o.labels, o.logits);
}

// Connectionist temporal classification: one loss for each row. labels (batch, length), integers; logits (steps, batch,
// classes), or with batch first. The class blank_index stands for no label; negative ones count from the end.
struct CtcLossKeywords {
  FieldNamesOnly names_only = {};
  Tensor labels = {};
  Tensor logits = {};
  Tensor label_length = {};
  Tensor logit_length = {};
  bool logits_time_major = true;
  std::optional<std::int64_t> blank_index = std::nullopt;  // 0
};
Tensor ctc_loss(const CtcLossKeywords& o);
inline Tensor ctc_loss(const Tensor& labels, const Tensor& logits, const Tensor& label_length,
                       const Tensor& logit_length, CtcLossKeywords o = {}) {
  o.labels = labels, o.logits = logits, o.label_length = label_length, o.logit_length = logit_length;
  return ctc_loss(o);
}

}  // namespace lockstep::nn
