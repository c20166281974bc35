// MobileNet (Howard et al. 2017), MobileNetV2 (Sandler et al. 2018) and MobileNetV3 (Howard et al. 2019).
#include "lockstep/applications/building_internal.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"

namespace lockstep::applications {
namespace {

// "mobilenet_1.00_224"
std::string sized_name(const char* base, double alpha, const Tensor& input) {
  const std::int64_t rows = input.dim(1);
  return fmt::format("{}_{:.2f}_{}", base, alpha, rows == kUnknownDim ? "None" : std::to_string(rows));
}

Tensor relu6(const Tensor& x, const std::string& name) { return layers::ReLU({.max_value = 6.0, .name = name})(x); }
Tensor mobile_norm(const Tensor& x, const std::string& name) { return batch_norm(x, name, {.momentum = 0.999}); }

void check_alpha(const char* architecture, double alpha) {
  if (!(alpha > 0 && alpha <= 1000))
    throw_invalid_argument(fmt::format("{}: alpha is {}, expected a number above 0", architecture, alpha));
}

}  // namespace

keras::Model MobileNet(MobileNetOptions options) {
  check_alpha("MobileNet", options.alpha);
  const ApplicationOptions o = common_of(options);
  const auto filters = [&](int n) { return static_cast<std::int64_t>(n * options.alpha); };
  const Tensor input = start("MobileNet", o, 224, 32);
  Tensor x = conv(input, filters(32), 3, {.strides = 2, .padding = "same", .use_bias = false, .name = "conv1"});
  x = relu6(batch_norm(x, "conv1_bn", {}), "conv1_relu");
  int block = 0;
  for (const int width : {64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024}) {
    ++block;
    const bool halves = block == 2 || block == 4 || block == 6 || block == 12;
    if (halves) x = pad(x, {{0, 1}, {0, 1}}, fmt::format("conv_pad_{}", block));
    x = layers::DepthwiseConv2D(3, {.strides = halves ? 2 : 1,
                                    .padding = halves ? "valid" : "same",
                                    .depth_multiplier = options.depth_multiplier,
                                    .use_bias = false,
                                    .name = fmt::format("conv_dw_{}", block)})(x);
    x = relu6(batch_norm(x, fmt::format("conv_dw_{}_bn", block), {}), fmt::format("conv_dw_{}_relu", block));
    x = conv(x, filters(width), 1, {.padding = "same", .use_bias = false, .name = fmt::format("conv_pw_{}", block)});
    x = relu6(batch_norm(x, fmt::format("conv_pw_{}_bn", block), {}), fmt::format("conv_pw_{}_relu", block));
  }
  if (o.include_top) {
    x = layers::GlobalAveragePooling2D({.keepdims = true})(x);
    x = layers::Dropout(options.dropout, {.name = "dropout"})(x);
    x = conv(x, o.classes, 1, {.padding = "same", .name = "conv_preds"});
    x = layers::Reshape({o.classes}, {.name = "reshape_2"})(x);
    x = act(x, o.classifier_activation, "predictions");
  } else {
    x = pooled(x, o, "", "");
  }
  return finish(input, x, o, sized_name("mobilenet", options.alpha, input));
}

keras::Model MobileNetV2(MobileNetV2Options options) {
  check_alpha("MobileNetV2", options.alpha);
  const ApplicationOptions o = common_of(options);
  const double alpha = options.alpha;
  const Tensor input = start("MobileNetV2", o, 224, 32);
  Tensor x =
      conv(input, divisible(32 * alpha), 3, {.strides = 2, .padding = "same", .use_bias = false, .name = "Conv1"});
  x = relu6(mobile_norm(x, "bn_Conv1"), "Conv1_relu");
  struct Stack {
    int filters, stride, blocks;
  };
  int block = 0;
  for (const Stack& stack : {Stack{16, 1, 1}, Stack{24, 2, 2}, Stack{32, 2, 3}, Stack{64, 2, 4}, Stack{96, 1, 3},
                             Stack{160, 2, 3}, Stack{320, 1, 1}}) {
    for (int i = 0; i < stack.blocks; ++i, ++block) {
      const int stride = i == 0 ? stack.stride : 1;
      const std::int64_t channels = x.dim(3);
      const std::int64_t filters = divisible(static_cast<double>(static_cast<std::int64_t>(stack.filters * alpha)));
      const std::string prefix = block == 0 ? "expanded_conv_" : fmt::format("block_{}_", block);
      const Tensor shortcut = x;
      if (block > 0) {
        x = conv(x, 6 * channels, 1, {.padding = "same", .use_bias = false, .name = prefix + "expand"});
        x = relu6(mobile_norm(x, prefix + "expand_BN"), prefix + "expand_relu");
      }
      if (stride == 2) x = pad(x, correct_pad(x, 3), prefix + "pad");
      x = layers::DepthwiseConv2D(3, {.strides = stride,
                                      .padding = stride == 1 ? "same" : "valid",
                                      .use_bias = false,
                                      .name = prefix + "depthwise"})(x);
      x = relu6(mobile_norm(x, prefix + "depthwise_BN"), prefix + "depthwise_relu");
      x = conv(x, filters, 1, {.padding = "same", .use_bias = false, .name = prefix + "project"});
      x = mobile_norm(x, prefix + "project_BN");
      if (channels == filters && stride == 1) x = layers::add({shortcut, x}, {.name = prefix + "add"});
    }
  }
  x = conv(x, alpha > 1 ? divisible(1280 * alpha) : 1280, 1, {.use_bias = false, .name = "Conv_1"});
  x = relu6(mobile_norm(x, "Conv_1_bn"), "out_relu");
  return finish(input, classify(x, o, {}), o, sized_name("mobilenetv2", alpha, input));
}

namespace {

struct BlockV3 {
  double expansion;
  int filters, kernel, stride;
  bool excites, hard_swish;
};

// x · factor, with the factor as an argument of the node, since a tensor of it would be rounded.
Tensor scaled(const Tensor& x, double factor) {
  keras::CallArguments arguments;
  arguments.args = {keras::ArgValue(x), keras::ArgValue(Json(factor))};
  const auto multiply = std::make_shared<keras::TensorOp>(*keras::find_tensor_op("Multiply"), Json::object());
  return (*multiply)(std::move(arguments)).leaf();
}

class MobileNetV3Builder {
 public:
  MobileNetV3Builder(const MobileNetV3Options& options) : options_(options) {}

