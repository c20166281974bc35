#include "lockstep/keras/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep::metrics {
namespace {

using Values = std::vector<float>;

Tensor matrix(const Values& values, std::int64_t columns) {
  return Tensor::from_vector(values, Shape{static_cast<std::int64_t>(values.size()) / columns, columns});
}

const Tensor kYr = matrix({0, 1, 2, -1, .5f, .5f}, 2), kPr = matrix({.1f, .8f, 1.5f, -.5f, 0, 1}, 2);
const Tensor kYbin = matrix({0, 1, 1, 1, 0, 0}, 2), kPbin = matrix({.1f, .8f, .6f, .9f, .3f, .2f}, 2);
const Tensor kYc = matrix({1, 0, 0, 0, 1, 0, 0, 0, 1}, 3);
const Tensor kPc = matrix({.7f, .2f, .1f, .2f, .5f, .3f, .3f, .3f, .4f}, 3);
const Tensor kPa = matrix({.5f, .5f, 0, .1f, .8f, .1f, .9f, .1f, 0}, 3);
const Tensor kYs = Tensor::from_vector<std::int64_t>({0, 1, 2});
const Tensor kWeights = Tensor::from_vector<float>({1, .5f, 2});
const Tensor kY = Tensor::from_vector<float>({0, 1, 1, 0, 1}),
             kP = Tensor::from_vector<float>({.2f, .8f, .4f, .6f, .5f});
const Tensor kW = Tensor::from_vector<float>({1, 2, 1, .5f, 1});

struct Case {
  const char* title;
  std::function<MetricPtr()> make;
  Tensor y, p, w;
  Values plain, weighted;
};

#define METRIC(...) [] { return __VA_ARGS__; }

// Numbers of Keras 3.15.1.
std::vector<Case> cases() {
  const Tensor ya = Tensor::from_vector<float>({1, 2, 3, 4}), pa = Tensor::from_vector<float>({1, 2, 0, 4});
  const Tensor wa = Tensor::from_vector<float>({1, 1, 2, 1}), piou = Tensor::from_vector<std::int64_t>({0, 2, 2});
  const Tensor yl = ops::abs(kYr), pl = ops::abs(kPr);
  return {
      {"Accuracy", METRIC(Accuracy()), ya, pa, wa, {0.75f}, {0.6f}},
      {"BinaryAccuracy", METRIC(BinaryAccuracy()), kY, kP, kW, {0.4f}, {0.5454546f}},
      {"CategoricalAccuracy", METRIC(CategoricalAccuracy()), kYc, kPa, kWeights, {0.6666667f}, {0.4285714f}},
      {"SparseCategoricalAccuracy",
       METRIC(SparseCategoricalAccuracy()),
       kYs,
       kPa,
       kWeights,
       {0.6666667f},
       {0.4285714f}},
      {"TopK", METRIC(TopKCategoricalAccuracy({.k = 2})), kYc, kPa, kWeights, {0.6666667f}, {0.4285714f}},
      {"SparseTopK", METRIC(SparseTopKCategoricalAccuracy({.k = 2})), kYs, kPa, kWeights, {0.6666667f}, {0.4285714f}},
      {"AUC", METRIC(AUC()), kY, kP, kW, {0.6666667f}, {0.8333333f}},
      {"AUC PR", METRIC(AUC({.curve = "PR"})), kY, kP, kW, {0.7689509f}, {0.9265267f}},
      {"AUC 5", METRIC(AUC({.num_thresholds = 5})), kY, kP, kW, {0.6666667f}, {0.8333333f}},
      {"Precision", METRIC(Precision()), kY, kP, kW, {0.5f}, {0.8f}},
      {"Recall", METRIC(Recall()), kY, kP, kW, {0.3333333f}, {0.5f}},
      {"PrecisionAtRecall, below 0", METRIC(PrecisionAtRecall(0.9)), kY, kP - 0.45, kW, {0}, {0}},
      {"PrecisionAtRecall, 0.5", METRIC(PrecisionAtRecall(0.5)), kY, kP - 0.45, kW, {0.6666667f}, {1}},
      {"TruePositives", METRIC(TruePositives()), kY, kP, kW, {1}, {2}},
      {"FalsePositives", METRIC(FalsePositives()), kY, kP, kW, {1}, {0.5f}},
      {"TrueNegatives", METRIC(TrueNegatives()), kY, kP, kW, {1}, {1}},
      {"FalseNegatives", METRIC(FalseNegatives()), kY, kP, kW, {2}, {2}},
      {"MSE", METRIC(MeanSquaredError()), kYr, kPr, kWeights, {0.175f}, {0.1857143f}},
      {"MAE", METRIC(MeanAbsoluteError()), kYr, kPr, kWeights, {0.3833333f}, {0.4f}},
      {"RMSE", METRIC(RootMeanSquaredError()), kYr, kPr, kWeights, {0.4183300f}, {0.4309458f}},
      {"BCE", METRIC(BinaryCrossentropy()), kYbin, kPbin, kWeights, {0.2540848f}, {0.2566049f}},
      {"CCE", METRIC(CategoricalCrossentropy()), kYc, kPc, kWeights, {0.6553710f}, {0.7245229f}},
      {"SCCE", METRIC(SparseCategoricalCrossentropy()), kYs, kPc, kWeights, {0.6553710f}, {0.7245229f}},
      {"F1 macro", METRIC(F1Score({.average = "macro"})), kYc, kPa, kWeights, {0.4444444f}, {0.3333333f}},
      {"MeanIoU", METRIC(MeanIoU(3)), kYs, piou, kWeights, {0.5f}, {0.9999999f}},
      {"R2Score", METRIC(R2Score()), kYr, kPr, kWeights, {0.7576923f}, {0.5210527f}},
      {"CosineSimilarity", METRIC(CosineSimilarity()), kYr, kPr, kWeights, {0.8964447f}, {0.8289904f}},
      {"MAPE", METRIC(MeanAbsolutePercentageError()), kYr, kPr, kWeights, {16666715.0f}, {14285779.0f}},
      {"MSLE", METRIC(MeanSquaredLogarithmicError()), yl, pl, kWeights, {0.0638916f}, {0.0817874f}},
      {"MeanRelativeError", METRIC(MeanRelativeError({0.5, 2.0})), kYr, kPr, kWeights, {0.4666667f}, {0.4892857f}},
      {"LogCosh", METRIC(LogCoshError()), kYr, kPr, kWeights, {0.0842196f}, {0.0893474f}},
      {"KLDivergence", METRIC(KLDivergence()), kYc, kPc, kWeights, {0.6553680f}, {0.7245200f}},
      {"Hinge", METRIC(Hinge()), kYbin, kPr, kWeights, {0.9666667f}, {1.15f}},
  };
}

Values result_of(const MetricPtr& metric) { return metric->result().to_vector<float>(); }

TEST(Metrics, GiveKerassNumbers) {
  for (const Case& c : cases()) {
    const MetricPtr metric = c.make();
    for (const auto& [weights, expected] : {std::pair(Tensor(), c.plain), std::pair(c.w, c.weighted)}) {
      metric->reset_state();
      metric->update_state(c.y, c.p, weights);
      const Values found = result_of(metric);
      ASSERT_EQ(found.size(), expected.size()) << c.title;
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 3e-6 * std::max(1.0f, std::abs(expected[i]))) << c.title;
      }
    }
  }
}

