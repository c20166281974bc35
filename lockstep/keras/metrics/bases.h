// Keras's metrics as classes, to derive from.
//
//   class MaskedMeanIoU : public metrics::MeanIoU {
//    public:
//     using MeanIoU::MeanIoU;
//     void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) override {
//       MeanIoU::update_state(y_true, ops::argmax(y_pred, -1), sample_weight);
//     }
//   };
//   model.compile({.metrics = {std::make_shared<MaskedMeanIoU>(3)}});
//
// An object of a registered class without a get_config() of its own is read again where the class inherits the
// constructors.
#pragma once

#include <concepts>
#include <utility>

#include "lockstep/keras/metrics/metrics.h"

namespace lockstep::metrics {

// Forwards each call to the built-in metric that it contains.
class BuiltInMetric : public Metric {
 public:
  // The mask, here that of y_pred, as Keras attaches it to predictions.
  void update_state(const Tensor& y_true, const Tensor& y_pred = {}, const Tensor& sample_weight = {}) override;
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                    const Tensor& mask) override;
  Tensor result() const override;
  void reset_state() override;
  Direction direction() const override;
  Json get_config() const override;

 protected:
  explicit BuiltInMetric(MetricPtr built_in);
  BuiltInMetric(const char* class_name, const Json& config);
  // Keras's own object: metrics::Mean::from_config({{"name", "loss"}}).
  static MetricPtr of_class(const char* class_name, const Json& config);

 private:
  static const BuiltInMetric& plain();
  // Those that the held metric has made since: some make theirs at the first update.
  void take_variables();

  MetricPtr built_in_;
  std::size_t taken_ = 0;
};

#define LOCKSTEP_BASE(Name, parameters, arguments)                                       \
  class Name : public BuiltInMetric {                                                    \
   public:                                                                               \
    explicit Name parameters : BuiltInMetric(metrics::Name arguments) {}                 \
    template <std::same_as<keras::detail::ConfigOnly> Config>                            \
    explicit Name(const Config& config) : BuiltInMetric(#Name, config.config) {}         \
    static MetricPtr from_config(const Json& config) { return of_class(#Name, config); } \
  };
LOCKSTEP_BASE(Mean, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Sum, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MeanMetricWrapper, (MetricFunction function, MetricOptions options = {}),
              (std::move(function), std::move(options)))
LOCKSTEP_BASE(Accuracy, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(BinaryAccuracy, (BinaryAccuracyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CategoricalAccuracy, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(SparseCategoricalAccuracy, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(TopKCategoricalAccuracy, (TopKOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(SparseTopKCategoricalAccuracy, (TopKOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MeanSquaredError, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RootMeanSquaredError, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MeanAbsoluteError, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MeanAbsolutePercentageError, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MeanRelativeError, (std::vector<double> normalizer, MetricOptions options = {}),
              (std::move(normalizer), std::move(options)))
LOCKSTEP_BASE(MeanSquaredLogarithmicError, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(LogCoshError, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(KLDivergence, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Poisson, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Hinge, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(SquaredHinge, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CategoricalHinge, (MetricOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CosineSimilarity, (AxisOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(PearsonCorrelation, (AxisOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(ConcordanceCorrelation, (AxisOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(BinaryCrossentropy, (BinaryCrossentropyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CategoricalCrossentropy, (CategoricalCrossentropyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(SparseCategoricalCrossentropy, (SparseCategoricalCrossentropyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(TruePositives, (ThresholdOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(TrueNegatives, (ThresholdOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(FalsePositives, (ThresholdOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(FalseNegatives, (ThresholdOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Precision, (PrecisionOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Recall, (RecallOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(AUC, (AUCOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(SensitivityAtSpecificity, (double specificity, AtOptions options = {}), (specificity, std::move(options)))
LOCKSTEP_BASE(SpecificityAtSensitivity, (double sensitivity, AtOptions options = {}), (sensitivity, std::move(options)))
LOCKSTEP_BASE(PrecisionAtRecall, (double recall, AtOptions options = {}), (recall, std::move(options)))
LOCKSTEP_BASE(RecallAtPrecision, (double precision, AtOptions options = {}), (precision, std::move(options)))
LOCKSTEP_BASE(FBetaScore, (FBetaOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(F1Score, (F1Options options = {}), (std::move(options)))
LOCKSTEP_BASE(IoU, (std::int64_t num_classes, std::vector<std::int64_t> target_class_ids, IoUOptions options = {}),
              (num_classes, std::move(target_class_ids), std::move(options)))
LOCKSTEP_BASE(MeanIoU, (std::int64_t num_classes, IoUOptions options = {}), (num_classes, std::move(options)))
LOCKSTEP_BASE(OneHotIoU,
              (std::int64_t num_classes, std::vector<std::int64_t> target_class_ids, OneHotIoUOptions options = {}),
              (num_classes, std::move(target_class_ids), std::move(options)))
LOCKSTEP_BASE(OneHotMeanIoU, (std::int64_t num_classes, OneHotIoUOptions options = {}),
              (num_classes, std::move(options)))
LOCKSTEP_BASE(BinaryIoU, (BinaryIoUOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(R2Score, (R2Options options = {}), (std::move(options)))
#undef LOCKSTEP_BASE

}  // namespace lockstep::metrics
