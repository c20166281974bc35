#include "lockstep/keras/nn.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/losses/ctc.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/operators.h"
#include "lockstep/random/generator.h"

namespace lockstep::nn {
namespace {

ops::ConvOptions conv_options(const ConvKeywords& o) {
  return {.strides = o.strides.of_image(o.data_format),
          .padding = o.padding.name(),
          .explicit_paddings = o.padding.of_image(o.data_format),
          .dilations = o.dilations.of_image(o.data_format),
          .data_format = o.data_format};
}

ops::PoolOptions pool_options(const PoolKeywords& o) {
  return {.size = o.ksize.of_image(o.data_format),
          .strides = o.strides.of_image(o.data_format),
          .padding = o.padding,
          .data_format = o.data_format};
}

}  // namespace

ops::Ints WindowArg::of_image(std::string_view data_format) const {
  switch (values_.size()) {
    case 1: return {values_[0], values_[0]};
    case 2: return values_;
    case 4: {
      const std::size_t first = data_format == "NCHW" ? 2 : 1;
      return {values_[first], values_[first + 1]};
    }
    default:
      throw_invalid_argument(
          fmt::format("invalid window or strides: found {} numbers, expected 1, 2 or 4", values_.size()));
  }
}

ops::Ints PaddingArg::of_image(std::string_view data_format) const {
  if (zeros_.empty()) return {};
  if (zeros_.size() != 4)
    throw_invalid_argument(fmt::format("invalid padding: found {} pairs, expected 4", zeros_.size()));
  const std::size_t first = data_format == "NCHW" ? 2 : 1;
  const auto& [height, width] = std::pair(zeros_[first], zeros_[first + 1]);
  return {height.first, height.second, width.first, width.second};
}

Tensor conv2d(const Tensor& input, const Tensor& filters, const ConvKeywords& o) {
  return ops::conv2d(input, filters, conv_options(o));
}
Tensor depthwise_conv2d(const Tensor& input, const Tensor& filter, const ConvKeywords& o) {
  return ops::depthwise_conv2d(input, filter, conv_options(o));
}
Tensor conv2d_transpose(const Tensor& input, const Tensor& filters, const ConvKeywords& o) {
  return ops::conv2d_transpose(input, filters, ops::shape_tensor(o.output_shape), conv_options(o));
}
Tensor max_pool2d(const Tensor& input, const PoolKeywords& o) { return ops::max_pool(input, pool_options(o)); }
Tensor avg_pool2d(const Tensor& input, const PoolKeywords& o) { return ops::avg_pool(input, pool_options(o)); }

Tensor batch_normalization(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& offset,
                           const Tensor& scale, double variance_epsilon) {
  const Tensor inverse = ops::rsqrt(variance + variance_epsilon);
  const Tensor factor = scale.defined() ? inverse * scale : inverse;
  const Tensor shift = offset.defined() ? offset - mean * factor : ops::negative(mean * factor);
  return x * factor + shift;
}

Tensor depth_to_space(const Tensor& input, std::int64_t block_size) {
  return ops::call1("DepthToSpace", {input}, {{"block_size", block_size}});
}
Tensor space_to_depth(const Tensor& input, std::int64_t block_size) {
  return ops::call1("SpaceToDepth", {input}, {{"block_size", block_size}});
}

Tensor dropout(const Tensor& x, const DropoutKeywords& o) {
  if (o.rate < 0 || o.rate >= 1)
    throw_invalid_argument(fmt::format("dropout: invalid rate: found {}, expected at least 0 and below 1", o.rate));
  if (o.rate == 0) return x;
  const bool given = !o.noise_shape.is_known() || o.noise_shape.shape().known_rank();
  const ShapeArg shape = given ? o.noise_shape : ShapeArg(ops::shape(x));
  const Tensor drawn = ops::random::uniform(shape, {.dtype = x.dtype(), .seed = o.seed});
  return ops::where(drawn >= o.rate, x * (1 / (1 - o.rate)), 0.0);
}

Tensor experimental::stateless_dropout(const Tensor& x, const StatelessDropoutKeywords& o) {
  if (o.rate < 0 || o.rate >= 1) {
    throw_invalid_argument(
        fmt::format("stateless_dropout: invalid rate: found {}, expected at least 0 and below 1", o.rate));
  }
  if (o.rate == 0) return x;
  const Tensor drawn = ops::stateless_random_uniform(ops::shape(x), o.seed, x.dtype());
  return ops::where(drawn >= o.rate, x * (1 / (1 - o.rate)), 0.0);
}

Tensor softmax_cross_entropy_with_logits(const CrossEntropyKeywords& o) {
  const int rank = o.logits.rank(), axis = o.axis < 0 ? o.axis + rank : o.axis;
  if (axis == rank - 1) return softmax_cross_entropy_with_logits(o.labels, o.logits);
  ops::Ints order;
  for (int i = 0; i < rank; ++i)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  return softmax_cross_entropy_with_logits(ops::transpose(o.labels, order), ops::transpose(o.logits, order));
}

Tensor ctc_loss(const CtcLossKeywords& o) {
  return losses::ctc_of_lengths(o.labels, o.logits_time_major ? ops::transpose(o.logits, {1, 0, 2}) : o.logits,
                                ops::cast(o.label_length, DType::kInt32), ops::cast(o.logit_length, DType::kInt32),
                                o.blank_index.value_or(0));
}

}  // namespace lockstep::nn
