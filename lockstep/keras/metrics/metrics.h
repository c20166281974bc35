// keras.metrics: the metrics themselves. Keyword names, defaults and default names are Keras's.
#pragma once

#include <functional>
#include <optional>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/metrics/metric.h"
#include "lockstep/tensor/axes.h"

namespace lockstep::metrics {

struct MetricOptions {
  std::string name = {};   // default: the class's own
  std::string dtype = {};  // written to configs; state is float32
};

// Σ of per-sample means / number of samples (Σ weights when weighted); 0 before the first update.
MetricPtr Mean(MetricOptions options = {});
MetricPtr Mean(const char* name);
MetricPtr Sum(MetricOptions options = {});
// The mean of per-sample values of (y_true, y_pred).
using MetricFunction = std::function<Metric::KerasFunction>;
MetricPtr MeanMetricWrapper(MetricFunction function, MetricOptions options = {});
inline MetricPtr MeanMetricWrapper(MetricFunction function, const char* name) {
  return MeanMetricWrapper(std::move(function), MetricOptions{name, {}});
}
struct MeanMetricWrapperOptions {
  FieldNamesOnly names_only = {};
  MetricFunction fn = {};
  std::string name = {};
  std::string dtype = {};
};
inline MetricPtr MeanMetricWrapper(const MeanMetricWrapperOptions& o) {
  return MeanMetricWrapper(o.fn, {.name = o.name, .dtype = o.dtype});
}

MetricPtr Accuracy(MetricOptions options = {});  // y == p, elementwise
struct BinaryAccuracyOptions {
  std::string name = {};
  std::string dtype = {};
  double threshold = 0.5;  // p > threshold counts as 1
};
MetricPtr BinaryAccuracy(BinaryAccuracyOptions options = {});
MetricPtr CategoricalAccuracy(MetricOptions options = {});        // argmax y == argmax p
MetricPtr SparseCategoricalAccuracy(MetricOptions options = {});  // y == argmax p
struct TopKOptions {
  std::int64_t k = 5;
  std::string name = {};
  std::string dtype = {};
  bool from_sorted_ids = false;  // sparse only: predictions hold class numbers
};
MetricPtr TopKCategoricalAccuracy(TopKOptions options = {});
MetricPtr SparseTopKCategoricalAccuracy(TopKOptions options = {});
// The same with k first: TopKCategoricalAccuracy(3, {.name = "top_3"}).
MetricPtr TopKCategoricalAccuracy(std::int64_t k, TopKOptions options = {});
MetricPtr SparseTopKCategoricalAccuracy(std::int64_t k, TopKOptions options = {});

MetricPtr MeanSquaredError(MetricOptions options = {});
MetricPtr RootMeanSquaredError(MetricOptions options = {});
MetricPtr MeanAbsoluteError(MetricOptions options = {});
MetricPtr MeanAbsolutePercentageError(MetricOptions options = {});
MetricPtr MeanSquaredLogarithmicError(MetricOptions options = {});
MetricPtr LogCoshError(MetricOptions options = {});
// Of Keras 2 only: |y - p| / normalizer, which has the length of the last axis.
MetricPtr MeanRelativeError(std::vector<double> normalizer, MetricOptions options = {});
MetricPtr KLDivergence(MetricOptions options = {});
MetricPtr Poisson(MetricOptions options = {});
MetricPtr Hinge(MetricOptions options = {});
MetricPtr SquaredHinge(MetricOptions options = {});
MetricPtr CategoricalHinge(MetricOptions options = {});
struct AxisOptions {
  std::string name = {};
  std::string dtype = {};
  ops::Axes axis = -1;
};
MetricPtr CosineSimilarity(AxisOptions options = {});  // the loss's value with the opposite sign
MetricPtr PearsonCorrelation(AxisOptions options = {});
MetricPtr ConcordanceCorrelation(AxisOptions options = {});
struct BinaryCrossentropyOptions {
  std::string name = {};
  std::string dtype = {};
  bool from_logits = false;
  double label_smoothing = 0;
};
MetricPtr BinaryCrossentropy(BinaryCrossentropyOptions options = {});
struct CategoricalCrossentropyOptions {
  std::string name = {};
  std::string dtype = {};
  bool from_logits = false;
  double label_smoothing = 0;
  ops::Axes axis = -1;
};
MetricPtr CategoricalCrossentropy(CategoricalCrossentropyOptions options = {});
struct SparseCategoricalCrossentropyOptions {
  std::string name = {};
  std::string dtype = {};
  bool from_logits = false;
  std::optional<std::int64_t> ignore_class = std::nullopt;
  int axis = -1;
};
MetricPtr SparseCategoricalCrossentropy(SparseCategoricalCrossentropyOptions options = {});

// One threshold, or several: .thresholds = 0.4.
class Thresholds : public std::vector<double> {
 public:
  using vector::vector;
  Thresholds(const std::vector<double>& thresholds) : vector(thresholds) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Thresholds(T threshold) : vector{static_cast<double>(threshold)} {}
};
// Counts of a confusion matrix; several thresholds give vectors.
struct ThresholdOptions {
  Thresholds thresholds = {};  // default 0.5
  std::string name = {};
  std::string dtype = {};
};
MetricPtr TruePositives(ThresholdOptions options = {});
MetricPtr TrueNegatives(ThresholdOptions options = {});
MetricPtr FalsePositives(ThresholdOptions options = {});
MetricPtr FalseNegatives(ThresholdOptions options = {});
struct PrecisionOptions {
  Thresholds thresholds = {};  // default 0.5, or none with top_k
  std::optional<std::int64_t> top_k = std::nullopt;
  std::optional<std::int64_t> class_id = std::nullopt;
  std::string name = {};
  std::string dtype = {};
};
using RecallOptions = PrecisionOptions;
MetricPtr Precision(PrecisionOptions options = {});
MetricPtr Recall(RecallOptions options = {});
struct AUCOptions {
  std::int64_t num_thresholds = 200;
  std::string curve = "ROC";                       // or "PR"
  std::string summation_method = "interpolation";  // "minoring", "majoring"
  std::string name = {};
  std::string dtype = {};
  std::vector<double> thresholds = {};
  bool multi_label = false;
  std::optional<std::int64_t> num_labels = std::nullopt;
  std::vector<double> label_weights = {};
  bool from_logits = false;
};
MetricPtr AUC(AUCOptions options = {});
struct AtOptions {
  FieldNamesOnly names_only = {};
  // The one that the class names; a missing one is an InvalidArgument.
  double specificity = -1, sensitivity = -1, recall = -1, precision = -1;
  std::int64_t num_thresholds = 200;
  std::optional<std::int64_t> class_id = std::nullopt;
  std::string name = {};
  std::string dtype = {};
};
MetricPtr SensitivityAtSpecificity(double specificity, AtOptions options = {});
inline MetricPtr SensitivityAtSpecificity(const AtOptions& o) { return SensitivityAtSpecificity(o.specificity, o); }
MetricPtr SpecificityAtSensitivity(double sensitivity, AtOptions options = {});
inline MetricPtr SpecificityAtSensitivity(const AtOptions& o) { return SpecificityAtSensitivity(o.sensitivity, o); }
MetricPtr PrecisionAtRecall(double recall, AtOptions options = {});
inline MetricPtr PrecisionAtRecall(const AtOptions& o) { return PrecisionAtRecall(o.recall, o); }
MetricPtr RecallAtPrecision(double precision, AtOptions options = {});
inline MetricPtr RecallAtPrecision(const AtOptions& o) { return RecallAtPrecision(o.precision, o); }

struct FBetaOptions {
  std::string average = {};  // none: one value a class; "micro", "macro", "weighted"
  double beta = 1.0;
  std::optional<double> threshold = std::nullopt;  // none: the largest class is predicted
  std::string name = {};
  std::string dtype = {};
};
MetricPtr FBetaScore(FBetaOptions options = {});
struct F1Options {
  std::string average = {};
  std::optional<double> threshold = std::nullopt;
  std::string name = {};
  std::string dtype = {};
};
MetricPtr F1Score(F1Options options = {});

struct IoUOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num_classes = 0;
  std::vector<std::int64_t> target_class_ids = {};
  std::string name = {};
  std::string dtype = {};
  std::optional<std::int64_t> ignore_class = std::nullopt;
  bool sparse_y_true = true;
  bool sparse_y_pred = true;
  std::optional<int> axis = -1;
};
MetricPtr IoU(std::int64_t num_classes, std::vector<std::int64_t> target_class_ids, IoUOptions options = {});
inline MetricPtr IoU(const IoUOptions& o) { return IoU(o.num_classes, o.target_class_ids, o); }
MetricPtr MeanIoU(std::int64_t num_classes, IoUOptions options = {});
inline MetricPtr MeanIoU(const IoUOptions& o) { return MeanIoU(o.num_classes, o); }
struct OneHotIoUOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num_classes = 0;
  std::vector<std::int64_t> target_class_ids = {};
  std::string name = {};
  std::string dtype = {};
  std::optional<std::int64_t> ignore_class = std::nullopt;
  bool sparse_y_pred = false;
  std::optional<int> axis = -1;
};
MetricPtr OneHotIoU(std::int64_t num_classes, std::vector<std::int64_t> target_class_ids,
                    OneHotIoUOptions options = {});
inline MetricPtr OneHotIoU(const OneHotIoUOptions& o) { return OneHotIoU(o.num_classes, o.target_class_ids, o); }
MetricPtr OneHotMeanIoU(std::int64_t num_classes, OneHotIoUOptions options = {});
inline MetricPtr OneHotMeanIoU(const OneHotIoUOptions& o) { return OneHotMeanIoU(o.num_classes, o); }
struct BinaryIoUOptions {
  std::vector<std::int64_t> target_class_ids = {0, 1};
  std::optional<double> threshold = 0.5;
  std::string name = {};
  std::string dtype = {};
};
MetricPtr BinaryIoU(BinaryIoUOptions options = {});

struct R2Options {
  std::string class_aggregation = "uniform_average";  // "variance_weighted_average", "" for one value a column
  std::int64_t num_regressors = 0;
  std::string name = {};
  std::string dtype = {};
};
MetricPtr R2Score(R2Options options = {});

}  // namespace lockstep::metrics
