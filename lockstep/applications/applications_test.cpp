#include "lockstep/applications/applications.h"

#include <span>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "lockstep/base/json.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/naming_internal.h"

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

}  // namespace
}  // namespace lockstep::applications
