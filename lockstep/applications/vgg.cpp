// VGG16 and VGG19 (Simonyan and Zisserman 2015).
#include "lockstep/applications/building_internal.h"

namespace lockstep::applications {
namespace {

keras::Model vgg(const std::string& name, const std::vector<int>& convolutions, const ApplicationOptions& o) {
  const Tensor input = start(name == "vgg16" ? "VGG16" : "VGG19", o, 224, 32);
  Tensor x = input;
  for (std::size_t block = 0; block < convolutions.size(); ++block) {
    const std::int64_t filters = std::min<std::int64_t>(64LL << block, 512);
    for (int i = 1; i <= convolutions[block]; ++i) {
      x = conv(x, filters, 3,
               {.activation = "relu", .padding = "same", .name = fmt::format("block{}_conv{}", block + 1, i)});
    }
    x = layers::MaxPooling2D({.pool_size = 2, .strides = 2, .name = fmt::format("block{}_pool", block + 1)})(x);
  }
  if (!o.include_top) return finish(input, pooled(x, o, "", ""), o, name);
  x = layers::Flatten({.name = "flatten"})(x);
  x = layers::Dense(4096, {.activation = "relu", .name = "fc1"})(x);
  x = layers::Dense(4096, {.activation = "relu", .name = "fc2"})(x);
  x = layers::Dense(o.classes, {.activation = o.classifier_activation, .name = "predictions"})(x);
  return finish(input, x, o, name);
}

}  // namespace

keras::Model VGG16(ApplicationOptions options) { return vgg("vgg16", {2, 2, 3, 3, 3}, options); }
keras::Model VGG19(ApplicationOptions options) { return vgg("vgg19", {2, 2, 4, 4, 4}, options); }

}  // namespace lockstep::applications
