// keras.applications: well-known architectures for images, with the names, weights and configs of Keras's.
//
//   auto model = applications::MobileNetV2({.input_shape = {96, 96, 3}, .classes = 5});
//
// Models are made with random weights, or with those of a file, under the current strategy. Errors: InvalidArgument for
// arguments that do not fit the architecture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/activations.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::applications {

// Options of all architectures. Some have more, in structs of their own, in the order of Keras's signatures.
struct ApplicationOptions {
  bool include_top = true;                            // the layers that classify
  std::optional<std::string> weights = std::nullopt;  // a file of weights; nothing: random ones
  std::vector<std::int64_t> input_shape = {};         // (height, width, channels), kUnknownDim for any extent;
                                                      // default: the architecture's, without top any extents
  std::optional<std::string> pooling = std::nullopt;  // without top: "avg" or "max"; nothing: the last image
  std::int64_t classes = 1000;
  activations::ActivationArg classifier_activation = "softmax";  // {}: logits
  std::string name = {};
};
// Inputs have values from 0 to 255, which the model scales by itself with include_preprocessing.
struct PreprocessingOptions {
  bool include_top = true;
  std::optional<std::string> weights = std::nullopt;
  std::vector<std::int64_t> input_shape = {};
  std::optional<std::string> pooling = std::nullopt;
  std::int64_t classes = 1000;
  activations::ActivationArg classifier_activation = "softmax";
  bool include_preprocessing = true;
  std::string name = {};
};
struct MobileNetOptions {
  std::vector<std::int64_t> input_shape = {};
  double alpha = 1.0;  // factor of the numbers of filters
  std::int64_t depth_multiplier = 1;
  double dropout = 0.001;
  bool include_top = true;
  std::optional<std::string> weights = std::nullopt;
  std::optional<std::string> pooling = std::nullopt;
  std::int64_t classes = 1000;
  activations::ActivationArg classifier_activation = "softmax";
  std::string name = {};
};
struct MobileNetV2Options {
  std::vector<std::int64_t> input_shape = {};
  double alpha = 1.0;
  bool include_top = true;
  std::optional<std::string> weights = std::nullopt;
  std::optional<std::string> pooling = std::nullopt;
  std::int64_t classes = 1000;
  activations::ActivationArg classifier_activation = "softmax";
  std::string name = {};
};
struct MobileNetV3Options {
  std::vector<std::int64_t> input_shape = {};  // default: any extents
  double alpha = 1.0;
  bool minimalistic = false;  // without squeeze-and-excite, hard-swish and kernels of 5
  bool include_top = true;
  std::optional<std::string> weights = std::nullopt;
  std::int64_t classes = 1000;
  std::optional<std::string> pooling = std::nullopt;
  double dropout_rate = 0.2;
  activations::ActivationArg classifier_activation = "softmax";
  bool include_preprocessing = true;
  std::string name = {};
};

keras::Model ConvNeXtTiny(PreprocessingOptions options = {});
keras::Model ConvNeXtSmall(PreprocessingOptions options = {});
keras::Model ConvNeXtBase(PreprocessingOptions options = {});
keras::Model ConvNeXtLarge(PreprocessingOptions options = {});
keras::Model ConvNeXtXLarge(PreprocessingOptions options = {});
keras::Model DenseNet121(ApplicationOptions options = {});
keras::Model DenseNet169(ApplicationOptions options = {});
keras::Model DenseNet201(ApplicationOptions options = {});
keras::Model EfficientNetB0(ApplicationOptions options = {});
keras::Model EfficientNetB1(ApplicationOptions options = {});
keras::Model EfficientNetB2(ApplicationOptions options = {});
keras::Model EfficientNetB3(ApplicationOptions options = {});
keras::Model EfficientNetB4(ApplicationOptions options = {});
keras::Model EfficientNetB5(ApplicationOptions options = {});
keras::Model EfficientNetB6(ApplicationOptions options = {});
keras::Model EfficientNetB7(ApplicationOptions options = {});
keras::Model EfficientNetV2B0(PreprocessingOptions options = {});
keras::Model EfficientNetV2B1(PreprocessingOptions options = {});
keras::Model EfficientNetV2B2(PreprocessingOptions options = {});
keras::Model EfficientNetV2B3(PreprocessingOptions options = {});
keras::Model EfficientNetV2S(PreprocessingOptions options = {});
keras::Model EfficientNetV2M(PreprocessingOptions options = {});
keras::Model EfficientNetV2L(PreprocessingOptions options = {});
keras::Model InceptionResNetV2(ApplicationOptions options = {});
keras::Model InceptionV3(ApplicationOptions options = {});
keras::Model MobileNet(MobileNetOptions options = {});
keras::Model MobileNetV2(MobileNetV2Options options = {});
keras::Model MobileNetV3Large(MobileNetV3Options options = {});
keras::Model MobileNetV3Small(MobileNetV3Options options = {});
keras::Model NASNetLarge(ApplicationOptions options = {});
keras::Model NASNetMobile(ApplicationOptions options = {});
keras::Model ResNet50(ApplicationOptions options = {});
keras::Model ResNet101(ApplicationOptions options = {});
keras::Model ResNet152(ApplicationOptions options = {});
keras::Model ResNet50V2(ApplicationOptions options = {});
keras::Model ResNet101V2(ApplicationOptions options = {});
keras::Model ResNet152V2(ApplicationOptions options = {});
keras::Model VGG16(ApplicationOptions options = {});
keras::Model VGG19(ApplicationOptions options = {});
keras::Model Xception(ApplicationOptions options = {});

// The arguments of an architecture that is chosen by its name. Those that it does not have are rejected where they are
// given.
struct ArchitectureOptions {
  ApplicationOptions common = {};
  std::optional<double> alpha = std::nullopt;                // MobileNets
  std::optional<bool> include_preprocessing = std::nullopt;  // as of PreprocessingOptions
  std::optional<bool> minimalistic = std::nullopt;           // MobileNetV3
};
// Throws InvalidArgument for an unknown name, with the nearest known one.
keras::Model make(const std::string& architecture, const ArchitectureOptions& options = {});
// Of all architectures.
std::vector<std::string> names();

// How images with values from 0 to 255 become the inputs of an architecture: scaled to -1 to 1 ("tf"), to 0 to 1 and
// then normalized by ImageNet's means and deviations ("torch"), or from RGB to BGR minus ImageNet's means ("caffe").
// x: (batch, height, width, 3) or (height, width, 3), or with "channels_first".
Tensor preprocess_input(const Tensor& x, const std::string& mode, const std::string& data_format = "channels_last");
// The mode of an architecture, empty where its inputs need no preprocessing.
std::string preprocessing_mode(const std::string& architecture);

struct ClassPrediction {
  std::string id;           // "n02123045"
  std::string description;  // "tabby"
  float score = 0;
};
// The `top` most probable classes of each row of predictions (batch, classes), best first. `class_index` is a JSON file
// {"0": ["n01440764", "tench"], …}, such as Keras's imagenet_class_index.json.
std::vector<std::vector<ClassPrediction>> decode_predictions(const Tensor& predictions, const std::string& class_index,
                                                             std::int64_t top = 5);

// preprocess_input() of a mode; with an empty one, the images as they are.
Tensor preprocessed(const Tensor& x, const std::string& mode);

}  // namespace lockstep::applications
