// Per-sample values of the losses.
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/losses/function_loss_internal.h"
#include "lockstep/keras/losses/losses.h"
#include "lockstep/ops/functions.h"

namespace lockstep::losses {
namespace {

using keras::backend::epsilon;

constexpr double kLog2 = 0.69314718055994530942;

thread_local bool t_keras2_logarithms = false;

struct Operands {
  Tensor y, p;
};

// y_true in the dtype of y_pred, ranks made equal; y_pred stays the same tensor where it can.
Operands operands(const Tensor& y_true, const Tensor& y_pred) {
  auto [y, p] = squeeze_or_expand_to_same_rank(ops::cast(y_true, y_pred.dtype()), y_pred);
  return {std::move(y), std::move(p)};
}

// As keras.ops.mean: of integers a fraction.
Tensor mean_last(const Tensor& x) {
  return ops::reduce_mean(is_floating(x.dtype()) ? x : ops::cast(x, DType::kFloat32), ops::Ints{-1});
}
Tensor sum_last(const Tensor& x) { return ops::reduce_sum(x, ops::Ints{-1}); }
Tensor clip_probability(const Tensor& p) { return ops::clip_by_value(p, epsilon(), 1.0 - epsilon()); }

// 0 and 1 become -1 and 1, if nothing else occurs in the whole batch.
Tensor hinge_labels(const Tensor& y) {
  const Tensor binary = ops::reduce_all(ops::logical_or(ops::equal(y, 0.0), ops::equal(y, 1.0)));
  return ops::where(binary, y * 2.0 - 1.0, y);
}

void check_same_shape(const char* who, const Tensor& y, const Tensor& p) {
  if (y.rank() != p.rank() || !y.shape().compatible_with(p.shape())) {
    throw_invalid_argument(fmt::format("{}: y_true has shape {} and y_pred {}; they must be the same", who,
                                       y.shape().to_string(), p.shape().to_string()));
  }
}

Tensor softmax_over(const Tensor& x, const ops::Axes& axes) {
  if (axes && axes->size() == 1) return ops::softmax(x, static_cast<int>(axes->front()));
  return ops::exp(x - ops::reduce_logsumexp(x, axes, true));
}

}  // namespace

Keras2Logarithms::Keras2Logarithms(bool active) : previous_(std::exchange(t_keras2_logarithms, active)) {}
Keras2Logarithms::~Keras2Logarithms() { t_keras2_logarithms = previous_; }

Tensor mean_squared_error(const Tensor& y_true, const Tensor& y_pred) {
  const auto [y, p] = operands(y_true, y_pred);
  return mean_last(ops::squared_difference(p, y));
}

Tensor mean_absolute_error(const Tensor& y_true, const Tensor& y_pred) {
  const auto [y, p] = operands(y_true, y_pred);
  return mean_last(ops::abs(y - p));
}

Tensor mean_absolute_percentage_error(const Tensor& y_true, const Tensor& y_pred) {
  const auto [y, p] = operands(y_true, y_pred);
  return mean_last(ops::abs((y - p) / ops::maximum(ops::abs(y), epsilon()))) * 100.0;
}

Tensor mean_squared_logarithmic_error(const Tensor& y_true, const Tensor& y_pred) {
  const auto [y, p] = operands(y_true, y_pred);
  const auto log_of = [](const Tensor& x) { return ops::log(ops::maximum(x, epsilon()) + 1.0); };
  return mean_last(ops::square(log_of(p) - log_of(y)));
}

Tensor cosine_similarity(const Tensor& y_true, const Tensor& y_pred, const ops::Axes& axis) {
  const auto [y, p] = operands(y_true, y_pred);
  return -ops::reduce_sum(ops::unit_vectors(y, axis) * ops::unit_vectors(p, axis), axis);
}

Tensor huber(const Tensor& y_true, const Tensor& y_pred, double delta) {
  const auto [y, p] = operands(y_true, y_pred);
  const Tensor error = p - y, size = ops::abs(error);
  return mean_last(
      ops::where(ops::less_equal(size, delta), ops::square(error) * 0.5, size * delta - 0.5 * delta * delta));
}

Tensor log_cosh(const Tensor& y_true, const Tensor& y_pred) {
  const auto [y, p] = operands(y_true, y_pred);
  const Tensor error = p - y;
  return mean_last(error + ops::softplus(error * -2.0) - kLog2);
}

Tensor hinge(const Tensor& y_true, const Tensor& y_pred) {
  const Tensor y = hinge_labels(ops::cast(y_true, y_pred.dtype()));
  return mean_last(ops::maximum(1.0 - y * y_pred, 0.0));
}

Tensor squared_hinge(const Tensor& y_true, const Tensor& y_pred) {
  const Tensor y = hinge_labels(ops::cast(y_true, y_pred.dtype()));
  return mean_last(ops::square(ops::maximum(1.0 - y * y_pred, 0.0)));
}

Tensor categorical_hinge(const Tensor& y_true, const Tensor& y_pred) {
  const Tensor y = ops::cast(y_true, y_pred.dtype());
  const Tensor positive = sum_last(y * y_pred);
  const Tensor negative = ops::reduce_max((1.0 - y) * y_pred, ops::Ints{-1});
  return ops::maximum(negative - positive + 1.0, 0.0);
}

Tensor kl_divergence(const Tensor& y_true, const Tensor& y_pred) {
  const Tensor y = ops::clip_by_value(ops::cast(y_true, y_pred.dtype()), epsilon(), 1.0);
  const Tensor p = ops::clip_by_value(y_pred, epsilon(), 1.0);
  return sum_last(y * ops::log(y / p));
}

Tensor poisson(const Tensor& y_true, const Tensor& y_pred) {
  const Tensor y = ops::cast(y_true, y_pred.dtype());
  return mean_last(y_pred - y * ops::log(y_pred + epsilon()));
}

Tensor elementwise_binary_crossentropy(const Tensor& y, const Tensor& y_pred, bool from_logits) {
  if (y_pred.logits().defined()) return ops::sigmoid_cross_entropy_with_logits(y_pred.logits(), y);
  if (from_logits) return ops::sigmoid_cross_entropy_with_logits(y_pred, y);
  const Tensor p = clip_probability(y_pred);
  if (t_keras2_logarithms) {
    // 1 - p + tiny, with the constants added first, as TensorFlow does in the graph of a training step.
    const double tiny = epsilon();
    return -(y * ops::log(p + tiny) + (1.0 - y) * ops::log((1.0 + tiny) - p));
  }
  return -(y * ops::log(p) + (1.0 - y) * ops::log(1.0 - p));
}

Tensor binary_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool from_logits, double label_smoothing,
                           const ops::Axes& axis) {
  auto [y, p] = operands(y_true, y_pred);
  check_same_shape("binary_crossentropy", y, p);
  if (label_smoothing != 0) y = y * (1.0 - label_smoothing) + 0.5 * label_smoothing;
  return ops::reduce_mean(elementwise_binary_crossentropy(y, p, from_logits), axis);
}

