// EfficientNet (Tan and Le 2019) and EfficientNetV2 (Tan and Le 2021).
#include <cmath>

#include "lockstep/applications/building_internal.h"

namespace lockstep::applications {
namespace {

Json scaled_normal() {
  return {{"class_name", "VarianceScaling"},
          {"config", {{"scale", 2.0}, {"mode", "fan_out"}, {"distribution", "truncated_normal"}}}};
}
Json scaled_uniform() {
  return {{"class_name", "VarianceScaling"},
          {"config", {{"scale", 1.0 / 3.0}, {"mode", "fan_out"}, {"distribution", "uniform"}}}};
}
constexpr double kDropConnect = 0.2;

// Blocks of the same width.
struct Stack {
  int kernel, repeats, filters_in, filters_out, expansion;
  double excitation;  // of the block's input filters; 0: none
  int stride;
  bool fused;  // EfficientNetV2: one convolution instead of an expansion and a depthwise one
};

// One inverted residual block of either version.
struct Block {
  std::int64_t filters_in, filters_out;
  const Stack& stack;
  int stride;
  double drop_rate;
  std::string name;
  double momentum;  // of its batch normalization
  bool pads;        // the first version pads before convolutions with stride 2
};

Tensor scaled_norm(const Tensor& x, const std::string& name, double momentum) {
  return batch_norm(x, name, {.axis = 3, .momentum = momentum});
}
Tensor plain_conv(const Tensor& x, std::int64_t filters, int kernel, int stride, const std::string& name) {
  return conv(
      x, filters, kernel,
      {.strides = stride, .padding = "same", .use_bias = false, .kernel_initializer = scaled_normal(), .name = name});
}

Tensor excite(const Tensor& x, const Block& b) {
  const auto squeezed =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(b.filters_in) * b.stack.excitation));
  const auto part = [&](const Tensor& y, std::int64_t filters, const char* activation, const char* name) {
    return conv(
        y, filters, 1,
        {.activation = activation, .padding = "same", .kernel_initializer = scaled_normal(), .name = b.name + name});
  };
  Tensor se = layers::GlobalAveragePooling2D({.name = b.name + "se_squeeze"})(x);
  se = layers::Reshape({1, 1, x.dim(3)}, {.name = b.name + "se_reshape"})(se);
  se = part(part(se, squeezed, "swish", "se_reduce"), x.dim(3), "sigmoid", "se_expand");
  return layers::multiply({x, se}, {.name = b.name + "se_excite"});
}

Tensor block(const Tensor& input, const Block& b) {
  const std::int64_t filters = b.filters_in * b.stack.expansion;
  const int kernel = b.stack.kernel;
  Tensor x = input;
  if (b.stack.expansion != 1) {
    const bool wide = b.stack.fused;
    x = plain_conv(x, filters, wide ? kernel : 1, wide ? b.stride : 1, b.name + "expand_conv");
    x = act(scaled_norm(x, b.name + "expand_bn", b.momentum), "swish", b.name + "expand_activation");
  }
  if (!b.stack.fused) {
    const bool padded = b.pads && b.stride == 2;
    if (padded) x = pad(x, correct_pad(x, kernel), b.name + "dwconv_pad");
    x = layers::DepthwiseConv2D(kernel, {.strides = b.stride,
                                         .padding = padded ? "valid" : "same",
                                         .use_bias = false,
                                         .depthwise_initializer = scaled_normal(),
                                         .name = b.name + (b.pads ? "dwconv" : "dwconv2")})(x);
    x = act(scaled_norm(x, b.name + "bn", b.momentum), "swish", b.name + "activation");
  }
  if (b.stack.excitation > 0) x = excite(x, b);
  const bool only = b.stack.fused && b.stack.expansion == 1;  // the only convolution of the block
  x = plain_conv(x, b.filters_out, only ? kernel : 1, only ? b.stride : 1, b.name + "project_conv");
  x = scaled_norm(x, b.name + "project_bn", b.momentum);
  if (only) x = act(x, "swish", b.name + "project_activation");
  if (b.stride != 1 || b.filters_in != b.filters_out) return x;
  if (b.drop_rate > 0) {
    x = layers::Dropout(b.drop_rate,
                        {.noise_shape = std::vector<std::int64_t>{kUnknownDim, 1, 1, 1}, .name = b.name + "drop"})(x);
  }
  return layers::add({x, input}, {.name = b.name + "add"});
}

struct Scale {
  double width, depth;
  std::int64_t size;
  double dropout;
};

std::string block_name(std::size_t stack, int repeat) {
  return fmt::format("block{}{}_", stack + 1, static_cast<char>('a' + repeat));
}
int repeats_of(const Stack& stack, const Scale& scale) {
  return static_cast<int>(std::ceil(scale.depth * stack.repeats));
}