  Tensor activated(const Tensor& x, bool hard_swish) const {
    return hard_swish && !options_.minimalistic ? act(x, "hard_silu") : Tensor(layers::ReLU()(x));
  }
  Tensor block(Tensor x, const BlockV3& b, int number) const {
    const Tensor shortcut = x;
    const std::int64_t channels = x.dim(3), filters = divisible(b.filters * options_.alpha);
    const std::int64_t expanded = divisible(static_cast<double>(channels) * b.expansion);
    const std::string prefix = number == 0 ? "expanded_conv_" : fmt::format("expanded_conv_{}_", number);
    if (number > 0) {
      x = conv(x, expanded, 1, {.padding = "same", .use_bias = false, .name = prefix + "expand"});
      x = activated(mobile_norm(x, prefix + "expand_bn"), b.hard_swish);
    }
    const int kernel = options_.minimalistic ? 3 : b.kernel;
    if (b.stride == 2) x = pad(x, correct_pad(x, kernel), prefix + "depthwise_pad");
    x = layers::DepthwiseConv2D(kernel, {.strides = b.stride,
                                         .padding = b.stride == 1 ? "same" : "valid",
                                         .use_bias = false,
                                         .name = prefix + "depthwise"})(x);
    x = activated(mobile_norm(x, prefix + "depthwise_bn"), b.hard_swish);
    if (b.excites && !options_.minimalistic) x = excited(x, expanded, prefix + "squeeze_excite_");
    x = conv(x, filters, 1, {.padding = "same", .use_bias = false, .name = prefix + "project"});
    x = mobile_norm(x, prefix + "project_bn");
    return b.stride == 1 && channels == filters ? layers::add({shortcut, x}, {.name = prefix + "add"}) : x;
  }

