// Lines of Keras's code examples, as literally as C++ permits.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;
namespace ops = lockstep::ops;
using ls::Tensor;
using ls::data::Dataset;

namespace {

template <typename Error>
std::string error_as(const std::function<void()>& line) {
  try {
    line();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error of this kind";
}

TEST(ExampleLines, ArgumentsByPositionAndByName) {
  const auto pooling = layers::MaxPooling2D({.pool_size = {3, 2}, .strides = {2, 2}, .padding = "same"});
  EXPECT_EQ(pooling.get_config().at("pool_size").dump(), "[3,2]");
  EXPECT_EQ(pooling.get_config().at("strides").dump(), "[2,2]");
  EXPECT_EQ(layers::MaxPooling2D({2, 2}).get_config().at("strides").dump(), "[2,2]");
  EXPECT_EQ(layers::AveragePooling1D(3, {.strides = 1}).get_config().at("strides").dump(), "[1]");
  EXPECT_EQ(layers::UpSampling2D({.size = {2, 3}}).get_config().at("size").dump(), "[2,3]");
  EXPECT_EQ(layers::UpSampling2D(2, {.interpolation = "bilinear"}).get_config().at("size").dump(), "[2,2]");
  const std::vector<int> kernel = {5, 3};
  EXPECT_EQ(layers::Conv2D(4, kernel, {.strides = std::pair(2, 1)}).get_config().at("kernel_size").dump(), "[5,3]");
  EXPECT_EQ(floats(layers::LeakyReLU(0.5)(Tensor{-2.0, 2.0})), (std::vector<float>{-1, 2}));
  EXPECT_EQ(floats(layers::ReLU(6)(Tensor{-2.0, 8.0})), (std::vector<float>{0, 6}));
  EXPECT_EQ(layers::Softmax(1).get_config().at("axis"), 1);
  EXPECT_EQ(layers::Concatenate(1).get_config().at("axis"), 1);
}

TEST(ExampleLines, ModelsHaveNamesAndShapes) {
  const auto x = keras::Input({4});
  EXPECT_EQ(keras::Model(x, layers::Dense(2)(x), {.name = "encoder"}).name(), "encoder");
  EXPECT_EQ(keras::Model(x, layers::Dense(2)(x), "decoder").name(), "decoder");
  const auto model = keras::Sequential({keras::Input({4}), layers::Dense(3)}, {.trainable = false, .name = "head"});
  EXPECT_EQ(model.name(), "head");
  EXPECT_EQ(model.output_shape().leaf(), (ls::Shape{ls::kUnknownDim, 3}));
  EXPECT_EQ(model.input_shape().leaf(), (ls::Shape{ls::kUnknownDim, 4}));
  EXPECT_TRUE(model.trainable_variables().empty());
  keras::Model later;
  EXPECT_EQ(error_as<ls::errors::FailedPreconditionError>([&] { later.summary(); }),
            "the model is empty: it was default-constructed, and no model has been assigned to it");
  later = model;
  EXPECT_EQ(later.count_params(), 15);
}

TEST(ExampleLines, StructuresOfOneTensorAreUsedLikeIt) {
  const auto model = keras::Sequential({keras::Input({2}), layers::Dense(3, {.kernel_initializer = "ones"})});
  auto predictions = model.predict(Tensor{{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}, {.verbose = 0});
  EXPECT_EQ(floats(predictions[0]), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(float(predictions[-1][0]), 11);
  EXPECT_EQ((predictions[{0, 2}].shape()), (ls::Shape{2, 3}));
  EXPECT_EQ(floats(predictions.index({ls::all, 1})), (std::vector<float>{3, 7, 11}));
  predictions *= 2;
  EXPECT_EQ(float(predictions[1][2]), 14);
  EXPECT_EQ(floats(model({{1.0, 1.0}})), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(error_as<ls::errors::OutOfRangeError>([&] {
              (void)ls::data::Element{predictions, predictions}[2];
            }),
            "a list of 2 has no item 2");
}

TEST(ExampleLines, ShapesHaveExtentsOfTensors) {
  const Tensor x = ops::ones({5, 4});
  const auto batch = ops::shape(x)[0];
  EXPECT_EQ(kops::ones({batch, 1}).shape(), (ls::Shape{5, 1}));
  EXPECT_EQ(ops::fill({2, batch}, 3).shape(), (ls::Shape{2, 5}));
  EXPECT_EQ(kops::reshape(x, {batch, 2, -1}).shape(), (ls::Shape{5, 2, 2}));
  EXPECT_EQ(ops::reshape(x, ops::shape(ops::ones({2, 10}))).shape(), (ls::Shape{2, 10}));
  EXPECT_EQ(ops::reshape(x, ops::ones({4, 5}).shape()).shape(), (ls::Shape{4, 5}));
  EXPECT_EQ(kops::tile(x, {1, batch}).shape(), (ls::Shape{5, 20}));
  EXPECT_EQ(floats(kops::arange(0, batch, 2)), (std::vector<float>{0, 2, 4}));
  EXPECT_EQ(floats(ls::random::normal({batch}, {.seed = 3})), floats(ls::random::normal({5}, {.seed = 3})));
  EXPECT_EQ(error_as<ls::errors::InvalidArgumentError>([&] {
              ops::ones({ops::ones({2}), 1});
            }),
            "invalid extent of a shape: found a float32 tensor of shape (2,), expected int32 or int64 of shape ()");
  EXPECT_EQ(floats(kops::nn::relu(Tensor{-1.0, 1.0})), (std::vector<float>{0, 1}));
}

class Sampling : public layers::Layer {
 public:
  Sampling() : Layer("Sampling") {}
  keras::Structure call(const keras::Structure& inputs, const keras::CallContext&) override {
    const auto& [z_mean, z_log_var] = inputs;
    const auto batch = kops::shape(z_mean)[0];
    const auto dim = kops::shape(z_mean)[1];
    const auto epsilon = keras::random::normal({batch, dim}, {.seed = seed_generator_});
    return z_mean + kops::exp(0.5 * z_log_var) * epsilon;
  }

 private:
  keras::random::SeedGenerator seed_generator_{1337};
};

// The number of rows is not known while the model is built; in a graph the program that runs it draws.
TEST(ExampleLines, LayersDrawForEachRowOfABatchOfAnySize) {
  const auto x = keras::Input({3});
  const keras::Model encoder(x, keras::make_layer<Sampling>()({layers::Dense(2)(x), layers::Dense(2)(x)}));
  EXPECT_EQ(encoder.output_shape().leaf(), (ls::Shape{ls::kUnknownDim, 2}));
  const Tensor first = encoder(ops::ones({4, 3})), second = encoder(ops::ones({4, 3}));
  EXPECT_EQ(first.shape(), (ls::Shape{4, 2}));
  EXPECT_NE(floats(first), floats(second));
  const std::string folder = std::filesystem::temp_directory_path() / ("lockstep_sampling_" + std::to_string(getpid()));
  ls::saved_model::save(encoder, folder);
  EXPECT_EQ(ls::saved_model::load(folder).signatures("serving_default")(ops::ones({7, 3})).begin()->second.shape(),
            (ls::Shape{7, 2}));
  std::filesystem::remove_all(folder);
}

TEST(ExampleLines, SeedGeneratorsAreArguments) {
  keras::random::SeedGenerator seed_generator(42);
  const auto first = floats(keras::random::normal({3}, {.seed = seed_generator}));
  EXPECT_NE(floats(keras::random::normal({3}, {.seed = seed_generator})), first);
  EXPECT_EQ(floats(keras::random::normal({3}, {.seed = keras::random::SeedGenerator(42)})), first);
}

class GAN : public keras::Model {
 public:
  explicit GAN(const keras::Model& generator) : generator(track("generator", generator)) {}
  keras::Results train_step(const keras::Batch&) override { return {{"loss", 1.0}}; }
  keras::Model generator;
};

class Monitor : public keras::callbacks::Callback {
 public:
  void on_epoch_end(int, keras::Logs&) override { images = model<GAN>().generator(ops::ones({2, 3})); }
  Tensor images;
};

TEST(ExampleLines, CallbacksReachTheModelsOwnMembers) {
  GAN gan(keras::Sequential({keras::Input({3}), layers::Dense(4)}));
  EXPECT_EQ(gan.impl()->class_name(), "GAN");
  EXPECT_EQ(gan.trainable_variables().size(), 2);
  EXPECT_EQ((gan.trainable_variables() + gan.generator.trainable_variables()).size(), 4);
  gan.compile();
  Monitor monitor;
  gan.fit(ops::ones({4, 3}), {.verbose = 0, .callbacks = {monitor}});
  EXPECT_EQ(monitor.images.shape(), (ls::Shape{2, 4}));
  const keras::Sequential other({keras::Input({3}), layers::Dense(1)}, {.name = "other"});
  other.compile({.loss = "mse"});
  EXPECT_EQ(
      error_as<ls::errors::InvalidArgumentError>([&] {
        other.fit(ops::ones({4, 3}), ops::ones({4, 1}), {.verbose = 0, .callbacks = {monitor}});
      }),
      "callback Monitor: model 'other' is a Sequential, model<GAN>() requires an object of that class, which exists "
      "while fit runs");
}

TEST(ExampleLines, CheckpointsHoldListsAndDicts) {
  const std::string folder = std::filesystem::temp_directory_path() / ("lockstep_lists_" + std::to_string(getpid()));
  const ls::Variable a(1.0), b(2.0), c(5.0);
  const ls::train::Checkpoint saved({{"listed", {a, b}}, {"mapped", {{"one", a}, {"c", c}}}});
  const std::string path = saved.save(folder + "/list");
  const ls::Variable restored_b(0.0), restored_c(0.0);
  const ls::train::Checkpoint other({{"listed", {ls::Variable(0.0), restored_b}}, {"mapped", {{"c", restored_c}}}});
  other.restore(path).expect_partial();
  EXPECT_EQ(float(restored_b), 2);
  EXPECT_EQ(float(restored_c), 5);
  std::filesystem::remove_all(folder);
}

TEST(ExampleLines, IteratorsGiveOneElementAfterTheOther) {
  auto iterator = Dataset::range(2).begin();
  EXPECT_EQ(int(Tensor(*iterator++)), 0);
  EXPECT_EQ(int(Tensor(*iterator++)), 1);
  EXPECT_EQ(error_as<ls::errors::OutOfRangeError>([&] { (void)*iterator++; }), "the dataset has no more elements");

  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto distributed = strategy.experimental_distribute_dataset(Dataset::range(8).batch(4)).begin();
  const auto sum = [&](const auto& batch) {
    return int(strategy.reduce(ls::distribute::ReduceOp::kSum,
                               strategy.run([](const Tensor& x) { return ops::reduce_sum(x); }, batch)));
  };
  EXPECT_EQ(sum(*distributed++), 6);
  EXPECT_EQ(sum(*distributed++), 22);
  EXPECT_EQ(error_as<ls::errors::OutOfRangeError>([&] { (void)*distributed++; }),
            "the distributed dataset has no more elements");
}

TEST(ExampleLines, EmptyFunctionsAreArgumentsThatAreWrong) {
  const std::function<Tensor(const Tensor&, const Tensor&)> loss;
  const std::function<Tensor(const Tensor&)> map;
  const std::function<double()> rate;
  const std::function<Dataset(const ls::distribute::InputContext&)> input;
  const std::function<void()> step;
  const auto model = keras::Sequential({keras::Input({1}), layers::Dense(1)});
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const std::vector<std::function<void()>> lines = {
      [&] { model.compile({.loss = loss}); },
      [&] { model.compile({.metrics = {loss}}); },
      [&] { layers::Dense(1, {.activation = map}); },
      [&] { Dataset::range(3).map(map); },
      [&] { Dataset::from_generator(std::function<Dataset::Generator()>(), {}); },
      [&] { (void)*Dataset::from_generator([] { return Dataset::Generator(); }, ls::data::TensorSpec{}).begin(); },
      [&] { keras::optimizers::SGD(rate); },
      [&] { strategy.distribute_datasets_from_function(input); },
      [&] { strategy.run(step); },
  };
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_NE(error_as<ls::errors::InvalidArgumentError>(lines[i]).find("function"), std::string::npos) << i;
}

}  // namespace
