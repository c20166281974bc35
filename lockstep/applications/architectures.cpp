// Architectures by name.
#include <functional>
#include <map>

#include <fmt/format.h>

#include "lockstep/applications/applications.h"
#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"

namespace lockstep::applications {
namespace {

// Moves the arguments that were given into an architecture's own options.
template <typename Options>
Options options_of(const std::string& name, const ArchitectureOptions& given) {
  Options o;
  const ApplicationOptions& common = given.common;
  o.include_top = common.include_top;
  o.weights = common.weights;
  o.input_shape = common.input_shape;
  o.pooling = common.pooling;
  o.classes = common.classes;
  o.classifier_activation = common.classifier_activation;
  o.name = common.name;
  const auto fail = [&](const char* argument) {
    throw_invalid_argument(fmt::format("{} has no argument '{}'", name, argument));
  };
  if (given.alpha) {
    if constexpr (requires { o.alpha; }) {
      o.alpha = *given.alpha;
    } else {
      fail("alpha");
    }
  }
  if (given.include_preprocessing) {
    if constexpr (requires { o.include_preprocessing; }) {
      o.include_preprocessing = *given.include_preprocessing;
    } else {
      fail("include_preprocessing");
    }
  }
  if (given.minimalistic) {
    if constexpr (requires { o.minimalistic; }) {
      o.minimalistic = *given.minimalistic;
    } else {
      fail("minimalistic");
    }
  }
  return o;
}

struct Row {
  std::function<keras::Model(const ArchitectureOptions&)> make;
  std::string preprocessing;
};

class Table {
 public:
  Table() {
    add("ConvNeXtBase", ConvNeXtBase, "");
    add("ConvNeXtLarge", ConvNeXtLarge, "");
    add("ConvNeXtSmall", ConvNeXtSmall, "");
    add("ConvNeXtTiny", ConvNeXtTiny, "");
    add("ConvNeXtXLarge", ConvNeXtXLarge, "");
    add("DenseNet121", DenseNet121, "torch");
    add("DenseNet169", DenseNet169, "torch");
    add("DenseNet201", DenseNet201, "torch");
    add("EfficientNetB0", EfficientNetB0, "");
    add("EfficientNetB1", EfficientNetB1, "");
    add("EfficientNetB2", EfficientNetB2, "");
    add("EfficientNetB3", EfficientNetB3, "");
    add("EfficientNetB4", EfficientNetB4, "");
    add("EfficientNetB5", EfficientNetB5, "");
    add("EfficientNetB6", EfficientNetB6, "");
    add("EfficientNetB7", EfficientNetB7, "");
    add("EfficientNetV2B0", EfficientNetV2B0, "");
    add("EfficientNetV2B1", EfficientNetV2B1, "");
    add("EfficientNetV2B2", EfficientNetV2B2, "");
    add("EfficientNetV2B3", EfficientNetV2B3, "");
    add("EfficientNetV2L", EfficientNetV2L, "");
    add("EfficientNetV2M", EfficientNetV2M, "");
    add("EfficientNetV2S", EfficientNetV2S, "");
    add("InceptionResNetV2", InceptionResNetV2, "tf");
    add("InceptionV3", InceptionV3, "tf");
    add("MobileNet", MobileNet, "tf");
    add("MobileNetV2", MobileNetV2, "tf");
    add("MobileNetV3Large", MobileNetV3Large, "");
    add("MobileNetV3Small", MobileNetV3Small, "");
    add("NASNetLarge", NASNetLarge, "tf");
    add("NASNetMobile", NASNetMobile, "tf");
    add("ResNet101", ResNet101, "caffe");
    add("ResNet101V2", ResNet101V2, "tf");
    add("ResNet152", ResNet152, "caffe");
    add("ResNet152V2", ResNet152V2, "tf");
    add("ResNet50", ResNet50, "caffe");
    add("ResNet50V2", ResNet50V2, "tf");
    add("VGG16", VGG16, "caffe");
    add("VGG19", VGG19, "caffe");
    add("Xception", Xception, "tf");
  }
  const Row& find(const std::string& name) const {
    const auto found = rows_.find(name);
    if (found == rows_.end())
      throw_invalid_argument(fmt::format("unknown architecture '{}'{}; 'lockstep new' lists all of them", name,
                                         did_you_mean(name, names())));
    return found->second;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, row] : rows_) all.push_back(name);
    return all;
  }

 private:
  template <typename Options>
  void add(const std::string& name, keras::Model (*make)(Options), std::string preprocessing) {
    rows_[name] = {[name, make](const ArchitectureOptions& given) { return make(options_of<Options>(name, given)); },
                   std::move(preprocessing)};
  }
  std::map<std::string, Row> rows_;
};

const Table& table() {
  static const auto* const all = new Table;
  return *all;
}

}  // namespace

keras::Model make(const std::string& architecture, const ArchitectureOptions& options) {
  return table().find(architecture).make(options);
}
std::vector<std::string> names() { return table().names(); }
std::string preprocessing_mode(const std::string& architecture) { return table().find(architecture).preprocessing; }

}  // namespace lockstep::applications
