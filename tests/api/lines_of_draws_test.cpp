// Lines of programs with cells that draw and count, and with images of integers in graphs. Numbers are those of
// Keras 3.15 and TensorFlow 2.21.
#include <gtest/gtest.h>

#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace tf = lockstep::tf;
using keras::Structure;
using ls::Tensor;
using ls::Variable;

namespace lines_of_draws {

// A cell that counts its calls, and draws in training.
class Noisy : public layers::Cell {
 public:
  Noisy() { count = add_weight({.shape = {}, .initializer = "zeros", .trainable = false, .name = "count"}); }
  std::vector<std::int64_t> state_size() const override { return {1}; }
  Structure call(const Structure& inputs, const Structure& states, const keras::CallContext& context) override {
    count.assign_add(1.0);
    Tensor h = states[0] * 0.5 + inputs;
    if (context.training) h = h + keras::random::uniform(keras::ops::shape(h), {.seed = seed_generator});
    return {h, {h}};
  }
  keras::random::SeedGenerator seed_generator = track("seed_generator", keras::random::SeedGenerator(11));
  Variable count;
};

const Tensor& sequences() {
  static const Tensor x = tf::reshape(tf::range(6, {.dtype = tf::float32}), {2, 3, 1});
  return x;
}

TEST(LinesOfDraws, LoopsCallTheCellOnceMoreOnTheFirstStep) {
  const auto cell = keras::make_layer<Noisy>();
  const auto rnn = layers::RNN(cell);
  expect_near(floats(rnn(sequences())), {2.5, 7.75}, 1e-6);
  EXPECT_EQ(float(cell->count), 4);
  expect_near(floats(rnn(sequences(), {.training = true})), {3.2262056, 8.2367}, 1e-6);
  EXPECT_EQ(float(cell->count), 8);

  const auto inputs = keras::Input({3, 1});
  const auto trained = keras::make_layer<Noisy>();
  keras::Model model(inputs, layers::RNN(trained)(inputs));
  model.compile("sgd", "mse");
  const auto history = model.fit(sequences(), tf::zeros({2, 1}), {.epochs = 2, .verbose = 0, .shuffle = false});
  expect_near(history.history.at("loss"), {39.125816345214844, 42.13178253173828}, 1e-5);
  EXPECT_EQ(float(trained->count), 8);
}

TEST(LinesOfDraws, UnrolledStepsCallTheCellOnceEach) {
  const auto cell = keras::make_layer<Noisy>();
  const auto rnn = layers::RNN(cell, {.return_sequences = true, .unroll = true});
  expect_near(floats(rnn(sequences(), {.training = true})),
              {0.85404277, 1.5333918, 3.2660441, 3.2306662, 5.8641453, 8.11197}, 1e-6);
  EXPECT_EQ(float(cell->count), 3);
}

TEST(LinesOfDraws, StacksOfCellsDoSoTwice) {
  const auto cells = layers::StackedRNNCells(
      {layers::SimpleRNNCell(1, {.kernel_initializer = "ones", .recurrent_initializer = "ones"}),
       keras::make_layer<Noisy>()});
  expect_near(floats(layers::RNN(cells)(sequences(), {.training = true})), {2.3595188, 2.5496545}, 1e-6);
}

TEST(LinesOfDraws, GeneratorsAreHandles) {
  const auto generator = tf::random::Generator::from_seed({.seed = 1, .alg = "philox"});
  const Numbers first = {0.43842, -0.5344};
  expect_near(numbers(generator.truncated_normal({2})), first, 1e-5);
  generator.reset_from_seed(1);
  expect_near(numbers(generator.normal({.shape = {2}})), first, 1e-5);
  const auto parts = tf::random::Generator::from_seed(1234).split(3);
  Numbers drawn;
  for (const auto& part : parts) drawn.push_back(double(part.normal({})));
  expect_near(drawn, {0.22508, -0.29994, -0.30391}, 1e-5);
}

// Resizing rounds pixels of integers in a call of its own, and makes them float32 in functions, datasets and predict().
TEST(LinesOfImages, ResizedIntegersAreFractionsInGraphs) {
  const Tensor images = ls::ops::cast(ls::ops::reshape(ls::ops::range(32) * 37 % 256, {2, 4, 4, 1}), "uint8");
  const auto resize = layers::Resizing(3, 3);
  const Numbers fractions = {30.83334, 80.16667, 93.94444, 100.1667, 149.5, 92.16666, 169.5, 112.1667, 54.83333};
  const auto first = [](const Tensor& y) { return numbers(y[0]); };
  EXPECT_EQ(Tensor(resize(images)).dtype(), ls::uint8);
  const auto inputs = keras::Input({4, 4, 1}, {.dtype = "uint8"});
  const keras::Model model(inputs, resize(inputs));
  const Tensor predicted = model.predict(images, {.verbose = 0});
  EXPECT_EQ(predicted.dtype(), ls::float32);
  expect_near(first(predicted), fractions, 1e-5);
  const auto f = tf::function([&](const Tensor& x) { return Tensor(resize(x)); });
  expect_near(first(f(images)), fractions, 1e-5);
  const auto dataset =
      tf::data::Dataset::from_tensor_slices(images).batch(2).map([&](const Tensor& x) { return Tensor(resize(x)); });
  for (const auto& batch : dataset) expect_near(first(Tensor(batch)), fractions, 1e-5);
}

// One sample of each row again and again, as programs that generate texts draw them.
TEST(DrawLines, CategoricalDrawsContinue) {
  ls::random::set_random_seed(3);
  const Tensor logits = waves({2, 6}, 0.7);
  for (const Numbers& expected : {Numbers{1, 0}, Numbers{2, 5}, Numbers{4, 5}, Numbers{3, 1}})
    EXPECT_EQ(numbers(ls::ops::random::categorical(logits, {.num_samples = 1, .seed = 5})), expected);
}

}  // namespace lines_of_draws