TEST(Metrics, F1WithAThreshold) {
  const MetricPtr f1 = F1Score({.threshold = 0.45});
  f1->update_state(kYc, kPc);
  EXPECT_THAT(result_of(f1), ::testing::Pointwise(::testing::FloatNear(3e-7f), Values{0.9999998f, 0.9999998f, 0}));
}

TEST(Metrics, BatchesAddUp) {
  for (const Case& c : cases()) {
    const MetricPtr whole = c.make(), parts = c.make();
    whole->update_state(c.y, c.p, c.w);
    for (std::int64_t row = 0; row < c.y.dim(0); ++row) {
      const auto one = [&](const Tensor& t) { return ops::slice_axis(t, 0, row, row + 1); };
      parts->update_state(one(c.y), one(c.p), one(c.w));
    }
    const float expected = result_of(whole)[0];
    // Hinge maps labels by what a batch holds, so its parts may differ.
    if (std::string_view(c.title) == "Hinge") continue;
    EXPECT_NEAR(result_of(parts)[0], expected, 2e-6 * std::max(1.0f, std::abs(expected))) << c.title;
  }
}

TEST(Metrics, MeanAndSumHoldKerassState) {
  const MetricPtr mean = Mean("loss");
  EXPECT_EQ(mean->result().item<float>(), 0.0f);
  mean->update_state(Tensor::from_vector<float>({1, 3}), Tensor::from_vector<float>({1, 3}));
  EXPECT_FLOAT_EQ(mean->result().item<float>(), 2.5f);
  mean->update_state(Tensor::scalar(4.5f), Tensor::scalar(2.0f));
  EXPECT_FLOAT_EQ(mean->result().item<float>(), (10 + 9) / 6.0f);
  EXPECT_EQ(mean->variables()[0]->name(), "total");
  EXPECT_EQ(mean->variables()[1]->name(), "count");
  const MetricPtr matrix_mean = BinaryAccuracy();
  matrix_mean->update_state(matrix({0, 1, 1, 0, 0, 1}, 3), matrix({.1f, .9f, .2f, .1f, .2f, .3f}, 3));
  EXPECT_FLOAT_EQ(matrix_mean->variables()[1]->numpy().item<float>(), 2.0f);
  const MetricPtr sum = Sum();
  sum->update_state(Tensor::from_vector<float>({1, 3}));
  EXPECT_FLOAT_EQ(sum->result().item<float>(), 4.0f);
}

