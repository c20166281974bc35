// NumPy's arrays: what x.numpy(), np::array and predict() return. They print as in Python, combine in NumPy's dtypes,
// and next to a tensor take its dtype. The expected texts are those of NumPy 2.4 and TensorFlow.
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace np = lockstep::np;
namespace keras = lockstep::keras;
using ls::None;
using ls::Tensor;

namespace numpy_arrays {

void expect(const Tensor& found, const std::string& text, std::string_view dtype = "") {
  std::ostringstream printed;
  printed << found;
  EXPECT_EQ(printed.str(), text);
  if (!dtype.empty()) {
    EXPECT_EQ(ls::dtype_name(found.dtype()), dtype);
  }
}

TEST(NumPyArrays, NumbersInBracesAreFractionsOfPython) {
  EXPECT_EQ(np::array({0.1, 0.2}).to_vector<double>(), (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(np::array({{0.1}, {16777217.0}}).to_vector<double>(), (std::vector<double>{0.1, 16777217.0}));
  EXPECT_EQ(np::sum({0.1, 0.2}).item<double>(), 0.1 + 0.2);
  EXPECT_EQ(np::log({0.049}).to_vector<double>()[0], std::log(0.049));
  EXPECT_EQ(np::array({1.5, 2}, np::float32).dtype(), ls::float32);
}

TEST(NumpyArrays, NumbersAndArraysCombineInNumPysDtypes) {
  const Tensor a = np::arange(5);
  expect(a * 0.25, "[0.   0.25 0.5  0.75 1.  ]", "float64");
  expect(a / 2, "[0.  0.5 1.  1.5 2. ]", "float64");
  expect(a * 2, "[0 2 4 6 8]", "int64");
  expect(a - 0.5, "[-0.5  0.5  1.5  2.5  3.5]", "float64");
  expect(1.5 - a, "[ 1.5  0.5 -0.5 -1.5 -2.5]", "float64");
  expect(a > 2.5, "[False False False  True  True]", "bool");
  expect((a > 2) * 2, "[0 0 0 2 2]", "int64");
  expect((a > 2) * 0.5, "[0.  0.  0.  0.5 0.5]", "float64");
  expect(-a, "[ 0 -1 -2 -3 -4]", "int64");
  expect(np::array({1, 2}, "uint8") / 255.0, "[0.00392157 0.00784314]", "float64");
  expect(np::array({1, 2}, "uint8") + np::array({300, 4}), "[301   6]", "int64");
  expect(np::array({1.5}, "float32") * np::array({2}), "[3.]", "float64");
  expect(np::array({1.5}, "float32") * np::array({2}, "int16"), "[3.]", "float32");
  expect(np::array({1}, "uint8") + np::array({1}, "int8"), "[2]", "int16");
  expect(np::array({1}, "uint64") + np::array({1}, "int64"), "[2.]", "float64");
  expect(np::array({1.5}, "float16") * np::array({2}, "int16"), "[3.]", "float32");
}

TEST(NumpyArrays, NextToATensorTheyTakeItsDtype) {
  const Tensor t = tf::constant({1., 2., 3.});
  expect(t * np::array({.1, .2, .3}), "tf.Tensor([0.1        0.4        0.90000004], shape=(3,), dtype=float32)");
  expect(np::array({.1, .2, .3}) * t, "tf.Tensor([0.1        0.4        0.90000004], shape=(3,), dtype=float32)");
  expect(t + np::arange(3).astype("float64"), "tf.Tensor([1. 3. 5.], shape=(3,), dtype=float32)");
  expect(tf::add(t, np::array({1., 2., 3.})), "tf.Tensor([2. 4. 6.], shape=(3,), dtype=float32)");
  expect(tf::concat({t, np::array({4., 5.})}, 0), "tf.Tensor([1. 2. 3. 4. 5.], shape=(5,), dtype=float32)");
  expect(tf::stack({t, np::zeros(3)}), "tf.Tensor(\n[[1. 2. 3.]\n [0. 0. 0.]], shape=(2, 3), dtype=float32)");
  expect(tf::maximum(t, np::zeros(3)), "tf.Tensor([1. 2. 3.], shape=(3,), dtype=float32)");
  expect(tf::where(t > 1, t, np::zeros(3)), "tf.Tensor([0. 2. 3.], shape=(3,), dtype=float32)");
  expect(tf::matmul(tf::ones({1, 3}), np::ones({3, 2})), "tf.Tensor([[3. 3.]], shape=(1, 2), dtype=float32)");
  expect(tf::convert_to_tensor(np::array({1., 2.})), "tf.Tensor([1. 2.], shape=(2,), dtype=float64)");
  expect(tf::constant(np::array({1., 2.}), {.dtype = tf::float32}), "tf.Tensor([1. 2.], shape=(2,), dtype=float32)");
  expect(tf::cast(np::array({1., 2.}), tf::float32), "tf.Tensor([1. 2.], shape=(2,), dtype=float32)");
  tf::GradientTape tape;
  tape.watch(t);
  const Tensor y = t * t.numpy();
  expect(tape.gradient(y, t), "tf.Tensor([1. 2. 3.], shape=(3,), dtype=float32)");
}

TEST(NumpyArrays, TensorsAndVariablesGiveThem) {
  const Tensor t = tf::constant({1., 2., 3.});
  expect(t.numpy(), "[1. 2. 3.]", "float32");
  expect(t.numpy() * 2, "[2. 4. 6.]", "float32");
  expect(t.numpy()[{1, None}], "[2. 3.]", "float32");
  expect(t.numpy()[0], "1.0", "float32");
  expect(t.numpy().mean(), "2.0", "float32");
  expect(tf::constant({"a", "b"}).numpy(), "[b'a' b'b']");
  expect(tf::constant("a").numpy(), "b'a'");
  expect(tf::constant(3).numpy(), "3", "int32");
  const tf::Variable v(np::array({1., 2.}));
  expect(v.value(), "tf.Tensor([1. 2.], shape=(2,), dtype=float64)");
  const tf::Variable w({1., 2.});
  w.assign(np::array({3., 4.}));
  expect(w.value(), "tf.Tensor([3. 4.], shape=(2,), dtype=float32)");
  w.assign_add(np::array({3., 4.}));
  expect(w.value(), "tf.Tensor([6. 8.], shape=(2,), dtype=float32)");
  expect(w.numpy(), "[6. 8.]", "float32");
  for (const auto& x : tf::data::Dataset::from_tensor_slices(np::array({1., 2.})).take(1))
    expect(x, "tf.Tensor(1.0, shape=(), dtype=float64)");
}

TEST(NumpyArrays, FunctionsAndMembersGiveThem) {
  const Tensor a = np::arange(5);
  expect(np::concatenate({a, a}) * 0.5, "[0.  0.5 1.  1.5 2.  0.  0.5 1.  1.5 2. ]", "float64");
  expect(np::reshape(np::arange(4), {2, 2}) * .5, "[[0.  0.5]\n [1.  1.5]]", "float64");
  expect(np::argsort(np::array({3, 1, 2}))[{None, None, -1}], "[0 2 1]", "int64");
  expect(np::array({3, 1, 2}).argsort(), "[1 2 0]", "int64");
  expect(np::vstack({np::array({1, 2}), np::array({3, 4})}), "[[1 2]\n [3 4]]", "int64");
  expect(np::where(np::array({1, 0, 1}) > 0)[0], "[0 2]", "int64");
  expect(np::sum(np::arange(4)), "6", "int64");
  expect(np::mean(np::arange(4)), "1.5", "float64");
  expect(np::linspace(0, 1, 3), "[0.  0.5 1. ]", "float64");
  expect(np::zeros({2}).astype("float32") + np::ones(2), "[1. 1.]", "float64");
  expect(np::equal(a, 2), "[False False  True False False]", "bool");
  expect(a == 2, "[False False  True False False]", "bool");
  expect((a > 1) & (a < 4), "[False False  True  True False]", "bool");
  expect(~(a > 1), "[ True  True False False False]", "bool");
  expect(a[a > 2], "[3 4]", "int64");
  expect(a[None], "[[0 1 2 3 4]]", "int64");
  expect(np::exp(np::array({0., 1.})), "[1.         2.71828183]", "float64");
  expect(np::clip(a, 1, 3), "[1 1 2 3 3]", "int64");
  expect(a.T(), "[0 1 2 3 4]", "int64");
  expect(a.reshape(5, 1).squeeze(), "[0 1 2 3 4]", "int64");
  expect(a % 2 == 0, "[ True False  True False  True]", "bool");
  expect(np::power(a, 2), "[ 0  1  4  9 16]", "int64");
  expect(np::power(a, 2.0), "[ 0.  1.  4.  9. 16.]", "float64");
  expect(np::power(2, a), "[ 1  2  4  8 16]", "int64");
  expect(np::floor_divide(a, 2), "[0 0 1 1 2]", "int64");
  np::random::seed(0);
  expect(np::random::rand(2), "[0.5488135  0.71518937]", "float64");
  expect(np::random::randint(0, 10, 3) * 0.1, "[0.3 0.3 0.7]", "float64");
  expect(np::random::permutation(4), "[2 0 3 1]", "int64");
}

TEST(NumpyArrays, DtypesAreFunctions) {
  expect(np::uint8(np::array({0.5, 1.}) * 255), "[127 255]", "uint8");
  expect(np::float32(2), "2.0", "float32");
  expect(np::round(0.478, 2), "0.48", "float64");
  expect(tf::constant({1, 2}, np::float32), "tf.Tensor([1. 2.], shape=(2,), dtype=float32)");
  expect(keras::ops::cast(np::array({1.5}), np::int32), "tf.Tensor([1], shape=(1,), dtype=int32)");
  EXPECT_TRUE(np::zeros(2, {.dtype = np::int16}).dtype() == np::int16);
  EXPECT_EQ(keras::layers::Dense(2, {.dtype = np::float64}).dtype(), "float64");
}

TEST(NumpyArrays, ModelsGiveThem) {
  keras::Sequential m({keras::Input({2}), keras::layers::Dense(1, {.kernel_initializer = "ones"})});
  expect(m.predict(np::array({{1., 2.}}), {.verbose = 0}), "[[3.]]", "float32");
  expect(m(np::array({{1., 2.}})), "tf.Tensor([[3.]], shape=(1, 1), dtype=float32)");
  expect(m.get_weights()[0], "[[1.]\n [1.]]", "float32");
  expect(keras::ops::add(np::array({1., 2.}), np::array({1., 2.})), "tf.Tensor([2. 4.], shape=(2,), dtype=float64)");
  expect(keras::losses::MeanSquaredError()(np::array({1., 2.}), np::array({2., 2.})),
         "tf.Tensor(0.5, shape=(), dtype=float32)");
  m.compile({.optimizer = "sgd", .loss = "mse", .metrics = {"mae"}});
  expect(np::array(m.evaluate(np::array({{1., 2.}}), np::array({{1.}}), {.verbose = 0})), "[4. 2.]", "float64");
}

}  // namespace numpy_arrays
