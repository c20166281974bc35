// InceptionV3 (Szegedy et al. 2016) and InceptionResNetV2 (Szegedy et al. 2017).
#include "lockstep/applications/building_internal.h"

namespace lockstep::applications {
namespace {

// A convolution with batch normalization and ReLU.
Tensor unit(const Tensor& x, std::int64_t filters, Window kernel, int stride = 1, const std::string& padding = "same",
            const std::string& name = {}) {
  const auto named = [&](const char* suffix) { return name.empty() ? name : name + suffix; };
  const Tensor y =
      conv(x, filters, std::move(kernel), {.strides = stride, .padding = padding, .use_bias = false, .name = name});
  return act(batch_norm(y, named("_bn"), {.axis = 3, .scale = false}), "relu", named("_ac"));
}
// The same units one after the other, with stride 1.
struct Unit {
  std::int64_t filters;
  Window kernel;
};
Tensor units(Tensor x, const std::vector<Unit>& all) {
  for (const Unit& u : all) x = unit(x, u.filters, u.kernel);
  return x;
}
Tensor half(const Tensor& x) { return layers::MaxPooling2D({.pool_size = 3, .strides = 2})(x); }
Tensor averaged(const Tensor& x, std::int64_t filters) {
  const Tensor y = layers::AveragePooling2D({.pool_size = 3, .strides = 1, .padding = "same"})(x);
  return unit(y, filters, 1);
}
Tensor joined(const std::vector<Tensor>& parts, const std::string& name = {}) {
  return layers::concatenate(parts, {.axis = 3, .name = name});
}

Tensor stem(const Tensor& input) {
  Tensor x = unit(input, 32, 3, 2, "valid");
  x = unit(x, 32, 3, 1, "valid");
  x = half(unit(x, 64, 3));
  x = unit(x, 80, 1, 1, "valid");
  return half(unit(x, 192, 3, 1, "valid"));
}

constexpr std::int64_t kLeastSize = 75, kDefaultSize = 299;

}  // namespace

keras::Model InceptionV3(ApplicationOptions o) {
  const Tensor input = start("InceptionV3", o, kDefaultSize, kLeastSize);
  Tensor x = stem(input);
  for (int i = 0; i < 3; ++i) {
    const Tensor a = unit(x, 64, 1);
    const Tensor b = units(x, {{48, 1}, {64, 5}});
    const Tensor c = units(x, {{64, 1}, {96, 3}, {96, 3}});
    x = joined({a, b, c, averaged(x, i == 0 ? 32 : 64)}, fmt::format("mixed{}", i));
  }
  {
    const Tensor a = unit(x, 384, 3, 2, "valid");
    const Tensor b = unit(units(x, {{64, 1}, {96, 3}}), 96, 3, 2, "valid");
    x = joined({a, b, half(x)}, "mixed3");
  }
  const Window row = {1, 7}, column = {7, 1};
  for (int i = 4; i < 8; ++i) {
    const std::int64_t width = i == 4 ? 128 : i == 7 ? 192 : 160;
    const Tensor a = unit(x, 192, 1);
    const Tensor b = units(x, {{width, 1}, {width, row}, {192, column}});
    const Tensor c = units(x, {{width, 1}, {width, column}, {width, row}, {width, column}, {192, row}});
    x = joined({a, b, c, averaged(x, 192)}, fmt::format("mixed{}", i));
  }
  {
    const Tensor a = unit(unit(x, 192, 1), 320, 3, 2, "valid");
    const Tensor b = unit(units(x, {{192, 1}, {192, row}, {192, column}}), 192, 3, 2, "valid");
    x = joined({a, b, half(x)}, "mixed8");
  }
  for (int i = 0; i < 2; ++i) {
    const auto split = [](const Tensor& y, const std::string& name) {
      const Tensor first = unit(y, 384, {1, 3});
      return joined({first, unit(y, 384, {3, 1})}, name);
    };
    const Tensor a = unit(x, 320, 1);
    const Tensor b = split(unit(x, 384, 1), fmt::format("mixed9_{}", i));
    const Tensor c = split(units(x, {{448, 1}, {384, 3}}), "");
    x = joined({a, b, c, averaged(x, 192)}, fmt::format("mixed{}", 9 + i));
  }
  return finish(input, classify(x, o, {.average = "avg_pool"}), o, "inception_v3");
}

namespace {

// The branches' sum, scaled, is added to the input.
Tensor residual(const Tensor& x, const std::vector<Tensor>& branches, double scale, const std::string& name,
                bool activated = true) {
  const Tensor mixed = joined(branches, name + "_mixed");
  const Tensor up = conv(mixed, x.dim(3), 1, {.padding = "same", .name = name + "_conv"});
  const Tensor y = layers::CustomScaleLayer(scale)(keras::Structure::list({keras::Structure(x), keras::Structure(up)}));
  return activated ? act(y, "relu", name + "_ac") : y;
}

}  // namespace

keras::Model InceptionResNetV2(ApplicationOptions o) {
  const Tensor input = start("InceptionResNetV2", o, kDefaultSize, kLeastSize);
  Tensor x = stem(input);
  {
    const Tensor a = unit(x, 96, 1);
    const Tensor b = units(x, {{48, 1}, {64, 5}});
    const Tensor c = units(x, {{64, 1}, {96, 3}, {96, 3}});
    x = joined({a, b, c, averaged(x, 64)}, "mixed_5b");
  }
  for (int i = 1; i <= 10; ++i) {
    const Tensor a = unit(x, 32, 1);
    const Tensor b = units(x, {{32, 1}, {32, 3}});
    const Tensor c = units(x, {{32, 1}, {48, 3}, {64, 3}});
    x = residual(x, {a, b, c}, 0.17, fmt::format("block35_{}", i));
  }
  {
    const Tensor a = unit(x, 384, 3, 2, "valid");
    const Tensor b = unit(units(x, {{256, 1}, {256, 3}}), 384, 3, 2, "valid");
    x = joined({a, b, half(x)}, "mixed_6a");
  }
  for (int i = 1; i <= 20; ++i) {
    const Tensor a = unit(x, 192, 1);
    const Tensor b = units(x, {{128, 1}, {160, {1, 7}}, {192, {7, 1}}});
    x = residual(x, {a, b}, 0.1, fmt::format("block17_{}", i));
  }
  {
    const Tensor a = unit(unit(x, 256, 1), 384, 3, 2, "valid");
    const Tensor b = unit(unit(x, 256, 1), 288, 3, 2, "valid");
    const Tensor c = unit(units(x, {{256, 1}, {288, 3}}), 320, 3, 2, "valid");
    x = joined({a, b, c, half(x)}, "mixed_7a");
  }
  for (int i = 1; i <= 10; ++i) {
    const Tensor a = unit(x, 192, 1);
    const Tensor b = units(x, {{192, 1}, {224, {1, 3}}, {256, {3, 1}}});
    x = residual(x, {a, b}, i < 10 ? 0.2 : 1.0, fmt::format("block8_{}", i), i < 10);
  }
  x = unit(x, 1536, 1, 1, "same", "conv_7b");
  return finish(input, classify(x, o, {.average = "avg_pool"}), o, "inception_resnet_v2");
}

}  // namespace lockstep::applications
