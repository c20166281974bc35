// Lines with keras.ops, and models as configs.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace kops = lockstep::keras::ops;
namespace layers = lockstep::layers;
using ls::Tensor;

namespace {

TEST(KerasOps, OfTensors) {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  EXPECT_EQ(float(kops::sum(x)), 10);
  EXPECT_EQ(floats(kops::sum(x, 0)), (std::vector<float>{4, 6}));
  EXPECT_EQ(kops::sum(x, {.axis = -1, .keepdims = true}).shape(), (ls::Shape{2, 1}));
  EXPECT_EQ(floats(kops::mean(x, {0, 1})), (std::vector<float>{2.5}));
  EXPECT_EQ(kops::concatenate({x, x}, {.axis = 1}).shape(), (ls::Shape{2, 4}));
  EXPECT_EQ(kops::concatenate({x, x}, -1).shape(), (ls::Shape{2, 4}));
  EXPECT_EQ(kops::stack({x, x}).shape(), (ls::Shape{2, 2, 2}));
  EXPECT_EQ(kops::reshape(x, {4, 1}).shape(), (ls::Shape{4, 1}));
  EXPECT_EQ(kops::transpose(x, {1, 0}).shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(kops::expand_dims(x, -1).shape(), (ls::Shape{2, 2, 1}));
  EXPECT_EQ(floats(kops::add(x, 1)), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(floats(kops::maximum(x, 2.5)), (std::vector<float>{2.5, 2.5, 3, 4}));
  EXPECT_EQ(floats(kops::matmul(x, x)), (std::vector<float>{7, 10, 15, 22}));
  EXPECT_EQ(floats(kops::einsum("ij,jk->ik", x, x)), (std::vector<float>{7, 10, 15, 22}));
  EXPECT_EQ(floats(kops::where(kops::greater(x, 2.0), x, 0.0)), (std::vector<float>{0, 0, 3, 4}));
  EXPECT_EQ(kops::cast(x, ls::int32).dtype(), ls::DType::kInt32);
  EXPECT_EQ(kops::cast(x, "float16").dtype(), ls::DType::kFloat16);
  EXPECT_EQ(floats(kops::pad(x, {{1, 0}, {0, 0}})), (std::vector<float>{0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(kops::split(x, 2, {.axis = 1})[1].shape(), (ls::Shape{2, 1}));
  EXPECT_EQ(kops::arange(3).dtype(), ls::DType::kInt32);
  EXPECT_EQ(floats(kops::arange(0.0, 1.0, 0.5)), (std::vector<float>{0, 0.5}));
  EXPECT_EQ(floats(kops::one_hot(kops::cast(Tensor{0, 1}, "int32"), 2)), (std::vector<float>{1, 0, 0, 1}));
  EXPECT_FLOAT_EQ(float(kops::logsumexp(x)), 4.4401897F);
  EXPECT_EQ(float(kops::sum(ls::Variable(Tensor{1.0, 2.0}))), 3);
  EXPECT_THROW((void)kops::sum(x, "first"), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)kops::expand_dims(x, 7), ls::Error);
}

TEST(KerasOps, OfSymbolicTensors) {
  const auto inputs = keras::Input({4});
  const Tensor x = layers::Dense(3, {.kernel_initializer = "ones"})(inputs);
  const Tensor y = kops::concatenate({kops::softmax(x), kops::square(x)}, {.axis = -1});
  const keras::Model model(inputs, kops::mean(y, {.axis = 1, .keepdims = true}));
  const auto again = keras::model_from_json(model.to_json());
  again.set_weights(model.get_weights());
  const Tensor data = {{1.0, 2.0, 3.0, 4.0}};
  EXPECT_EQ(model(data).shape(), (ls::Shape{1, 1}));
  EXPECT_EQ(float(model(data)), float(again(data)));
  EXPECT_FLOAT_EQ(float(model(data)), 301.0F / 6);
  std::vector<std::string> classes;
  for (const auto& layer : again.layers()) classes.push_back(layer->class_name());
  EXPECT_EQ(classes.size(), model.layers().size());
  EXPECT_EQ(again.to_json(), model.to_json());
}

TEST(Configs, ModelsAndLayers) {
  keras::Sequential model({layers::Input({2}), layers::Dense(3, {.activation = "relu", .name = "d"})});
  model.compile({.optimizer = ls::optimizers::Adam(0.5), .loss = "mse"});
  const auto same = keras::models::model_from_json(model.to_json());
  EXPECT_EQ(same.get_config(), model.get_config());
  EXPECT_EQ(same.optimizer().learning_rate(), 0.5F);
  EXPECT_FALSE(keras::model_from_json(model.to_json(), {.compile = false}).compiled());
  EXPECT_EQ(keras::Sequential::from_config(model.get_config()).count_params(), 9);
  const auto input = keras::Input({2});
  const keras::Model functional(input, layers::Dense(1)(input));
  EXPECT_EQ(keras::Model::from_config(functional.get_config()).count_params(), 3);
  const auto layer = layers::Dense(5, {.activation = "tanh"});
  EXPECT_EQ(layer.from_config(layer.get_config()).get_config(), layer.get_config());
  EXPECT_EQ(layers::deserialize(layers::serialize(layer)).get_config(), layer.get_config());
  EXPECT_THROW((void)keras::model_from_json("{"), ls::Error);
  EXPECT_THROW((void)keras::model_from_json("{}"), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)keras::model_from_json("[1]"), ls::errors::InvalidArgumentError);
}

TEST(Lines, ListsAndNumbersAsInPython) {
  EXPECT_EQ(ls::utils::pad_sequences({{1, 2, 3}, {4}}).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{1, 2, 3, 0, 0, 4}));
  EXPECT_EQ(ls::utils::pad_sequences({{0.5}, {1.5, 2.5}}, {.dtype = ls::float32}).shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(float(ls::nn::compute_average_loss({1.0, 2.0}, 6)), 0.5F);
  EXPECT_EQ(ls::ops::range(3.0).dtype(), ls::DType::kFloat32);
  EXPECT_EQ(floats(ls::ops::range(2.5)), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(ls::ops::range(3).dtype(), ls::DType::kInt32);
  const auto dot = layers::Dot(1)({Tensor{{1.0, 2.0}}, Tensor{{3.0, 4.0}}});
  EXPECT_EQ(float(dot), 11);
  EXPECT_EQ(ls::strings::split(Tensor{"a-b", "c"}, "-"), (std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}}));
}

TEST(KerasOps, PlacesWhereAConditionIsTrue) {
  const auto places = keras::ops::where(ls::ops::constant({{1, 0}, {5, 7}}) > 2);
  EXPECT_EQ(places[0].to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(places[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1}));
}

TEST(KerasOps, RearrangesAxesByAPattern) {
  const Tensor x = kops::reshape(kops::arange(0, 24, 1, "float32"), {2, 4, 3});
  const Tensor y = kops::rearrange(x, "b (h g) c -> (b g) (h c)", {{"g", 2}});
  EXPECT_EQ(y.shape(), (ls::Shape{4, 6}));
  EXPECT_EQ(floats(y),
            (std::vector<float>{0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11, 12, 13, 14, 18, 19, 20, 15, 16, 17, 21, 22, 23}));
  const auto inputs = keras::Input({4, 3});
  const keras::Model model(inputs, kops::rearrange(inputs, "b (h g) c -> b g (h c)", {{"g", 2}}));
  EXPECT_EQ(floats(kops::reshape(model(x), {4, 6})), floats(y));
  const auto message = [&](const std::string& pattern) {
    try {
      kops::rearrange(x, pattern, {{"g", 3}});
    } catch (const ls::errors::InvalidArgumentError& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(message("b (h g) c -> b h g c"), "keras.ops: Rearrange: axis 1 of extent 4 cannot be divided into (h g)");
  EXPECT_EQ(message("b h c -> b h"), "keras.ops: Rearrange: each axis must be on both sides of \"b h c -> b h\" once");
  EXPECT_EQ(message("b h -> h b"), "keras.ops: Rearrange: pattern \"b h -> h b\" is of 2 axes, the tensor has 3");
  EXPECT_EQ(message("b h c d"), "keras.ops: Rearrange: pattern \"b h c d\" has no ->");
}

// The shapes are Keras's.
TEST(KerasOps, ProductsOfVectors) {
  const auto shape = [](const ls::Shape& a, const ls::Shape& b) {
    return kops::matmul(kops::ones(a), kops::ones(b)).shape();
  };
  EXPECT_EQ(shape({2, 3}, {3}), (ls::Shape{2}));
  EXPECT_EQ(shape({3}, {3, 2}), (ls::Shape{2}));
  EXPECT_EQ(shape({3}, {3}), ls::Shape{});
  EXPECT_EQ(shape({2, 2, 3}, {3}), (ls::Shape{2, 2}));
  EXPECT_EQ(shape({3}, {2, 3, 2}), (ls::Shape{2, 2}));
}

}  // namespace