// The layers after the blocks.
keras::Model classified(const Tensor& input, Tensor x, std::int64_t filters, double momentum, double dropout,
                        layers::DenseOptions dense, const ApplicationOptions& o, const std::string& name) {
  x = act(scaled_norm(plain_conv(x, filters, 1, 1, "top_conv"), "top_bn", momentum), "swish", "top_activation");
  if (!o.include_top) return finish(input, pooled(x, o, "avg_pool", "max_pool"), o, name);
  x = layers::GlobalAveragePooling2D({.name = "avg_pool"})(x);
  x = layers::Dropout(dropout, {.name = "top_dropout"})(x);
  dense.activation = o.classifier_activation;
  dense.kernel_initializer = scaled_uniform();
  dense.name = "predictions";
  return finish(input, layers::Dense(o.classes, std::move(dense))(x), o, name);
}

keras::Model efficientnet(char variant, const Scale& scale, const ApplicationOptions& o) {
  static const std::vector<Stack> kStacks = {
      {3, 1, 32, 16, 1, 0.25, 1, false},   {3, 2, 16, 24, 6, 0.25, 2, false},  {5, 2, 24, 40, 6, 0.25, 2, false},
      {3, 3, 40, 80, 6, 0.25, 2, false},   {5, 3, 80, 112, 6, 0.25, 1, false}, {5, 4, 112, 192, 6, 0.25, 2, false},
      {3, 1, 192, 320, 6, 0.25, 1, false},
  };
  constexpr double kMomentum = 0.99;
  const Tensor input = start(fmt::format("EfficientNetB{}", variant), o, scale.size, 32);
  const auto rounded = [&](int filters) { return divisible(filters * scale.width); };
  Tensor x = layers::Rescaling(1.0 / 255.0)(input);
  x = layers::Normalization({.axis = std::vector<std::int64_t>{3}})(x);
  x = conv(pad(x, correct_pad(x, 3), "stem_conv_pad"), rounded(32), 3,
           {.strides = 2, .use_bias = false, .kernel_initializer = scaled_normal(), .name = "stem_conv"});
  x = act(scaled_norm(x, "stem_bn", kMomentum), "swish", "stem_activation");
  int total = 0, number = 0;
  for (const Stack& stack : kStacks) total += repeats_of(stack, scale);
  for (std::size_t i = 0; i < kStacks.size(); ++i) {
    const Stack& stack = kStacks[i];
    for (int j = 0; j < repeats_of(stack, scale); ++j, ++number) {
      x = block(x, {rounded(j > 0 ? stack.filters_out : stack.filters_in), rounded(stack.filters_out), stack,
                    j > 0 ? 1 : stack.stride, kDropConnect * number / total, block_name(i, j), kMomentum, true});
    }
  }
  return classified(input, x, rounded(1280), kMomentum, scale.dropout, {}, o, fmt::format("efficientnetb{}", variant));
}

const std::vector<Stack> kStacksB = {
    {3, 1, 32, 16, 1, 0, 1, true},     {3, 2, 16, 32, 4, 0, 2, true},      {3, 2, 32, 48, 4, 0, 2, true},
    {3, 3, 48, 96, 4, 0.25, 2, false}, {3, 5, 96, 112, 6, 0.25, 1, false}, {3, 8, 112, 192, 6, 0.25, 2, false},
};
const std::vector<Stack> kStacksS = {
    {3, 2, 24, 24, 1, 0, 1, true},      {3, 4, 24, 48, 4, 0, 2, true},       {3, 4, 48, 64, 4, 0, 2, true},
    {3, 6, 64, 128, 4, 0.25, 2, false}, {3, 9, 128, 160, 6, 0.25, 1, false}, {3, 15, 160, 256, 6, 0.25, 2, false},
};
const std::vector<Stack> kStacksM = {
    {3, 3, 24, 24, 1, 0, 1, true},       {3, 5, 24, 48, 4, 0, 2, true},        {3, 5, 48, 80, 4, 0, 2, true},
    {3, 7, 80, 160, 4, 0.25, 2, false},  {3, 14, 160, 176, 6, 0.25, 1, false}, {3, 18, 176, 304, 6, 0.25, 2, false},
    {3, 5, 304, 512, 6, 0.25, 1, false},
};
const std::vector<Stack> kStacksL = {
    {3, 4, 32, 32, 1, 0, 1, true},       {3, 7, 32, 64, 4, 0, 2, true},        {3, 7, 64, 96, 4, 0, 2, true},
    {3, 10, 96, 192, 4, 0.25, 2, false}, {3, 19, 192, 224, 6, 0.25, 1, false}, {3, 25, 224, 384, 6, 0.25, 2, false},
    {3, 7, 384, 640, 6, 0.25, 1, false},
};