 private:
  static Tensor excited(const Tensor& input, std::int64_t filters, const std::string& prefix) {
    Tensor x = layers::GlobalAveragePooling2D({.keepdims = true, .name = prefix + "avg_pool"})(input);
    x = conv(x, divisible(static_cast<double>(filters) * 0.25), 1, {.padding = "same", .name = prefix + "conv"});
    x = layers::ReLU({.name = prefix + "relu"})(x);
    x = conv(x, filters, 1, {.padding = "same", .name = prefix + "conv_1"});
    x = scaled(layers::ReLU({.max_value = 6.0})(x + 3.0), 1.0 / 6.0);
    return layers::multiply({input, x}, {.name = prefix + "mul"});
  }
  const MobileNetV3Options& options_;
};

keras::Model mobilenet_v3(const std::string& name, const std::vector<BlockV3>& blocks, std::int64_t last_filters,
                          const MobileNetV3Options& options) {
  check_alpha(name.c_str(), options.alpha);
  const ApplicationOptions o = common_of(options);
  const Tensor input = start(name, o, kUnknownDim, 32);
  const MobileNetV3Builder builder(options);
  Tensor x = input;
  if (options.include_preprocessing) x = layers::Rescaling(1.0 / 127.5, {.offset = -1.0})(x);
  x = conv(x, 16, 3, {.strides = 2, .padding = "same", .use_bias = false, .name = "conv"});
  x = builder.activated(mobile_norm(x, "conv_bn"), true);
  for (std::size_t i = 0; i < blocks.size(); ++i) x = builder.block(x, blocks[i], static_cast<int>(i));
  x = conv(x, divisible(static_cast<double>(x.dim(3) * 6)), 1,
           {.padding = "same", .use_bias = false, .name = "conv_1"});
  x = builder.activated(mobile_norm(x, "conv_1_bn"), true);
  if (o.include_top) {
    if (options.alpha > 1) last_filters = divisible(static_cast<double>(last_filters) * options.alpha);
    x = layers::GlobalAveragePooling2D({.keepdims = true})(x);
    x = builder.activated(conv(x, last_filters, 1, {.padding = "same", .name = "conv_2"}), true);
    if (options.dropout_rate > 0) x = layers::Dropout(options.dropout_rate)(x);
    x = layers::Flatten()(conv(x, o.classes, 1, {.padding = "same", .name = "logits"}));
    x = act(x, o.classifier_activation, "predictions");
  } else {
    x = pooled(x, o, "avg_pool", "max_pool");
  }
  return finish(input, x, o, name);
}

}  // namespace

keras::Model MobileNetV3Small(MobileNetV3Options options) {
  return mobilenet_v3("MobileNetV3Small",
                      {{1, 16, 3, 2, true, false},
                       {72.0 / 16, 24, 3, 2, false, false},
                       {88.0 / 24, 24, 3, 1, false, false},
                       {4, 40, 5, 2, true, true},
                       {6, 40, 5, 1, true, true},
                       {6, 40, 5, 1, true, true},
                       {3, 48, 5, 1, true, true},
                       {3, 48, 5, 1, true, true},
                       {6, 96, 5, 2, true, true},
                       {6, 96, 5, 1, true, true},
                       {6, 96, 5, 1, true, true}},
                      1024, options);
}
keras::Model MobileNetV3Large(MobileNetV3Options options) {
  return mobilenet_v3("MobileNetV3Large",
                      {{1, 16, 3, 1, false, false},
                       {4, 24, 3, 2, false, false},
                       {3, 24, 3, 1, false, false},
                       {3, 40, 5, 2, true, false},
                       {3, 40, 5, 1, true, false},
                       {3, 40, 5, 1, true, false},
                       {6, 80, 3, 2, false, true},
                       {2.5, 80, 3, 1, false, true},
                       {2.3, 80, 3, 1, false, true},
                       {2.3, 80, 3, 1, false, true},
                       {6, 112, 3, 1, true, true},
                       {6, 112, 3, 1, true, true},
                       {6, 160, 5, 2, true, true},
                       {6, 160, 5, 1, true, true},
                       {6, 160, 5, 1, true, true}},
                      1280, options);
}

}  // namespace lockstep::applications
