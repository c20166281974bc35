// tf.GradientTape as user code writes it. Expected numbers: TensorFlow 2.21.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
using ls::Tensor;

namespace {

TEST(TapeApi, WatchesInPlace) {
  Tensor x = {2.0, 3.0};
  ls::GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  EXPECT_EQ(tape.gradient(y, x).to_vector<float>(), (std::vector<float>{4, 6}));
}

TEST(TapeApi, GivesNoGradientForUnwatchedSources) {
  const Tensor x = {2.0, 3.0};
  ls::Variable v({1.0, 1.0});
  ls::GradientTape tape;
  const Tensor y = x * v;
  const ls::Tensors gradients = tape.gradient(y, {x, v.read()});
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_EQ(gradients[1].to_vector<float>(), (std::vector<float>{2, 3}));
}

// Two models, two tapes around both: neither frees what the other needs, in either order.
TEST(TapeApi, TapesAreIndependent) {
  ls::Variable w(2.0);
  for (const bool first_tape_first : {true, false}) {
    ls::GradientTape a, b;
    const Tensor h = w * w, p = h * 3, q = ls::ops::exp(h);
    Tensor from_a, from_b;
    if (first_tape_first) {
      from_a = a.gradient(p, w);
      from_b = b.gradient(q, w);
    } else {
      from_b = b.gradient(q, w);
      from_a = a.gradient(p, w);
    }
    EXPECT_FLOAT_EQ(float(from_a), 12.0F);
    EXPECT_FLOAT_EQ(float(from_b), 218.3926F);
  }
}

// TensorFlow's numbers: with tf.GradientTape() as a, tf.GradientTape() as b.
TEST(TapeApi, TapesRecordTheGradientsOfOthersInAnyOrder) {
  ls::Variable w(2.0);
  const Tensor x = 3.0;
  {
    ls::GradientTape a, b;
    a.watch(x);
    const Tensor g = a.gradient(w * w * x, x);
    EXPECT_EQ(float(b.gradient(g * g, w)), 32);
  }
  {
    ls::GradientTape b, a;
    a.watch(x);
    const Tensor g = a.gradient(w * w * x, x);
    EXPECT_EQ(float(b.gradient(g * g, w)), 32);
  }
  ls::GradientTape a({.persistent = true});
  ls::GradientTape b;
  a.watch(x);
  const Tensor y = w * w * x;
  const auto g = a.gradient(y, {x});
  EXPECT_EQ(float(b.gradient(g[0] * g[0] + y, w)), 44);
}

TEST(TapeApi, ATapeMayEndBeforeTheOneInside) {
  ls::Variable w(3.0);
  auto outer = std::make_unique<ls::GradientTape>();
  ls::GradientTape inner;
  const Tensor y = w * w;
  EXPECT_EQ(float(outer->gradient(y, w)), 6);
  outer.reset();
  EXPECT_EQ(float(inner.gradient(y * w, w)), 27);
}

// TensorFlow 2.21: 5.0, 4.0 and 3.0.
TEST(TapeApi, AVariableMayBeAssignedWhileATapeRecords) {
  ls::Variable v(2.0);
  ls::GradientTape tape;
  Tensor y = v * v;
  v.assign(3.0);
  EXPECT_EQ(float(v), 3);
  y = y + v;
  EXPECT_EQ(float(tape.gradient(y, v)), 5);  // 2 * 2 + 1
  ls::GradientTape before;
  const Tensor z = v * 4.0;
  v.assign_add(1.0);
  EXPECT_EQ(float(before.gradient(z, v)), 4);
  ls::GradientTape after;
  v.assign(7.0);
  EXPECT_EQ(float(after.gradient(v * 3.0, v)), 3);
}

TEST(TapeApi, ComputesJacobians) {
  ls::Variable v({1.0, 2.0, 3.0});
  {
    ls::GradientTape tape;
    const Tensor y = v * v * ls::ops::reduce_sum(v);
    const Tensor jacobian = tape.jacobian(y, v);
    EXPECT_EQ(jacobian.shape(), (ls::Shape{3, 3}));
    EXPECT_EQ(jacobian.to_vector<float>(), (std::vector<float>{13, 1, 1, 4, 28, 4, 9, 9, 45}));
  }
  Tensor x = {2.0, 3.0};
  ls::GradientTape tape;
  tape.watch(x);
  const Tensor y = ls::ops::stack({x[0] * x[1], ls::ops::pow(x[0], 3.0)});
  EXPECT_EQ(tape.jacobian(y, x).to_vector<float>(), (std::vector<float>{3, 2, 12, 0}));
}

TEST(TapeApi, AcrossReplicasItNamesTheRemedy) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  ls::Variable w(2.0, {.name = "w"});
  ls::GradientTape tape;
  const Tensor y = w * w;
  try {
    (void)tape.gradient(y, {w});
    FAIL();
  } catch (const ls::errors::FailedPreconditionError& error) {
    EXPECT_NE(error.message().find("'w'"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("strategy.run()"), std::string::npos) << error.what();
  }
}

TEST(TapeApi, UsingFreedRecordsNamesTheRemedy) {
  ls::Variable w(2.0);
  ls::GradientTape first;
  const Tensor h = ls::ops::exp(w * w);
  (void)first.gradient(h, w);
  ls::GradientTape second;
  try {
    (void)second.gradient(h * w, w);
    FAIL();
  } catch (const ls::errors::FailedPreconditionError& error) {
    EXPECT_NE(error.message().find("persistent"), std::string::npos) << error.what();
  }
}

}  // namespace