TEST(Metrics, CompileResolvesAccuracyByShapes) {
  EXPECT_EQ(get_for_compile("accuracy", {5, 1}, {5, 1})->class_name(), "BinaryAccuracy");
  EXPECT_EQ(get_for_compile("acc", {5}, {5, 3})->class_name(), "SparseCategoricalAccuracy");
  EXPECT_EQ(get_for_compile("acc", {5, 1}, {5, 3})->name(), "acc");
  EXPECT_EQ(get_for_compile("accuracy", {5, 3}, {5, 3})->class_name(), "CategoricalAccuracy");
  EXPECT_EQ(get_for_compile("mse", {5, 3}, {5, 3})->name(), "mse");
  EXPECT_EQ(get_for_compile("AUC", {5, 1}, {5, 1})->class_name(), "AUC");
}

TEST(Metrics, ComeBackFromConfigs) {
  for (const Case& c : cases()) {
    const Json config = serialize(c.make());
    EXPECT_EQ(serialize(deserialize(config)), config) << c.title;
  }
  EXPECT_EQ(
      dump_json(serialize(SparseCategoricalAccuracy())),
      R"({"module": "keras.metrics", "class_name": "SparseCategoricalAccuracy", "config": {"name": "sparse_categorical_accuracy", "dtype": "float32"}, "registered_name": null})");
  const MetricPtr old =
      deserialize(Json{{"class_name", "MeanMetricWrapper"},
                       {"config", {{"name", "mae"}, {"dtype", "float32"}, {"fn", "mean_absolute_error"}}}});
  old->update_state(kYr, kPr);
  EXPECT_NEAR(result_of(old)[0], 0.3833333f, 1e-6);
  EXPECT_THROW(get("acuracy"), Error);
}

TEST(Metrics, CurvesFindTheBestThreshold) {
  const MetricPtr metric = SensitivityAtSpecificity(0.5);
  metric->update_state(Tensor::from_vector<float>({0, 0, 0, 1, 1}),
                       Tensor::from_vector<float>({0, .3f, .8f, .3f, .8f}));
  EXPECT_FLOAT_EQ(metric->result().item<float>(), 0.5f);
  const MetricPtr labels = AUC({.multi_label = true});
  labels->update_state(matrix({0, 1, 1, 0, 1, 1}, 2), matrix({.1f, .9f, .8f, .2f, .7f, .3f}, 2));
  EXPECT_NEAR(labels->result().item<float>(), 1.0f, 1e-6);
}

TEST(Metrics, R2ScoreGivesBothTheSameRank) {
  const Values targets = {0, 1, 2, 3, 4, 5}, predictions = {1, 1.5f, 2, 2.5f, 3, 3.5f};
  const MetricPtr columns = R2Score({.class_aggregation = ""});
  columns->update_state(matrix(targets, 2), Tensor::from_vector(predictions, Shape{3, 2, 1}));
  const Tensor found = columns->result();
  EXPECT_NEAR(found[0].item<float>(), 0.75f, 1e-6);
  EXPECT_NEAR(found[1].item<float>(), 0.65625f, 1e-6);
  const MetricPtr column = R2Score();
  column->update_state(Tensor::from_vector<float>({0, 1, 2}), matrix({1, 1.5f, 2}, 1));
  EXPECT_NEAR(column->result().item<float>(), 0.375f, 1e-6);
}

}  // namespace
}  // namespace lockstep::metrics
