#include "lockstep/keras/losses/losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep::losses {
namespace {

using Values = std::vector<float>;

Tensor matrix(const Values& values, std::int64_t columns) {
  return Tensor::from_vector(values, Shape{static_cast<std::int64_t>(values.size()) / columns, columns});
}

const Tensor kYr = matrix({0, 1, 2, -1, .5f, .5f}, 2), kPr = matrix({.1f, .8f, 1.5f, -.5f, 0, 1}, 2);
const Tensor kYb = matrix({0, 1, 1, 1, 0, 0}, 2), kPb = matrix({.1f, .8f, .6f, .9f, .3f, .2f}, 2);
const Tensor kYc = matrix({1, 0, 0, 0, 1, 0, 0, 0, 1}, 3);
const Tensor kPc = matrix({.7f, .2f, .1f, .2f, .5f, .3f, .3f, .3f, .4f}, 3);
const Tensor kYs = Tensor::from_vector<std::int64_t>({0, 1, 2});
const Tensor kLogits = matrix({2, 1, 0, 0, 1, -1, 1, 1, 1}, 3), kLogits2 = matrix({2, 1, 0, 1, 1, 1}, 2);
const Tensor kWeights = Tensor::from_vector<float>({1, .5f, 2});

struct Case {
  const char* title;
  std::function<LossPtr(std::string reduction)> make;
  Tensor y, p;
  Values none;
  float sum, sobs, mws, sobs_weighted, sum_weighted, mws_weighted;
};

#define LOSS(Name, ...) [](std::string reduction) { return Name({__VA_ARGS__ __VA_OPT__(, ).reduction = reduction}); }

// Numbers of Keras 3.15.1.
std::vector<Case> cases() {
  const Tensor yr_abs = ops::abs(kYr), pr_abs = ops::abs(kPr);
  return {
      {"MSE",
       LOSS(MeanSquaredError),
       kYr,
       kPr,
       {0.025f, 0.25f, 0.25f},
       0.525f,
       0.175f,
       0.175f,
       0.2166667f,
       0.65f,
       0.1857143f},
      {"MAE",
       LOSS(MeanAbsoluteError),
       kYr,
       kPr,
       {0.15f, 0.5f, 0.5f},
       1.15f,
       0.3833333f,
       0.3833333f,
       0.4666667f,
       1.4f,
       0.4f},
      {"BCE",
       LOSS(BinaryCrossentropy),
       kYb,
       kPb,
       {0.1642520f, 0.3080931f, 0.2899092f},
       0.7622544f,
       0.2540848f,
       0.2540848f,
       0.2993723f,
       0.8981171f,
       0.2566049f},
      {"BCE logits",
       LOSS(BinaryCrossentropy, .from_logits = true),
       kYb,
       kLogits2,
       {1.2200949f, 0.5032045f, 1.3132617f},
       3.0365610f,
       1.0121870f,
       1.0121870f,
       1.3660736f,
       4.0982208f,
       1.1709203f},
      {"BCE smoothed",
       LOSS(BinaryCrossentropy, .label_smoothing = 0.1),
       kYb,
       kPb,
       {0.25384f, 0.3731603f, 0.3457491f},
       0.9727494f,
       0.3242498f,
       0.3242498f,
       0.3773061f,
       1.1319183f,
       0.3234052f},
      {"CCE",
       LOSS(CategoricalCrossentropy),
       kYc,
       kPc,
       {0.3566750f, 0.6931472f, 0.9162907f},
       1.9661129f,
       0.6553710f,
       0.6553710f,
       0.8452767f,
       2.5358300f,
       0.7245229f},
      {"CCE logits",
       LOSS(CategoricalCrossentropy, .from_logits = true),
       kYc,
       kLogits,
       {0.4076059f, 0.4076059f, 1.0986123f},
       1.9138242f,
       0.6379414f,
       0.6379414f,
       0.9362112f,
       2.8086336f,
       0.8024668f},
      {"CCE smoothed",
       LOSS(CategoricalCrossentropy, .label_smoothing = 0.1),
       kYc,
       kPc,
       {0.4632974f, 0.7407177f, 0.9354695f},
       2.1394846f,
       0.7131615f,
       0.7131615f,
       0.9015318f,
       2.7045953f,
       0.7727415f},
      {"SCCE",
       LOSS(SparseCategoricalCrossentropy),
       kYs,
       kPc,
       {0.3566750f, 0.6931472f, 0.9162908f},
       1.9661129f,
       0.6553710f,
       0.6553710f,
       0.8452767f,
       2.5358300f,
       0.7245229f},
      {"SCCE logits",
       LOSS(SparseCategoricalCrossentropy, .from_logits = true),
       kYs,
       kLogits,
       {0.4076059f, 0.4076059f, 1.0986123f},
       1.9138242f,
       0.6379414f,
       0.6379414f,
       0.9362112f,
       2.8086336f,
       0.8024668f},
      {"SCCE ignoring",
       LOSS(SparseCategoricalCrossentropy, .from_logits = true, .ignore_class = 1),
       kYs,
       kLogits,
       {0.4076059f, 0, 1.0986123f},
       1.5062182f,
       0.7531092f,
       0.7531091f,
       1.3024153f,
       2.6048305f,
       0.8682768f},
      {"Huber",
       LOSS(Huber, .delta = 0.3),
       kYr,
       kPr,
       {0.0125f, 0.105f, 0.105f},
       0.2225f,
       0.0741667f,
       0.0741667f,
       0.0916667f,
       0.275f,
       0.0785714f},
      {"Hinge", LOSS(Hinge), kYb, kPr, {0.65f, 0.75f, 1.5f}, 2.9f, 0.9666667f, 0.9666667f, 1.3416667f, 4.025f, 1.15f},
      {"SquaredHinge",
       LOSS(SquaredHinge),
       kYb,
       kPr,
       {0.625f, 1.125f, 2.5f},
       4.25f,
       1.4166666f,
       1.4166666f,
       2.0625f,
       6.1875f,
       1.7678572f},
      {"CategoricalHinge",
       LOSS(CategoricalHinge),
       kYc,
       kPc,
       {0.5f, 0.8f, 0.9f},
       2.2f,
       0.7333333f,
       0.7333333f,
       0.9f,
       2.7f,
       0.7714285f},
      {"KLDivergence",
       LOSS(KLDivergence),
       kYc,
       kPc,
       {0.3566722f, 0.6931443f, 0.9162878f},
       1.9661041f,
       0.6553680f,
       0.6553680f,
       0.8452733f,
       2.5358200f,
       0.7245200f},
      {"Poisson",
       LOSS(Poisson),
       yr_abs,
       pr_abs,
       {0.5615717f, 0.9411083f, 4.5295238f},
       6.0322037f,
       2.0107346f,
       2.0107346f,
       3.3637245f,
       10.0911732f,
       2.8831923f},
      {"LogCosh",
       LOSS(LogCosh),
       kYr,
       kPr,
       {0.0124299f, 0.1201145f, 0.1201145f},
       0.2526588f,
       0.0842196f,
       0.0842196f,
       0.1042387f,
       0.3127161f,
       0.0893474f},
      {"MAPE",
       LOSS(MeanAbsolutePercentageError),
       kYr,
       kPr,
       {50000008.0f, 37.5f, 100.0f},
       50000144.0f,
       16666715.0f,
       16666715.0f,
       16666743.0f,
       50000228.0f,
       14285779.0f},
      {"MSLE",
       LOSS(MeanSquaredLogarithmicError),
       yr_abs,
       pr_abs,
       {0.0100924f, 0.0580011f, 0.1235814f},
       0.1916749f,
       0.0638916f,
       0.0638916f,
       0.0954186f,
       0.2862558f,
       0.0817874f},
      {"CosineSimilarity",
       LOSS(CosineSimilarity),
       kYr,
       kPr,
       {-0.9922779f, -0.9899495f, -0.7071068f},
       -2.6893342f,
       -0.8964447f,
       -0.8964447f,
       -0.9671555f,
       -2.9014664f,
       -0.8289904f},
      {"BinaryFocal",
       LOSS(BinaryFocalCrossentropy),
       kYb,
       kPb,
       {0.0049897f, 0.0413928f, 0.0205132f},
       0.0668958f,
       0.0222986f,
       0.0222986f,
       0.0222375f,
       0.0667126f,
       0.0190607f},
      {"CategoricalFocal",
       LOSS(CategoricalFocalCrossentropy),
       kYc,
       kPc,
       {0.0080252f, 0.0433217f, 0.0824662f},
       0.1338131f,
       0.0446043f,
       0.0446043f,
       0.0648728f,
       0.1946184f,
       0.0556052f},
      {"Dice",
       LOSS(Dice),
       kYb,
       kPb,
       {0.2203389f},
       0.2203389f,
       0.2203389f,
       0.2203389f,
       0.2570621f,
       0.7711863f,
       0.2203389f},
      {"Tversky",
       LOSS(Tversky),
       kYb,
       kPb,
       {0.2203389f},
       0.2203389f,
       0.2203389f,
       0.2203389f,
       0.2570621f,
       0.7711863f,
       0.2203389f},
      {"GCE",
       LOSS(CategoricalGeneralizedCrossEntropy),
       kYs,
       kPc,
       {0.3266799f, 0.5857865f, 0.7350889f},
       1.6475554f,
       0.5491851f,
       0.5491851f,
       0.6965837f,
       2.0897510f,
       0.5970717f},
  };
}

float value(const Tensor& t) { return t.item<float>(); }

void expect_close(float found, float expected, const char* title) {
  EXPECT_NEAR(found, expected, 2e-6 * std::max(1.0f, std::abs(expected)) + 1e-7) << title;
}

TEST(Losses, GiveKerassNumbersUnderEveryReduction) {
  for (const Case& c : cases()) {
    const Values none = (*c.make("none"))(c.y, c.p).to_vector<float>();
    ASSERT_EQ(none.size(), c.none.size()) << c.title;
    for (std::size_t i = 0; i < none.size(); ++i) expect_close(none[i], c.none[i], c.title);
    expect_close(value((*c.make("sum"))(c.y, c.p)), c.sum, c.title);
    expect_close(value((*c.make("sum_over_batch_size"))(c.y, c.p)), c.sobs, c.title);
    expect_close(value((*c.make("mean_with_sample_weight"))(c.y, c.p)), c.mws, c.title);
    expect_close(value((*c.make("mean"))(c.y, c.p, kWeights)), c.sobs_weighted, c.title);
    expect_close(value((*c.make("sum"))(c.y, c.p, kWeights)), c.sum_weighted, c.title);
    expect_close(value((*c.make("mean_with_sample_weight"))(c.y, c.p, kWeights)), c.mws_weighted, c.title);
  }
}

TEST(Losses, MasksWeighLikeKeras) {
  const Tensor mask = Tensor::from_vector<bool>({true, false, true});
  const auto with = [&](const char* reduction, const Tensor& weights) {
    return value((*MeanSquaredError({.reduction = reduction}))(kYr, kPr, weights, mask));
  };
  expect_close(with("sum", {}), 0.275f, "sum");
  expect_close(with("sum_over_batch_size", {}), 0.1375f, "sobs");
  expect_close(with("mean_with_sample_weight", {}), 0.1375f, "mws");
  expect_close(with("sum", kWeights), 0.525f, "sum weighted");
  expect_close(with("sum_over_batch_size", kWeights), 0.2625f, "sobs weighted");
  expect_close(with("mean_with_sample_weight", kWeights), 0.175f, "mws weighted");
}

TEST(Losses, ThreeAxes) {
  Values ramp;
  for (int i = 0; i < 12; ++i) ramp.push_back(static_cast<float>(i) / 10.0f);
  const Tensor y = Tensor::from_vector(ramp, Shape{2, 3, 2}), p = Tensor::zeros({2, 3, 2});
  expect_close(value((*MeanSquaredError())(y, p)), 0.4216667f, "plain");
  const Tensor mask = Tensor::from_vector<bool>({true, true, false, true, false, false}, Shape{2, 3});
  expect_close(value((*MeanSquaredError())(y, p, {}, mask)), 0.165f, "mask");
  expect_close(value((*MeanSquaredError())(y, p, Tensor::from_vector<float>({1, 3}, Shape{2, 1}))), 1.1733334f,
               "weights");
}

TEST(Losses, PartsOfReplicasAddUp) {
  const LossPtr loss = SparseCategoricalCrossentropy({.from_logits = true, .ignore_class = 1});
  const float whole = value((*loss)(kYs, kLogits, kWeights));
  const auto part = [&](std::int64_t from, std::int64_t to) {
    const auto rows = [&](const Tensor& t) { return ops::slice_axis(t, 0, from, to); };
    return loss->reduce(rows(kYs), rows(kLogits), rows(kWeights));
  };
  const Reduced a = part(0, 2), b = part(2, 3);
  const Tensor denominator = a.denominator + b.denominator;
  EXPECT_NEAR(value(Loss::finish({a.weighted_sum, denominator})) + value(Loss::finish({b.weighted_sum, denominator})),
              whole, 1e-6);
}

TEST(Losses, NamesAndConfigs) {
  for (const char* name : {"mse", "MSE", "mean_squared_error", "MeanSquaredError"}) {
    EXPECT_EQ(get(name)->class_name(), "MeanSquaredError") << name;
  }
  EXPECT_EQ(get("sparse_categorical_crossentropy")->name(), "sparse_categorical_crossentropy");
  EXPECT_EQ(
      dump_json(serialize(SparseCategoricalCrossentropy({.from_logits = true}))),
      R"({"module": "keras.losses", "class_name": "SparseCategoricalCrossentropy", "config": {"name": "sparse_categorical_crossentropy", "reduction": "sum_over_batch_size", "from_logits": true, "ignore_class": null}, "registered_name": null})");
  for (const Case& c : cases()) {
    const Json config = serialize(c.make("sum"));
    EXPECT_EQ(serialize(deserialize(config)), config);
  }
  const LossPtr old = deserialize(
      Json{{"class_name", "BinaryCrossentropy"}, {"config", {{"reduction", "auto"}, {"from_logits", true}}}});
  EXPECT_EQ(old->reduction(), Reduction::kSumOverBatchSize);
  EXPECT_EQ(deserialize(Json{{"module", "builtins"}, {"class_name", "function"}, {"config", "mean_absolute_error"}})
                ->class_name(),
            "MeanAbsoluteError");
  EXPECT_EQ(get(nullptr), nullptr);
  EXPECT_THROW(get("mean_squard_error"), Error);
  EXPECT_THROW(MeanSquaredError({.reduction = "average"}), Error);
}

TEST(Losses, ShapesThatDoNotFitAreNamed) {
  EXPECT_THROW((*SparseCategoricalCrossentropy())(kYc, kPc), Error);
  EXPECT_THROW((*CategoricalCrossentropy())(kYs, kPc), Error);
  const Tensor column = Tensor::from_vector<std::int64_t>({0, 1, 2}, Shape{3, 1});
  EXPECT_NEAR(value((*SparseCategoricalCrossentropy())(column, kPc)), 0.6553710f, 1e-6);
  // (batch,) against (batch, 1): the targets get the axis.
  const Tensor y = Tensor::from_vector<float>({1, 2}), p = Tensor::from_vector<float>({1, 4}, Shape{2, 1});
  EXPECT_NEAR(value((*MeanSquaredError())(y, p)), 2.0f, 1e-6);
}

}  // namespace
}  // namespace lockstep::losses
