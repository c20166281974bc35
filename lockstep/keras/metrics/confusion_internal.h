// Counts of true and false positives and negatives at thresholds.
#pragma once

#include <optional>

#include "lockstep/keras/metrics/metrics.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::metrics {

// `given`, or the class's name in snake case with a number where it is empty.
inline std::string name_of(const std::string& given, const char* class_name) {
  return given.empty() ? keras::auto_name(class_name) : given;
}

inline float ratio(float a, float b) { return b == 0 ? 0.0f : a / b; }

// Counts for each threshold (and, with labels > 0, for each label: threshold-major).
struct ConfusionCounts {
  std::vector<double> true_positives, false_positives, true_negatives, false_negatives;
};

struct ConfusionOptions {
  std::vector<double> thresholds;
  std::optional<std::int64_t> top_k = std::nullopt;
  std::optional<std::int64_t> class_id = std::nullopt;
  bool multi_label = false;
  std::vector<double> label_weights = {};
};

// A prediction is positive where it is above the threshold; a label where it is not 0. Evenly spread thresholds are
// counted by buckets, as Keras does: a prediction below 0 counts as 0, one above 1 as 1, NaN as negative. Throws
// InvalidArgument for shapes that do not fit.
ConfusionCounts count_confusion(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight,
                                const ConfusionOptions& options);

bool evenly_distributed(const std::vector<double>& thresholds);

}  // namespace lockstep::metrics
