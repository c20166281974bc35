// Lines of programs that define models, layers and training steps of their own. Numbers are those of TensorFlow 2.21,
// Keras 3.15 and NumPy.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::keras::ops;
namespace np = lockstep::np;
namespace tf = lockstep::tf;
using ls::Tensor;

namespace lines_of_model_programs {

TEST(ModelProgramLines, ListsOfTensorsBecomeOneTensor) {
  const Tensor image = {{1.0, 2.0}, {3.0, 4.0}};
  EXPECT_EQ(ops::convert_to_tensor({image}).shape(), ls::Shape({1, 2, 2}));
  EXPECT_EQ(numbers(ops::convert_to_tensor({image[1], image[0]})), (Numbers{3, 4, 1, 2}));
  EXPECT_EQ(ops::array({image, image}, {.dtype = "int32"}).dtype(), tf::int32);
  EXPECT_EQ(numbers(ops::convert_to_tensor(ls::Tensors{image[1]})), (Numbers{3, 4}));
}

TEST(ModelProgramLines, ListsAreShuffledInPlace) {
  const std::vector<std::string> letters = {"a", "b", "c", "d", "e", "f"};
  auto names = letters;
  np::random::RandomState(42).shuffle(names);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "f", "c", "e", "d"}));
  names = letters;
  np::random::seed(7);
  np::random::shuffle(names);
  EXPECT_EQ(names, (std::vector<std::string>{"d", "f", "a", "c", "b", "e"}));
  names = letters;
  np::random::default_rng(3).shuffle(names);
  EXPECT_EQ(names, (std::vector<std::string>{"c", "f", "e", "b", "d", "a"}));
}

TEST(ModelProgramLines, ShapesAreWindows) {
  const ls::Shape kernel_size = {3, 2}, strides = {2, 1};
  const auto layer = layers::Conv2D(4, kernel_size, {.strides = strides});
  EXPECT_EQ(layer.get_config()["kernel_size"], ls::Json({3, 2}));
  EXPECT_EQ(layer.get_config()["strides"], ls::Json({2, 1}));
  EXPECT_EQ(layers::MaxPooling2D(kernel_size).get_config()["pool_size"], ls::Json({3, 2}));
  EXPECT_EQ(layers::Conv2D(4, {.kernel_size = kernel_size}).get_config()["kernel_size"], ls::Json({3, 2}));
}

TEST(ModelProgramLines, LimitsByPositionAndADtypeByName) {
  const auto doubles = tf::random::stateless_uniform({2}, {1, 2}, -1, 1, {.dtype = tf::float64});
  EXPECT_EQ(doubles.dtype(), tf::float64);
  EXPECT_EQ(numbers(doubles), numbers(tf::random::stateless_uniform({2}, {1, 2}, -1, 1, tf::float64)));
  EXPECT_EQ(tf::random::stateless_uniform({2}, {1, 2}, 0, 9, "int32").dtype(), tf::int32);
  EXPECT_EQ(tf::random::stateless_uniform({2}, {1, 2}, 0.0, 9.0).dtype(), tf::float32);
}

TEST(ModelProgramLines, AListOfOneOutputIsThatOutput) {
  auto base = keras::Sequential({keras::Input({3}), layers::Dense(2, {.kernel_initializer = "ones"})});
  const auto model = keras::Model(base.inputs(), base.outputs());
  const Tensor x = {{1.0, 2.0, 3.0}};
  EXPECT_EQ(model(x).shape(), ls::Shape({1, 2}));
  EXPECT_EQ(model.predict(x, {.verbose = 0}).shape(), ls::Shape({1, 2}));
  EXPECT_EQ(numbers(model.predict_on_batch(x)[0]), (Numbers{6, 6}));
  EXPECT_EQ(model.output_shape(), ls::Shape({ls::None, 2}));
  EXPECT_TRUE(model.output().is_list());
  EXPECT_EQ(model(keras::Input({3}))[0].shape(), ls::Shape({ls::None, 2}));
}

}  // namespace lines_of_model_programs
