#include "lockstep/keras/schedules/schedules.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::schedules {
namespace {

// Values of Keras 3.15 at these steps.
const std::vector<std::int64_t> kSteps = {0, 1, 3, 5, 7, 10, 12, 25};

struct Case {
  SchedulePtr schedule;
  std::vector<float> values;
};

std::vector<Case> cases() {
  return {
      {ExponentialDecay(0.1, 10, 0.5),
       {0.1000000f, 0.0933033f, 0.0812252f, 0.0707107f, 0.0615572f, 0.0500000f, 0.0435275f, 0.0176777f}},
      {ExponentialDecay(0.1, 10, 0.5, {.staircase = true}), {0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.05f, 0.05f, 0.025f}},
      {CosineDecay(0.1, 10), {0.1f, 0.0975528f, 0.0793893f, 0.05f, 0.0206107f, 0, 0, 0}},
      {CosineDecay(0.1, 10, {.alpha = 0.1, .warmup_target = 0.2, .warmup_steps = 5}),
       {0.1f, 0.12f, 0.16f, 0.2f, 0.1828115f, 0.11f, 0.0570993f, 0.02f}},
      {PolynomialDecay(0.1, 10), {0.1f, 0.09001f, 0.07003f, 0.05005f, 0.03007f, 0.0001f, 0.0001f, 0.0001f}},
      {PolynomialDecay(0.1, 10, {.power = 2.0, .cycle = true}),
       {0.1f, 0.081019f, 0.049051f, 0.025075f, 0.009091f, 0.0001f, 0.016084f, 0.002875f}},
      {InverseTimeDecay(0.1, 10, 0.5),
       {0.1f, 0.0952381f, 0.0869565f, 0.08f, 0.0740741f, 0.0666667f, 0.0625f, 0.0444444f}},
      {InverseTimeDecay(0.1, 10, 0.5, {.staircase = true}),
       {0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.0666667f, 0.0666667f, 0.05f}},
      {PiecewiseConstantDecay({3, 7}, {1.0, 0.5, 0.1}), {1, 1, 1, 0.5f, 0.5f, 0.1f, 0.1f, 0.1f}},
      {CosineDecayRestarts(0.1, 5), {0.1f, 0.0904508f, 0.0345491f, 0.1f, 0.0904508f, 0.05f, 0.0206107f, 0.05f}},
  };
}

TEST(Schedules, GiveKerassValues) {
  for (const Case& c : cases()) {
    for (std::size_t i = 0; i < kSteps.size(); ++i) {
      EXPECT_NEAR((*c.schedule)(kSteps[i]), c.values[i], 2e-7) << c.schedule->class_name() << " at " << kSteps[i];
    }
  }
}

TEST(Schedules, ComeBackFromTheirConfig) {
  for (const Case& c : cases()) {
    const Json config = serialize(c.schedule);
    EXPECT_TRUE(is_schedule(config));
    const SchedulePtr again = deserialize(config);
    EXPECT_EQ(serialize(again), config);
    for (std::int64_t step : kSteps) EXPECT_EQ((*again)(step), (*c.schedule)(step));
  }
  EXPECT_EQ(
      dump_json(ExponentialDecay(0.1, 1000, 0.96)->get_config()),
      R"({"initial_learning_rate": 0.1, "decay_steps": 1000, "decay_rate": 0.96, "staircase": false, "name": "ExponentialDecay"})");
}

TEST(Schedules, RefuseWhatDoesNotFit) {
  EXPECT_THROW(PiecewiseConstantDecay({1, 2}, {1}), Error);
  EXPECT_THROW(deserialize({{"class_name", "CosineDecay"}, {"config", {{"decay_steps", 5}}}}), Error);
  EXPECT_THROW(deserialize({{"class_name", "LinearDecay"}, {"config", Json::object()}}), Error);
}

}  // namespace
}  // namespace lockstep::schedules
