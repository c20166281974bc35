// Lines of programs with lists of watched tensors, and with lists of one tensor. Numbers are those of TensorFlow 2.21.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace tf = lockstep::tf;
using keras::Structure;
using ls::Tensor;
using ls::Variable;

namespace lines_of_lists {

TEST(LinesOfLists, TapesWatchListsAndDicts) {
  const Tensor x = {1.f, 2.f}, t = {3.f, 4.f};
  const Variable v(2.0, {.trainable = false});
  {
    tf::GradientTape tape;
    tape.watch({x, t});
    const auto [dx, dt] = tape.gradient(tf::reduce_sum(x * t), {x, t});
    expect_near(floats(dx), {3, 4}, 0);
    expect_near(floats(dt), {1, 2}, 0);
  }
  {
    tf::GradientTape tape;
    tape.watch({x, v});
    const auto gradients = tape.gradient(tf::reduce_sum(x * v), {x, v});
    EXPECT_EQ(float(gradients[1]), 3);
  }
  {
    tf::GradientTape tape;
    tape.watch(Structure{{"a", x}, {"b", t}});
    expect_near(floats(tape.gradient(tf::reduce_sum(x * t), t)), {1, 2}, 0);
  }
  keras::Sequential model({keras::Input({2}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.set_trainable(false);
  tf::GradientTape tape({.watch_accessed_variables = false});
  tape.watch(model.variables());
  expect_near(floats(tape.gradient(tf::reduce_sum(model(tf::expand_dims(x, 0))), model.variables())[0]), {1, 2}, 0);
}

TEST(LinesOfLists, OneTensorInBracesIsAList) {
  const Tensor x = {1.f, 2.f};
  EXPECT_EQ(tf::expand_dims({x}, 0).shape(), (ls::Shape{1, 1, 2}));
  EXPECT_EQ(tf::expand_dims({x}, {.axis = -1}).shape(), (ls::Shape{1, 2, 1}));
  EXPECT_EQ(tf::expand_dims({x, x}, 1).shape(), (ls::Shape{2, 1, 2}));
  EXPECT_EQ(tf::expand_dims({1.0, 2.0}, 0).shape(), (ls::Shape{1, 2}));
  EXPECT_EQ(tf::expand_dims(x, 0).shape(), (ls::Shape{1, 2}));
}

}  // namespace lines_of_lists
