// Xception (Chollet 2017).
#include "lockstep/applications/building_internal.h"

namespace lockstep::applications {
namespace {

Tensor plain_norm(const Tensor& x, const std::string& name = {}) { return batch_norm(x, name, {}); }

Tensor separable_unit(const Tensor& x, std::int64_t filters, const std::string& name) {
  const Tensor y = layers::SeparableConv2D(filters, 3, {.padding = "same", .use_bias = false, .name = name})(x);
  return plain_norm(y, name + "_bn");
}

// A block that halves the image, with a shortcut of a convolution.
Tensor halving(Tensor x, std::int64_t first, std::int64_t second, int block, bool starts_with_relu) {
  const std::string prefix = fmt::format("block{}", block);
  const Tensor shortcut = plain_norm(conv(x, second, 1, {.strides = 2, .padding = "same", .use_bias = false}));
  if (starts_with_relu) x = act(x, "relu", prefix + "_sepconv1_act");
  x = separable_unit(x, first, prefix + "_sepconv1");
  x = separable_unit(act(x, "relu", prefix + "_sepconv2_act"), second, prefix + "_sepconv2");
  x = layers::MaxPooling2D({.pool_size = 3, .strides = 2, .padding = "same", .name = prefix + "_pool"})(x);
  return layers::add({x, shortcut});
}

}  // namespace

keras::Model Xception(ApplicationOptions o) {
  const Tensor input = start("Xception", o, 299, 71);
  Tensor x =
      plain_norm(conv(input, 32, 3, {.strides = 2, .use_bias = false, .name = "block1_conv1"}), "block1_conv1_bn");
  x = act(x, "relu", "block1_conv1_act");
  x = plain_norm(conv(x, 64, 3, {.use_bias = false, .name = "block1_conv2"}), "block1_conv2_bn");
  x = act(x, "relu", "block1_conv2_act");
  x = halving(x, 128, 128, 2, false);
  x = halving(x, 256, 256, 3, true);
  x = halving(x, 728, 728, 4, true);
  for (int block = 5; block < 13; ++block) {
    const Tensor shortcut = x;
    for (int i = 1; i <= 3; ++i) {
      const std::string name = fmt::format("block{}_sepconv{}", block, i);
      x = separable_unit(act(x, "relu", name + "_act"), 728, name);
    }
    x = layers::add({x, shortcut});
  }
  x = halving(x, 728, 1024, 13, true);
  x = act(separable_unit(x, 1536, "block14_sepconv1"), "relu", "block14_sepconv1_act");
  x = act(separable_unit(x, 2048, "block14_sepconv2"), "relu", "block14_sepconv2_act");
  return finish(input, classify(x, o, {.average = "avg_pool"}), o, "xception");
}

}  // namespace lockstep::applications
