// ConvNeXt (Liu et al. 2022).
#include "lockstep/applications/building_internal.h"

namespace lockstep::applications {
namespace {

Tensor convnext_block(const Tensor& input, std::int64_t width, const std::string& name) {
  Tensor x = conv(input, width, 7, {.padding = "same", .groups = width, .name = name + "_depthwise_conv"});
  x = layers::LayerNormalization({.epsilon = 1e-6, .name = name + "_layernorm"})(x);
  x = layers::Dense(4 * width, {.name = name + "_pointwise_conv_1"})(x);
  x = act(x, "gelu", name + "_gelu");
  x = layers::Dense(width, {.name = name + "_pointwise_conv_2"})(x);
  x = layers::LayerScale(1e-6, width, {.name = name + "_layer_scale"})(x);
  return input + act(x, "linear", name + "_identity");
}

keras::Model convnext(const std::string& architecture, const std::string& default_name, const std::vector<int>& depths,
                      std::int64_t width, const PreprocessingOptions& options) {
  const ApplicationOptions o = common_of(options);
  const std::string name = o.name.empty() ? default_name : o.name;
  const Tensor input = start(architecture, o, 224, 32);
  Tensor x = input;
  if (options.include_preprocessing && input.dim(3) == 3) {
    const auto squared = [](double deviation) { return deviation * 255 * (deviation * 255); };
    x = layers::Normalization({.mean = {0.485 * 255, 0.456 * 255, 0.406 * 255},
                               .variance = {squared(0.229), squared(0.224), squared(0.225)},
                               .name = name + "_prestem_normalization"})(x);
  }
  const auto norm = [](const std::string& layer) {
    return layers::LayerNormalization({.epsilon = 1e-6, .name = layer});
  };
  // Made before the blocks, as Keras makes them: random weights follow from the order.
  std::vector<keras::Sequential> reductions;
  reductions.push_back(keras::Sequential(
      {layers::Conv2D(width, 4, {.strides = 4, .name = name + "_stem_conv"}), norm(name + "_stem_layernorm")},
      name + "_stem"));
  for (int i = 0; i < 3; ++i) {
    reductions.push_back(keras::Sequential(
        {norm(fmt::format("{}_downsampling_layernorm_{}", name, i)),
         layers::Conv2D(width << (i + 1), 2, {.strides = 2, .name = fmt::format("{}_downsampling_conv_{}", name, i)})},
        fmt::format("{}_downsampling_block_{}", name, i)));
  }
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    x = reductions[stage](x);
    for (int i = 0; i < depths[stage]; ++i)
      x = convnext_block(x, width << stage, fmt::format("{}_stage_{}_block_{}", name, stage, i));
  }
  if (o.include_top) {
    x = layers::GlobalAveragePooling2D({.name = name + "_head_gap"})(x);
    x = norm(name + "_head_layernorm")(x);
    x = layers::Dense(o.classes, {.activation = o.classifier_activation, .name = name + "_head_dense"})(x);
  } else {
    x = norm("")(pooled(x, o, "", ""));
  }
  return finish(input, x, o, name);
}

}  // namespace

keras::Model ConvNeXtTiny(PreprocessingOptions options) {
  return convnext("ConvNeXtTiny", "convnext_tiny", {3, 3, 9, 3}, 96, options);
}
keras::Model ConvNeXtSmall(PreprocessingOptions options) {
  return convnext("ConvNeXtSmall", "convnext_small", {3, 3, 27, 3}, 96, options);
}
keras::Model ConvNeXtBase(PreprocessingOptions options) {
  return convnext("ConvNeXtBase", "convnext_base", {3, 3, 27, 3}, 128, options);
}
keras::Model ConvNeXtLarge(PreprocessingOptions options) {
  return convnext("ConvNeXtLarge", "convnext_large", {3, 3, 27, 3}, 192, options);
}
keras::Model ConvNeXtXLarge(PreprocessingOptions options) {
  return convnext("ConvNeXtXLarge", "convnext_xlarge", {3, 3, 27, 3}, 256, options);
}

}  // namespace lockstep::applications
