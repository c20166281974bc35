// What programs of Python do with texts, numbers and lists: str.format, item(), append, zip, sorted, reversed, and
// lists of numbers and tensors.
#include <cmath>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/api/results.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace keras = lockstep::keras;
namespace np = lockstep::np;
using ls::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

namespace python_values {

template <typename T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// What Python 3.11's str.format gives.
TEST(Format, AsPython) {
  EXPECT_EQ(ls::format("{}", 3), "3");
  EXPECT_EQ(ls::format("{}", 0.1), "0.1");
  EXPECT_EQ(ls::format("{}", true), "True");
  EXPECT_EQ(ls::format("{}", "a"), "a");
  EXPECT_EQ(ls::format("{:.4f}", 0.123456), "0.1235");
  EXPECT_EQ(ls::format("{:.4f}", 3), "3.0000");
  EXPECT_EQ(ls::format("{:8.3f}|", 2.5), "   2.500|");
  EXPECT_EQ(ls::format("{:<8.2f}|", 2.5), "2.50    |");
  EXPECT_EQ(ls::format("{:^9}|", "ab"), "   ab    |");
  EXPECT_EQ(ls::format("{:>6}|", "ab"), "    ab|");
  EXPECT_EQ(ls::format("{:6}|", "ab"), "ab    |");
  EXPECT_EQ(ls::format("{:6}|", 12), "    12|");
  EXPECT_EQ(ls::format("{:03d}", 7), "007");
  EXPECT_EQ(ls::format("{:+.2e}", 12345.678), "+1.23e+04");
  EXPECT_EQ(ls::format("{:,}", 1234567), "1,234,567");
  EXPECT_EQ(ls::format("{:,.2f}", -1234567.891), "-1,234,567.89");
  EXPECT_EQ(ls::format("{:.1%}", 0.256), "25.6%");
  EXPECT_EQ(ls::format("{:10.1%}|", 0.256), "     25.6%|");
  EXPECT_EQ(ls::format("{:x} {:#x} {:b}", 255, 255, 5), "ff 0xff 101");
  EXPECT_EQ(ls::format("{1} {0} {1}", 1, 2), "2 1 2");
  EXPECT_EQ(ls::format("{{}} {}", 1), "{} 1");
  EXPECT_EQ(ls::format("{:*^7}", 5), "***5***");
  EXPECT_EQ(ls::format("{:g} {:g}", 1e-07, 100000.0), "1e-07 100000");
  EXPECT_EQ(ls::format("{:.3}", 3.0), "3.0");
  EXPECT_EQ(ls::format("{:.3}", 1234.5), "1.23e+03");
  EXPECT_EQ(ls::format("{:.2}", "abc"), "ab");
  EXPECT_EQ(ls::format("{:05.1f}", -2.25), "-02.2");
  EXPECT_EQ(ls::format("{:>5}", true), "    1");
  EXPECT_EQ(ls::format("{:d}", true), "1");
  EXPECT_EQ(ls::format("{} {}", NAN, -INFINITY), "nan -inf");
  EXPECT_EQ(ls::format("{:.2f}", INFINITY), "inf");
  EXPECT_EQ(ls::format("{:e}", 0.5), "5.000000e-01");
  EXPECT_EQ(ls::format("{: }", 4), " 4");
  EXPECT_EQ(ls::format("{:_}", 1000000), "1_000_000");
  EXPECT_EQ(ls::format("{:.0f}", 2.5), "2");
  EXPECT_EQ(ls::format("{:é>4}|", "ü"), "éééü|");
  EXPECT_EQ(ls::format("{:G}", 1e-10), "1E-10");
  EXPECT_EQ(ls::format("{}", 1e+16), "1e+16");
  EXPECT_EQ(ls::format("{:10}|", 0.5), "       0.5|");
  EXPECT_EQ(ls::format("{:.10g}", 0.1), "0.1");
  EXPECT_EQ(ls::format("{:-^20}", " x "), "-------- x ---------");
}

TEST(Format, OfTensorsAndObjects) {
  const Tensor loss(0.5), count(3);
  EXPECT_EQ(ls::format("{:.3f} {:d} {:>4}", loss, count, count), "0.500 3    3");
  EXPECT_EQ(ls::format("{}", loss), "0.5");
  EXPECT_EQ(ls::format("{}", tf::constant({{1, 2}, {3, 4}})), "[[1 2]\n [3 4]]");
  EXPECT_EQ(ls::format("{} {}", loss.numpy(), Tensor({1.5, 2.0}).numpy()), "0.5 [1.5 2. ]");
  EXPECT_EQ(ls::format("{} {:.2f}", loss.numpy().item(), ls::Variable(1.25)), "0.5 1.25");
  EXPECT_EQ(ls::format("{:>4}|{}", tf::constant("ab"), ls::Shape{2, 3}), "  ab|(2, 3)");
  EXPECT_THAT(error_of([] { ls::format("{} {}", 1); }), HasSubstr("field 1 has no argument, there are 1"));
  EXPECT_THAT(error_of([] { ls::format("{:d}", 1.5); }), HasSubstr("argument 0 cannot have the format 'd'"));
  EXPECT_THAT(error_of([] { ls::format("{:.2f}", "a"); }), HasSubstr("argument 0 cannot have the format '.2f'"));
  EXPECT_THAT(error_of([] { ls::format("{:9999999999}", 1); }), HasSubstr("cannot have the format"));
  EXPECT_THAT(error_of([] { ls::format("{"); }), HasSubstr("a '{' has no '}'"));
  EXPECT_THAT(error_of([] { ls::format("}"); }), HasSubstr("a '}' has no '{'"));
}

// Expected texts: TensorFlow 2.21 and NumPy 2.
TEST(Texts, OfTensorsInLists) {
  const std::vector<std::pair<Tensor, std::string>> rows = {
      {tf::constant(1.0), "<tf.Tensor: shape=(), dtype=float32, numpy=1.0>"},
      {tf::constant({1, 2}), "<tf.Tensor: shape=(2,), dtype=int32, numpy=array([1, 2], dtype=int32)>"},
      {tf::constant({{1., 2.}, {3., 4.}}),
       "<tf.Tensor: shape=(2, 2), dtype=float32, numpy=\narray([[1., 2.],\n       [3., 4.]], dtype=float32)>"},
      {tf::constant("a"), "<tf.Tensor: shape=(), dtype=string, numpy=b'a'>"},
      {tf::constant({"a", "b"}), "<tf.Tensor: shape=(2,), dtype=string, numpy=array([b'a', b'b'], dtype=object)>"},
      {tf::zeros({0, 3}), "<tf.Tensor: shape=(0, 3), dtype=float32, numpy=array([], shape=(0, 3), dtype=float32)>"},
      {tf::zeros({0}), "<tf.Tensor: shape=(0,), dtype=float32, numpy=array([], dtype=float32)>"},
      {tf::constant({true, false}), "<tf.Tensor: shape=(2,), dtype=bool, numpy=array([ True, False])>"},
      {tf::range(40),
       "<tf.Tensor: shape=(40,), dtype=int32, numpy=\narray([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, "
       "14, 15, 16,\n       17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33,\n       34, 35, 36, "
       "37, 38, 39], dtype=int32)>"},
      {tf::zeros({2, 1, 2}),
       "<tf.Tensor: shape=(2, 1, 2), dtype=float32, numpy=\narray([[[0., 0.]],\n\n       [[0., 0.]]], dtype=float32)>"},
      {tf::zeros({2000}),
       "<tf.Tensor: shape=(2000,), dtype=float32, numpy=array([0., 0., 0., ..., 0., 0., 0.], shape=(2000,), "
       "dtype=float32)>"},
      {tf::zeros({100, 200}),
       "<tf.Tensor: shape=(100, 200), dtype=float32, numpy=\narray([[0., 0., 0., ..., 0., 0., 0.],\n       [0., 0., "
       "0., ..., 0., 0., 0.],\n       [0., 0., 0., ..., 0., 0., 0.],\n       ...,\n       [0., 0., 0., ..., 0., 0., "
       "0.],\n       [0., 0., 0., ..., 0., 0., 0.],\n       [0., 0., 0., ..., 0., 0., 0.]], shape=(100, 200), "
       "dtype=float32)>"},
      {tf::range(17).numpy(),
       "array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16],\n      dtype=int32)"},
      {tf::cast(tf::range(16), tf::int64).numpy(),
       "array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15])"},
      {tf::ones({2, 3}).numpy(), "array([[1., 1., 1.],\n       [1., 1., 1.]], dtype=float32)"},
      {tf::constant({1e-10, 1.5, 12345.0}, tf::float64),
       "<tf.Tensor: shape=(3,), dtype=float64, numpy=array([1.0000e-10, 1.5000e+00, 1.2345e+04])>"},
      {tf::range(18.0),
       "<tf.Tensor: shape=(18,), dtype=float32, numpy=\narray([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., "
       "11., 12.,\n       13., 14., 15., 16., 17.], dtype=float32)>"},
      {tf::fill({3, 20}, 0.125),
       "<tf.Tensor: shape=(3, 20), dtype=float32, numpy=\narray([[0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, "
       "0.125, 0.125,\n        0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125,\n        0.125, "
       "0.125],\n       [0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125,\n        0.125, 0.125, 0.125, "
       "0.125, 0.125, 0.125, 0.125, 0.125, 0.125,\n        0.125, 0.125],\n       [0.125, 0.125, 0.125, 0.125, 0.125, "
       "0.125, 0.125, 0.125, 0.125,\n        0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125,\n        "
       "0.125, 0.125]], dtype=float32)>"},
  };
  for (const auto& [tensor, text] : rows) EXPECT_EQ(ls::repr(tensor), text);
  EXPECT_EQ(printed(ls::List<Tensor>{Tensor(1.5), Tensor({1.5}).numpy()}),
            "[<tf.Tensor: shape=(), dtype=float32, numpy=1.5>, array([1.5], dtype=float32)]");
  EXPECT_EQ(printed(keras::Structure({{"a", Tensor(2)}})), "{'a': <tf.Tensor: shape=(), dtype=int32, numpy=2>}");
  EXPECT_EQ(printed(ls::Variable({{1, 2}, {3, 4}}, {.name = "m"})),
            "<tf.Variable 'm:0' shape=(2, 2) dtype=int32, numpy=\narray([[1, 2],\n       [3, 4]], dtype=int32)>");
  const auto layer = ls::keras::layers::Dense(2, {.name = "last"});
  layer(tf::zeros({1, 3}));
  EXPECT_EQ(printed(layer.bias()), "<Variable path=last/bias, shape=(2,), dtype=float32, value=[0. 0.]>");
  EXPECT_EQ(printed(layer.kernel().shape().as_list()), "[3, 2]");
}

TEST(Items, AreNumbersOfPython) {
  EXPECT_EQ(printed(Tensor(3).numpy().item()), "3");
  EXPECT_EQ(printed(Tensor(0.1).numpy().item()), "0.10000000149011612");
  EXPECT_EQ(printed(Tensor(true).numpy().item()), "True");
  EXPECT_EQ(printed(Tensor(123456789).item() + 1), "123456790");
  EXPECT_EQ(printed(Tensor(7).item() / 2), "3.5");
  const double value = Tensor(2.5).item();
  std::vector<double> all;
  all.push_back(np::array({7}).item());
  EXPECT_EQ(value, 2.5);
  EXPECT_EQ(all[0], 7);
  EXPECT_TRUE(Tensor(0.5).item() > 0.25 && 1 > Tensor(0.5).item());
  EXPECT_EQ(float(Tensor(0.5) * Tensor(0.5).item()), 0.25F);
  EXPECT_THAT(error_of([] { Tensor({1, 2}).item(); }), HasSubstr("one number"));
}

TEST(Lists, HaveTheFunctionsOfPython) {
  ls::List<Tensor> losses;
  losses.append(Tensor(1.0));
  losses.append(Tensor(2.0));
  losses.extend({Tensor(4.0)});
  EXPECT_EQ(float(tf::reduce_sum(losses)), 7.0F);
  EXPECT_EQ(float(tf::reduce_mean(losses[{0, 2}])), 1.5F);
  EXPECT_EQ(float(losses.pop()), 4.0F);
  EXPECT_EQ(float(losses.pop(0)), 1.0F);
  EXPECT_THAT(error_of([&] { losses.pop(3); }), HasSubstr("list index 3 is out of range"));
  EXPECT_THAT(ls::reversed(std::vector<int>{1, 2, 3}), ElementsAre(3, 2, 1));
  std::vector<int> found;
  for (const auto& [i, row, name] :
       ls::zip(std::vector<int>{1, 2, 3}, Tensor({10, 20}), std::vector<std::string>{"a", "b"}))
    found.push_back(i + int(row) + int(name.size()));
  EXPECT_THAT(found, ElementsAre(12, 23));
  const keras::Structure outputs = {{"b", Tensor(1.0)}, {"a", Tensor(2.0)}};
  std::string names;
  for (const auto& [name, output] : ls::sorted(outputs.items())) names += name + ls::format("{:.0f}", output);
  EXPECT_EQ(names, "a2b1");
}

TEST(Lists, OfNumbersAndTensors) {
  const Tensor t = tf::constant(0.5);
  EXPECT_EQ(printed(tf::constant({{t, 0.0}, {0.0, 1.0}}).numpy()), "[[0.5 0. ]\n [0.  1. ]]");
  EXPECT_EQ(printed(tf::convert_to_tensor({1, 0.25, t}).numpy()), "[1.   0.25 0.5 ]");
  EXPECT_EQ(tf::convert_to_tensor({{1, 0}, {0, t}}, {.dtype = tf::float64}).dtype(), ls::DType::kFloat64);
  EXPECT_EQ(tf::constant({t, t}, "float64").dtype(), ls::DType::kFloat64);
  EXPECT_EQ(tf::constant({1, 2}).dtype(), ls::DType::kInt32);
  EXPECT_EQ(tf::constant({{1, 2.5}, {3, 4}}).dtype(), ls::DType::kFloat32);
  EXPECT_EQ(tf::constant({{"a"}, {"b"}}).shape(), ls::Shape({2, 1}));
  EXPECT_NE(error_of([&] { tf::constant({{t, 1.0}, {t}}); }), "no error");
}

class Doubled : public keras::layers::Layer {
 public:
  using Layer::Layer;
  keras::Structure call(const keras::Structure& x) override { return x.leaf() * 2; }
};

TEST(Layers, WithTheConstructorOfTheirBase) {
  const auto layer = keras::make_layer<Doubled>(keras::layers::Layer::Options{.dtype = "mixed_float16"});
  EXPECT_EQ(Tensor(layer(tf::ones({2}))).dtype(), ls::DType::kFloat16);
}

TEST(Structures, OfRaggedValues) {
  const keras::Structure ragged = tf::ragged::constant({{1, 2}, {3}});
  EXPECT_EQ(printed(ragged.to_tensor().numpy()), "[[1 2]\n [3 0]]");
  EXPECT_EQ(printed(ragged.to_list()), "[[1, 2], [3]]");
}

TEST(Functions, WithConstants) {
  const auto power = tf::function([](const Tensor& a, int b) { return tf::pow(a, b); });
  const ls::Function any = power;
  const auto squared = any.get_concrete_function(ls::TensorSpec(ls::None, tf::float32), 2);
  const auto cubed = any.get_concrete_function(ls::TensorSpec(ls::None, tf::float32), 3);
  EXPECT_EQ(float(squared(tf::constant(10.0)).leaf()), 100.0F);
  EXPECT_EQ(float(cubed(tf::constant(10.0)).leaf()), 1000.0F);
  EXPECT_EQ(any.concrete_functions().size(), 2U);
  EXPECT_THAT(error_of([&] { squared(tf::constant(10.0), 2); }), HasSubstr("found 2 arguments, expected 1"));
}

// Numbers of TensorFlow 2.21.
TEST(Draws, OfParametersInLists) {
  tf::random::set_seed(4);
  EXPECT_EQ(printed(tf::random::gamma({2}, {.alpha = {.5, 1.5}, .seed = 2}).numpy()),
            "[[0.04619405 1.0028428 ]\n [1.7849565  0.510471  ]]");
  EXPECT_EQ(printed(tf::random::poisson({2}, {.lam = {.5, 5}, .seed = 2}).numpy()), "[[0. 6.]\n [0. 3.]]");
  EXPECT_EQ(printed(tf::random::Generator::from_seed(1).uniform({5}, 0, 10, {.dtype = tf::int32}).numpy()),
            "[4 9 3 3 3]");
}

TEST(Elements, ComparedWithANumberOnTheLeft) {
  const keras::Structure label = Tensor({0, 1});
  EXPECT_EQ(printed((0 == label).numpy()), "[ True False]");
  EXPECT_EQ(printed((0 != label).numpy()), "[False  True]");
}

TEST(Schedules, WithBoundariesInAVectorOfIntegers) {
  const std::vector<int> boundaries = {2, 4};
  const std::vector<double> values = {0.5, 0.25, 0.125};
  const auto rate = keras::optimizers::schedules::PiecewiseConstantDecay({.boundaries = boundaries, .values = values});
  EXPECT_EQ(float(rate(3)), 0.25F);
  EXPECT_EQ(float(keras::optimizers::schedules::PiecewiseConstantDecay(boundaries, values)(5)), 0.125F);
}

}  // namespace python_values
