// DenseNet (Huang et al. 2017).
#include "lockstep/applications/building_internal.h"

namespace lockstep::applications {
namespace {

constexpr std::int64_t kGrowth = 32;

Tensor dense_norm_relu(const Tensor& x, const std::string& norm, const std::string& relu) {
  return act(batch_norm(x, norm, {.axis = 3, .epsilon = 1.001e-5}), "relu", relu);
}

keras::Model densenet(const std::string& architecture, const std::string& name, const std::vector<int>& blocks,
                      const ApplicationOptions& o) {
  const Tensor input = start(architecture, o, 224, 32);
  Tensor x = conv(pad(input, 3), 64, 7, {.strides = 2, .use_bias = false, .name = "conv1_conv"});
  x = pad(dense_norm_relu(x, "conv1_bn", "conv1_relu"), 1);
  x = layers::MaxPooling2D({.pool_size = 3, .strides = 2, .name = "pool1"})(x);
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int i = 1; i <= blocks[stage]; ++i) {
      const std::string block = fmt::format("conv{}_block{}", stage + 2, i);
      Tensor y = dense_norm_relu(x, block + "_0_bn", block + "_0_relu");
      y = conv(y, 4 * kGrowth, 1, {.use_bias = false, .name = block + "_1_conv"});
      y = dense_norm_relu(y, block + "_1_bn", block + "_1_relu");
      y = conv(y, kGrowth, 3, {.padding = "same", .use_bias = false, .name = block + "_2_conv"});
      x = layers::concatenate({x, y}, {.axis = 3, .name = block + "_concat"});
    }
    if (stage + 1 == blocks.size()) break;
    const std::string transition = fmt::format("pool{}", stage + 2);
    x = dense_norm_relu(x, transition + "_bn", transition + "_relu");
    x = conv(x, x.dim(3) / 2, 1, {.use_bias = false, .name = transition + "_conv"});
    x = layers::AveragePooling2D({.pool_size = 2, .strides = 2, .name = transition + "_pool"})(x);
  }
  return finish(input, classify(dense_norm_relu(x, "bn", "relu"), o, pool_names()), o, name);
}

}  // namespace

keras::Model DenseNet121(ApplicationOptions options) {
  return densenet("DenseNet121", "densenet121", {6, 12, 24, 16}, options);
}
keras::Model DenseNet169(ApplicationOptions options) {
  return densenet("DenseNet169", "densenet169", {6, 12, 32, 32}, options);
}
keras::Model DenseNet201(ApplicationOptions options) {
  return densenet("DenseNet201", "densenet201", {6, 12, 48, 32}, options);
}

}  // namespace lockstep::applications
