// Lines of Keras's guides on layers, preprocessing, training and strategies, as literally as C++ permits. Expected
// numbers: Keras 3.15.
#include <gtest/gtest.h>

#include <sstream>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::layers;
namespace ops = lockstep::ops;
using ls::Tensor;

// Named: units of a build hold several files.
namespace keras_lines {

class ComputeSum : public keras::layers::Layer {
 public:
  explicit ComputeSum(int input_dim) : Layer("ComputeSum") {
    total = add_weight({.shape = {input_dim}, .initializer = "zeros", .trainable = false});
  }
  keras::Structure call(const keras::Structure& inputs, const keras::CallContext&) override {
    total.assign_add(ops::reduce_sum(inputs, 0));
    return total;
  }
  ls::Variable total;
};

TEST(KerasLines, ACustomLayerKeepsItsMembers) {
  const auto my_sum = keras::make_layer<ComputeSum>(2);
  EXPECT_EQ(numbers(my_sum(ops::ones({2, 2}))), (std::vector<double>{2, 2}));
  EXPECT_EQ(numbers(my_sum(ops::ones({2, 2}))), (std::vector<double>{4, 4}));
  EXPECT_EQ(numbers(my_sum->total), (std::vector<double>{4, 4}));
  const keras::LayerHandle handle = my_sum;
  EXPECT_EQ(handle.weights().size(), 1);
  const keras::CustomLayer<ComputeSum> empty;
  EXPECT_THROW(empty->total, ls::errors::FailedPreconditionError);
}

// Two texts in braces are two tokens, and not a range of characters.
TEST(KerasLines, VocabulariesAreWrittenInBraces) {
  const auto two = layers::StringLookup({.vocabulary = {"a", "b"}});
  EXPECT_EQ(numbers(two({"b", "a", "z"})), (std::vector<double>{2, 1, 0}));
  const auto four = layers::StringLookup({.vocabulary = {"a", "b", "c", "d"}});
  EXPECT_EQ(numbers(four({{"a", "c", "d"}, {"d", "z", "b"}})), (std::vector<double>{1, 3, 4, 4, 0, 2}));
  const auto inverse = layers::StringLookup({.vocabulary = layers::get_vocabulary(four, false), .invert = true});
  EXPECT_EQ(inverse({1, 4}).leaf().string_values(), (std::vector<std::string>{"a", "d"}));
  const auto integers = layers::IntegerLookup({.vocabulary = {10, 20}});
  EXPECT_EQ(numbers(integers({20, 10, 5})), (std::vector<double>{2, 1, 0}));
  EXPECT_EQ(numbers(layers::Hashing(64, {.salt = 1337})({{10}, {20}, {30}, {99}})),
            (std::vector<double>{14, 33, 50, 4}));
  EXPECT_EQ(numbers(layers::Discretization({.bin_boundaries = {0.0, 1.0}})({-1.0, 0.5, 2.0})),
            (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(numbers(layers::CategoryEncoding({.num_tokens = 4})({{0, 1}, {0, 0}})),
            (std::vector<double>{1, 1, 0, 0, 1, 0, 0, 0}));
  EXPECT_THROW(layers::StringLookup({.vocabulary = Tensor{1, 2}}), ls::errors::InvalidArgumentError);
}

TEST(KerasLines, AdaptedLayersAreThoseOfKeras) {
  const auto lookup = layers::StringLookup({.output_mode = "one_hot"});
  lookup.adapt(Tensor{{"a"}, {"b"}, {"c"}, {"b"}, {"c"}, {"a"}});
  EXPECT_EQ(numbers(lookup(Tensor{{"a"}, {"e"}})), (std::vector<double>{0, 0, 0, 1, 1, 0, 0, 0}));
  const auto text = layers::TextVectorization({.ngrams = 2, .output_mode = "tf_idf"});
  text.adapt(ls::data::Dataset::from_tensor_slices(
                 {"The Brain is wider than the Sky", "For put them side by side", "The one the other will contain"})
                 .batch(2));
  const auto weights = numbers(text(Tensor{"The Brain is deeper than the sea"}));
  EXPECT_NEAR(weights[0], 4.545463, 1e-6);
  EXPECT_NEAR(weights[1], 1.386294, 1e-6);
  EXPECT_EQ(weights[2], 0);
  EXPECT_THROW(layers::StringLookup()(Tensor{"a"}), ls::errors::FailedPreconditionError);
  EXPECT_THROW(layers::IntegerLookup({.invert = true})(Tensor{1}), ls::errors::FailedPreconditionError);
  EXPECT_THROW(layers::TextVectorization()(Tensor{"a b"}), ls::errors::FailedPreconditionError);
}

TEST(KerasLines, DtypesOfInputsAreNamesOrDtypes) {
  EXPECT_EQ(keras::Input({ls::kUnknownDim}, {.dtype = "int32"}).dtype(), ls::int32);
  EXPECT_EQ(keras::Input({ls::kUnknownDim}, {.dtype = ls::int64}).dtype(), ls::int64);
  EXPECT_THROW(keras::Input({1}, {.dtype = "int33"}), ls::errors::InvalidArgumentError);
}

TEST(KerasLines, ConfigsArePrinted) {
  std::ostringstream out;
  out << layers::Flatten({.name = "f"}).get_config()["name"];
  EXPECT_EQ(out.str(), "\"f\"");
}

TEST(KerasLines, TrainingLines) {
  keras::utils::set_random_seed(1);
  const auto inputs = keras::Input({3});
  const keras::Model model(inputs, layers::Dense(3, {.kernel_initializer = "ones"})(inputs));
  model.compile({.optimizer = keras::optimizers::SGD(0.1), .loss = "mse"});
  const auto history =
      model.fit(ops::ones({2, 3}), ops::zeros({2, 3}),
                {.epochs = 2, .verbose = 0, .callbacks = {keras::callbacks::LearningRateScheduler([](int epoch) {
                                              return 0.1 / (epoch + 1);
                                            })}});
  EXPECT_NEAR(history.history["loss"][0], 9, 1e-5);
  EXPECT_EQ(history.history["loss"], history["loss"]);
  EXPECT_THROW(history.history["mae"], ls::errors::NotFoundError);
  EXPECT_NEAR(float(model.optimizer().learning_rate()), 0.05, 1e-7);
  EXPECT_EQ(layers::RandomFlip("horizontal").get_config().at("mode"), "horizontal");
  for (const auto& [variable, value] : ls::zip(model.weights(), model.get_weights()))
    EXPECT_EQ(variable.shape(), value.shape());
}

// A loss of the model's own needs no targets.
TEST(KerasLines, FitWithoutTargets) {
  class Penalty : public keras::layers::Layer {
   public:
    Penalty() : Layer("Penalty") {}
    keras::Structure call(const keras::Structure& x, const keras::CallContext&) override {
      add_loss(1e-2 * ops::reduce_sum(x));
      return x;
    }
  };
  const auto inputs = keras::Input({3});
  const keras::Model model(inputs, keras::make_layer<Penalty>()(inputs));
  model.compile({.optimizer = "adam"});
  EXPECT_NEAR(model.fit(ops::ones({2, 3}), {.verbose = 0})["loss"][0], 0.06, 1e-7);
}

TEST(KerasLines, ResultsOfOneReplicaAreNumbers) {
  ls::distribute::OneDeviceStrategy one("/cpu:0");
  EXPECT_EQ(int(one.run([] { return Tensor::scalar(3); })), 3);
  ls::distribute::MirroredStrategy two({"/cpu:0", "/cpu:1"});
  EXPECT_THROW(int(two.run([] { return Tensor::scalar(3); })), ls::errors::FailedPreconditionError);
  int sum = 0;
  for (const auto& part : two.experimental_local_results(two.run([] { return Tensor::scalar(3); }))) sum += int(part);
  EXPECT_EQ(sum, 6);
}

TEST(KerasLines, OtherNamesAndStridesByPosition) {
  namespace layers = ls::keras::layers;
  const auto x = ls::ops::ones({1, 8, 8, 2});
  const auto shape_of = [&](const ls::keras::LayerHandle& layer) { return layer(x).leaf().shape(); };
  EXPECT_EQ(shape_of(layers::MaxPool2D(3, 2)), (ls::Shape{1, 3, 3, 2}));
  EXPECT_EQ(shape_of(layers::MaxPooling2D(3, 2, {.padding = "same"})), (ls::Shape{1, 4, 4, 2}));
  EXPECT_EQ(shape_of(layers::AveragePooling2D({2, 2}, {1, 1})), (ls::Shape{1, 7, 7, 2}));
  EXPECT_EQ(shape_of(layers::MaxPool2D()), (ls::Shape{1, 4, 4, 2}));
  EXPECT_EQ(shape_of(layers::AvgPool2D({4, 4})), (ls::Shape{1, 2, 2, 2}));
  EXPECT_EQ(shape_of(layers::GlobalAvgPool2D()), (ls::Shape{1, 2}));
  EXPECT_EQ(shape_of(layers::Convolution2D(4, {3, 3}, {.activation = "relu"})), (ls::Shape{1, 6, 6, 4}));
  EXPECT_EQ(shape_of(layers::Conv2D(4, 3, 2, {.padding = "same"})), (ls::Shape{1, 4, 4, 4}));
  EXPECT_EQ(shape_of(layers::Conv2D(4, {3, 3}, {2, 1})), (ls::Shape{1, 3, 6, 4}));
  EXPECT_EQ(shape_of(layers::Conv2D(4, 3, {.activation = "relu", .padding = "same"})), (ls::Shape{1, 8, 8, 4}));
  EXPECT_EQ(shape_of(layers::Conv2DTranspose(4, 3, 2, {.padding = "same"})), (ls::Shape{1, 16, 16, 4}));
}

}  // namespace keras_lines
