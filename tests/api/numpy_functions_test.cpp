// NumPy's functions in programs, with the values and dtypes of NumPy 2.4.
#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace np = lockstep::np;
using ls::Tensor;

namespace numpy_functions {

template <typename T>
void expect(const Tensor& found, const std::vector<T>& values, const ls::Shape& shape) {
  EXPECT_EQ(found.dtype(), ls::DType(Tensor::from_vector(values).dtype()));
  EXPECT_EQ(found.shape(), shape);
  EXPECT_EQ(found.to_vector<T>(), values);
}
using Longs = std::vector<std::int64_t>;
using Doubles = std::vector<double>;
using Floats = std::vector<float>;

TEST(NumpyFunctions, NumbersBecomeArraysOfNumPysDtypes) {
  expect<std::int64_t>(np::arange(6), {0, 1, 2, 3, 4, 5}, {6});
  expect<std::int64_t>(np::arange(1, 6, 2), {1, 3, 5}, {3});
  expect<double>(np::arange(0.0, 1.0, 0.25), {0, .25, .5, .75}, {4});
  expect<float>(np::arange(3, {.dtype = "float32"}), {0, 1, 2}, {3});
  expect<std::int64_t>(np::arange(6) * 7 % 4 + 18, {18, 21, 20, 19, 18, 21}, {6});
  expect<double>(np::arange(3) / 5.0, {0, .2, .4}, {3});
  expect<std::int64_t>(np::array({1, 2, 3}), {1, 2, 3}, {3});
  expect<double>(np::array({{1.0, 2.5}, {3, 4}}), {1, 2.5, 3, 4}, {2, 2});
  expect<float>(np::array({1.0, 2.0}, {.dtype = "float32"}), {1, 2}, {2});
  expect<std::int32_t>(np::array({1, 2}, "int32"), {1, 2}, {2});
  expect<std::int64_t>(np::array(std::vector<int>{1, 2}), {1, 2}, {2});
  expect<double>(np::zeros({2, 1}), {0, 0}, {2, 1});
  expect<std::int32_t>(np::ones(2, {.dtype = "int32"}), {1, 1}, {2});
  expect<std::int64_t>(np::full({2}, 3), {3, 3}, {2});
  expect<double>(np::full({2}, .5), {.5, .5}, {2});
  expect<double>(np::eye(2), {1, 0, 0, 1}, {2, 2});
  expect<double>(np::linspace(-1.0, 1.0, 5), {-1, -.5, 0, .5, 1}, {5});
  const Doubles open = {-1.,
                        -0.57142857142857140,
                        -0.14285714285714290,
                        0.28571428571428559,
                        0.71428571428571419,
                        1.14285714285714279,
                        1.57142857142857117};
  const auto found = np::linspace(-1.0, 2.0, {.num = 7, .endpoint = false}).to_vector<double>();
  for (std::size_t i = 0; i < open.size(); ++i) EXPECT_NEAR(found[i], open[i], 1e-15);
  EXPECT_EQ(np::array({"a", "b"})[np::arange(4) * 3 % 2].to_vector<std::string>(),
            (std::vector<std::string>{"a", "b", "a", "b"}));
}

TEST(NumpyFunctions, ArraysInBracesAreAListAlsoOneAlone) {
  const Tensor a = {1.5f, 2.f};
  expect<float>(np::array({a, a}), {1.5, 2, 1.5, 2}, {2, 2});
  expect<float>(np::array({a}), {1.5, 2}, {1, 2});
  expect<float>(np::array({{a[0], a[1]}}), {1.5, 2}, {1, 2});
  expect<float>(np::array(std::vector<Tensor>{a, a}), {1.5, 2, 1.5, 2}, {2, 2});
  expect<float>(np::stack({a, a}), {1.5, 2, 1.5, 2}, {2, 2});
  expect<float>(np::concatenate({a, a}, {.axis = 0}), {1.5, 2, 1.5, 2}, {4});
}

TEST(NumpyFunctions, FunctionsOfIntegersAreFloat64) {
  const Tensor a = {1.5f, 2.f};
  expect<double>(np::sqrt(np::array({1, 4})), {1, 2}, {2});
  expect<double>(np::sqrt(4), {2}, {});
  expect<float>(np::floor(a), {1, 2}, {2});
  expect<std::int64_t>(np::abs(np::array({-1, 2})), {1, 2}, {2});
  expect<double>(np::divide(np::arange(3), 2), {0, .5, 1}, {3});
  expect<double>(np::power(np::arange(3), .5), {0, 1, std::sqrt(2.0)}, {3});
  expect<std::int64_t>(np::power(np::arange(3), 2), {0, 1, 4}, {3});
  expect<double>(np::power(10.0, np::arange(3)), {1, 10, 100}, {3});
  expect<float>(np::maximum(a, 1.75), {1.75, 2}, {2});
  expect<double>(np::maximum(np::arange(3), .5), {.5, 1, 2}, {3});
  expect<std::int32_t>(np::maximum(Tensor{1, 5}, 3), {3, 5}, {2});
  expect<double>(np::minimum(a, Tensor{1, 2}), {1, 2}, {2});
  expect<std::int64_t>(np::clip(np::arange(5), 1, 3), {1, 1, 2, 3, 3}, {5});
  expect<double>(np::clip(np::array({1, 5, 9}), 2, 7.5), {2, 5, 7.5}, {3});
  expect<float>(np::clip(a, 0, 1.75), {1.5, 1.75}, {2});
  expect<float>(np::where(a > 1.6, a, 0), {0, 2}, {2});
  expect<double>(np::where(a > 1.6, 1.5, 0), {0, 1.5}, {2});
  expect<std::int64_t>(np::where(a > 1.6)[0], {1}, {1});
}

TEST(NumpyFunctions, ReductionsTakeAxes) {
  const Tensor a = {1.5f, 2.f};
  expect<std::int64_t>(np::sum(Tensor{1, 2}), {3}, {});
  expect<std::int64_t>(np::sum(a > 1.6), {1}, {});
  expect<double>(np::sum(np::eye(2), {0, 1}), {2}, {});
  expect<double>(np::mean(np::arange(4)), {1.5}, {});
  expect<double>(np::mean(np::eye(2), {.axis = 1, .keepdims = true}), {.5, .5}, {2, 1});
  expect<double>(np::mean(np::eye(2), 0), {.5, .5}, {2});
  expect<double>(np::mean(std::vector<double>{1, 2}), {1.5}, {});
  expect<double>(np::mean({1.0, 2.0}), {1.5}, {});
  expect<float>(np::mean(std::vector<Tensor>{a[0], a[1]}), {1.75}, {});
  expect<float>(np::std(a), {.25}, {});
  EXPECT_NEAR(np::std(np::array({3, 1, 4})).item<double>(), 1.247219128924647, 1e-15);
  expect<std::int64_t>(np::argmax(np::eye(2), {.axis = -1}), {0, 1}, {2});
  expect<std::int64_t>(np::argsort(np::array({3.0, 1.0, 2.0})), {1, 2, 0}, {3});
  expect<std::int64_t>(np::cumsum(np::arange(4)), {0, 1, 3, 6}, {4});
  expect<double>(np::median(np::array({3, 1, 4, 1})), {2}, {});
  expect<double>(np::percentile(np::array({3, 1, 4, 1, 5}), {25.0, 60.0}), {1, 3.4}, {2});
  expect<double>(np::linalg::norm(np::array({{3.0, 4.0}, {6.0, 8.0}}), {.axis = 1}), {5, 10}, {2});
  EXPECT_TRUE(np::allclose(a, a + 1e-9f));
  EXPECT_FALSE(np::array_equal(a, Tensor{1, 2}));
  np::testing::assert_allclose(a, a + 1e-9f);
  EXPECT_THROW(np::testing::assert_allclose(a, Tensor{1, 2}), ls::errors::FailedPreconditionError);
}

}  // namespace numpy_functions
