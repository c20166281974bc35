// Lines of programs with Python's random and itertools, lists of tensors and numbers, and NumPy's limits of dtypes and
// gradients. Numbers are those of Python 3.11, NumPy 2.4, Keras 3.15 and TensorFlow 2.21.
#include <deque>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace np = lockstep::np;
namespace tf = lockstep::tf;
using ls::Tensor;

namespace python_modules {

using Letters = std::vector<std::string>;
using Longs = std::vector<std::int64_t>;

TEST(PythonModules, RandomDrawsPythonsNumbers) {
  namespace random = ls::python::random;
  random::seed(5);
  Letters a = {"a", "b", "c", "d", "e", "f", "g", "h"};
  random::shuffle(a);
  EXPECT_EQ(a, (Letters{"g", "d", "b", "a", "h", "c", "f", "e"}));
  EXPECT_EQ(random::random(), 0.6489745531369242);
  EXPECT_EQ(random::uniform(-1, 3), 2.603601967002491);
  EXPECT_EQ(random::randint(1, 6), 1);
  EXPECT_EQ(random::randrange(10), 5);
  EXPECT_EQ(random::choice(a), "e");
  EXPECT_EQ(random::sample(a, 3), (Letters{"a", "e", "h"}));
  EXPECT_EQ(random::sample(100, 7), (Longs{13, 73, 31, 1, 93, 27, 52}));
  EXPECT_EQ(random::sample(20, 7), (Longs{8, 5, 12, 18, 2, 15, 9}));
  EXPECT_EQ(random::choices(a, {.k = 4}), (Letters{"h", "d", "g", "f"}));
  EXPECT_EQ(random::choices(a, {.weights = {1, 2, 3, 4, 5, 6, 7, 8}, .k = 4}), (Letters{"a", "a", "e", "e"}));
  Longs b = {0, 1, 2, 3, 4, 5};
  random::Random(1337).shuffle(b);
  EXPECT_EQ(b, (Longs{1, 0, 3, 2, 5, 4}));
  EXPECT_EQ(random::random(), 0.2893051677469265);  // Random(1337) has numbers of its own
  EXPECT_THROW(random::choice(Letters{}), ls::errors::InvalidArgumentError);
  EXPECT_THROW(random::sample(3, 4), ls::errors::InvalidArgumentError);
  EXPECT_THROW(random::randint(3, 2), ls::errors::InvalidArgumentError);
}

TEST(PythonModules, ProductZipAndReversed) {
  const std::vector<int> units = {8, 16};
  const Letters activations = {"relu", "tanh"};
  std::string all;
  for (const auto& [unit, activation, rate] :
       ls::python::itertools::product(units, activations, std::vector<double>{0.5}))
    all += std::to_string(unit) + activation + (rate == 0.5 ? " " : "?");
  EXPECT_EQ(all, "8relu 8tanh 16relu 16tanh ");

  const Tensor a = {{1.0, 2.0}, {3.0, 4.0}}, b = {5.0, 6.0};
  double sum = 0;
  for (const auto& [row, number, unit] : ls::zip(a, b, units)) sum += double(tf::reduce_sum(row) * number) * unit;
  EXPECT_EQ(sum, 3 * 5 * 8 + 7 * 6 * 16);
  std::size_t count = 0;
  for (const auto& [row, number, unit, other] : ls::zip(a, b, units, std::deque<int>{1})) {
    EXPECT_EQ(numbers(row), (Numbers{1, 2}));
    EXPECT_EQ(unit + other, 9);
    ++count;
  }
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(ls::reversed(units), (std::vector<int>{16, 8}));
}

TEST(PythonModules, ListsOfTensorsAndNumbersAreTensors) {
  const Tensor t = tf::cos(0.3);
  const auto rotation =
      tf::convert_to_tensor({{1, 0, 0}, {0, t, -tf::sin(0.3)}, {0, tf::sin(0.3), t}}, {.dtype = tf::float32});
  EXPECT_EQ(rotation.dtype(), tf::float32);
  expect_near(rotation, {1, 0, 0, 0, .9553365, -.29552022, 0, .29552022, .9553365});
  EXPECT_EQ(tf::convert_to_tensor({{1, 0}, {0, 1}}, {.dtype = tf::float32}).dtype(), tf::float32);
  EXPECT_EQ(tf::convert_to_tensor({{1, 0}, {0, 1}}).dtype(), tf::int32);
  expect_near(tf::constant({{1, 2.5}, {0, t}}, {.shape = {4}}), {1, 2.5, 0, .9553365});
  const ls::Variable v(2.0);
  for (const Tensor& x : {tf::constant({0.0, t}), tf::convert_to_tensor({0, t}), tf::stack({0, t}),
                          keras::ops::convert_to_tensor({0, t}), keras::ops::stack({0, t})})
    expect_near(x, {0, .9553365});
  expect_near(tf::stack({v, 1}), {2, 1});
  EXPECT_EQ(tf::stack({{1, 2}, {3, t}}, 1).shape(), (ls::Shape{2, 2}));

  const auto add = [](const Tensor& sum, const Tensor& x) { return sum + x; };
  expect_near(tf::foldl(add, Tensor{1.0, 2.0}, 1.0), {4});
  expect_near(tf::foldr(add, Tensor{1.0, 2.0}, 1.0), {4});
  expect_near(tf::scan(add, Tensor{1.0, 2.0}, 1.0), {2, 4});
  expect_near(tf::scan(add, Tensor{1.0, 2.0}, t), {1.9553365, 3.9553365});
}

TEST(PythonModules, TileTakesMoreOrFewerRepeatsThanAxes) {
  const Tensor x = tf::ones({2, 3}), extent = keras::ops::shape(tf::ones({4, 1}))[0];
  EXPECT_EQ(keras::ops::tile(x, {extent, 1, 2}).shape(), (ls::Shape{4, 2, 6}));
  const auto in = keras::Input({3});
  const auto tiled = keras::ops::tile(keras::ops::eye(3), {keras::ops::shape(in)[0], 1, 1});
  EXPECT_EQ(keras::Model(in, tiled)(tf::ones({5, 3})).shape(), (ls::Shape{5, 3, 3}));
  EXPECT_EQ(keras::ops::tile(x, Tensor{2}).shape(), (ls::Shape{2, 6}));
}

TEST(PythonModules, NumPysLimitsGradientsAndProbabilities) {
  const np::ndarray f = np::array({1, 2, 4, 7, 11});
  expect_near(np::gradient(f), {1, 1.5, 2.5, 3.5, 4});
  expect_near(np::gradient(f, 2.0), {.5, .75, 1.25, 1.75, 2});
  const Tensor m = np::array({{1, 2, 6}, {3, 4, 5}});
  const auto [down, across] = np::gradient(m);
  expect_near(down, {2, 2, -1, 2, 2, -1});
  expect_near(across, {1, 2.5, 4, 1, 1, 1});
  expect_near(np::gradient(m, {.axis = 1}), {1, 2.5, 4, 1, 1, 1});
  EXPECT_THROW(np::gradient(np::array({1})), ls::errors::InvalidArgumentError);

  EXPECT_EQ(np::finfo(np::float32).eps, std::numeric_limits<float>::epsilon());
  EXPECT_EQ(np::finfo("float64").max, std::numeric_limits<double>::max());
  EXPECT_EQ(np::finfo(tf::float64).tiny, std::numeric_limits<double>::min());
  EXPECT_EQ(np::finfo(np::float16).min, -65504);
  EXPECT_EQ(np::iinfo(np::uint8).max, 255u);
  EXPECT_EQ(np::iinfo(np::int32).min, -2147483648LL);
  EXPECT_EQ(np::iinfo(np::uint64).max, ~std::uint64_t{0});
  EXPECT_THROW(np::finfo(np::int32), ls::errors::InvalidArgumentError);
  EXPECT_THROW(np::iinfo(np::float32), ls::errors::InvalidArgumentError);

  np::ndarray buffer = np::zeros({3, 2});
  buffer[0] = tf::ones({1, 2});
  buffer[{1, 2}] = np::ones({1, 1, 2});
  buffer[std::vector<int>{0, 1}] = np::full({1, 2, 2}, 3);
  EXPECT_EQ(numbers(buffer), (Numbers{3, 3, 3, 3, 0, 0}));
  EXPECT_THROW(buffer[0] = np::ones({2, 2}), ls::errors::InvalidArgumentError);

  // The sum of an array of float32 need not be as close to 1 as that of float64.
  np::random::seed(3);
  const Tensor p = np::array({0.10001, 0.2, 0.7}, np::float32);
  Longs drawn;
  for (int i = 0; i < 6; ++i) drawn.push_back(np::random::choice(3, {.p = p}).item<std::int64_t>());
  EXPECT_EQ(drawn, (Longs{2, 2, 1, 2, 2, 2}));
  EXPECT_EQ(int(np::random::choice(2, {.p = {0, 1}})), 1);
  EXPECT_THROW(np::random::choice(3, {.p = {0.10001, 0.2, 0.7}}), ls::errors::InvalidArgumentError);
}

}  // namespace python_modules
