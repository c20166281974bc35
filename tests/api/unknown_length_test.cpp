// Training on data whose length is not known: values of Keras 3.15 for the same program in Python.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/api/results.h"

namespace {

namespace ls = lockstep;
namespace keras = ls::keras;
using ls::Tensor;

struct Trained {
  keras::Sequential model;
  Numbers losses;
};
Trained train(const ls::data::Dataset& data, std::int64_t steps_per_execution) {
  keras::utils::set_random_seed(1);
  keras::Sequential model({keras::Input({3}), keras::layers::Dropout(0.5), keras::layers::Dense(1)});
  model.compile({.optimizer = keras::optimizers::Adam(0.1), .loss = "mse", .steps_per_execution = steps_per_execution});
  const auto history = model.fit(data, {.epochs = 3, .verbose = 0});
  return {model, history.history["loss"]};
}

// Keras's step at the end of the data, whose batch does not come, counts for the optimizer and for dropout.
TEST(DataOfUnknownLength, TheLastStepCountsWithoutData) {
  const auto data = ls::data::Dataset::from_tensor_slices({waves({12, 3}, .37), waves({12}, .9)}).batch(4);
  const auto filtered = data.filter([](const Tensor&, const Tensor&) { return true; });
  const Trained one = train(filtered, 1);
  expect_near(one.losses, {0.6333402991294861, 0.7919395565986633, 0.7667689323425293}, 1e-5);
  EXPECT_EQ(one.model.optimizer().iterations(), 12);
  const auto again = one.model.fit(filtered, {.epochs = 2, .verbose = 0});
  expect_near(again.history["loss"], {0.422324538230896, 0.36222147941589355}, 1e-5);
  EXPECT_EQ(one.model.optimizer().iterations(), 20);
  one.model.fit(filtered.repeat(), {.epochs = 2, .verbose = 0, .steps_per_epoch = 2});
  EXPECT_EQ(one.model.optimizer().iterations(), 24);
  one.model.fit(filtered, {.epochs = 1, .verbose = 0, .steps_per_epoch = 5});
  EXPECT_EQ(one.model.optimizer().iterations(), 28);

  const Trained two = train(filtered, 2);
  expect_near(two.losses, {0.6333402991294861, 0.47410333156585693, 0.6274110674858093}, 1e-5);
  EXPECT_EQ(two.model.optimizer().iterations(), 9);
}

// Where the data declares the rows of its batches, that step counts them in means, too, without their values; losses of
// several outputs are means of batches.
TEST(DataOfUnknownLength, TheLastStepCountsDeclaredRowsInMeans) {
  const Tensor x = waves({12, 5}, .37);
  std::vector<float> targets;
  for (int i = 0; i < 12; ++i) targets.push_back(std::cos(.9 * i) > 0 ? 1.0F : 0.0F);
  const Tensor y = targets;
  const auto model = [](int outputs) {
    keras::utils::set_random_seed(1);
    const Tensor input = keras::Input({5});
    std::vector<Tensor> made;
    for (int i = 0; i < outputs; ++i)
      made.push_back(keras::layers::Dense(1, {.activation = "sigmoid", .name = std::string(1, "ab"[i])})(input));
    keras::Model out = outputs == 1 ? keras::Model(input, made[0]) : keras::Model(input, made);
    return out;
  };
  const auto unknown = [](const ls::data::Dataset& data) {
    return data.filter([](const ls::data::Element&) { return true; });
  };
  const auto data = ls::data::Dataset::from_tensor_slices({x, y});
  keras::Model one = model(1);
  one.compile(keras::optimizers::SGD(0.0), "mse",
              {.metrics = {"accuracy", keras::metrics::AUC({.name = "auc"}),
                           keras::metrics::RootMeanSquaredError({.name = "rmse"})}});
  const auto expect = [&](const ls::data::Dataset& batches, const Numbers& expected) {
    const auto fitted = one.fit(batches, {.verbose = 0});
    expect_near(
        {fitted.history["loss"][0], fitted.history["accuracy"][0], fitted.history["auc"][0], fitted.history["rmse"][0]},
        expected, 1e-5);
    const auto found = one.evaluate(batches, {.verbose = 0});
    expect_near({found["loss"], found["accuracy"], found["auc"], found["rmse"]}, expected, 1e-5);
  };
  expect(unknown(data.batch(4)), {0.25825, 0.5, 0.57143, 0.50818});
  expect(unknown(data.batch(4, true)), {0.19369, 0.375, 0.57143, 0.4401});
  keras::Model two = model(2);
  two.compile(keras::optimizers::SGD(0.0), "mse", {});
  const auto both = ls::data::Dataset::from_tensor_slices({x, ls::data::Element({y, y})});
  const auto fitted = two.fit(unknown(both.batch(4)), {.verbose = 0});
  expect_near({fitted.history["loss"][0], fitted.history["a_loss"][0], fitted.history["b_loss"][0]},
              {0.49846, 0.19369, 0.18016}, 1e-5);
  EXPECT_EQ(two.metrics_names(), (std::vector<std::string>{"loss", "a_loss", "b_loss"}));
}

}  // namespace
