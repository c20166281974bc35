// tf.nn: the functions of neural networks by TensorFlow's names.
#pragma once

#include "lockstep/distribute/average_loss.h"
#include "lockstep/keras/activations.h"
#include "lockstep/ops/functions.h"

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
using ops::avg_pool;
using ops::bias_add;
using ops::conv2d;
using ops::conv2d_transpose;
using ops::depthwise_conv2d;
using ops::in_top_k;
using ops::l2_loss;
using ops::max_pool;
using ops::moments;
using ops::top_k;

// x over its Euclidean length along the axes; the square of the length counts as at least epsilon.
struct L2NormalizeKeywords {
  FieldNamesOnly names_only = {};
  ops::Axes axis = std::nullopt;
  double epsilon = 1e-12;
};
inline Tensor l2_normalize(const Tensor& x, const L2NormalizeKeywords& o) {
  return x * ops::rsqrt(ops::maximum(ops::reduce_sum(ops::square(x), o.axis, true), o.epsilon));
}
template <std::convertible_to<ops::Axes> A>
Tensor l2_normalize(const Tensor& x, const A& axis, double epsilon = 1e-12) {
  return l2_normalize(x, L2NormalizeKeywords{{}, axis, epsilon});
}

// Arguments of the cross entropies by name.
struct CrossEntropyKeywords {
  FieldNamesOnly names_only = {};
  Tensor labels = {};
  Tensor logits = {};
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
inline Tensor softmax_cross_entropy_with_logits(const CrossEntropyKeywords& o) {
  return softmax_cross_entropy_with_logits(o.labels, o.logits);
}
inline Tensor sigmoid_cross_entropy_with_logits(const CrossEntropyKeywords& o) {
  return sigmoid_cross_entropy_with_logits(o.labels, o.logits);
}

}  // namespace lockstep::nn
