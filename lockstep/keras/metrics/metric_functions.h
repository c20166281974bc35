// The functions of keras.metrics that are not also losses: whether predictions are correct, as float32, and
// correlations.
#pragma once

#include <cstdint>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::metrics {

struct ThresholdKeywords {
  FieldNamesOnly names_only = {};
  double threshold = 0.5;
};
// Elementwise, whether y_pred, above the threshold or not, is y_true.
Tensor binary_accuracy(const Tensor& y_true, const Tensor& y_pred, const ThresholdKeywords& o = {});
inline Tensor binary_accuracy(const Tensor& y_true, const Tensor& y_pred, double threshold) {
  return binary_accuracy(y_true, y_pred, ThresholdKeywords{{}, threshold});
}
// Of labels like y_pred, whose largest number counts; of class numbers.
Tensor categorical_accuracy(const Tensor& y_true, const Tensor& y_pred);
Tensor sparse_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred);
// Whether the label is among the k largest.
struct TopKKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t k = 5;
};
Tensor top_k_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred, const TopKKeywords& o = {});
Tensor sparse_top_k_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred, const TopKKeywords& o = {});
inline Tensor top_k_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred, std::int64_t k) {
  return top_k_categorical_accuracy(y_true, y_pred, TopKKeywords{{}, k});
}
inline Tensor sparse_top_k_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred, std::int64_t k) {
  return sparse_top_k_categorical_accuracy(y_true, y_pred, TopKKeywords{{}, k});
}

// Of each line along the axis: the correlation of Pearson, and the concordance correlation, which is 1 for equal lines.
struct CorrelationKeywords {
  FieldNamesOnly names_only = {};
  int axis = -1;
};
Tensor pearson_correlation(const Tensor& y_true, const Tensor& y_pred, const CorrelationKeywords& o = {});
Tensor concordance_correlation(const Tensor& y_true, const Tensor& y_pred, const CorrelationKeywords& o = {});

}  // namespace lockstep::metrics