Tensor binary_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool apply_class_balancing, double alpha,
                                 double gamma, bool from_logits, double label_smoothing, const ops::Axes& axis) {
  auto [y, p] = operands(y_true, y_pred);
  check_same_shape("binary_focal_crossentropy", y, p);
  if (label_smoothing != 0) y = y * (1.0 - label_smoothing) + 0.5 * label_smoothing;
  if (from_logits) p = ops::sigmoid(p);
  const Tensor of_truth = y * p + (1.0 - y) * (1.0 - p);
  Tensor focal = ops::pow(1.0 - of_truth, gamma) * elementwise_binary_crossentropy(y, p, false);
  if (apply_class_balancing) focal = (y * alpha + (1.0 - y) * (1.0 - alpha)) * focal;
  return ops::reduce_mean(focal, axis);
}

namespace {

// TensorFlow's operation on matrices, whose gradient is softmax - labels even if the labels do not add up to 1.
Tensor crossentropy_of_logits(const Tensor& logits, const Tensor& labels, int axis) {
  const int rank = logits.rank(), place = axis < 0 ? axis + rank : axis;
  if (rank == 2 && place == 1) return ops::softmax_cross_entropy_with_logits(logits, labels);
  ops::Ints order;
  for (int i = 0; i < rank; ++i) {
    if (i != place) order.push_back(i);
  }
  order.push_back(place);
  const auto with_axis_last = [&](const Tensor& x) { return place == rank - 1 ? x : ops::transpose(x, order); };
  const Tensor x = with_axis_last(logits), y = with_axis_last(labels);
  Tensors extents;
  for (int i = 0; i + 1 < rank; ++i) extents.push_back(ops::dim_of(x, i));
  const Tensor matrix = ops::stack({Tensor::scalar(std::int32_t{-1}), ops::dim_of(x, rank - 1)});
  const Tensor rows = ops::softmax_cross_entropy_with_logits(ops::reshape(x, matrix), ops::reshape(y, matrix));
  return extents.empty() ? ops::reshape(rows, ops::Ints{}) : ops::reshape(rows, ops::stack(extents));
}

}  // namespace

