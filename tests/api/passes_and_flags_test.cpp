// Passes of repeated datasets, the flag trainable, histories, class weights: values of TensorFlow 2.21 and Keras 3.15.
#include <gtest/gtest.h>

#include "lockstep/random/seeds.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::layers;
namespace tf = lockstep::tf;
using ls::Tensor;
using ls::data::Dataset;

namespace passes_and_flags {

Numbers elements(const Dataset& data) {
  Numbers out;
  for (const Tensor& x : data) {
    for (const double value : numbers(x)) out.push_back(value);
  }
  return out;
}

TEST(RepeatedDatasets, AShuffleBelowTakesSeedsForOneMorePass) {
  const Dataset data = Dataset::range(8).shuffle(8, {.seed = 3}).batch(4).repeat(2);
  elements(data);
  EXPECT_EQ(elements(data), (Numbers{0, 1, 4, 6, 3, 7, 5, 2, 5, 7, 2, 3, 4, 1, 0, 6}));
}

TEST(RandomRepeats, RandomOperationsOfFunctionsContinue) {
  tf::random::set_seed(7);
  const auto add = [](const Tensor& v) { return v + tf::random::uniform({}, 0, 100, ls::int64, 3); };
  const Numbers two = {61, 49, 73, 100, 100, 54, 88, 55, 17, 75, 41, 61, 35, 56, 97, 101};
  EXPECT_EQ(elements(Dataset::range(8).map(add).repeat(2)), two);
  EXPECT_EQ(elements(Dataset::range(8).map(add).repeat().take(16)), two);
  EXPECT_EQ(elements(Dataset::range(8).map(add).batch(4).repeat(2)), two);
  const Dataset saved = Dataset::range(8).map(add).repeat(2);
  auto iterator = saved.make_iterator();
  for (int i = 0; i < 10; ++i) iterator.next();
  const ls::Json state = iterator.save_state();
  auto later = saved.make_iterator();
  later.restore_state(state);
  EXPECT_EQ(numbers(Tensor(*later.next())), (Numbers{41}));
}

TEST(RandomRepeats, RandomOperationsOfDatasetsThatFlatMapMakesContinue) {
  tf::random::set_seed(7);
  const Dataset data = Dataset::range(3).flat_map([](const Tensor&) {
    return Dataset::range(2).map([](const Tensor& v) { return v + tf::random::uniform({}, 0, 100, ls::int64, 3); });
  });
  EXPECT_EQ(elements(data), (Numbers{61, 49, 71, 98, 96, 50}));
  EXPECT_EQ(elements(data.repeat(2)), (Numbers{61, 49, 71, 98, 96, 50, 82, 49, 17, 75, 39, 59}));
}

TEST(RandomRepeats, EachTraceOfAFunctionHasRandomStatesOfItsOwn) {
  const auto draw = [](const Tensor& x) { return tf::reduce_sum(tf::random::uniform(tf::shape(x), {.seed = 1})); };
  const auto sums = [](const auto& function, const std::vector<int>& rows) {
    Numbers out;
    for (const int n : rows) out.push_back(double(function(tf::ones({n}))));
    return out;
  };
  const auto expect_near = [](const Numbers& found, const Numbers& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
  };
  tf::random::set_seed(5);
  const auto function = tf::function(draw);
  const Numbers mixed = sums(function, {2, 3, 2, 4, 2});
  expect_near({mixed[0], mixed[2], mixed[4]}, {1.136064, 1.233259, 0.606043});
  expect_near(sums(tf::function(draw, {.reduce_retracing = true}), {2, 3, 4, 2, 5, 2}),
              {1.136064, 1.684783, 2.673809, 1.233259, 1.510819, 0.606043});
  const auto by_flag = tf::function([&](const Tensor& x, bool) { return draw(x); });
  const Tensor x = tf::ones({2});
  expect_near({double(by_flag(x, true)), double(by_flag(x, false)), double(by_flag(x, true))},
              {1.136064, 1.136064, 1.233259});
  const auto signature = tf::function(draw, {.input_signature = {tf::TensorSpec({ls::None}, tf::float32)}});
  EXPECT_NE(sums(signature, {2, 3, 2})[2], mixed[2]);
}

class Noise : public keras::Layer {
 public:
  keras::Structure call(const keras::Structure& x) override {
    return Tensor(x) + tf::random::normal(tf::shape(x), {.seed = 3});
  }
};

TEST(RandomRepeats, EachTraceOfAModelHasRandomStatesOfItsOwn) {
  const Tensor x = tf::zeros({4, 1});
  const auto made = [] {
    tf::random::set_seed(5);
    const Tensor input = keras::Input({1});
    keras::Model model(input, keras::make_layer<Noise>()(input));
    model.compile(keras::optimizers::SGD(0.0), "mse");
    return model;
  };
  const auto expect_near = [](const Tensor& found, const Numbers& expected) {
    ASSERT_EQ(found.num_elements(), static_cast<std::int64_t>(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(numbers(found)[i], expected[i], 2e-4);
  };
  const auto trained = made();
  expect_near(double(trained.train_on_batch(x, x)), {0.8068});
  expect_near(double(trained.train_on_batch(x, x)), {0.3194});
  expect_near(double(trained.test_on_batch(x, x)), {0.8068});
  EXPECT_NEAR(trained.fit(x, x, 4, 2, 0).history["loss"][1], 0.3194, 1e-4);
  expect_near(double(trained.train_on_batch(x, x)), {1.3717});
  const auto model = made();
  const auto predicted = [&](std::int64_t batch_size) -> Tensor { return model.predict(x, batch_size, 0); };
  expect_near(predicted(32), {-1.4617, -0.5902, 0.4928, 0.7067});
  expect_near(predicted(32), {-0.4106, 1.0207, -0.0661, -0.2506});
  expect_near(predicted(2), {-1.4617, -0.5902, -1.1615, -0.1217});
  expect_near(predicted(3), {-0.4106, 1.0207, -0.0661, 1.0272});
  expect_near(predicted(32), {1.6169, -0.3322, 0.1434, 1.6557});
  expect_near(model.predict_on_batch(x), {-1.4617, -0.5902, 0.4928, 0.7067});
  expect_near(model.predict_on_batch(x[{0, 2}]), {-1.4617, -0.5902});
  expect_near(model.predict_on_batch(x), {-0.4106, 1.0207, -0.0661, -0.2506});
}

TEST(Trainable, AValueThatALayerHasChangesNothingInside) {
  keras::Sequential base({keras::Input({2}), layers::Dense(2), layers::Dense(2)});
  keras::Sequential model({keras::Input({2}), base, layers::Dense(1)});
  base.set_trainable(false);
  model.set_trainable(true);
  EXPECT_EQ(model.trainable_weights().size(), 2U);
  model.set_trainable(false);
  model.set_trainable(true);
  EXPECT_EQ(model.trainable_weights().size(), 6U);
}

TEST(Histories, FitReturnsTheOneAmongTheCallbacks) {
  keras::Sequential model({keras::Input({2}), layers::Dense(1)});
  model.compile("sgd", "mse");
  const auto own = std::make_shared<keras::History>();
  const auto history = model.fit(waves({4, 2}, .3), waves({4, 1}, .7), {.epochs = 2, .verbose = 0, .callbacks = {own}});
  EXPECT_EQ(history.epoch.size(), 2U);
  EXPECT_EQ(history.history["loss"], own->history["loss"]);
}

TEST(ClassWeights, LabelsAreRoundedToClasses) {
  keras::Sequential model({keras::Input({1}), layers::Dense(1, {.kernel_initializer = "zeros"})});
  model.compile(keras::optimizers::SGD(0.0), "mse");
  const Tensor x = {{1.}, {1.}, {1.}, {1.}}, y = {{.4}, {.6}, {1.5}, {2.5}};
  const auto history = model.fit(x, y, {.verbose = 0, .class_weight = {{0, 1.0}, {1, 10.0}, {2, 1000.0}}});
  EXPECT_NEAR(history.history["loss"][0], (.16 + 3.6 + 2250 + 6250) / 4, 1e-3);
}

class OtherTypes : public keras::Callback {
 public:
  void on_epoch_begin(int, keras::Logs&) override { ++begun; }
  void on_epoch_end(int, const keras::Logs& logs) override { losses.push_back(logs["loss"]); }
  void on_train_batch_end(int batch, const keras::Logs&) override { batches += batch; }
  void on_test_batch_begin(int, const keras::Logs&) override { ++tested; }
  int begun = 0, batches = 0, tested = 0;
  std::vector<double> losses;
};

TEST(Callbacks, TakeLogsAndNumbersOfBatchesOfEitherType) {
  keras::Sequential model({keras::Input({2}), layers::Dense(1)});
  model.compile("sgd", "mse");
  const auto seen = std::make_shared<OtherTypes>();
  const Tensor x = waves({6, 2}, .3), y = waves({6, 1}, .7);
  const auto history = model.fit(x, y, 2, 2, 0, {.callbacks = {seen}});
  model.evaluate(x, y, 3, 0, {.callbacks = {seen}});
  EXPECT_EQ(seen->begun, 2);
  EXPECT_EQ(seen->batches, 6);
  EXPECT_EQ(seen->tested, 2);
  EXPECT_EQ(ls::min(history.history["loss"]), std::min(seen->losses[0], seen->losses[1]));
  const keras::LayerHandle none;
  EXPECT_TRUE(none == ls::None);
  EXPECT_TRUE(model.layers()[0] != ls::None);
}

TEST(Results, AWeightedMetricWithTheNameOfAnotherFollows) {
  keras::Sequential model({keras::Input({2}), layers::Dense(1)});
  model.compile("sgd", "mse", {.metrics = {"mae"}, .weighted_metrics = {"mae"}});
  const auto results =
      model.evaluate(waves({4, 2}, .3), waves({4, 1}, .7), {.verbose = 0, .sample_weight = Tensor{1., 2., 3., 4.}});
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(double(results[1]), double(results[2]));
  EXPECT_EQ(double(results[3]), double(results["weighted_mae"]));
}

}  // namespace passes_and_flags
