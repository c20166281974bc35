// Which of the layers in a call train: those of Keras 3.15, where the argument of one is passed on to those after it.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::ops;
using ls::Tensor;

namespace training_of_calls {

bool has_zeros(const Tensor& x) { return ops::reduce_any(ops::equal(x, 0.0)).item<bool>(); }
bool moved(const keras::LayerHandle& norm) {
  return ops::reduce_any(ops::not_equal(norm.non_trainable_weights().at(0), 0.0)).item<bool>();
}

// Dropout with this argument, batch normalization and dropout without one, of the same input.
class Three : public keras::Model {
 public:
  explicit Three(std::optional<bool> first) : first_(first) { track("a", a_), track("norm", norm), track("b", b_); }
  keras::Structure call(const keras::Structure& x, const keras::CallContext&) override {
    const Tensor first = a_(x, {.training = first_}), second = norm(x), third = b_(x);
    return keras::Structure::list({first, second, third});
  }
  keras::LayerHandle norm = layers::BatchNormalization({.momentum = 0.5});

 private:
  std::optional<bool> first_;
  keras::LayerHandle a_ = layers::Dropout(0.5, {.seed = 1}), b_ = layers::Dropout(0.5, {.seed = 2});
};

// 1 for each of the three that trained.
std::string trained(Three& model, const keras::Structure& outputs) {
  const auto& [first, second, third] = outputs.parts<3>();
  return std::string(has_zeros(first) ? "1" : "0") + (moved(model.norm) ? "1" : "0") + (has_zeros(third) ? "1" : "0");
}
Tensor input() { return ops::cast(ops::reshape(ops::range(1, 25), {4, 6}), ls::DType::kFloat32); }
std::string called(std::optional<bool> first, std::optional<bool> training) {
  Three model(first);
  return trained(model, model(input(), {.training = training}));
}

TEST(TrainingOfCalls, IsPassedOnToTheLayersAfter) {
  EXPECT_EQ(called({}, {}), "000");
  EXPECT_EQ(called({}, true), "111");
  EXPECT_EQ(called({}, false), "000");
  EXPECT_EQ(called(true, {}), "111");
  EXPECT_EQ(called(true, false), "111");
  EXPECT_EQ(called(false, true), "000");
  Three model(true);
  EXPECT_EQ(trained(model, model.predict(input())), "111");
}

TEST(TrainingOfCalls, OfFunctionalModels) {
  const auto x = keras::Input({6});
  const auto after = layers::BatchNormalization({.momentum = 0.5}),
             apart = layers::BatchNormalization({.momentum = 0.5});
  const auto first = after(layers::Dropout(0.5, {.seed = 1})(x, {.training = true}));
  const auto second = apart(layers::Dropout(0.5, {.seed = 2})(first));  // whose node has the argument false
  const keras::Model model(x, second);
  model(input(), {.training = false});
  model.predict(input());
  EXPECT_FALSE(moved(after));
  model(input());
  EXPECT_TRUE(moved(after));
  EXPECT_FALSE(moved(apart));
}

TEST(TrainingOfCalls, LayersOfImagesTrainByDefault) {
  for (const keras::LayerHandle& first :
       {keras::LayerHandle(layers::RandomContrast(0.1)), keras::LayerHandle(layers::Resizing(3, 3)),
        keras::LayerHandle(layers::Rescaling(2.0))}) {
    const auto norm = layers::BatchNormalization();
    const auto x = keras::Input({4, 4, 3});
    const keras::Model model(x, norm(first(x)));
    model.predict(ops::ones({2, 4, 4, 3}));
    EXPECT_FALSE(moved(norm)) << first.class_name();
    model(ops::ones({2, 4, 4, 3}));
    EXPECT_EQ(moved(norm), first.class_name() != "Rescaling") << first.class_name();
  }
}

// A convolution before the normalization, which are one computation where nothing trains. Keras's numbers.
TEST(TrainingOfCalls, ConvolutionsAfterLayersThatTrainByDefault) {
  const Tensor images = ops::reshape(ops::cast(ops::range(16), ls::float32), {1, 4, 4, 1});
  const auto mean_after = [&](auto model, const keras::LayerHandle& norm) {
    model.predict(images);
    EXPECT_FALSE(moved(norm));
    model(images);
    return norm.weight("moving_mean").value().to_vector<float>();
  };
  const auto conv = [] { return layers::Conv2D(2, 1, {.kernel_initializer = "ones"}); };
  const auto x = keras::Input({4, 4, 1});
  const auto norm = layers::BatchNormalization({.momentum = 0.5}),
             other = layers::BatchNormalization({.momentum = 0.5});
  EXPECT_EQ(mean_after(keras::Model(x, norm(conv()(layers::Resizing(2, 2)(x)))), norm),
            (std::vector<float>{3.75, 3.75}));
  EXPECT_EQ(mean_after(keras::Sequential({x, layers::Resizing(2, 2), conv(), other, layers::MaxPooling2D(2)}), other),
            (std::vector<float>{3.75, 3.75}));
}

// call(self, x) of Python: fit() calls it without training, and layers inherit what another call gives it.
class Inherits : public keras::Model {
 public:
  keras::Structure call(const keras::Structure& x) override { return drop(norm(x)); }
  keras::LayerHandle norm = track("norm", layers::BatchNormalization());
  keras::LayerHandle drop = track("drop", layers::Dropout(0.5, {.seed = 3}));
};
class InheritsInOwnStep : public Inherits {
 public:
  keras::Results train_step(const keras::Structure& data) override {
    const auto& [x, y] = data;
    return {{"own", compute_loss({.y = y, .y_pred = (*this)(x, {.training = true})})}};
  }
};
TEST(TrainingOfCalls, IsInheritedFromACallOfInputsOnly) {
  const Tensor x = ops::ones({2, 4});
  Inherits model;
  model.compile("sgd", "mse");
  model.fit(x, x, {.verbose = 0});
  EXPECT_FALSE(moved(model.norm));
  EXPECT_FALSE(has_zeros(model(x)));
  EXPECT_TRUE(has_zeros(model(x, {.training = true})));
  EXPECT_TRUE(moved(model.norm));
  InheritsInOwnStep stepping;
  stepping.compile("sgd", "mse");
  EXPECT_EQ(stepping.fit(x, x, {.verbose = 0})["own"].at(0), 1.0);
  EXPECT_TRUE(moved(stepping.norm));
}

}  // namespace training_of_calls
