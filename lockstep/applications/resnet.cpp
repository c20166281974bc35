// ResNet (He et al. 2015) and ResNetV2 (He et al. 2016).
#include "lockstep/applications/building_internal.h"

namespace lockstep::applications {
namespace {

Tensor residual_norm(const Tensor& x, const std::string& name) {
  return batch_norm(x, name, {.axis = 3, .epsilon = 1.001e-5});
}
Tensor residual_norm_relu(const Tensor& x, const std::string& name) {
  return act(residual_norm(x, name + "_bn"), "relu", name + "_relu");
}

Tensor block_v1(Tensor x, std::int64_t filters, int stride, bool first, const std::string& name) {
  Tensor shortcut = x;
  if (first) {
    shortcut = conv(x, 4 * filters, 1, {.strides = stride, .name = name + "_0_conv"});
    shortcut = residual_norm(shortcut, name + "_0_bn");
  }
  x = residual_norm_relu(conv(x, filters, 1, {.strides = stride, .name = name + "_1_conv"}), name + "_1");
  x = residual_norm_relu(conv(x, filters, 3, {.padding = "same", .name = name + "_2_conv"}), name + "_2");
  x = residual_norm(conv(x, 4 * filters, 1, {.name = name + "_3_conv"}), name + "_3_bn");
  return act(layers::add({shortcut, x}, {.name = name + "_add"}), "relu", name + "_out");
}

Tensor block_v2(Tensor x, std::int64_t filters, int stride, bool first, const std::string& name) {
  const Tensor before = residual_norm_relu(x, name + "_preact");
  Tensor shortcut = x;
  if (first) {
    shortcut = conv(before, 4 * filters, 1, {.strides = stride, .name = name + "_0_conv"});
  } else if (stride > 1) {
    shortcut = layers::MaxPooling2D({.pool_size = 1, .strides = stride})(x);
  }
  x = residual_norm_relu(conv(before, filters, 1, {.strides = 1, .use_bias = false, .name = name + "_1_conv"}),
                         name + "_1");
  x = pad(x, 1, name + "_2_pad");
  x = residual_norm_relu(conv(x, filters, 3, {.strides = stride, .use_bias = false, .name = name + "_2_conv"}),
                         name + "_2");
  x = conv(x, 4 * filters, 1, {.name = name + "_3_conv"});
  return layers::add({shortcut, x}, {.name = name + "_out"});
}

keras::Model resnet(const std::string& architecture, const std::string& name, const std::vector<int>& blocks,
                    bool second_version, const ApplicationOptions& o) {
  const Tensor input = start(architecture, o, 224, 32);
  Tensor x = conv(pad(input, 3, "conv1_pad"), 64, 7, {.strides = 2, .name = "conv1_conv"});
  if (!second_version) x = residual_norm_relu(x, "conv1");
  x = layers::MaxPooling2D({.pool_size = 3, .strides = 2, .name = "pool1_pool"})(pad(x, 1, "pool1_pad"));
  for (std::size_t stack = 0; stack < blocks.size(); ++stack) {
    const std::int64_t filters = 64LL << stack;
    for (int i = 1; i <= blocks[stack]; ++i) {
      const std::string block = fmt::format("conv{}_block{}", stack + 2, i);
      if (second_version) {  // the last block of a stack halves the image
        x = block_v2(x, filters, i == blocks[stack] && stack + 1 < blocks.size() ? 2 : 1, i == 1, block);
      } else {
        x = block_v1(x, filters, i == 1 && stack > 0 ? 2 : 1, i == 1, block);
      }
    }
  }
  if (second_version) x = residual_norm_relu(x, "post");
  return finish(input, classify(x, o, pool_names()), o, name);
}

}  // namespace

keras::Model ResNet50(ApplicationOptions options) {
  return resnet("ResNet50", "resnet50", {3, 4, 6, 3}, false, options);
}
keras::Model ResNet101(ApplicationOptions options) {
  return resnet("ResNet101", "resnet101", {3, 4, 23, 3}, false, options);
}
keras::Model ResNet152(ApplicationOptions options) {
  return resnet("ResNet152", "resnet152", {3, 8, 36, 3}, false, options);
}
keras::Model ResNet50V2(ApplicationOptions options) {
  return resnet("ResNet50V2", "resnet50v2", {3, 4, 6, 3}, true, options);
}
keras::Model ResNet101V2(ApplicationOptions options) {
  return resnet("ResNet101V2", "resnet101v2", {3, 4, 23, 3}, true, options);
}
keras::Model ResNet152V2(ApplicationOptions options) {
  return resnet("ResNet152V2", "resnet152v2", {3, 8, 36, 3}, true, options);
}

}  // namespace lockstep::applications
