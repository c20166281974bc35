// Functions of the library as arguments: names that several functions have, as ops::square.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace tf = lockstep::tf;
using ls::Tensor;

namespace functions_as_values {

const Tensor x = {{1., -2.}, {3., 4.}};
const Numbers squares = {1, 4, 9, 16}, sums = {2, -4, 6, 8};

TEST(FunctionsAsValues, OfRows) {
  EXPECT_EQ(numbers(tf::map_fn(tf::square, x)), squares);
  EXPECT_EQ(numbers(tf::map_fn(tf::nn::relu, x)), (Numbers{1, 0, 3, 4}));
  EXPECT_EQ(numbers(tf::vectorized_map(tf::abs, x)), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(numbers(keras::ops::map(tf::square, x)), squares);
  EXPECT_EQ(numbers(keras::ops::vectorized_map(keras::ops::square, x)), squares);
  EXPECT_EQ(tf::map_fn(tf::square, tf::ragged::constant({{1., 2.}, {3.}})).to_string(), "[[1.0, 4.0], [9.0]]");
}

TEST(FunctionsAsValues, OfWhatIsAccumulated) {
  EXPECT_EQ(numbers(tf::foldl(tf::add, x)), (Numbers{4, 2}));
  EXPECT_EQ(numbers(tf::foldr(tf::subtract, x, tf::constant({0., 0.}))), (Numbers{-4, -2}));
  EXPECT_EQ(numbers(tf::scan(tf::multiply, x, {.reverse = true})), (Numbers{3, -8, 3, 4}));
  EXPECT_EQ(numbers(keras::ops::associative_scan(tf::maximum, x)), (Numbers{1, -2, 3, 4}));
}

TEST(FunctionsAsValues, OfStructures) {
  EXPECT_EQ(numbers(tf::nest::map_structure(tf::square, {x, x})[1]), squares);
  EXPECT_EQ(numbers(tf::nest::map_structure(tf::add, {{"a", x}}, {{"a", x}})["a"]), sums);
  EXPECT_EQ(numbers(keras::tree::map_structure(tf::add, x, x)), sums);
}

TEST(FunctionsAsValues, OfElements) {
  const auto dataset = tf::data::Dataset::from_tensor_slices(x);
  EXPECT_EQ(numbers(dataset.map(tf::square).batch(2).get_single_element()), squares);
  EXPECT_EQ(numbers(dataset.map(tf::square, {.num_parallel_calls = 2}).batch(2).get_single_element()), squares);
  EXPECT_EQ(numbers(tf::data::Dataset::zip(dataset, dataset).map(tf::add).batch(2).get_single_element()), sums);
  EXPECT_EQ(numbers(dataset.reduce(tf::constant({0., 1.}), tf::add)), (Numbers{4, 3}));
  EXPECT_EQ(numbers(tf::data::Dataset::range(5).reduce(std::int64_t{0}, tf::add)), (Numbers{10}));
  const auto flags = tf::data::Dataset::from_tensor_slices({true, false});
  EXPECT_FALSE(bool(flags.filter(tf::logical_not).get_single_element().leaf()));
}

class Scaled : public ls::Module {
 public:
  struct Options {
    double scale = 1;
    keras::activations::ActivationArg activation = tf::identity;
  };
  explicit Scaled(const Options& o) : scale(o.scale), activation(keras::activations::get(o.activation)) {}
  Tensor operator()(const Tensor& inputs) const { return activation(inputs * scale); }

  double scale;
  keras::activations::ActivationPtr activation;
};

TEST(FunctionsAsValues, OfOwnClasses) {
  EXPECT_EQ(numbers(Scaled({.scale = 2, .activation = tf::nn::relu})(x)), (Numbers{2, 0, 6, 8}));
  EXPECT_EQ(numbers(Scaled({.scale = 2})(x)), (Numbers{2, -4, 6, 8}));
  EXPECT_EQ(numbers(Scaled({.activation = [](const Tensor& y) { return y + 1; }})(x)), (Numbers{2, -1, 4, 5}));
}

}  // namespace functions_as_values
