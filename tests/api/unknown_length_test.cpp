// Training on data whose length is not known: values of Keras 3.15 for the same program in Python.
#include <cmath>

#include <gtest/gtest.h>

#include "results.h"

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

void expect_near(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

// Keras's step at the end of the data, whose batch does not come, counts for the optimizer and for dropout.
TEST(DataOfUnknownLength, TheLastStepCountsWithoutData) {
  const auto data = ls::data::Dataset::from_tensor_slices({waves({12, 3}, .37), waves({12}, .9)}).batch(4);
  const auto filtered = data.filter([](const Tensor&, const Tensor&) { return true; });
  const Trained one = train(filtered, 1);
  expect_near(one.losses, {0.6333402991294861, 0.7919395565986633, 0.7667689323425293});
  EXPECT_EQ(one.model.optimizer().iterations(), 12);
  const auto again = one.model.fit(filtered, {.epochs = 2, .verbose = 0});
  expect_near(again.history["loss"], {0.422324538230896, 0.36222147941589355});
  EXPECT_EQ(one.model.optimizer().iterations(), 20);
  one.model.fit(filtered.repeat(), {.epochs = 2, .verbose = 0, .steps_per_epoch = 2});
  EXPECT_EQ(one.model.optimizer().iterations(), 24);
  one.model.fit(filtered, {.epochs = 1, .verbose = 0, .steps_per_epoch = 5});
  EXPECT_EQ(one.model.optimizer().iterations(), 28);

  const Trained two = train(filtered, 2);
  expect_near(two.losses, {0.6333402991294861, 0.47410333156585693, 0.6274110674858093});
  EXPECT_EQ(two.model.optimizer().iterations(), 9);
}

}  // namespace
