// NumPy in programs: files of arrays, and random numbers. The numbers are those of NumPy 2.4.
#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace np = lockstep::np;
using ls::Tensor;

namespace numpy_lines {

void expect_near(const Tensor& found, const std::vector<double>& expected) {
  EXPECT_EQ(found.dtype(), ls::float64);
  const auto values = found.flatten().to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-15 * std::abs(expected[i]));
}
std::vector<std::int64_t> integers(const Tensor& found) {
  EXPECT_EQ(found.dtype(), ls::int64);
  return found.flatten().to_vector<std::int64_t>();
}
using Integers = std::vector<std::int64_t>;

TEST(NumpyLines, FunctionsDrawNumPysNumbers) {
  np::random::seed(7);
  const Tensor x = np::random::rand(3, 4);
  EXPECT_EQ(x.shape(), (ls::Shape{3, 4}));
  expect_near(x[0], {0.07630828937395717, 0.7799187922401146, 0.4384092314408935, 0.7234651778309412});
  expect_near(np::random::randn(5)[{0, 3}], {-0.6254289739667597, -0.17154826119572117, 0.5052993741967516});
  expect_near(np::random::normal(2, .5, {4})[{0, 2}], {1.2733792937546047, 2.277290155945944});
  expect_near(np::random::uniform(-1, 3, {6})[{0, 2}], {2.636513499546925, -0.46732221696299936});
  EXPECT_EQ(integers(np::random::randint(10, {.size = 9}))[3], 9);
  EXPECT_EQ(integers(np::random::randint(-5, std::int64_t{1} << 40, {9}))[0], 963258295952);
  EXPECT_EQ(np::random::randint(0, 100, {.size = {9}, .dtype = "int32"}).to_vector<std::int32_t>()[1], 76);
  EXPECT_EQ(integers(np::random::permutation(20))[3], 14);
}

TEST(NumpyLines, RandomStatesShuffleAndChoose) {
  np::random::RandomState rng(3);
  EXPECT_EQ(integers(rng.choice(30, {.size = {5}, .replace = false})), (Integers{15, 5, 22, 26, 18}));
  EXPECT_EQ(integers(rng.choice(4, {.size = {4}, .p = {.1, .2, .3, .4}})), (Integers{2, 2, 2, 2}));
  Tensor rows = {0.0, 1.0, 2.0, 3.0};
  rng.shuffle(rows);
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{2, 1, 0, 3}));
}

TEST(NumpyLines, GeneratorsDrawNumPysNumbers) {
  auto rng = np::random::default_rng(42);
  expect_near(rng.random({3, 2})[0], {0.7739560485559633, 0.4388784397520523});
  EXPECT_EQ(rng.random({.size = {3}, .dtype = "float32"}).to_vector<float>()[0], 0.7357523441314697f);
  expect_near(rng.standard_normal({3}), {-0.016801157504288795, -0.85304392757358, 0.8793979748628286});
}

TEST(NumpyLines, KerassSeedSeedsNumPy) {
  ls::keras::utils::set_random_seed(11);
  expect_near(np::random::rand(1), {0.1802696888767692});
  expect_near(np::random::randn(1), {-0.029285193058884988});
  // The generator has a second number in store, which belongs to its state.
  const ls::Json state = ls::random::save_state();
  expect_near(np::random::randn(2), {-0.3825909889655634, -0.5750376366439197});
  ls::random::restore_state(state);
  expect_near(np::random::randn(2), {-0.3825909889655634, -0.5750376366439197});
}

TEST(NumpyIndices, NoneIsANewAxis) {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  EXPECT_EQ(x[ls::None].shape(), (ls::Shape{1, 2, 2}));
  EXPECT_EQ(x[ls::newaxis].shape(), (ls::Shape{1, 2, 2}));
  EXPECT_EQ((x[{ls::None, 1}].shape()), (ls::Shape{1, 2}));
}

TEST(NumpyFiles, AreWrittenAndRead) {
  const std::string folder = testing::TempDir();
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  const Tensor y = ls::constant({1, 2}, ls::int64);
  np::savez(folder + "/np_arrays", {{"x", x}, {"y", y}});
  const auto data = np::load(folder + "/np_arrays.npz");
  EXPECT_EQ(data.files(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(data["y"].to_vector<std::int64_t>(), (Integers{1, 2}));
  EXPECT_THROW(data["z"], ls::errors::NotFoundError);
  EXPECT_THROW(static_cast<Tensor>(data), ls::errors::FailedPreconditionError);
  np::save(folder + "/np_array.npy", x);
  const Tensor again = np::load(folder + "/np_array.npy");
  EXPECT_EQ(again.to_vector<float>(), x.to_vector<float>());
  np::savez(folder + "/np_list.npz", {x, x});
  EXPECT_TRUE(np::load(folder + "/np_list.npz").contains("arr_1"));
}

}  // namespace numpy_lines