Tensor categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool from_logits, double label_smoothing,
                                const ops::Axes& axis) {
  Tensor y = ops::cast(y_true, y_pred.dtype());
  if (y.rank() != y_pred.rank() || !y.shape().compatible_with(y_pred.shape())) {
    throw_invalid_argument(
        fmt::format("categorical_crossentropy: y_true has shape {} and y_pred {}; they must be the same (one-hot "
                    "targets; for class "
                    "numbers use sparse_categorical_crossentropy)",
                    y.shape().to_string(), y_pred.shape().to_string()));
  }
  if (label_smoothing != 0) {
    y = y * (1.0 - label_smoothing) + label_smoothing / static_cast<double>(y_pred.dim(-1));
  }
  const Tensor logits = y_pred.logits().defined() ? y_pred.logits() : from_logits ? y_pred : Tensor();
  if (logits.defined()) {
    if (axis && axis->size() != 1) {
      throw_invalid_argument(fmt::format(
          "categorical_crossentropy: axis has {} numbers, expected one: y_pred is of logits", axis->size()));
    }
    const auto place = static_cast<int>(axis ? axis->front() : -1);  // TensorFlow takes no axis for the last one
    return crossentropy_of_logits(logits, y, place);
  }
  const Tensor p = clip_probability(y_pred / ops::reduce_sum(y_pred, axis, true));
  return -ops::reduce_sum(y * ops::log(p), axis);
}

Tensor categorical_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred, const ClassFactors& alpha,
                                      double gamma, bool from_logits, double label_smoothing, const ops::Axes& axis) {
  Tensor y = ops::cast(y_true, y_pred.dtype());
  check_same_shape("categorical_focal_crossentropy", y, y_pred);
  if (label_smoothing != 0) {
    y = y * (1.0 - label_smoothing) + label_smoothing / static_cast<double>(y_pred.dim(-1));
  }
  const Tensor probabilities = from_logits ? softmax_over(y_pred, axis) : y_pred;
  const Tensor p = clip_probability(probabilities / ops::reduce_sum(probabilities, axis, true));
  const Tensor factors = alpha.values.size() == 1 ? Tensor::scalar(alpha.values[0]) : Tensor::from_vector(alpha.values);
  const Tensor focal = ops::pow(1.0 - p, gamma) * ops::cast(factors, p.dtype()) * (-y * ops::log(p));
  return ops::reduce_sum(focal, axis);
}

Tensor categorical_generalized_cross_entropy(const Tensor& y_true, const Tensor& y_pred, double q) {
  if (!(q > 0 && q < 1)) {
    throw_invalid_argument(fmt::format("categorical_generalized_cross_entropy: q is {}, expected between 0 and 1", q));
  }
  Tensor y = y_true;
  // As in Keras, a column of labels is compared with the predictions of all rows.
  const bool column = y.rank() == y_pred.rank() && y.dim(-1) == 1 && y_pred.dim(-1) != 1;
  if (column || y.rank() + 1 == y_pred.rank()) {
    y = ops::one_hot(ops::cast(y, DType::kInt32), y_pred.dim(-1), y_pred.dtype());
  }
  const Tensor p = sum_last(ops::cast(y, y_pred.dtype()) * y_pred);
  return (1.0 - ops::pow(p, q)) / q;
}

Tensor sparse_categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool from_logits,
                                       std::optional<std::int64_t> ignore_class, int axis) {
  if (axis != -1 && axis != y_pred.rank() - 1) {
    throw_invalid_argument(fmt::format("sparse_categorical_crossentropy: axis is {}, expected the last one", axis));
  }
  Tensor labels = ops::cast(y_true, DType::kInt64);
  if (labels.rank() == y_pred.rank() && labels.dim(-1) == 1) labels = ops::squeeze(labels, {-1});
  // Keras replaces the predictions of an ignored class, which then no longer have the logits of a softmax.
  const bool has_logits = y_pred.logits().defined() && !ignore_class;
  Tensor logits = has_logits ? y_pred.logits() : y_pred;
  if (labels.rank() + 1 != logits.rank()) {
    throw_invalid_argument(
        fmt::format("sparse_categorical_crossentropy: y_true has shape {} and y_pred {}; y_true holds one class number "
                    "for each row "
                    "of y_pred (for one-hot targets use categorical_crossentropy)",
                    y_true.shape().to_string(), y_pred.shape().to_string()));
  }
  Tensor valid;
  if (ignore_class) {
    valid = ops::not_equal(labels, static_cast<double>(*ignore_class));
    labels = labels * ops::cast(valid, DType::kInt64);
  }
  if (!from_logits && !has_logits) logits = ops::log(clip_probability(logits));
  Tensor values;
  if (logits.rank() == 2) {
    values = ops::sparse_softmax_cross_entropy_with_logits(logits, labels);
  } else {
    const std::int64_t classes = logits.dim(-1);
    values = ops::sparse_softmax_cross_entropy_with_logits(ops::reshape(logits, ops::Ints{-1, classes}),
                                                           ops::reshape(labels, ops::Ints{-1}));
    values = ops::reshape(values, ops::shape_of(labels));
  }
  return ignore_class ? ops::where(valid, values, ops::zeros_like(values)) : values;
}

