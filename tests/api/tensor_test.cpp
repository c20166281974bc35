// Tensors and variables as user code writes them. Expected numbers and texts: TensorFlow 2.21.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
using ls::DType;
using ls::Tensor;

namespace {

template <typename T>
std::vector<T> list(const Tensor& tensor) {
  return tensor.to_vector<T>();
}

TEST(TensorApi, IsMadeOfBraces) {
  const Tensor a = {{1, 2}, {3, 4}};
  EXPECT_EQ(a.dtype(), DType::kInt32);
  EXPECT_EQ(a.shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(list<std::int32_t>(a), (std::vector<std::int32_t>{1, 2, 3, 4}));
  const Tensor b = {1, 2.5};
  EXPECT_EQ(b.dtype(), DType::kFloat32);
  EXPECT_EQ(list<float>(b), (std::vector<float>{1, 2.5F}));
  EXPECT_EQ(Tensor({true, false}).dtype(), DType::kBool);
  EXPECT_EQ(Tensor({std::int64_t{1} << 40}).dtype(), DType::kInt64);
  EXPECT_EQ(Tensor({"a", "b"}).string_values()[1], "b");
  EXPECT_EQ(Tensor({{1, 2}}, DType::kFloat64).dtype(), DType::kFloat64);
  EXPECT_THROW((Tensor{{1, 2}, {3}}), ls::errors::InvalidArgumentError);
  EXPECT_THROW((Tensor{{1, 2}, 3}), ls::errors::InvalidArgumentError);
  EXPECT_THROW((Tensor{3, {1, 2}}), ls::errors::InvalidArgumentError);
  EXPECT_EQ(ls::ops::reshape(a, {4, 1}).shape(), (ls::Shape{4, 1}));
  EXPECT_EQ(list<float>(ls::ops::ones({2})), (std::vector<float>{1, 1}));
  EXPECT_EQ(ls::ops::zeros({2}, DType::kInt32).dtype(), DType::kInt32);
}

TEST(TensorApi, IsCutAsInPython) {
  const Tensor x = {{1, 2}, {3, 4}, {5, 6}};
  EXPECT_EQ(list<std::int32_t>(x[1]), (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(list<std::int32_t>(x[-1]), (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(list<std::int32_t>(x[{0, 2}]), (std::vector<std::int32_t>{1, 2, 3, 4}));
  const Tensor range = ls::ops::range(10);
  EXPECT_EQ(list<std::int32_t>(range[{-3, std::nullopt}]), (std::vector<std::int32_t>{7, 8, 9}));
  EXPECT_EQ(list<std::int32_t>(range[{std::nullopt, std::nullopt, 2}][{1, 3}]), (std::vector<std::int32_t>{2, 4}));
  EXPECT_THROW((void)x[3], ls::errors::OutOfRangeError);
  EXPECT_THROW((void)x.dim(5), ls::errors::OutOfRangeError);
  EXPECT_EQ(x.dim(-1), 2);
}

TEST(TensorApi, ArithmeticFollowsTensorFlow) {
  const Tensor i = {1, 2, 3};
  EXPECT_EQ((i / 2).dtype(), DType::kFloat64);
  EXPECT_EQ(list<double>(i / 2), (std::vector<double>{.5, 1, 1.5}));
  EXPECT_EQ(list<double>(i / i), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(list<double>(2 / Tensor{4, 8}), (std::vector<double>{.5, .25}));
  EXPECT_EQ(list<std::int32_t>(i * 2), (std::vector<std::int32_t>{2, 4, 6}));
  EXPECT_EQ(list<std::int32_t>(ls::ops::floor_div(i, i)), (std::vector<std::int32_t>{1, 1, 1}));
  EXPECT_THROW((void)(i * 0.5), ls::errors::InvalidArgumentError);
  EXPECT_EQ(list<std::int32_t>(i * 2.0), (std::vector<std::int32_t>{2, 4, 6}));  // TensorFlow: TypeError
  const Tensor pixels({51, 255}, DType::kUInt8);
  EXPECT_EQ((pixels / 255.0).dtype(), DType::kFloat32);  // as of NumPy's arrays, in single precision
  EXPECT_EQ(list<float>(pixels / 255.0), (std::vector<float>{.2F, 1}));
  EXPECT_EQ(list<float>(pixels / Tensor({2, 2}, DType::kUInt8)), (std::vector<float>{25.5F, 127.5F}));
  EXPECT_THROW((void)(pixels + 300), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)(pixels + 300.0), ls::errors::InvalidArgumentError);
  Tensor x = {1.0, 2.0};
  const Tensor before = x;
  x += before;
  x *= 3;
  EXPECT_EQ(list<float>(x), (std::vector<float>{6, 12}));
  EXPECT_EQ(list<float>(before), (std::vector<float>{1, 2}));
}

TEST(TensorApi, ReducesOverOneAxisOrSeveral) {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  EXPECT_EQ(list<float>(ls::ops::reduce_sum(x, 0)), (std::vector<float>{4, 6}));
  EXPECT_EQ(list<float>(ls::ops::reduce_sum(x, {1})), (std::vector<float>{3, 7}));
  EXPECT_EQ(float(ls::ops::reduce_sum(x, {0, 1})), 10);
  EXPECT_EQ(int(ls::ops::reduce_mean(x)), 2);
}

TEST(TensorApi, ClipsByNorms) {
  const ls::Tensors x = {{3.0, 4.0}, {{12.0}}};
  const auto [clipped, norm] = ls::ops::clip_by_global_norm(x, 6.5);
  EXPECT_EQ(float(norm), 13);
  EXPECT_EQ(list<float>(clipped[0]), (std::vector<float>{1.5F, 2}));
  EXPECT_EQ(float(clipped[1]), 6);
  EXPECT_EQ(list<float>(ls::ops::clip_by_norm({{3.0, 4.0}, {0.0, 0.0}}, 2, 1)), (std::vector<float>{1.2F, 1.6F, 0, 0}));
}

TEST(TensorApi, IsPrintedAsTensorFlowDoes) {
  const auto text = [](const Tensor& tensor) {
    std::ostringstream out;
    out << tensor;
    return out.str();
  };
  const float nan = std::nanf("");
  EXPECT_EQ(text(Tensor::scalar(2.0F)), "tf.Tensor(2.0, shape=(), dtype=float32)");
  EXPECT_EQ(text({1.0, 2.5}), "tf.Tensor([1.  2.5], shape=(2,), dtype=float32)");
  EXPECT_EQ(text({{1, 2}, {3, 4}}), "tf.Tensor(\n[[1 2]\n [3 4]], shape=(2, 2), dtype=int32)");
  EXPECT_EQ(text({{{1.0}, {2.0}}}), "tf.Tensor(\n[[[1.]\n  [2.]]], shape=(1, 2, 1), dtype=float32)");
  EXPECT_EQ(text({1e-5, 1.0}), "tf.Tensor([1.e-05 1.e+00], shape=(2,), dtype=float32)");
  EXPECT_EQ(text({0.1, 123.456}), "tf.Tensor([1.00000e-01 1.23456e+02], shape=(2,), dtype=float32)");
  EXPECT_EQ(text({0.00012345678, 0.1}), "tf.Tensor([0.00012346 0.1       ], shape=(2,), dtype=float32)");
  EXPECT_EQ(text({true, false}), "tf.Tensor([ True False], shape=(2,), dtype=bool)");
  EXPECT_EQ(text({"a", "b'c"}), "tf.Tensor([b'a' b\"b'c\"], shape=(2,), dtype=string)");
  EXPECT_EQ(text({nan, -INFINITY, 1.5}), "tf.Tensor([ nan -inf  1.5], shape=(3,), dtype=float32)");
  EXPECT_EQ(text(Tensor::scalar(1e-5F)), "tf.Tensor(1e-05, shape=(), dtype=float32)");
  EXPECT_EQ(text(Tensor::scalar(1e20F)), "tf.Tensor(1e+20, shape=(), dtype=float32)");
  EXPECT_EQ(text({1.5, -2e-3}), "tf.Tensor([ 1.5   -0.002], shape=(2,), dtype=float32)");
  EXPECT_EQ(text(Tensor::zeros({0})), "tf.Tensor([], shape=(0,), dtype=float32)");
  EXPECT_EQ(text(ls::ops::range(2000)), "tf.Tensor([   0    1    2 ... 1997 1998 1999], shape=(2000,), dtype=int32)");
  EXPECT_EQ(text(ls::ops::range(40) - 3),
            "tf.Tensor(\n[-3 -2 -1  0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20\n"
            " 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36], shape=(40,), dtype=int32)");
  const Tensor cube = ls::ops::reshape(ls::ops::cast(ls::ops::range(24), DType::kFloat32), {2, 3, 4}) - 10.5;
  EXPECT_EQ(text(cube), R"(tf.Tensor(
[[[-10.5  -9.5  -8.5  -7.5]
  [ -6.5  -5.5  -4.5  -3.5]
  [ -2.5  -1.5  -0.5   0.5]]

 [[  1.5   2.5   3.5   4.5]
  [  5.5   6.5   7.5   8.5]
  [  9.5  10.5  11.5  12.5]]], shape=(2, 3, 4), dtype=float32))");
  std::ostringstream out;
  out << cube.shape();
  EXPECT_EQ(out.str(), "(2, 3, 4)");
}

TEST(TensorApi, IsUnpackedFromElements) {
  const auto dataset = ls::data::Dataset::from_tensor_slices({Tensor{1.0, 2.0}, Tensor{10, 20}}).batch(2);
  int batches = 0;
  for (const auto& [x, y] : dataset) {
    ++batches;
    EXPECT_EQ(list<float>(x), (std::vector<float>{1, 2}));
    EXPECT_EQ(list<std::int32_t>(y), (std::vector<std::int32_t>{10, 20}));
  }
  EXPECT_EQ(batches, 1);
  const ls::keras::Structure three = {Tensor{1}, Tensor{2}, Tensor{3}};
  EXPECT_THROW((void)three.get<0>(), ls::errors::InvalidArgumentError);
  const ls::keras::Structure dict = {{"title", Tensor{1}}, {"body", Tensor{2}}};
  ASSERT_TRUE(dict.is_dict());
  EXPECT_EQ(int(dict.at("body").leaf()), 2);
  const ls::keras::Structure lists = {{Tensor{1}, Tensor{2}}, {Tensor{3}, Tensor{4}}};
  EXPECT_TRUE(lists.is_list());
}

TEST(VariableApi, IsUsedLikeATensor) {
  ls::Variable v({1.0, 2.0}, {.name = "v"});
  EXPECT_EQ(list<float>(v * 2.0), (std::vector<float>{2, 4}));
  EXPECT_EQ(list<float>(1 + v), (std::vector<float>{2, 3}));
  EXPECT_EQ(list<float>(v * v), (std::vector<float>{1, 4}));
  EXPECT_EQ(float(ls::ops::reduce_sum(v)), 3);
  v.assign({5.0, 6.0});
  v.assign_add(1.0);
  v.assign_sub({1.0, 2.0});
  EXPECT_EQ(list<float>(v), (std::vector<float>{5, 5}));
  v.assign(0.0);
  EXPECT_EQ(list<float>(v.read()), (std::vector<float>{0, 0}));
  ls::Variable step(0);
  EXPECT_EQ(step.dtype(), DType::kInt32);
  const ls::Variable same = step;
  step.assign_add(3);
  EXPECT_EQ(int(same), 3);
  EXPECT_EQ(v.name(), "v");
  std::ostringstream out;
  out << step;
  EXPECT_EQ(out.str(), "<tf.Variable 'Variable:0' shape=() dtype=int32, numpy=3>");
  EXPECT_THROW(ls::Variable().assign(1.0), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)ls::Variable()->num_copies(), ls::errors::FailedPreconditionError);
}

}  // namespace
