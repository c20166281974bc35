// Lines of vision programs: arguments by position, functions of keras.ops as activations.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;
using ls::Tensor;

namespace lines_of_other_programs {

// The first layer gives the dtype of the input, which Keras calls its compute_dtype: string, string, int64.
TEST(OtherProgramLines, SequentialModelsBeginWithLayersOfTexts) {
  const auto vectorize = layers::TextVectorization({.max_tokens = 10, .output_sequence_length = 3});
  vectorize.adapt(Tensor{"good movie", "bad movie"});
  const keras::Sequential model({vectorize, layers::Embedding(10, 2), layers::GlobalAveragePooling1D()});
  EXPECT_EQ(model.predict(Tensor{"a good movie", "bad"}, {.verbose = 0}).shape(), ls::Shape({2, 2}));
  EXPECT_EQ(model.inputs()[0].dtype(), ls::string);
  const keras::Sequential words({layers::StringLookup({.vocabulary = {"a"}}), layers::Rescaling(1.0)});
  EXPECT_EQ(numbers(words(Tensor{"a", "b"})), (Numbers{1, 0}));
  EXPECT_EQ(words.inputs()[0].dtype(), ls::string);
  const keras::Sequential integers({layers::IntegerLookup({.vocabulary = {7}}), layers::Rescaling(1.0)});
  EXPECT_EQ(numbers(integers(Tensor{7, 8})), (Numbers{1, 0}));
  EXPECT_EQ(integers.inputs()[0].dtype(), ls::int64);
}

TEST(OtherProgramLines, PaddingAndStridesByPosition) {
  const Tensor x = ls::ops::ones({1, 5, 5, 2});
  EXPECT_EQ(layers::MaxPooling2D(3, 2, "same")(x).shape(), ls::Shape({1, 3, 3, 2}));
  EXPECT_EQ(layers::AveragePooling2D({3, 3}, {2, 2}, "valid")(x).shape(), ls::Shape({1, 2, 2, 2}));
  EXPECT_EQ(layers::Conv2D(4, 3, 2, "same")(x).shape(), ls::Shape({1, 3, 3, 4}));
  EXPECT_EQ(layers::Conv2D(4, {3, 3}, {1, 1}, "same", {.activation = "relu"})(x).shape(), ls::Shape({1, 5, 5, 4}));
  EXPECT_EQ(layers::Conv2DTranspose(4, 2, 2, "valid", {.use_bias = false})(x).shape(), ls::Shape({1, 10, 10, 4}));
}

// keras.ops.gelu approximates, keras.activations.gelu does not.
TEST(OtherProgramLines, FunctionsOfSeveralOverloadsAsActivations) {
  const Tensor x = {{0.5, -1.0}};
  const auto same = [&](const Tensor& a, const Tensor& b) { return numbers(a) == numbers(b); };
  EXPECT_NEAR(numbers(layers::Activation(kops::gelu)(x))[1], -0.158808, 1e-6);
  EXPECT_NEAR(numbers(layers::Activation(keras::activations::gelu)(x))[1], -0.158655, 1e-6);
  EXPECT_TRUE(same(layers::Lambda(kops::leaky_relu)(x), kops::leaky_relu(x)));
  EXPECT_TRUE(same(layers::Lambda(ls::nn::gelu)(x), ls::nn::gelu(x)));
  EXPECT_EQ(layers::Dense(2, {.activation = kops::softmax})(x).shape(), ls::Shape({1, 2}));
}

TEST(OtherProgramLines, DrawsOfAShapeMadeInALoop) {
  const Tensor x = ls::ops::ones({2, 3, 4});
  std::vector<ls::Extent> shape = {kops::shape(x)[0]};
  for (int i = 1; i < x.ndim(); ++i) shape.push_back(1);
  EXPECT_EQ(keras::random::uniform(ls::ShapeArg(shape), 0, 1, {.seed = 3}).shape(), ls::Shape({2, 1, 1}));
  EXPECT_EQ(numbers(keras::random::normal({2}, 1.0, 0.5, {.seed = 3})),
            numbers(keras::random::normal({2}, {.mean = 1.0, .stddev = 0.5, .seed = 3})));
}

TEST(OtherProgramLines, CheckpointsThatAreMadeLater) {
  ls::train::Checkpoint checkpoint;
  const ls::Variable v(1.0);
  checkpoint = ls::train::Checkpoint({{"v", v}});
  const auto folder = std::filesystem::temp_directory_path() / ("later_" + std::to_string(getpid()));
  const auto path = checkpoint.save((folder / "ckpt").string());
  v.assign(2.0);
  checkpoint.restore(path).assert_consumed();
  EXPECT_EQ(float(v), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace lines_of_other_programs