Tensor dice(const Tensor& y_true, const Tensor& y_pred, const std::optional<std::vector<std::int64_t>>& axis) {
  const Tensor y = ops::cast(y_true, y_pred.dtype());
  const Tensor intersection = ops::reduce_sum(y * y_pred, axis);
  const Tensor sizes = ops::reduce_sum(y, axis) + ops::reduce_sum(y_pred, axis) + epsilon();
  return 1.0 - intersection * 2.0 / sizes;
}

Tensor tversky(const Tensor& y_true, const Tensor& y_pred, double alpha, double beta,
               const std::optional<std::vector<std::int64_t>>& axis) {
  const Tensor y = ops::cast(y_true, y_pred.dtype());
  const Tensor hits = ops::reduce_sum(y * y_pred, axis);
  const Tensor false_positives = ops::reduce_sum((1.0 - y) * y_pred, axis);
  const Tensor false_negatives = ops::reduce_sum(y * (1.0 - y_pred), axis);
  // Keras's alpha weighs false negatives and its beta false positives, contrary to its documentation.
  return 1.0 - hits / (hits + false_negatives * alpha + false_positives * beta + epsilon());
}

// Sun et al., "Circle loss", CVPR 2020, over all pairs of the batch; y_pred holds unit vectors.
Tensor circle(const Tensor& y_true, const Tensor& y_pred, bool remove_diagonal, double gamma, double margin) {
  const Tensor labels = ops::reshape(ops::cast(y_true, DType::kInt32), ops::Ints{-1});
  const Tensor distance = ops::maximum(1.0 - ops::matmul(y_pred, y_pred, false, true), 0.0);
  const Tensor same = ops::equal(ops::expand_dims(labels, 1), ops::expand_dims(labels, 0));
  const Tensor different = ops::logical_not(same);
  Tensor positive = ops::cast(same, y_pred.dtype());
  if (remove_diagonal) positive = positive - ops::matrix_band_part(positive, 0, 0);
  const Tensor negative = ops::cast(different, y_pred.dtype());
  const Tensor positive_weight = ops::maximum((distance + margin) * positive, 0.0);
  const Tensor negative_weight = ops::maximum(((1.0 + margin) - distance) * negative, 0.0);
  const Tensor positive_part = positive_weight * (margin - distance) * -gamma;
  const Tensor negative_part = negative_weight * ((1.0 - margin) - distance) * gamma;
  const Tensor nothing = ops::zeros_like(distance) - std::numeric_limits<double>::infinity();
  const auto pooled = [&](const Tensor& chosen, const Tensor& part) {
    return ops::reduce_logsumexp(ops::where(ops::greater(chosen, 0.0), part, nothing), ops::Ints{1});
  };
  return ops::softplus(pooled(positive, positive_part) + pooled(negative, negative_part));
}

Tensor cosine_similarity(const Tensor& y_true, const Tensor& y_pred) { return cosine_similarity(y_true, y_pred, -1); }
Tensor huber(const Tensor& y_true, const Tensor& y_pred) { return huber(y_true, y_pred, 1.0); }
Tensor binary_crossentropy(const Tensor& y_true, const Tensor& y_pred) {
  return binary_crossentropy(y_true, y_pred, false);
}
Tensor binary_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred) {
  return binary_focal_crossentropy(y_true, y_pred, false);
}
Tensor categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred) {
  return categorical_crossentropy(y_true, y_pred, false);
}
Tensor categorical_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred) {
  return categorical_focal_crossentropy(y_true, y_pred, 0.25);
}
Tensor sparse_categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred) {
  return sparse_categorical_crossentropy(y_true, y_pred, false);
}
Tensor dice(const Tensor& y_true, const Tensor& y_pred) { return dice(y_true, y_pred, std::nullopt); }
Tensor tversky(const Tensor& y_true, const Tensor& y_pred) { return tversky(y_true, y_pred, 0.5); }
Tensor circle(const Tensor& y_true, const Tensor& y_pred) { return circle(y_true, y_pred, true); }

}  // namespace lockstep::losses
