// Functions of ragged tensors: values of TensorFlow 2.21.
#include <gtest/gtest.h>

#include "tests/api/results.h"

namespace ls = lockstep;
namespace ops = lockstep::ops;
using ls::RaggedTensor;

namespace ragged_functions {

const RaggedTensor& first() {
  static const RaggedTensor x = ls::ragged::constant({{3, 1, 4, 1}, {}, {5, 9}, {2}});
  return x;
}
const RaggedTensor& second() {
  static const RaggedTensor y = ls::ragged::constant({{2, 7, 1, 8}, {}, {2, 8}, {1}});
  return y;
}

TEST(RaggedFunctions, ElementByElement) {
  EXPECT_EQ(ops::floor_div(first(), second()).to_string(), "[[1, 0, 4, 0], [], [2, 1], [2]]");
  EXPECT_EQ(ops::logical_and(first() > 1, second() > 1).to_string(),
            "[[True, False, False, False], [], [True, True], [False]]");
  EXPECT_EQ(ops::clip_by_value(first(), 2, 4).to_string(), "[[3, 2, 4, 2], [], [4, 4], [2]]");
  EXPECT_EQ(ls::ragged::map_flat_values(ops::add, first(), second()).to_string(), "[[5, 8, 5, 9], [], [7, 17], [3]]");
  EXPECT_EQ(ls::ragged::map_flat_values(ops::square, first()).to_string(), "[[9, 1, 16, 1], [], [25, 81], [4]]");
}

TEST(RaggedFunctions, Reductions) {
  const Numbers variance = numbers(ops::reduce_variance(first(), {.axis = 1}));
  EXPECT_EQ(variance[0], 1.6875);
  EXPECT_TRUE(std::isnan(variance[1]));
  EXPECT_EQ(variance[2], 4.0);
  EXPECT_NEAR(numbers(ops::reduce_std(ops::cast(first(), ls::float32), {.axis = 1}))[0], 1.299038052558899, 1e-6);
  EXPECT_NEAR(numbers(ops::reduce_variance(first()))[0], 6.816326530612246, 1e-12);
  EXPECT_EQ(ops::reduce_min(first(), {.axis = 1, .keepdims = true}).to_string(), "[[1], [2147483647], [5], [2]]");
  EXPECT_EQ(ops::reduce_max(first(), {.axis = 0, .keepdims = true}).to_string(), "[[5, 9, 4, 1]]");
  const RaggedTensor deep = ls::ragged::constant({{{1, 2}, {3}}, {}, {{4, 5, 6}}});
  EXPECT_EQ(ops::reduce_max(deep, {.axis = 2, .keepdims = true}).to_string(), "[[[2], [3]], [], [[6]]]");
}

TEST(RaggedFunctions, AxesAndOrder) {
  EXPECT_EQ(ops::expand_dims(first(), 0).to_string(), "[[[3, 1, 4, 1], [], [5, 9], [2]]]");
  EXPECT_EQ(ops::expand_dims(first(), 1).to_string(), "[[[3, 1, 4, 1]], [[]], [[5, 9]], [[2]]]");
  EXPECT_EQ(ops::expand_dims(first(), {.axis = -1}).to_string(), "[[[3], [1], [4], [1]], [], [[5], [9]], [[2]]]");
  EXPECT_EQ(ops::reverse(first(), {.axis = 1}).to_string(), "[[1, 4, 1, 3], [], [9, 5], [2]]");
  EXPECT_EQ(ops::reverse(first(), {.axis = {0, 1}}).to_string(), "[[2], [9, 5], [], [1, 4, 1, 3]]");
  const RaggedTensor deep = ls::ragged::constant({{{1, 2}, {3}}, {}, {{4, 5, 6}}});
  EXPECT_EQ(ops::reverse(deep, {.axis = 2}).to_string(), "[[[2, 1], [3]], [], [[6, 5, 4]]]");
  EXPECT_EQ(ops::reverse(deep, {.axis = 1}).to_string(), "[[[3], [1, 2]], [], [[4, 5, 6]]]");
  EXPECT_EQ(ops::expand_dims(deep, 2).to_string(), "[[[[1, 2]], [[3]]], [], [[[4, 5, 6]]]]");
  EXPECT_EQ(ops::gather(first(), {2, 0}).to_string(), "[[5, 9], [3, 1, 4, 1]]");
  EXPECT_EQ(ops::stack({first(), second()}).to_string(),
            "[[[3, 1, 4, 1], [], [5, 9], [2]], [[2, 7, 1, 8], [], [2, 8], [1]]]");
  EXPECT_EQ(int(ops::rank(first())), 2);
}

TEST(RaggedFunctions, Parts) {
  EXPECT_EQ(RaggedTensor::from_row_starts({3, 1, 4, 1, 5, 9, 2}, {0, 4, 4, 6}).to_string(), first().to_string());
  EXPECT_EQ(RaggedTensor::from_row_limits({3, 1, 4, 1, 5, 9, 2}, {4, 4, 6, 7}).to_string(), first().to_string());
  EXPECT_EQ(numbers(first().row_limits()), (Numbers{4, 4, 6, 7}));
  EXPECT_EQ(int(first().bounding_shape(1)), 4);
  const RaggedTensor rows = ls::ragged::constant({{{1}, {2}}, {}, {{3}}, {{4}}}, {.ragged_rank = 1});
  EXPECT_EQ(rows.shape().to_string(), "(4, None, 1)");
  EXPECT_EQ((rows + ls::constant({{10}})).to_string(), "[[[11], [12]], [], [[13]], [[14]]]");
  EXPECT_EQ(error_of([] {
              ls::ragged::constant({{{1}, {2, 3}}}, {.ragged_rank = 1});
            }),
            "ragged.constant: rows behind axis 1 differ in length: found 1 and 2");
}

// As Keras 3.15: the rows keep their lengths.
TEST(RaggedLookups, KeepTheRows) {
  const auto ids = keras::layers::StringLookup({.mask_token = ls::None, .vocabulary = {"a", "b"}});
  const auto chars = keras::layers::StringLookup({.mask_token = ls::None, .vocabulary = {"a", "b"}, .invert = true});
  const ls::RaggedTensor found = ids(ls::strings::unicode_split(ls::constant({"ab", "c"}), "UTF-8"));
  EXPECT_EQ(found.flat_values().to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 0}));
  EXPECT_EQ(found.to_tensor().shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(ls::RaggedTensor(chars(found)).flat_values().string_values()[1], "b");
}

}  // namespace ragged_functions
