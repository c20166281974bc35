// Lines of programs on texts in images, masks and guides of Keras, as literally as C++ permits. The numbers are those
// of Keras and TensorFlow.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace np = lockstep::np;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::keras::ops;
using ls::Tensor;

namespace lines_of_keras_programs {

std::string printed(const Tensor& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

TEST(KerasProgramLines, CtcLossOfSparseLabels) {
  const tf::SparseTensor labels({.indices = {{0, 0}, {0, 1}, {1, 0}}, .values = {0, 2, 1}, .dense_shape = {2, 2}});
  const Tensor inputs = tf::cast(waves({5, 2, 4}, 0.7), tf::float32);
  tf::GradientTape tape;
  tape.watch(inputs);
  const auto loss = tf::compat::v1::nn::ctc_loss({.labels = labels, .inputs = inputs, .sequence_length = {5, 4}});
  expect_near(loss, {3.7071094512939453, 3.860842704772949});
  expect_near(tf::reduce_sum(tape.gradient(loss, inputs) * tf::reshape(tf::range(40.0), {5, 2, 4})),
              {-2.7053260803222656}, 1e-5);
  expect_near(tf::compat::v1::nn::ctc_loss(labels, tf::transpose(inputs, {1, 0, 2}), {5, 4},
                                           {.ctc_merge_repeated = false, .time_major = false}),
              {4.214313983917236, 6.304272174835205});
}

class MeanActivity : public layers::Layer {
 public:
  keras::Structure call(const keras::Structure& inputs) override {
    add_loss(0.01 * ops::mean(inputs));
    return inputs;
  }
};

// Keras keeps the loss and the metrics that an earlier compile() was given.
TEST(KerasProgramLines, CompileWithoutALossKeepsTheEarlierOne) {
  const auto inputs = keras::Input({.shape = {3}});
  auto model = keras::Model(inputs, keras::make_layer<MeanActivity>()(inputs));
  const auto x = np::abs(np::sin(0.3 * np::arange(6))).reshape(2, 3), y = np::sin(0.7 * np::arange(6)).reshape(2, 3);
  model.compile({.optimizer = "adam", .loss = "mse", .loss_weights = 2.0, .metrics = {"mae"}});
  const auto before = model.evaluate(x, y, {.verbose = 0});
  model.compile({.optimizer = "adam"});
  const auto after = model.evaluate(x, y, {.verbose = 0});
  EXPECT_EQ(after.size(), 2u);
  EXPECT_EQ(after.at("loss"), before.at("loss"));
  model.compile({.optimizer = "adam", .loss = "mse"});
  EXPECT_NEAR(model.evaluate(x, y, {.verbose = 0}).at("loss"), 0.41918402910232544, 1e-6);
}

TEST(KerasProgramLines, UtilitiesGiveArrays) {
  Tensor padded = keras::utils::pad_sequences({{711, 632}, {73, 8, 3215}}, {.padding = "post"});
  EXPECT_EQ(printed(padded), "[[ 711  632    0]\n [  73    8 3215]]");
  padded.index({0, 2}) = 5;
  EXPECT_EQ(int(padded.index({0, 2})), 5);
  const Tensor one_hot = keras::utils::to_categorical(np::array({0.0, 2.9}), 3);
  EXPECT_EQ(printed(one_hot), "[[1. 0. 0.]\n [0. 0. 1.]]");
  EXPECT_EQ(one_hot.dtype(), ls::float64);
  EXPECT_EQ(keras::utils::to_categorical(tf::constant({0, 2}), 3).dtype(), ls::float32);
  EXPECT_EQ(printed(keras::utils::normalize(np::array({{3.0, 4.0}}))), "[[0.6 0.8]]");
  EXPECT_EQ(printed(keras::utils::img_to_array(tf::ones({1, 1, 2}, tf::uint8))), "[[[1. 1.]]]");
}

TEST(KerasProgramLines, ListsOfBooleansAndIndicesOfArrays) {
  ls::List<bool> done = {true, false};
  EXPECT_FALSE(done[-1]);
  done[-1] = true;
  EXPECT_TRUE(done[1]);
  const ls::List<int> actions = {7, 8, 9};
  std::vector<int> found;
  for (const auto& i : np::array({2, 0})) found.push_back(actions[i]);
  EXPECT_EQ(found, (std::vector<int>{9, 7}));
  EXPECT_THROW((void)actions[Tensor(3)], ls::errors::OutOfRangeError);
}

TEST(KerasProgramLines, ParallelIterationsOfLoops) {
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  expect_near(tf::scan(add, tf::constant({1, 2, 3}), {.initializer = 0, .parallel_iterations = 1}), {1, 3, 6});
  const auto small = [](const Tensor& i) { return i < 3; };
  const auto next = [](const Tensor& i) { return i + 1; };
  expect_near(tf::while_loop(small, next, 0, {.parallel_iterations = 1, .maximum_iterations = 10}), {3});
}

}  // namespace lines_of_keras_programs
