#include "lockstep/applications/applications.h"

#include <map>
#include <span>

#include <unistd.h>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "lockstep/base/json.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::applications {
namespace {

// A line for each layer, as of tests/judged/keras_architectures.py.
std::string lines_of(const keras::Model& model) {
  std::string text;
  for (const keras::LayerHandle& layer : model.layers()) {
    text += fmt::format("{} {} ", layer->class_name(), layer.name());
    bool first = true;
    for (const keras::VariablePtr& weight : layer->weights()) {
      if (!first) text += ' ';
      first = false;
      text += fmt::format("{}", fmt::join(weight->shape().dims(), "x"));
    }
    text += '\n';
  }
  return text;
}

TEST(Applications, LayersAndWeightsAreThoseOfKeras) {
  const Json expected = parse_json(
      io::read_text(io::posix_file_system(), LOCKSTEP_SOURCE_DIR "/tests/judged/keras_architectures.json"), "golden");
  EXPECT_EQ(expected.size(), names().size());
  for (const std::string& name : names()) {
    keras::reset_auto_names();
    const keras::LoadScope without_values(std::int64_t{4} << 30);
    const keras::Model model = make(name);
    const Json& row = expected[name];
    EXPECT_EQ(model.name(), row["name"].get<std::string>());
    EXPECT_EQ(model.layers().size(), row["layers"].get<std::size_t>()) << name;
    EXPECT_EQ(model.count_params(), row["parameters"].get<std::int64_t>()) << name;
    const std::string text = lines_of(model);
    EXPECT_EQ(io::crc32(std::as_bytes(std::span(text))), row["checksum"].get<std::uint32_t>()) << name << '\n' << text;
  }
}

std::string refusal(const std::string& name, const ArchitectureOptions& options) {
  try {
    make(name, options);
  } catch (const errors::InvalidArgumentError& error) {
    return error.message();
  }
  return "nothing was refused";
}

TEST(Applications, ArgumentsThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal("MobilNetV2", {}),
            "unknown architecture 'MobilNetV2' (did you mean 'MobileNetV2'?); 'lockstep new' lists all of them");
  EXPECT_EQ(refusal("ResNet50", {.common = {.classes = 0}}), "ResNet50: classes is 0, expected at least 1");
  EXPECT_EQ(refusal("ResNet50", {.alpha = 0.5}), "ResNet50 has no argument 'alpha'");
  EXPECT_EQ(refusal("ResNet50", {.common = {.input_shape = {16, 64, 3}}}),
            "ResNet50: input_shape is (16, 64, 3), expected height and width of at least 32 and at least one channel");
  EXPECT_EQ(refusal("ResNet50", {.common = {.input_shape = {64, 64}}}),
            "ResNet50: input_shape has 2 numbers, expected height, width, channels");
  EXPECT_EQ(refusal("VGG16", {.common = {.input_shape = {kUnknownDim, 64, 3}}}),
            "VGG16: input_shape requires a height and a width where include_top is true");
  EXPECT_EQ(refusal("VGG16", {.common = {.include_top = false, .pooling = "sum"}}),
            "VGG16: pooling is 'sum', expected 'avg', 'max' or nothing");
  EXPECT_EQ(refusal("VGG16", {.common = {.weights = "imagenet"}}),
            "VGG16: weights 'imagenet' would have to be downloaded; give the file with them, or nothing for random "
            "weights");
}

// Numbers of keras.applications.imagenet_utils.preprocess_input.
TEST(Applications, InputsArePreprocessedAsInKeras) {
  const Tensor x = Tensor::from_vector(std::vector<float>{0, 10, 255, 100.5, 128, 3}, Shape{1, 1, 2, 3});
  const std::map<std::string, std::vector<float>> expected = {
      {"tf", {-1.0f, -0.9215686f, 1.0f, -0.21176469f, 0.003921628f, -0.9764706f}},
      {"torch", {-2.1179039f, -1.8606442f, 2.6400001f, -0.3968662f, 0.2051822f, -1.7521569f}},
      {"caffe", {151.061f, -106.779f, -123.68f, -100.939f, 11.221001f, -23.18f}}};
  for (const auto& [mode, values] : expected) {
    const std::vector<float> found = preprocess_input(x, mode).to_vector<float>();
    const std::vector<float> first =
        ops::transpose(preprocess_input(ops::transpose(x, {0, 3, 1, 2}), mode, "channels_first"), {0, 2, 3, 1})
            .to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(found[i], values[i], 2e-5) << mode;
      EXPECT_NEAR(first[i], values[i], 2e-5) << mode;
    }
  }
  EXPECT_EQ(preprocess_input(ops::cast(x, DType::kUInt8), "tf").dtype(), DType::kFloat32);
  EXPECT_THROW(preprocess_input(x, "imagenet"), errors::InvalidArgumentError);
  EXPECT_THROW(preprocess_input(x, "caffe", "channels_first"), errors::InvalidArgumentError);
}

TEST(Applications, PredictionsGetTheNamesOfTheirClasses) {
  const std::string path = testing::TempDir() + "lockstep_class_index_" + std::to_string(getpid()) + ".json";
  io::write_atomically(path, R"({"0": ["n0", "tench"], "1": ["n1", "goldfish"], "2": ["n2", "shark"]})");
  const Tensor predictions = Tensor::from_vector(std::vector<float>{0.2f, 0.5f, 0.3f, 0.75f, 0.0f, 0.25f}, Shape{2, 3});
  const auto rows = decode_predictions(predictions, path, 2);
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(rows[0].size(), 2u);
  EXPECT_EQ(rows[0][0].id, "n1");
  EXPECT_EQ(rows[0][0].description, "goldfish");
  EXPECT_FLOAT_EQ(rows[0][0].score, 0.5f);
  EXPECT_EQ(rows[0][1].description, "shark");
  EXPECT_EQ(rows[1][0].description, "tench");
  EXPECT_EQ(rows[1][1].description, "shark");
  EXPECT_EQ(decode_predictions(predictions, path, 9)[0].size(), 3u);
  io::write_atomically(path, R"({"0": ["n0", "tench"], "1": "goldfish"})");
  EXPECT_THROW(decode_predictions(predictions, path), errors::InvalidArgumentError);
  EXPECT_THROW(decode_predictions(predictions, path, 0), errors::InvalidArgumentError);
  io::posix_file_system().remove_file(path);
}

}  // namespace
}  // namespace lockstep::applications