keras::Model efficientnet_v2(const std::string& architecture, const std::string& name, const std::vector<Stack>& stacks,
                             const Scale& scale, const PreprocessingOptions& options) {
  constexpr double kMomentum = 0.9;
  const ApplicationOptions o = common_of(options);
  const Tensor input = start(architecture, o, scale.size, 32);
  const auto rounded = [&](int filters) {
    return std::max<std::int64_t>(8, static_cast<std::int64_t>(filters * scale.width + 4) / 8 * 8);
  };
  Tensor x = input;
  if (options.include_preprocessing && &stacks == &kStacksB && input.dim(3) == 3) {
    x = layers::Rescaling(1.0 / 255)(x);
    x = layers::Normalization({.axis = std::vector<std::int64_t>{3},
                               .mean = {0.485, 0.456, 0.406},
                               .variance = {0.229 * 0.229, 0.224 * 0.224, 0.225 * 0.225}})(x);
  } else if (options.include_preprocessing) {
    x = layers::Rescaling(1.0 / 128.0, {.offset = -1})(x);
  }
  x = plain_conv(x, rounded(stacks[0].filters_in), 3, 2, "stem_conv");
  x = act(scaled_norm(x, "stem_bn", kMomentum), "swish", "stem_activation");
  int total = 0, number = 0;
  for (const Stack& stack : stacks) total += stack.repeats;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const Stack& stack = stacks[i];
    for (int j = 0; j < repeats_of(stack, scale); ++j, ++number) {
      x = block(x, {rounded(j > 0 ? stack.filters_out : stack.filters_in), rounded(stack.filters_out), stack,
                    j > 0 ? 1 : stack.stride, kDropConnect * number / total, block_name(i, j), kMomentum, false});
    }
  }
  return classified(input, x, rounded(1280), kMomentum, scale.dropout,
                    {.bias_initializer = initializers::Constant(0.0)}, o, name);
}

}  // namespace

keras::Model EfficientNetB0(ApplicationOptions o) { return efficientnet('0', {1.0, 1.0, 224, 0.2}, o); }
keras::Model EfficientNetB1(ApplicationOptions o) { return efficientnet('1', {1.0, 1.1, 240, 0.2}, o); }
keras::Model EfficientNetB2(ApplicationOptions o) { return efficientnet('2', {1.1, 1.2, 260, 0.3}, o); }
keras::Model EfficientNetB3(ApplicationOptions o) { return efficientnet('3', {1.2, 1.4, 300, 0.3}, o); }
keras::Model EfficientNetB4(ApplicationOptions o) { return efficientnet('4', {1.4, 1.8, 380, 0.4}, o); }
keras::Model EfficientNetB5(ApplicationOptions o) { return efficientnet('5', {1.6, 2.2, 456, 0.4}, o); }
keras::Model EfficientNetB6(ApplicationOptions o) { return efficientnet('6', {1.8, 2.6, 528, 0.5}, o); }
keras::Model EfficientNetB7(ApplicationOptions o) { return efficientnet('7', {2.0, 3.1, 600, 0.5}, o); }

keras::Model EfficientNetV2B0(PreprocessingOptions o) {
  return efficientnet_v2("EfficientNetV2B0", "efficientnetv2-b0", kStacksB, {1.0, 1.0, 224, 0.2}, o);
}
keras::Model EfficientNetV2B1(PreprocessingOptions o) {
  return efficientnet_v2("EfficientNetV2B1", "efficientnetv2-b1", kStacksB, {1.0, 1.1, 240, 0.2}, o);
}
keras::Model EfficientNetV2B2(PreprocessingOptions o) {
  return efficientnet_v2("EfficientNetV2B2", "efficientnetv2-b2", kStacksB, {1.1, 1.2, 260, 0.2}, o);
}
keras::Model EfficientNetV2B3(PreprocessingOptions o) {
  return efficientnet_v2("EfficientNetV2B3", "efficientnetv2-b3", kStacksB, {1.2, 1.4, 300, 0.2}, o);
}
keras::Model EfficientNetV2S(PreprocessingOptions o) {
  return efficientnet_v2("EfficientNetV2S", "efficientnetv2-s", kStacksS, {1.0, 1.0, 384, 0.2}, o);
}
keras::Model EfficientNetV2M(PreprocessingOptions o) {
  return efficientnet_v2("EfficientNetV2M", "efficientnetv2-m", kStacksM, {1.0, 1.0, 480, 0.2}, o);
}
keras::Model EfficientNetV2L(PreprocessingOptions o) {
  return efficientnet_v2("EfficientNetV2L", "efficientnetv2-l", kStacksL, {1.0, 1.0, 480, 0.2}, o);
}

}  // namespace lockstep::applications
